// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of many simulated runs: a row for each of those compared; over several seeds the mean, and
//! below it the lowest and the highest. Few runs are shown as live ones are, by weir-report.

use super::batch::Batch;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;
use weir_core::units::GIB;
use weir_report::results::Run;

/// One column: two lines of head, how many decimals, and its value, which a run may not have.
pub struct Column {
    /// What it is.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// How many decimals are shown.
    pub decimals: usize,
    /// Its value in that unit.
    pub of: fn(&Run) -> Option<f64>,
}

const fn column(
    name: &'static str,
    unit: &'static str,
    decimals: usize,
    of: fn(&Run) -> Option<f64>,
) -> Column {
    Column {
        name,
        unit,
        decimals,
        of,
    }
}

/// The columns, in their order.
pub const COLUMNS: [Column; 15] = [
    column("mean", "GiB/s", 2, |r| {
        Some(r.bandwidth.mean_bytes_per_sec / GIB)
    }),
    column("stddev", "GiB/s", 2, |r| {
        Some(r.bandwidth.stddev_bytes_per_sec / GIB)
    }),
    column("RMSE", "%", 1, |r| Some(r.bandwidth.rmse_ratio * 1e2)),
    column("bias", "%", 1, |r| Some(r.bandwidth.bias_ratio * 1e2)),
    column("line", "ns", 0, |r| r.device_latency.mean_ns),
    column("block", "µs", 0, |r| {
        micros(r.limited_readers.latency.mean_ns)
    }),
    column("bound", "µs", 0, |r| {
        micros(r.limited_readers.little_bound_ns)
    }),
    column("p99", "µs", 0, |r| {
        micros(r.limited_readers.latency.p99_ns)
    }),
    column("p99÷", "bound", 1, |r| {
        Some(r.limited_readers.latency.p99_ns? / r.limited_readers.little_bound_ns?)
    }),
    column("light p99", "µs", 0, |r| micros(r.light_reader.p99_ns)),
    column("CPU", "s/GiB", 3, |r| r.cpu_sec_per_gib),
    column("beside", "ops/s", 0, |r| r.throughput_ops_per_sec),
    column("settles", "s", 1, |r| Some(r.settle_ms? / 1e3)),
    column("over", "%", 1, |r| Some(r.overshoot_ratio? * 1e2)),
    column("estimate", "±%", 1, |r| {
        let errors = r.estimate_error_ratio.values();
        let (sum, count) = errors.fold((0.0, 0.0), |(s, n), e| (s + e, n + 1.0));
        (count > 0.0).then(|| sum / count * 1e2)
    }),
];

fn micros(ns: Option<f64>) -> Option<f64> {
    ns.map(|ns| ns / 1e3)
}

/// Lowest, mean and highest of what is known.
pub fn range(values: impl Iterator<Item = Option<f64>>) -> Option<[f64; 3]> {
    let known: Vec<f64> = values.flatten().filter(|v| v.is_finite()).collect();
    let first = *known.first()?;
    let low = known.iter().copied().fold(first, f64::min);
    let high = known.iter().copied().fold(first, f64::max);
    Some([low, known.iter().sum::<f64>() / known.len() as f64, high])
}

/// The table, with its title. Columns that nobody has a value for are left out. Ends with a newline.
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
        let ranges: Vec<Option<[f64; 3]>> = (0..batch.choices.len())
            .map(|i| range(batch.of(i).map(|made| (column.of)(&made.run))))
            .collect();
        if ranges.iter().all(Option::is_none) {
            continue;
        }
        lines[0].push(column.name.into());
        lines[1].push(column.unit.into());
        let cell = |value: Option<f64>| {
            value.map_or("–".into(), |v| {
                // No sign before nothing.
                let text = format!("{v:.*}", column.decimals);
                let is_nothing = text.trim_start_matches(['-', '0', '.']).is_empty();
                if is_nothing {
                    text.replace('-', "")
                } else {
                    text
                }
            })
        };
        let mut row = 2;
        for range in ranges {
            let shown: &[usize] = if seeds > 1 { &[1, 0, 2] } else { &[1] };
            for part in shown {
                lines[row].push(cell(range.map(|r| r[*part])));
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
    format!(
        "set-point {:.2} GiB/s, measured {} s after {} s, {seeds}\n\n",
        set_point / GIB,
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
