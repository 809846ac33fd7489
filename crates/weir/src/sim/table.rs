// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of many simulated runs: a row for each of those compared; over several seeds the mean, and
//! below it the lowest and the highest. Few runs are shown as live ones are, by weir-report.

use super::batch::Batch;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;
use weir_report::results::Run;
use weir_report::{
    bandwidth_unit, median_estimate_error, p99_per_bound, time_unit, worst_estimate_error,
};

/// What a column's values are.
#[derive(Clone, Copy)]
pub enum Amount {
    /// Bytes per second, in the unit that makes the largest a small number.
    Rate,
    /// Nanoseconds, likewise.
    Time,
    /// In this unit already, with so many decimals.
    Plain(&'static str, usize),
}

/// One column: its name, what its values are, and its value, which a run may not have.
pub struct Column {
    /// What it is.
    pub name: &'static str,
    /// What its values are.
    pub amount: Amount,
    /// Its value.
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
    /// Its unit.
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
            Amount::Plain(_, decimals) => with_decimals(value, decimals),
            _ => weir_report::number(value / divisor),
        };
        let cells = ranges.iter().map(|range| range.map(|r| r.map(shown)));
        Some(Cells {
            unit,
            cells: cells.collect(),
        })
    }
}

/// No sign before nothing.
fn with_decimals(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let is_nothing = text.trim_start_matches(['-', '0', '.']).is_empty();
    if is_nothing {
        return text.replace('-', "");
    }
    text.replace('-', "−")
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
    let mut lines: Vec<Vec<String>> = vec![vec![String::new()], vec![String::new()]];
    for (i, choice) in batch.choices.iter().enumerate() {
        lines.push(vec![choice.label.clone()]);
        if seeds > 1 {
            lines.push(vec!["  lowest".into()]);
            lines.push(vec!["  highest".into()]);
        }
        debug_assert_eq!(batch.of(i).count(), seeds);
    }
    for column in &COLUMNS {
        let Some(Cells { unit, cells }) = column.cells(batch) else {
            continue;
        };
        lines[0].push(column.name.into());
        lines[1].push(unit.into());
        let mut row = 2;
        for cell in cells {
            let shown: &[usize] = if seeds > 1 { &[1, 0, 2] } else { &[1] };
            for part in shown {
                let text = cell.as_ref().map_or("–", |cell| cell[*part].as_str());
                lines[row].push(text.into());
                row += 1;
            }
        }
    }
    let title = format!("{}: {}", batch.scenario.name, batch.scenario.about);
    let title = weir_report::wrap(&title, weir_report::COLUMNS, 0);
    format!("{title}\n{}{}", set_point(batch, seeds), aligned(&lines))
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
        weir_report::number(set_point / divisor),
        control.measure_sec,
        control.settle_sec,
    )
}

/// Columns under each other, at most [`weir_report::COLUMNS`] wide: those that do not fit follow below,
/// with the names of the rows again.
fn aligned(lines: &[Vec<String>]) -> String {
    let count = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| {
        lines
            .iter()
            .filter_map(|l| l.get(i))
            .map(|c| c.width())
            .max()
    };
    let widths: Vec<usize> = (0..count).map(|i| width(i).unwrap_or(0)).collect();
    let mut blocks: Vec<String> = Vec::new();
    let mut next = 1;
    while next < count {
        let from = next;
        let mut used = widths[0];
        while next < count && (next == from || used + 2 + widths[next] <= weir_report::COLUMNS) {
            used += 2 + widths[next];
            next += 1;
        }
        blocks.push(block(lines, &widths, from..next));
    }
    blocks.join("\n")
}

fn block(lines: &[Vec<String>], widths: &[usize], columns: std::ops::Range<usize>) -> String {
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let name = &line[0];
        let mut written = format!("{name}{}", " ".repeat(widths[0] - name.width()));
        for i in columns.clone() {
            let cell = line.get(i).map_or("", String::as_str);
            let pad = " ".repeat(widths[i].saturating_sub(cell.width()));
            let _ = write!(written, "  {pad}{cell}");
        }
        text += written.trim_end();
        text.push('\n');
        if number == 1 {
            let width: usize = widths[columns.clone()].iter().map(|w| w + 2).sum();
            text += &"─".repeat(widths[0] + width);
            text.push('\n');
        }
    }
    text
}
