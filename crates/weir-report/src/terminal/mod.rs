// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a terminal shows after the runs: the table, how the results came about, which of them are not to be
//! trusted, the bounds, and last what happened in one sentence.

pub(crate) mod table;

use crate::checks::{checks, checks_table, without_bounds};
use crate::origin;
use crate::results::Results;
use crate::run_rows::closing::closing;
use crate::run_rows::{self, DOUBT};
use std::fmt::Write;
use table::body;
use weir_figures::COLUMNS;
use weir_figures::text::{left, line, wrap};
use weir_scenario::ScenarioInfo;

/// Title, table, origin and caveats, then as [`ending`]; at most [`COLUMNS`] wide. Ends with a newline.
pub fn terminal(subject: &ScenarioInfo, results: &Results) -> String {
    let title = line(&results.scenario, COLUMNS);
    let title = match subject.about.as_str() {
        "" => title,
        about => format!("{title}: {}", line(about, 2000)),
    };
    let mut text = String::new();
    for part in [title, origin::circumstances(subject, results)] {
        let _ = writeln!(text, "{}", wrap(&part, COLUMNS, 0));
    }
    text + "\n" + &body(results) + &origin_text(results) + &ending(subject, results)
}

/// The bounds, where the scenario states any, and what happened in one sentence. Ends with a newline.
pub fn ending(subject: &ScenarioInfo, results: &Results) -> String {
    let mut text = bounds_text(subject, results);
    let _ = writeln!(text, "\n{}", wrap(&closing(results), COLUMNS, 0));
    text
}

/// The bounds and what came out, and which controllers none are stated for. Empty where the scenario states
/// none, or nothing was controlled.
pub fn bounds_text(subject: &ScenarioInfo, results: &Results) -> String {
    let is_controlled = results.runs.iter().any(|run| run.policy != "none");
    if subject.expect.is_empty() || !is_controlled {
        return String::new();
    }
    let checks = checks(subject, results);
    let mut text = format!("\nBounds:\n{}", checks_table(&checks));
    let unbound = without_bounds(subject, results);
    if !unbound.is_empty() {
        let sentence = format!("No bounds are stated for {}.", unbound.join(", "));
        let _ = writeln!(text, "{}", wrap(&sentence, COLUMNS, 0));
    }
    text
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
    let caveats = run_rows::caveats(results);
    if !caveats.is_empty() {
        text += "\nNot to be trusted:\n";
    }
    for (figures, why) in caveats {
        let line = format!("  {DOUBT} {figures}: {why}");
        let _ = writeln!(text, "{}", wrap(&line, COLUMNS, 4));
    }
    text
}
