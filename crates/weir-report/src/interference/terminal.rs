// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The matrix for a terminal: at most 80 columns.

use crate::interference::document::InterferenceDocument;
use crate::interference::grid::{GridBlock, Precision, blocks, column_name};
use crate::interference::words;
use crate::interference::worst::worst;
use crate::results::Caveat;
use crate::terminal::table::COLUMNS;
use crate::text::{left, line, right, wrap};
use std::collections::BTreeMap;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Widest name of a row.
const NAME_COLUMNS: usize = 26;
/// Space before each column.
const SPACE: usize = 2;
/// Entries of a list.
const LIST_MAX: usize = 20;

/// Marks, and what they mean.
const KEY: &str = "Change of a victim's bandwidth beside a background, in %, ± half of its 95 % interval. \
    ▼ takes 5 to 10 %, ▼▼ 10 to 40 %, ▼▼▼ more; ▲ gives as much; = within 5 %; ? not known; two marks: between.";

/// The matrix, what is not there, what is not to be trusted, and the worst in one sentence. At most 80
/// columns wide; ends with a newline.
#[must_use]
pub fn terminal(document: &InterferenceDocument) -> String {
    let title = format!(
        "Interference on {} ({} CPUs): {}",
        words::machine(document),
        document.machine.cpus,
        words::origin(document)
    );
    let mut text = format!("{}\n", wrap(&title, COLUMNS, 0));
    if !document.cells.is_empty() {
        let _ = writeln!(text, "{}", wrap(KEY, COLUMNS, 0));
    }
    let precision = Precision::least(&[&document.cells]);
    let pairs: Vec<_> = document.cells.iter().map(|c| precision.key(c)).collect();
    let shown = |index: usize| {
        let cell = &document.cells[index];
        let number = match cell.ratio {
            Some(_) => format!(
                "{} {}",
                words::change(cell.ratio),
                words::half_width(cell.ratio_low, cell.ratio_high)
            ),
            None => words::change(None),
        };
        (number, words::mark(cell))
    };
    for block in blocks(&pairs) {
        let target = words::target(document, &block.target);
        text += &matrix(&block, &format!("beside {target}"), &shown);
    }
    text += &list("Not there:", &document.missing);
    text += &list("Not measured:", &unmeasured(document));
    text += &caveats("Not to be trusted:", &document.caveats);
    let _ = writeln!(text, "\n{}", wrap(&worst(document), COLUMNS, 0));
    text
}

/// A block's table: columns that do not fit beside each other follow below.
pub fn matrix(block: &GridBlock, title: &str, shown: &dyn Fn(usize) -> (String, String)) -> String {
    let names: Vec<String> = block
        .victims
        .iter()
        .map(|victim| line(&words::stream(victim), NAME_COLUMNS))
        .collect();
    let title = line(title, NAME_COLUMNS);
    let widths = names.iter().chain([&title]).map(|name| name.width());
    let label = widths.max().unwrap_or(0);
    let columns: Vec<Vec<String>> = (0..block.backgrounds.len())
        .map(|column| lines_of(block, column, shown))
        .collect();
    let mut text = String::new();
    let mut columns = columns.iter().peekable();
    while columns.peek().is_some() {
        let mut used = label;
        let mut lines: Vec<String> = std::iter::once(&title)
            .chain(&names)
            .map(|name| left(name, label))
            .collect();
        let mut is_first = true;
        while let Some(column) =
            columns.next_if(|c| is_first || used + SPACE + widest(c) <= COLUMNS)
        {
            is_first = false;
            used += SPACE + widest(column);
            for (line, cell) in lines.iter_mut().zip(column) {
                *line += &format!("{}{}", " ".repeat(SPACE), left(cell, widest(column)));
            }
        }
        text += "\n";
        for line in lines {
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text
}

fn widest(cells: &[String]) -> usize {
    cells.iter().map(|cell| cell.width()).max().unwrap_or(0)
}

/// A column: its head, and its cells with numbers below each other.
fn lines_of(
    block: &GridBlock,
    column: usize,
    shown: &dyn Fn(usize) -> (String, String),
) -> Vec<String> {
    let cells: Vec<(String, String)> = block
        .cells
        .iter()
        .map(|row| row[column].map_or_else(Default::default, shown))
        .collect();
    let numbers = cells.iter().map(|(number, _)| number.width()).max();
    let numbers = numbers.unwrap_or(0);
    let head = line(&column_name(&block.backgrounds[column]), NAME_COLUMNS);
    let head = match head.width() < numbers {
        true => right(&head, numbers),
        false => head,
    };
    let cell = |(number, mark): &(String, String)| format!("{} {mark}", right(number, numbers));
    std::iter::once(head)
        .chain(cells.iter().map(cell))
        .collect()
}

/// Why cells have no ratio.
fn unmeasured(document: &InterferenceDocument) -> BTreeMap<String, String> {
    let without = document.cells.iter().filter(|cell| cell.ratio.is_none());
    without
        .map(|cell| {
            let name = words::pair(&cell.victim, &cell.background);
            (name, words::why_not_measured(cell))
        })
        .collect()
}

/// Names and reasons; empty without any.
fn list(title: &str, entries: &BTreeMap<String, String>) -> String {
    let lines = entries
        .iter()
        .map(|(name, reason)| format!("  {}: {}", line(name, 100), line(reason, 300)));
    listed(title, &lines.collect::<Vec<_>>())
}

/// Figures that are not to be trusted; empty without any.
pub fn caveats(title: &str, caveats: &[Caveat]) -> String {
    let lines = caveats
        .iter()
        .map(|c| format!("  {}: {}", line(&c.figure, 100), line(&c.reason, 300)));
    listed(title, &lines.collect::<Vec<_>>())
}

/// Lines below a title, as many as a screen holds; nothing without lines.
pub fn listed(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}\n");
    for one in lines.iter().take(LIST_MAX) {
        let _ = writeln!(text, "{}", wrap(one, COLUMNS, 4));
    }
    if lines.len() > LIST_MAX {
        let _ = writeln!(
            text,
            "  and {} more; the JSON has all",
            lines.len() - LIST_MAX
        );
    }
    text
}
