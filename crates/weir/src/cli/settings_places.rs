// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where in the text of a settings file something is wrong, for messages: file, line and key.

use super::{LoopArgs, renamed};
use crate::output::text;
use std::path::Path;
use toml::de::DeTable;

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
    key: &'static str,
    message: String,
}

impl Unfit {
    pub(super) fn new(key: &'static str, message: impl Into<String>) -> Unfit {
        let message = message.into();
        Unfit { key, message }
    }

    /// With the line of the file where the file says it, and no flag does.
    pub(super) fn placed(self, args: &LoopArgs, text: &str) -> anyhow::Error {
        let is_flag = match self.key {
            "interval" => args.interval.is_some(),
            "period" => args.period.is_some(),
            "push-interval" => args.push_interval.is_some(),
            "push-format" => args.push_format.is_some(),
            "push-ca-file" => args.push_ca_file.is_some(),
            "push-token-file" => args.push_token_file.is_some(),
            "page" => args.page.is_some(),
            "page-token-file" => args.page_token_file.is_some(),
            "attribution-event" => args.attribution_event.is_some(),
            "log" => args.log.is_some(),
            _ => args.limit.is_some(),
        };
        let line = line_of(text, &[self.key]).filter(|_| !is_flag);
        match args.config.as_deref().zip(line) {
            Some((path, line)) => anyhow::anyhow!("{}: {self}", place(path, Some(line))),
            None => self.into(),
        }
    }
}

/// Of a key that is not known, the one that was probably meant instead of all that there are.
fn nearest(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match &quoted[..] {
        [wrong, names @ ..] if message.starts_with("unknown field") => {
            match text::perhaps(wrong, names) {
                like if like.is_empty() => message.to_owned(),
                like => format!("unknown key {wrong}{like}"),
            }
        }
        _ => message.to_owned(),
    }
}

/// A key or a value that is called otherwise now, or that this build does not have.
pub(super) fn former_name(table: &DeTable) -> Option<Wrong> {
    table.iter().find_map(|(key, value)| {
        let name = key.get_ref().as_ref();
        if let Some(new) = renamed::key(name) {
            let message = format!("unknown key {name}: it is called {new} now");
            let at = key.span().start;
            return Some(Wrong { at, message });
        }
        let old = value.get_ref().as_str()?;
        let at = value.span().start;
        let message = renamed::value_in_file(name, old)?;
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
