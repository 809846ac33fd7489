// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where in the text of a settings file something is wrong, for messages: file, line and key.

use crate::cli::left_out;
use crate::cli::output::suggestion;
use std::path::Path;
use toml::de::DeTable;
use weir_figures::text;

/// What is wrong, and at which byte.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) message: String,
}

impl From<toml::de::Error> for Wrong {
    fn from(error: toml::de::Error) -> Self {
        Wrong {
            at: error.span().map_or(0, |span| span.start),
            message: nearest(error.message()),
        }
    }
}

/// A setting that makes no sense, or not with the others.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Unfit {
    pub(super) key: &'static str,
    message: String,
}

impl Unfit {
    pub(super) fn new(key: &'static str, message: impl Into<String>) -> Unfit {
        let message = message.into();
        Unfit { key, message }
    }

    /// The error with the line of the file, where that says it.
    pub(super) fn placed(self, path: Option<&Path>, text: &str) -> anyhow::Error {
        match path.zip(line_of(text, &[self.key])) {
            Some((path, line)) => anyhow::anyhow!("{}: {self}", place(path, Some(line))),
            None => self.into(),
        }
    }
}

/// What an error says at most, in bytes; a longer one loses its middle, and is so many cells wide then.
const ERROR_BYTES_MAX: usize = 1500;
const ERROR_CELLS: usize = 500;

/// An error that fits a screen and a line of a log: it may quote a key or a value of the file, as long as
/// that is.
pub(super) fn fitting(error: anyhow::Error) -> anyhow::Error {
    let said = format!("{error:#}");
    if said.len() > ERROR_BYTES_MAX {
        anyhow::anyhow!(text::fit(&text::harmless(&said), ERROR_CELLS))
    } else {
        error
    }
}

/// The key that was probably meant, instead of all that there are, for a key that is not known.
fn nearest(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match &quoted[..] {
        [wrong, names @ ..] if message.starts_with("unknown field") => {
            match suggestion::perhaps(wrong, names) {
                like if like.is_empty() => message.to_owned(),
                like => format!("unknown key {wrong}{like}"),
            }
        }
        _ => message.to_owned(),
    }
}

/// A value that this build does not have.
pub(super) fn left_out(table: &DeTable) -> Option<Wrong> {
    table.iter().find_map(|(key, value)| {
        let given = value.get_ref().as_str()?;
        let at = value.span().start;
        let message = left_out::left_out_in_file(key.get_ref(), given)?;
        Some(Wrong { at, message })
    })
}

/// The line's number from 1, and what it says, harmless.
pub(super) fn line_at(text: &str, at: usize) -> (usize, String) {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    let number = before.iter().filter(|byte| **byte == b'\n').count();
    let line = text.lines().nth(number).unwrap_or("").trim();
    (number + 1, text::harmless(line))
}

/// The core names a key of its config and what is allowed; we add where the file says it.
pub(super) fn place_of_bad_key(path: Option<&Path>, text: &str, error: &str) -> String {
    let Some(path) = path else {
        return error.to_owned();
    };
    let table = DeTable::parse(text).ok();
    let keys = |within: &[&str]| -> Vec<String> {
        let mut table = table.as_ref().map(|table| table.get_ref());
        for key in within {
            table = table.and_then(|t| t.get(*key)?.get_ref().as_table());
        }
        let keys = table.into_iter().flat_map(|table| table.keys());
        keys.map(|key| key.get_ref().to_string()).collect()
    };
    let weights = keys(&["controller", "weights"]);
    let weight = weights
        .iter()
        .find(|id| error.starts_with(&format!("weights.{id:?} ")));
    let controller = keys(&["controller"]);
    let key = controller
        .iter()
        .find(|key| error.starts_with(&format!("{key} ")));
    let line = match (weight, key) {
        (Some(id), _) => line_of(text, &["controller", "weights", id]),
        (None, Some(key)) => line_of(text, &["controller", key]),
        (None, None) => None,
    };
    format!("{}: {error}", place(path, line))
}

/// A file, and a line of it.
pub(super) fn place(path: &Path, line: Option<usize>) -> String {
    let shown = text::harmless(&path.to_string_lossy());
    line.map_or(shown.clone(), |line| format!("{shown}, line {line}"))
}

/// The line where this key is.
pub(super) fn line_of(text: &str, path: &[&str]) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let (last, within) = path.split_last()?;
    let mut table = table.get_ref();
    for key in within {
        table = table.get(*key)?.get_ref().as_table()?;
    }
    let (key, _) = table.get_key_value(*last)?;
    Some(line_at(text, key.span().start).0)
}
