// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of the model's figures: heads and rows of words, for a terminal and for the page.

use super::paper::PaperRow;
use super::sensitivity::Sensitivity;
use super::trade::Trade;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;
use weir_report::{COLUMNS, wrap};

/// Three digits, or a dash.
pub fn shown(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), weir_report::number)
}

/// A ratio as a percentage.
pub fn percent(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |ratio| format!("{:.0} %", ratio * 1e2))
}

/// Met, missed, no bound.
pub fn met(row: &PaperRow) -> &'static str {
    match row.met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "",
    }
}

/// The range that counts as met.
pub fn bounds(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (None, None) => String::new(),
        _ => format!("{} to {}", shown(low), shown(high)),
    }
}

/// Rows under heads, columns aligned: words from the left, the others from the right.
fn aligned(heads: &[&str], rows: &[Vec<String>]) -> String {
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widths = cells.map(|cell| cell.width());
        widths.max().unwrap_or(0).max(heads[column].width())
    };
    let widths: Vec<usize> = (0..heads.len()).map(widest).collect();
    let mut text = String::new();
    let mut put = |cells: &[String]| {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let gap = " ".repeat(widths[column].saturating_sub(cell.width()));
            match column {
                0 => line += &format!("{cell}{gap}"),
                _ => line += &format!("  {gap}{cell}"),
            }
        }
        let _ = writeln!(text, "{}", line.trim_end());
    };
    put(&heads
        .iter()
        .map(|head| (*head).to_owned())
        .collect::<Vec<_>>());
    rows.iter().for_each(|row| put(row));
    text
}

/// The paper's figures beside ours, each with its reason below.
pub fn paper(rows: &[PaperRow]) -> String {
    let mut text = String::new();
    for row in rows {
        let ours = match row.ours {
            Some(_) => format!("{} {}", shown(row.ours), row.unit),
            None => "–".to_owned(),
        };
        let bounds = bounds(row.low, row.high);
        let verdict = match bounds.is_empty() {
            true => String::new(),
            false => format!(" ({bounds}: {})", met(row)),
        };
        let line = format!("{}: {ours}{verdict}; paper {}", row.name, row.paper);
        let _ = writeln!(text, "{}", wrap(&line, COLUMNS, 2));
        if !row.why.is_empty() {
            let _ = writeln!(text, "{}", wrap(&format!("  {}", row.why), COLUMNS, 2));
        }
    }
    let judged = rows.iter().filter(|row| row.met.is_some()).count();
    let met = rows.iter().filter(|row| row.met == Some(true)).count();
    let _ = writeln!(text, "\n{met} of {judged} bounds are met.");
    text
}

/// A block for each few columns, so that it fits a terminal. `*` marks what misses its bound.
pub fn sensitivity(table: &Sensitivity) -> String {
    const BESIDE: usize = 5;
    let mut text = String::new();
    for from in (1..table.columns.len()).step_by(BESIDE) {
        let to = (from + BESIDE).min(table.columns.len());
        let mut heads = vec!["", "base"];
        heads.extend(&table.columns[from..to]);
        let rows = table.rows.iter().map(|row| {
            let mut cells = vec![format!("{}, {}", row.name, row.unit)];
            let shown = std::iter::once(0).chain(from..to);
            cells.extend(shown.map(|at| sensitivity_cell(row.values[at], row.bounds)));
            cells
        });
        text += &aligned(&heads, &rows.collect::<Vec<_>>());
        text += "\n";
    }
    text + "* misses the bound on the paper's figure\n"
}

/// A value, marked where it misses its bound.
pub fn sensitivity_cell(value: Option<f64>, bounds: Option<[f64; 2]>) -> String {
    let missed = value.zip(bounds);
    let missed = missed.is_some_and(|(value, [low, high])| !(low..=high).contains(&value));
    format!("{}{}", shown(value), if missed { "*" } else { "" })
}

/// One line for each lever.
pub fn trade(trade: &Trade) -> String {
    let rows: Vec<Vec<String>> = trade
        .curves
        .iter()
        .map(|curve| {
            vec![
                curve.lever.to_owned(),
                curve.how.to_owned(),
                format!("{:.0}", curve.off_line_points),
                percent(curve.background_at_97_percent),
                percent(curve.background_at_92_percent),
            ]
        })
        .collect();
    let heads = ["lever", "how", "off line", "CXL at 97 %", "CXL at 92 %"];
    let after = format!(
        "off line: the most that MMEM lies off the straight line of shared time, in points. CXL at 97 %, 92 %: what the \
         16 writers keep at most while 16 readers of MMEM keep so much. Without a lever MMEM keeps {}.",
        percent(Some(trade.victim_kept_without))
    );
    format!("{}\n{}\n", aligned(&heads, &rows), wrap(&after, COLUMNS, 0))
}
