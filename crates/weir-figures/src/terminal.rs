// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A table as lines of text. All commands print their tables by this one, so that a reader learns one look.
//!
//! ```text
//!             max-min  vs none   ◄─ a head may have several lines; the last stands right above the cells
//! ─────────────────────────────  ◄─ where the table asks for a rule
//! mean  MiB/s    36.4      −50   ◄─ words from the left, all else from the right
//!         why: a reason          ◄─ cells of kind `Long` at its end stand below it, behind their heads
//! ```
//!
//! Columns that do not fit beside each other follow in a block below, with the labels of the rows again: a
//! line that the terminal breaks can no longer be read as a row.

use crate::document::{Cell, CellKind, Table};
use crate::text::{left, right, wrap};
use unicode_width::UnicodeWidthStr;

/// Widest line: that of the terminals on which servers are looked after.
pub const COLUMNS: usize = 80;
/// Space before each column.
const SPACE: usize = 2;
/// Where reasons below a row begin.
const INDENT: usize = 8;
/// Verdicts take this much, so that names stand at the same place in all tables of them.
const VERDICT: usize = "MISSED".len();

/// How a table is set.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Columns that each block begins with, because they say what a row is.
    pub labels: usize,
    /// Whether a rule separates the heads from the rows.
    pub has_rule: bool,
    /// Whether a row is one line, however long: for tables whose labels alone fill a terminal.
    pub is_wide: bool,
}

impl Setting {
    /// The first column says what a row is.
    pub const PLAIN: Setting = Setting {
        labels: 1,
        has_rule: false,
        is_wide: false,
    };
    /// The same with a rule.
    pub const RULED: Setting = Setting {
        has_rule: true,
        ..Setting::PLAIN
    };
    /// A row is one line, however long.
    pub const WIDE: Setting = Setting {
        is_wide: true,
        ..Setting::PLAIN
    };
}

/// A column of the table that is set: whether it holds words, and its width.
struct Column {
    is_words: bool,
    width: usize,
}

/// The table as lines, at most [`COLUMNS`] wide where its labels and one column are not wider; each line has
/// its line end. A row of one cell in a table of several columns stands across them: a
/// title, or what is said of the row above.
pub fn terminal_table(table: &Table, setting: Setting) -> String {
    let columns = columns(table);
    let labels = setting.labels.min(columns.len());
    let label: usize = widths(&columns[..labels]);
    let mut blocks = Vec::new();
    let mut next = labels;
    while next < columns.len() || blocks.is_empty() {
        let (from, mut used) = (next, label);
        while let Some(column) = columns.get(next)
            && (next == from || setting.is_wide || used + SPACE + column.width <= COLUMNS)
        {
            used += SPACE + column.width;
            next += 1;
        }
        let block = Block {
            table,
            columns: &columns,
            places: (0..labels).chain(from..next).collect(),
            setting,
        };
        blocks.push(block.text(blocks.is_empty()));
    }
    let title = match table.title.as_str() {
        "" => String::new(),
        title => wrap(title, COLUMNS, 0) + "\n",
    };
    title + &blocks.join("\n")
}

/// Width of a table whose columns all stand beside each other.
pub fn table_width(table: &Table) -> usize {
    widths(&columns(table))
}

fn is_title(table: &Table, row: &[Cell]) -> bool {
    row.len() == 1 && table.heads.len() > 1
}

/// All columns but those of kind `Long` at the end of the rows.
fn columns(table: &Table) -> Vec<Column> {
    let rows = || table.rows.iter().filter(|row| !is_title(table, row));
    let kind = |place: usize| {
        let mut cells = rows().filter_map(|row| row.get(place));
        cells.next().map(|cell| cell.kind)
    };
    let all = table.heads.len();
    let is_long = |place: &usize| kind(*place) == Some(CellKind::Long);
    let below = (1..all).rev().take_while(is_long).count();
    let column = |place: usize| {
        let cells = rows().filter_map(|row| row.get(place));
        let heads = table.heads[place].split('\n');
        let widths = heads
            .chain(cells.map(|cell| cell.text.as_str()))
            .map(UnicodeWidthStr::width);
        // A verdict before the name, and not a number that is coloured by it.
        let is_verdict = place == 0 && matches!(kind(0), Some(CellKind::Met | CellKind::Missed));
        let least = if is_verdict { VERDICT } else { 0 };
        let is_words = matches!(kind(place), Some(CellKind::Words | CellKind::Long));
        Column {
            is_words: is_words || is_verdict,
            width: widths.fold(least, usize::max),
        }
    };
    (0..all - below).map(column).collect()
}

/// Width of columns beside each other.
fn widths(columns: &[Column]) -> usize {
    let all: usize = columns.iter().map(|column| column.width + SPACE).sum();
    all.saturating_sub(SPACE)
}

/// Columns that stand beside each other.
struct Block<'a> {
    table: &'a Table,
    columns: &'a [Column],
    /// Places of its columns.
    places: Vec<usize>,
    setting: Setting,
}

impl Block<'_> {
    fn line<'a>(&self, cell: impl Fn(usize) -> &'a str) -> String {
        let cells = self.places.iter().map(|place| {
            let column = &self.columns[*place];
            let set = if column.is_words { left } else { right };
            set(cell(*place), column.width)
        });
        let line = cells.collect::<Vec<_>>().join(&" ".repeat(SPACE));
        line.trim_end().to_owned() + "\n"
    }

    /// The heads; the last line of each stands right above the cells.
    fn heads(&self) -> String {
        let lines = |place: usize| self.table.heads[place].split('\n');
        let heads = self.places.iter().copied();
        if heads
            .clone()
            .all(|place| self.table.heads[place].is_empty())
        {
            return String::new();
        }
        let most = heads.map(|place| lines(place).count()).max().unwrap_or(0);
        let line = |at: usize| {
            self.line(|place| {
                let above = most - lines(place).count();
                let line = at.checked_sub(above);
                line.and_then(|at| lines(place).nth(at)).unwrap_or_default()
            })
        };
        (0..most).map(line).collect()
    }

    fn rule(&self) -> String {
        let columns = self.places.iter().map(|place| &self.columns[*place]);
        let width: usize = columns.map(|column| column.width + SPACE).sum();
        "─".repeat(width.saturating_sub(SPACE)) + "\n"
    }

    fn row(&self, row: &[Cell]) -> String {
        if !is_title(self.table, row) {
            return self.line(|place| row.get(place).map_or("", |cell| cell.text.as_str()));
        }
        let most = if self.setting.is_wide {
            usize::MAX
        } else {
            COLUMNS
        };
        wrap(&row[0].text, most, 0) + "\n"
    }

    /// What stands below a row.
    fn below(&self, row: &[Cell]) -> String {
        let cells = row.iter().zip(&self.table.heads).skip(self.columns.len());
        let known = cells.filter(|(cell, _)| !cell.text.is_empty());
        let reason = |(cell, head): (&Cell, &String)| {
            let head = if head.is_empty() {
                String::new()
            } else {
                format!("{head}: ")
            };
            let reason = format!("{}{head}{}", " ".repeat(INDENT), cell.text);
            wrap(&reason, COLUMNS, INDENT) + "\n"
        };
        known.map(reason).collect()
    }

    fn text(&self, is_first: bool) -> String {
        let mut text = self.heads();
        if self.setting.has_rule {
            text += &self.rule();
        }
        for row in &self.table.rows {
            text += &self.row(row);
            if is_first {
                text += &self.below(row);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(heads: &[&str], rows: &[&[Cell]], setting: Setting) -> String {
        let rows = rows.iter().map(|row| row.to_vec());
        terminal_table(&Table::new("", heads, rows), setting)
    }

    #[test]
    fn words_stand_at_the_left_numbers_at_the_right_and_reasons_below() {
        let long = Cell::long;
        let shown = text(
            &["", "日本\nMiB/s", ""],
            &[
                &[Cell::words("mean"), Cell::number("7"), long("why")],
                &[Cell::words("of the second:")],
                &[Cell::words("größte"), Cell::number("1234567"), long("")],
            ],
            Setting::RULED,
        );
        let wanted = [
            "           日本",
            "          MiB/s",
            "───────────────",
            "mean          7",
            "        why",
            "of the second:",
            "größte  1234567",
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn columns_without_space_follow_below_with_the_labels_again() {
        let number = "1".repeat(30);
        let row = [vec![Cell::words("all")], vec![Cell::number(&number); 3]].concat();
        let shown = text(&["run", "a", "b", "c"], &[&row], Setting::PLAIN);
        let blocks: Vec<&str> = shown.split("\n\n").collect();
        assert_eq!(blocks.len(), 2, "{shown}");
        for (block, heads) in blocks.iter().zip([["run", "a", "b"], ["run", "", "c"]]) {
            let wanted = heads.iter().filter(|head| !head.is_empty());
            let first: Vec<&str> = block.lines().next().unwrap().split_whitespace().collect();
            assert!(wanted.eq(&first), "{shown}");
            assert!(
                block.lines().nth(1).unwrap().starts_with("all  "),
                "{shown}"
            );
        }
        assert!(shown.lines().all(|line| line.width() <= COLUMNS), "{shown}");
    }
}
