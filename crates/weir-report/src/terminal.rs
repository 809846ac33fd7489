// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a terminal shows after the runs: the sentence, the table, how the results came about, and which of
//! them are not to be trusted.

use crate::closing::closing;
use crate::origin;
use crate::results::Results;
use crate::rows;
use crate::table::{COLUMNS, table};
use crate::text::{left, wrap};
use std::fmt::Write;

/// Sentence, table, origin and caveats, at most [`COLUMNS`] wide. Ends with a newline.
pub fn terminal(results: &Results) -> String {
    let sentence = wrap(&closing(results), COLUMNS, 0);
    format!("{sentence}\n\n{}{}", table(results), origin_text(results))
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
        text += "\nNot to be trusted (*):\n";
    }
    for (figures, why) in caveats {
        let line = format!("  {figures}: {why}");
        let _ = writeln!(text, "{}", wrap(&line, COLUMNS, 4));
    }
    text
}
