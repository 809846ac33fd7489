// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of the model's figures: heads and rows of words, for a terminal and for the page.

use super::sensitivity::Sensitivity;
use super::trade::{Trade, TradeCurve};
use weir_figures::text::{NONE, number, whole_percent, wrap};
use weir_figures::{
    Bound, COLUMNS, Cell, Comparison, Setting, Table, compared, met_of, terminal_table,
};

/// Three digits, or a dash.
pub fn shown(value: Option<f64>) -> String {
    value.map_or(NONE.to_owned(), number)
}

pub fn percent(value: Option<f64>) -> String {
    value.map_or(NONE.to_owned(), whole_percent)
}

/// The paper's figures and its words beside ours, each with its reason below.
pub fn paper(rows: &[Comparison]) -> String {
    let table = terminal_table(&compared(["", "", "paper", ""], rows), Setting::WIDE);
    format!("{table}\n{} are met.\n", met_of(rows))
}

/// `*` marks what misses its bound.
pub fn sensitivity(table: &Sensitivity) -> String {
    let rows = table.rows.iter().map(|row| {
        let name = Cell::words(format!("{}, {}", row.name, row.unit));
        let cells = row.values.iter();
        let cells = cells.map(|value| Cell::number(sensitivity_cell(*value, row.bounds)));
        std::iter::once(name).chain(cells).collect()
    });
    let shown = Table::new("", &[&[""], &table.columns[..]].concat(), rows);
    // Each block has the figure and what it is with the machine's own parameters.
    let setting = Setting {
        labels: 2,
        ..Setting::PLAIN
    };
    terminal_table(&shown, setting) + "\n* misses the bound on the paper's figure\n"
}

/// A value, marked where it misses its bound.
pub fn sensitivity_cell(value: Option<f64>, bounds: Option<[f64; 2]>) -> String {
    let missed = value.zip(bounds.and_then(Bound::between));
    let missed = missed.is_some_and(|(value, bound)| !bound.holds(value));
    format!("{}{}", shown(value), if missed { "*" } else { "" })
}

/// One line for each lever.
pub fn trade(trade: &Trade) -> String {
    let after = format!(
        "off line: the most that MMEM lies off the straight line of shared time, in points. CXL at 97 %, 92 %: what the \
         16 writers keep at most while 16 readers of MMEM keep so much. Without a lever MMEM keeps {}.",
        percent(Some(trade.victim_kept_without))
    );
    let heads = ["lever", "how", "off line", "CXL at 97 %", "CXL at 92 %"];
    let table = terminal_table(&trade_table(trade, "", &heads), Setting::PLAIN);
    format!("{table}\n{}\n", wrap(&after, COLUMNS, 0))
}

/// A row for each lever.
pub fn trade_table(trade: &Trade, title: &str, heads: &[&str]) -> Table {
    let row = |curve: &TradeCurve| {
        vec![
            Cell::words(curve.lever),
            Cell::long(curve.how),
            Cell::number(format!("{:.0}", curve.off_line_points)),
            Cell::number(percent(curve.background_at_97_percent)),
            Cell::number(percent(curve.background_at_92_percent)),
        ]
    };
    Table::new(title, heads, trade.curves.iter().map(row))
}
