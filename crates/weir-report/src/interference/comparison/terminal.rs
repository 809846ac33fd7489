// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A comparison for a terminal: at most 80 columns.

use crate::interference::comparison::{ComparedCell, Comparison};
use crate::interference::grid::blocks;
use crate::interference::terminal::{caveats, listed, matrix};
use crate::interference::words;
use std::fmt::Write;
use weir_figures::COLUMNS;
use weir_figures::text::{NONE, line, wrap};

const KEY: &str = "The victim's change of bandwidth in A → in B, in %. ≠ beyond both intervals, = not, ? not known; \
    * another class.";

/// Matrix, what only one result has, facts that differ, and the answer in one sentence. At most 80 columns
/// wide; ends with a newline.
#[must_use]
pub fn comparison_terminal(comparison: &Comparison) -> String {
    let (a, b) = (&comparison.a, &comparison.b);
    let mut text = String::new();
    for (name, side) in [("A", a), ("B", b)] {
        let date = side
            .date_utc
            .as_deref()
            .map(|d| format!(", {}", line(d, 30)));
        let title = format!("{name}: {}{}", side.machine, date.unwrap_or_default());
        let _ = writeln!(text, "{}", wrap(&title, COLUMNS, 3));
    }
    let _ = writeln!(text, "{}", wrap(KEY, COLUMNS, 0));
    let cells = &comparison.cells;
    let pairs: Vec<_> = cells.iter().map(ComparedCell::pair).collect();
    let shown = |index: usize| {
        let cell = &cells[index];
        let numbers = format!(
            "{} → {}",
            words::change(cell.ratio_a),
            words::change(cell.ratio_b)
        );
        (numbers, mark(cell))
    };
    for block in blocks(&pairs) {
        text += &matrix(
            &block,
            &format!("beside {}", line(&block.target, 20)),
            &shown,
        );
    }
    for (title, list) in [
        ("Only in A:", &comparison.only_in_a),
        ("Only in B:", &comparison.only_in_b),
    ] {
        let lines: Vec<String> = list.iter().map(|name| format!("  {name}")).collect();
        text += &listed(title, &lines);
    }
    let stated = |value: &Option<String>| value.as_deref().map_or(NONE.into(), |v| line(v, 100));
    let facts = comparison.facts.iter().map(|f| {
        format!(
            "  {}: {} → {}",
            line(&f.fact, 60),
            stated(&f.a),
            stated(&f.b)
        )
    });
    text += &listed("What else differs (A → B):", &facts.collect::<Vec<_>>());
    text += &caveats("Not to be trusted in A:", &a.caveats);
    text += &caveats("Not to be trusted in B:", &b.caveats);
    let _ = writeln!(text, "\n{}", wrap(&comparison.sentence(), COLUMNS, 0));
    text
}

/// Whether a cell differs, and whether its class changed.
fn mark(cell: &ComparedCell) -> String {
    let differs = match cell.differs {
        Some(true) => "≠",
        Some(false) => "=",
        None => "?",
    };
    let class = if cell.class_changed == Some(true) {
        "*"
    } else {
        ""
    };
    format!("{differs}{class}")
}
