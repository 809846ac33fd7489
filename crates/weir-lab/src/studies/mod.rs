// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Studies, each a table: of a scenario what a part of weir is worth, all controllers, light users; of a
//! device its latency at each bandwidth.

pub mod ablation;
pub mod controllers;
pub mod device;
pub mod light_users;

use anyhow::Result;
use serde_json::{Map, Value};
use weir::lab::{Exit, print, print_json};
use weir_figures::{Cell, Setting, Table, decimals, terminal_table};

/// A figure of a study: its key in JSON, its head in a table, what it is multiplied by there, and decimals.
struct StudyColumn(&'static str, &'static str, f64, usize);

/// Figures of all that a study varies.
struct Study<const N: usize> {
    title: String,
    /// What is varied, as its key and its head.
    varies: &'static str,
    columns: &'static [StudyColumn; N],
    /// What it is, and a value for each column.
    rows: Vec<(String, [Value; N])>,
}

impl<const N: usize> Study<N> {
    fn print(&self, is_json: bool) -> Result<Exit> {
        if is_json {
            print_json(
                &self
                    .rows
                    .iter()
                    .map(|row| self.object(row))
                    .collect::<Vec<_>>(),
            )?;
        } else {
            print(&self.table())?;
        }
        Ok(Exit::Done)
    }

    fn object(&self, (of, values): &(String, [Value; N])) -> Map<String, Value> {
        let keys = self.columns.iter().map(|column| column.0.to_owned());
        let figures = keys.zip(values.iter().cloned());
        figures
            .chain([(self.varies.into(), of.as_str().into())])
            .collect()
    }

    fn table(&self) -> String {
        let heads = self.columns.iter().map(|column| column.1);
        let heads: Vec<&str> = std::iter::once(self.varies).chain(heads).collect();
        let cell = |(column, value): (&StudyColumn, &Value)| match value {
            Value::Array(_) => Cell::words(value.to_string()),
            _ => decimals(value.as_f64().map(|value| value * column.2), column.3),
        };
        let rows = self.rows.iter().map(|(of, values)| {
            let cells = self.columns.iter().zip(values).map(cell);
            std::iter::once(Cell::words(of)).chain(cells).collect()
        });
        terminal_table(&Table::new(&self.title, &heads, rows), Setting::WIDE)
    }
}
