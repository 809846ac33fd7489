// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The matrix for a terminal: at most 80 columns.

use crate::interference::document::InterferenceDocument;
use crate::interference::grid::{GridBlock, Precision, blocks, column_name};
use crate::interference::words;
use crate::interference::worst::worst;
use crate::results::Caveat;
use std::collections::BTreeMap;
use std::fmt::Write;
use weir_figures::text::{line, right, width, wrap};
use weir_figures::{COLUMNS, Cell, Setting, Table, terminal_table};

/// Widest name of a row.
const NAME_COLUMNS: usize = 26;
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

/// A block's table, after an empty line. A cell is a number and a mark.
pub fn matrix(block: &GridBlock, title: &str, shown: &dyn Fn(usize) -> (String, String)) -> String {
    let title = line(title, NAME_COLUMNS);
    let victims = block.victims.iter();
    let names = victims.map(|victim| vec![Cell::words(line(&words::stream(victim), NAME_COLUMNS))]);
    let mut table = Table {
        title: String::new(),
        heads: vec![title],
        rows: names.collect(),
    };
    for (column, background) in block.backgrounds.iter().enumerate() {
        let at = |row: &Vec<Option<usize>>| row[column].map_or_else(Default::default, shown);
        let cells: Vec<(String, String)> = block.cells.iter().map(at).collect();
        let numbers = cells.iter().map(|(number, _)| width(number)).max();
        let numbers = numbers.unwrap_or(0);
        // Marks stand behind the numbers and not below the head.
        let head = line(&column_name(background), NAME_COLUMNS);
        table.heads.push(right(&head, numbers.max(width(&head))));
        for (row, (number, mark)) in table.rows.iter_mut().zip(&cells) {
            row.push(Cell::words(format!("{} {mark}", right(number, numbers))));
        }
    }
    format!("\n{}", terminal_table(&table, Setting::PLAIN))
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
