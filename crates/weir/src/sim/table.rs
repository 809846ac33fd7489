// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of many simulated runs: a row for each of those compared; over several seeds the mean, and
//! below it the lowest and the highest. Few runs are shown as live ones are, by weir-report.

use super::batch::Batch;
use weir_figures::text::{self, NONE, bandwidth_unit, time_unit};
use weir_figures::{Cell, Setting, Table, terminal_table};
use weir_report::results::Run;
use weir_report::{median_estimate_error, p99_per_bound, worst_estimate_error};

/// What a column's values are.
#[derive(Clone, Copy)]
pub enum Amount {
    /// Bytes per second, in the unit that makes the largest a small number.
    Rate,
    /// Nanoseconds, in the unit that makes the largest a small number.
    Time,
    /// In this unit already, with so many decimals.
    Plain(&'static str, usize),
}

/// One column: its name, what its values are, and its value, which a run may not have.
pub struct Column {
    pub name: &'static str,
    pub amount: Amount,
    pub of: fn(&Run) -> Option<f64>,
}

const fn column(name: &'static str, amount: Amount, of: fn(&Run) -> Option<f64>) -> Column {
    Column { name, amount, of }
}

/// The columns, in their order. Figures with the same name elsewhere are the same figures.
pub const COLUMNS: [Column; 16] = {
    use Amount::{Plain, Rate, Time};
    [
        column("mean", Rate, |r| Some(r.bandwidth.mean_bytes_per_sec)),
        column("stddev", Rate, |r| Some(r.bandwidth.stddev_bytes_per_sec)),
        column("RMSE", Plain("%", 1), |r| {
            Some(r.bandwidth.rmse_ratio * 1e2)
        }),
        column("bias", Plain("%", 1), |r| {
            Some(r.bandwidth.bias_ratio * 1e2)
        }),
        column("access", Time, |r| r.device_latency.mean_ns),
        column("block", Time, |r| r.limited_readers.latency.mean_ns),
        column("Little", Time, |r| r.limited_readers.little_bound_ns),
        column("p99", Time, |r| r.limited_readers.latency.p99_ns),
        column("p99/Little", Plain("×", 1), p99_per_bound),
        column("light p99", Time, |r| r.light_reader.p99_ns),
        column("CPU", Plain("s/GiB", 3), |r| r.cpu_sec_per_gib),
        column("others", Plain("ops/s", 0), |r| r.throughput_ops_per_sec),
        column("settle", Plain("s", 1), |r| Some(r.settle_ms? / 1e3)),
        column("overshoot", Plain("%", 1), |r| {
            Some(r.overshoot_ratio? * 1e2)
        }),
        column("estimate", Plain("median %", 1), |r| {
            Some(median_estimate_error(r)? * 1e2)
        }),
        column("estimate", Plain("worst %", 1), |r| {
            Some(worst_estimate_error(r)? * 1e2)
        }),
    ]
};

/// A column's unit, and its cells: of each of those compared the lowest, the mean and the highest of the
/// seeds.
pub struct Cells {
    pub unit: &'static str,
    /// One for each of those compared; nothing where there is no value.
    pub cells: Vec<Option<[String; 3]>>,
}

impl Column {
    /// Its cells; nothing if there is no value at all.
    pub fn cells(&self, batch: &Batch) -> Option<Cells> {
        let of = |i: usize| range(batch.of(i).map(|made| (self.of)(&made.run)));
        let ranges: Vec<Option<[f64; 3]>> = (0..batch.choices.len()).map(of).collect();
        let known = || ranges.iter().flatten();
        known().next()?;
        let largest = known().flatten().fold(0.0f64, |a, v| a.max(v.abs()));
        let (divisor, unit) = match self.amount {
            Amount::Rate => bandwidth_unit(largest),
            Amount::Time => time_unit(largest),
            Amount::Plain(unit, _) => (1.0, unit),
        };
        let shown = |value: f64| match self.amount {
            Amount::Plain(_, decimals) => text::decimals(value, decimals),
            _ => text::number(value / divisor),
        };
        let cells = ranges.iter().map(|range| range.map(|r| r.map(shown)));
        Some(Cells {
            unit,
            cells: cells.collect(),
        })
    }
}

/// Lowest, mean and highest of what is known.
pub fn range(values: impl Iterator<Item = Option<f64>>) -> Option<[f64; 3]> {
    let known: Vec<f64> = values.flatten().filter(|v| v.is_finite()).collect();
    let first = *known.first()?;
    let low = known.iter().copied().fold(first, f64::min);
    let high = known.iter().copied().fold(first, f64::max);
    Some([low, known.iter().sum::<f64>() / known.len() as f64, high])
}

/// The table, with its title. Columns without a value are left out. Ends with a newline.
pub fn table(batch: &Batch) -> String {
    let seeds = batch.of(0).count();
    let mut table = Table {
        heads: vec![String::new()],
        ..Table::default()
    };
    for (i, choice) in batch.choices.iter().enumerate() {
        table.rows.push(vec![Cell::words(&choice.label)]);
        if seeds > 1 {
            table.rows.push(vec![Cell::words("  lowest")]);
            table.rows.push(vec![Cell::words("  highest")]);
        }
        debug_assert_eq!(batch.of(i).count(), seeds);
    }
    for column in &COLUMNS {
        let Some(Cells { unit, cells }) = column.cells(batch) else {
            continue;
        };
        table.heads.push(format!("{}\n{unit}", column.name));
        let shown: &[usize] = if seeds > 1 { &[1, 0, 2] } else { &[1] };
        let parts = cells.iter().flat_map(|cell| {
            let part = |part: &usize| cell.as_ref().map_or(NONE, |cell| cell[*part].as_str());
            shown.iter().map(part)
        });
        for (row, part) in table.rows.iter_mut().zip(parts) {
            row.push(Cell::number(part));
        }
    }
    let title = format!("{}: {}", batch.scenario.name, batch.scenario.about);
    let title = text::wrap(&title, weir_figures::COLUMNS, 0);
    format!(
        "{title}\n{}{}",
        set_point(batch, seeds),
        terminal_table(&table, Setting::RULED)
    )
}

fn set_point(batch: &Batch, seeds: usize) -> String {
    let control = &batch.scenario.control;
    let set_point = control.set_point_bytes_per_sec * batch.scenario.devices.len() as f64;
    let first = batch.runs.first().map_or(0, |made| made.run.seed);
    let seeds = match seeds {
        1 => format!("seed {first}"),
        n => format!("mean of {n} seeds from {first} on"),
    };
    let (divisor, unit) = bandwidth_unit(set_point);
    format!(
        "set-point {} {unit}, measured {} s after {} s, {seeds}\n\n",
        text::number(set_point / divisor),
        control.measure_sec,
        control.settle_sec,
    )
}
