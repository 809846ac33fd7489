// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The closing table for a terminal: at most [`COLUMNS`] wide, whatever the number of runs.

use crate::results::Results;
use crate::run_rows::gaps::Gap;
use crate::run_rows::{self, Row};
use crate::text::{left, line, right, wrap};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Widest line.
pub const COLUMNS: usize = 80;
/// Widest head of a column; a longer name takes several lines.
const HEAD_COLUMNS: usize = 12;
/// Space before each column.
const SPACE: usize = 2;

struct Column {
    head: Vec<String>,
    cells: Vec<String>,
    width: usize,
}

/// All runs side by side, the change of each from the one it is compared with where it fits, and the reasons
/// of what is not known. Runs that do not fit beside each other follow below. Ends with a newline.
pub fn table(results: &Results) -> String {
    format!("{}\n\n{}", line(&results.scenario, COLUMNS), body(results))
}

/// The table without its title.
pub fn body(results: &Results) -> String {
    if results.runs.is_empty() {
        return "no runs\n".into();
    }
    let (rows, gaps) = run_rows::rows(results);
    let mut text = String::new();
    let label = label_width(&rows);
    let mut columns = columns(results, &rows, label).into_iter().peekable();
    let mut first = true;
    while columns.peek().is_some() {
        let mut block = Vec::new();
        let mut used = label;
        while let Some(next) =
            columns.next_if(|c| block.is_empty() || used + SPACE + c.width <= COLUMNS)
        {
            used += SPACE + next.width;
            block.push(next);
        }
        if !first {
            text += "\n";
        }
        first = false;
        write_block(&mut text, &rows, &block, label);
    }
    write_gaps(&mut text, &gaps);
    text
}

impl Column {
    fn new(head: Vec<String>, cells: Vec<String>) -> Self {
        let widest = cells.iter().chain(&head).map(|c| c.width()).max();
        Column {
            width: widest.unwrap_or(0),
            head,
            cells,
        }
    }
}

fn columns(results: &Results, rows: &[Row], label: usize) -> Vec<Column> {
    let names = run_rows::names(results);
    let bases = run_rows::bases(&results.runs);
    let run = |i: usize| {
        let cell = |row: &Row| row.cells.get(i).map_or("", run_rows::cell).to_string();
        Column::new(head(&names[i]), rows.iter().map(cell).collect())
    };
    let change = |(i, base): (usize, usize)| {
        let cell = |row: &Row| row.changes.get(i).cloned().flatten().unwrap_or_default();
        let mut above = vec!["vs".into()];
        above.extend(head(&names[base]));
        Column::new(above, rows.iter().map(cell).collect())
    };
    let with_changes = (0..names.len()).flat_map(|i| {
        let change = bases[i].map(|base| change((i, base)));
        std::iter::once(run(i)).chain(change)
    });
    let all: Vec<Column> = with_changes.collect();
    let used: usize = all.iter().map(|c| SPACE + c.width).sum();
    match label + used <= COLUMNS {
        true => all,
        false => (0..names.len()).map(run).collect(),
    }
}

/// The part of a name in lines of at most this width, broken after hyphens and between words; a longer word
/// has a line of its own.
fn broken(part: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut last = String::new();
    for piece in part.split_inclusive(['-', ' ']) {
        if !last.is_empty() && last.width() + piece.trim_end().width() > width {
            lines.push(std::mem::take(&mut last));
        }
        last += piece;
    }
    lines.push(last);
    lines
}

/// A name in lines of at most [`HEAD_COLUMNS`]: policy above back end above seed, words above each other. As
/// few lines as that takes, and no wider than that takes.
fn head(name: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for part in name.split_inclusive(['/', ',']) {
        let fewest = broken(part, HEAD_COLUMNS);
        let mut narrower = (1..HEAD_COLUMNS).map(|width| broken(part, width));
        let narrowest = narrower.find(|lines| lines.len() == fewest.len());
        lines.extend(narrowest.unwrap_or(fewest));
    }
    let wrapped = lines.iter().map(|l| wrap(l.trim(), HEAD_COLUMNS, 0));
    let wrapped: Vec<String> = wrapped.collect();
    wrapped
        .iter()
        .flat_map(|l| l.lines())
        .map(Into::into)
        .collect()
}

fn part_width(rows: &[Row], part: impl Fn(&Row) -> usize) -> usize {
    rows.iter().map(part).max().unwrap_or(0)
}

fn widths(rows: &[Row]) -> [usize; 3] {
    [
        part_width(rows, |r| r.subject.width()),
        part_width(rows, |r| r.marked_name().width()),
        part_width(rows, |r| r.unit.width()),
    ]
}

fn label_width(rows: &[Row]) -> usize {
    widths(rows).iter().sum::<usize>() + 2 * SPACE
}

fn write_block(text: &mut String, rows: &[Row], columns: &[Column], label: usize) {
    let space = " ".repeat(SPACE);
    let lines = columns.iter().map(|c| c.head.len()).max().unwrap_or(0);
    for at in 0..lines {
        let mut head = " ".repeat(label);
        for column in columns {
            // The last lines stand right above the numbers.
            let above = lines - column.head.len();
            let part = at.checked_sub(above).map_or("", |i| &column.head[i]);
            head += &format!("{space}{}", right(part, column.width));
        }
        let _ = writeln!(text, "{}", head.trim_end());
    }
    let width = columns.iter().map(|c| SPACE + c.width).sum::<usize>();
    let _ = writeln!(text, "{}", "─".repeat(label + width));
    let [subject_width, name_width, unit_width] = widths(rows);
    let mut last = "";
    for (i, row) in rows.iter().enumerate() {
        let subject = if row.subject == last { "" } else { row.subject };
        last = row.subject;
        let mut written = format!(
            "{}{space}{}{space}{}",
            left(subject, subject_width),
            left(&row.marked_name(), name_width),
            left(row.unit, unit_width),
        );
        for column in columns {
            written += &format!("{space}{}", right(&column.cells[i], column.width));
        }
        let _ = writeln!(text, "{}", written.trim_end());
    }
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
