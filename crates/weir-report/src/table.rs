// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The closing table for a terminal: at most [`COLUMNS`] wide, whatever the number of runs.

use super::rows::{self, Gap, Row};
use super::text::{left, line, right, wrap};
use crate::results::Results;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Widest line.
pub const COLUMNS: usize = 100;
/// Space before each column.
const SPACE: usize = 2;

struct Column {
    head: String,
    cells: Vec<String>,
    width: usize,
}

/// All runs side by side, the change from the first to the second, and the reasons of what is not
/// known. Runs that do not fit beside each other follow below. Ends with a newline.
pub fn table(results: &Results) -> String {
    let (rows, gaps) = rows::rows(results);
    let mut text = format!("{}\n\n", line(&results.scenario, COLUMNS));
    if results.runs.is_empty() {
        return text + "no runs\n";
    }
    let label = label_width(&rows);
    let mut columns = columns(results, &rows).into_iter().peekable();
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
    for warning in rows::warnings(results) {
        let _ = writeln!(text, "\n{}", wrap(&format!("! {warning}"), COLUMNS, 2));
    }
    text
}

fn columns(results: &Results, rows: &[Row]) -> Vec<Column> {
    let column = |head: String, cells: Vec<String>| {
        let widest = cells.iter().chain([&head]).map(|c| c.width()).max();
        Column {
            head,
            width: widest.unwrap_or(0),
            cells,
        }
    };
    let mut columns = Vec::new();
    for (i, name) in rows::names(results).into_iter().enumerate() {
        let cell = |row: &Row| row.cells.get(i).map_or("", rows::cell).to_string();
        columns.push(column(name, rows.iter().map(cell).collect()));
    }
    if columns.len() > 1 {
        let change = |row: &Row| row.change.clone().unwrap_or_default();
        columns.insert(
            2,
            column("change".into(), rows.iter().map(change).collect()),
        );
    }
    columns
}

fn part_width(rows: &[Row], part: fn(&Row) -> &str) -> usize {
    rows.iter().map(|r| part(r).width()).max().unwrap_or(0)
}

fn widths(rows: &[Row]) -> [usize; 3] {
    [
        part_width(rows, |r| r.subject),
        part_width(rows, |r| r.name),
        part_width(rows, |r| r.unit),
    ]
}

fn label_width(rows: &[Row]) -> usize {
    widths(rows).iter().sum::<usize>() + 2 * SPACE
}

fn write_block(text: &mut String, rows: &[Row], columns: &[Column], label: usize) {
    let space = " ".repeat(SPACE);
    let mut head = " ".repeat(label);
    for column in columns {
        head += &format!("{space}{}", right(&column.head, column.width));
    }
    let rule = "─".repeat(head.width());
    let _ = writeln!(text, "{head}\n{rule}");
    let [subject_width, name_width, unit_width] = widths(rows);
    let mut last = "";
    for (i, row) in rows.iter().enumerate() {
        let subject = if row.subject == last { "" } else { row.subject };
        last = row.subject;
        let mut written = format!(
            "{}{space}{}{space}{}",
            left(subject, subject_width),
            left(row.name, name_width),
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
        let sentence = format!("  {}: {}: {}", gap.run, gap.rows.join(", "), gap.reason);
        let _ = writeln!(text, "{}", wrap(&sentence, COLUMNS, 4));
    }
}
