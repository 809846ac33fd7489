// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The closing table for a terminal, whatever the number of runs.

use crate::results::Results;
use crate::run_rows::gaps::Gap;
use crate::run_rows::{self, Row};
use std::fmt::Write;
use weir_figures::text::{line, width, wrap};
use weir_figures::{COLUMNS, Cell, CellKind, Setting, Table, table_width, terminal_table};

/// Widest head of a column; a longer name takes several lines.
const HEAD_COLUMNS: usize = 12;
/// Subject, figure and unit, and with them a rule below the heads.
const ROWS: Setting = Setting {
    labels: 3,
    ..Setting::RULED
};

/// All runs side by side, the change of each from the one it is compared with where it fits, and the reasons
/// of what is not known. Runs that do not fit beside each other follow below. Ends with a newline.
pub fn table(results: &Results) -> String {
    format!("{}\n\n{}", line(&results.scenario, COLUMNS), body(results))
}

pub fn body(results: &Results) -> String {
    if results.runs.is_empty() {
        return "no runs\n".into();
    }
    let (rows, gaps) = run_rows::rows(results);
    let with_changes = of_runs(results, &rows, (true, head));
    let mut text = if table_width(&with_changes) <= COLUMNS {
        terminal_table(&with_changes, ROWS)
    } else {
        terminal_table(&of_runs(results, &rows, (false, head)), ROWS)
    };
    write_gaps(&mut text, &gaps);
    text
}

/// A column for each run, and one for its change from the run that it is compared with. `head` puts the name
/// of a run into lines.
pub fn of_runs(
    results: &Results,
    rows: &[Row],
    (has_changes, head): (bool, fn(&str) -> String),
) -> Table {
    let names = run_rows::names(results);
    let mut bases = run_rows::bases(&results.runs);
    if !has_changes {
        bases.fill(None);
    }
    let mut table = Table {
        heads: vec![String::new(); ROWS.labels],
        ..Table::default()
    };
    for (name, base) in names.iter().zip(&bases) {
        table.heads.push(head(name));
        let change = base.map(|base| format!("vs\n{}", head(&names[base])));
        table.heads.extend(change);
    }
    let mut last = "";
    for row in rows {
        let subject = if row.subject == last { "" } else { row.subject };
        last = row.subject;
        let labels = [subject, &row.marked_name(), row.unit];
        let mut cells: Vec<Cell> = labels.into_iter().map(Cell::words).collect();
        for (i, base) in bases.iter().enumerate() {
            cells.push(Cell::number(row.cells.get(i).map_or("", run_rows::cell)));
            if base.is_some() {
                let change = row.changes.get(i).cloned().flatten();
                cells.push(Cell::new(change.unwrap_or_default(), CellKind::Faint));
            }
        }
        table.rows.push(cells);
    }
    table
}

/// The part of a name in lines of at most this width, broken after hyphens and between words; a longer word
/// has a line of its own.
fn broken(part: &str, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut last = String::new();
    for piece in part.split_inclusive(['-', ' ']) {
        if !last.is_empty() && width(&last) + width(piece.trim_end()) > most {
            lines.push(std::mem::take(&mut last));
        }
        last += piece;
    }
    lines.push(last);
    lines
}

/// A name in lines of at most [`HEAD_COLUMNS`]: policy above back end above seed, words above each other. As
/// few lines as that takes, and no wider than that takes.
fn head(name: &str) -> String {
    let mut lines = Vec::new();
    for part in name.split_inclusive(['/', ',']) {
        let fewest = broken(part, HEAD_COLUMNS);
        let mut narrower = (1..HEAD_COLUMNS).map(|most| broken(part, most));
        let narrowest = narrower.find(|lines| lines.len() == fewest.len());
        lines.extend(narrowest.unwrap_or(fewest));
    }
    let wrapped = lines.iter().map(|l| wrap(l.trim(), HEAD_COLUMNS, 0));
    wrapped.collect::<Vec<_>>().join("\n")
}

fn write_gaps(text: &mut String, gaps: &[Gap]) {
    if gaps.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nNot known (–):");
    for gap in gaps {
        let sentence = format!("  {}: {}: {}", gap.run, gap.rows, gap.reason);
        let _ = writeln!(text, "{}", wrap(&sentence, COLUMNS, 4));
    }
}
