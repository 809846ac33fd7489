// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a terminal shows after the runs: the sentence, the table, how the results came about, and which of
//! them are not to be trusted.

use crate::closing::closing;
use crate::origin;
use crate::results::Results;
use crate::rows::{self, DOUBT};
use crate::subject::Subject;
use crate::table::{COLUMNS, body};
use crate::text::{left, line, wrap};
use std::fmt::Write;

/// Title, sentence, table, origin and caveats, at most [`COLUMNS`] wide. Ends with a newline.
pub fn terminal(subject: &Subject, results: &Results) -> String {
    let title = line(&results.scenario, COLUMNS);
    let title = match subject.about.as_str() {
        "" => title,
        about => format!("{title}: {}", line(about, 2000)),
    };
    let parts = [
        title,
        origin::circumstances(subject, results),
        String::new(),
        closing(results),
    ];
    let mut text = String::new();
    for part in parts {
        let _ = writeln!(text, "{}", wrap(&part, COLUMNS, 0));
    }
    text + "\n" + &body(results) + &origin_text(results)
}

/// How the results came about, and what is not to be trusted; empty if neither is recorded.
pub fn origin_text(results: &Results) -> String {
    let mut text = String::new();
    let facts = origin::facts(results);
    if !facts.is_empty() {
        text += "\nHow this was made:\n";
    }
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in facts {
        let line = format!("  {}  {value}", left(name, width));
        let _ = writeln!(text, "{}", wrap(&line, COLUMNS, width + 4));
    }
    let caveats = rows::caveats(results);
    if !caveats.is_empty() {
        text += "\nNot to be trusted:\n";
    }
    for (figures, why) in caveats {
        let line = format!("  {DOUBT} {figures}: {why}");
        let _ = writeln!(text, "{}", wrap(&line, COLUMNS, 4));
    }
    text
}
