// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a line on stderr looks.

use crate::cli::output::wall_clock::wall_unix_ms;
use clap::ValueEnum;
use rustix::fs::fstat;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tracing::Level;

/// The format of lines on stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// That of the journal where stderr is the journal, else text (default)
    #[default]
    Auto,
    /// For people, with the time
    Text,
    /// One JSON object a line
    Json,
    /// For the journal: priorities, and no time
    Journal,
}

impl LogFormat {
    /// What `auto` comes to here.
    pub fn resolved(self) -> LogFormat {
        match self {
            LogFormat::Auto if is_stderr_the_journal() => LogFormat::Journal,
            LogFormat::Auto => LogFormat::Text,
            chosen => chosen,
        }
    }

    /// A line that is no event of the log, without its end: what is said before the log is there, or after.
    pub fn line(self, level: Level, message: &str) -> String {
        match self.resolved() {
            LogFormat::Journal => format!("<{}>{message}", priority(level)),
            LogFormat::Json => json(level, message, &BTreeMap::new()),
            LogFormat::Text | LogFormat::Auto => message.to_owned(),
        }
    }
}

/// The journal's number for a level (sd-daemon(3)).
pub fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// A line of the JSON log. Keys may be added; these stay.
#[derive(Serialize)]
struct JsonLine<'a> {
    wall_unix_ms: u64,
    level: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    fields: &'a BTreeMap<&'static str, String>,
}

/// An event as JSON, in one line without its end.
pub fn json(level: Level, message: &str, fields: &BTreeMap<&'static str, String>) -> String {
    let level = match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    };
    let line = JsonLine {
        wall_unix_ms: wall_unix_ms(),
        level,
        message,
        fields,
    };
    // Texts and a number always make JSON.
    serde_json::to_string(&line).unwrap_or_default()
}

/// systemd says which file stderr is when it leads to the journal (systemd.exec(5), `JOURNAL_STREAM`). A
/// program in between may have replaced stderr, so the file is compared.
fn is_stderr_the_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    fstat(std::io::stderr()).is_ok_and(|stat| names(&stream, stat.st_dev, stat.st_ino))
}

/// Whether `DEVICE:INODE` is this file.
fn names(stream: &str, device: u64, inode: u64) -> bool {
    let parts = stream.split_once(':');
    parts.is_some_and(|(d, i)| d.parse() == Ok(device) && i.parse() == Ok(inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        assert!(names("9:4242", 9, 4242));
        for other in ["9:4243", "8:4242", "", "9", "9:", "9:4242:1", "x:4242"] {
            assert!(!names(other, 9, 4242), "{other:?}");
        }
    }

    #[test]
    fn each_format_has_its_line() {
        let line = |format: LogFormat| format.line(Level::WARN, "a \"b\"\nc");
        assert_eq!(line(LogFormat::Text), "a \"b\"\nc");
        assert_eq!(line(LogFormat::Journal), "<4>a \"b\"\nc");
        let json: serde_json::Value = serde_json::from_str(&line(LogFormat::Json)).unwrap();
        assert_eq!(json["level"], "warn");
        assert_eq!(json["message"], "a \"b\"\nc");
        assert!(json["wall_unix_ms"].as_u64() > Some(1_700_000_000_000));
        assert_eq!(json.get("fields"), None);
    }
}
