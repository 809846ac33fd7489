// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Thesis 6.5: latencies of blocks, and whether table 3 agrees with itself.

use super::bandwidth::refused;
use super::context::{EvalContext, command, number, over_seeds, picture, text};
use super::deviations;
use super::processes;
use super::published_figures;
use anyhow::Result;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use weir::lab::batch::Batch;
use weir_core::units::GIB;
use weir_figures::text::signed_percent;
use weir_figures::{Cell, CellKind, Ink, Part, Section, Table};
use weir_report::{Axis, Curve, Panel, Plot, Shape, plot};

/// Readers and bytes of a block in table 3's experiment.
const READERS: f64 = 10.0;
const BLOCK: f64 = 4.0 * 1048576.0;
const BARS_AN_OCTAVE: f64 = 6.0;

/// Table 3 and figure 17.
pub fn latency(context: &mut EvalContext) -> Result<Section> {
    let batch = context.all("thesis-latency")?;
    let mut parts = vec![
        text(
            "Ten fio readers of 4 MiB blocks and 39 workers. A reader has one block under way at any time, so readers, blocks per \
              second and the mean latency belong together (Little's law): mean = 10 × 4 MiB ÷ bandwidth. No controller can hold the \
              bandwidth at 4 GiB/s and have a lower mean than 9.8 ms, but by letting some starve to the end. What a controller can do is keep single blocks from starving: \
              the last column is p99 ÷ that bound.",
        ),
        Part::Table(table(context, &batch)),
    ];
    parts.extend(refused(context, "thesis-latency"));
    parts.extend(deviations::of(context, "table 3"));
    parts.push(text("Does table 3 agree with itself? The thesis prints no bandwidth for this experiment. With the bandwidths of its table 2 \
                     (five readers; without control ten get more, up to 10 GiB/s) the law demands the means below. A row contradicts where \
                     the printed mean is more than 10 % away. A mean below the law's means that some blocks are in no mean: of readers that starved to the end, or of times in which nothing was under \
             way. A mean above it cannot be at that bandwidth."));
    parts.push(Part::Table(little(context)));
    parts.push(picture(plot(&histograms(context, &batch), &context.fonts)));
    parts.extend(processes::figure_16(context, &batch));
    parts.push(command("weir sim thesis-latency --backend all --seeds 3"));
    Ok(Section::new("latency", "6.5 Latency of blocks", parts))
}

fn table(context: &mut EvalContext, batch: &Batch) -> Table {
    let mut rows = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let mut row = vec![Cell::words(&choice.label)];
        for figure in published_figures::figures("table 3") {
            row.extend(context.beside(batch, i, "table 3", figure, 0));
        }
        let starved = over_seeds(batch, i, |m| {
            Some(m.measures.limited_readers.p99_ns? / m.measures.little_bound_ns?)
        });
        let bandwidth = over_seeds(batch, i, |m| Some(m.run.bandwidth.mean_bytes_per_sec / GIB));
        row.extend([
            number(bandwidth.map(|b| b[1]), 2),
            number(starved.map(|s| s[1]), 1),
        ]);
        rows.push(row);
    }
    Table::new(
        "Table 3: latency of blocks in µs, ours beside the thesis's",
        &[
            "",
            "mean",
            "thesis",
            "",
            "stddev",
            "thesis",
            "",
            "Q1",
            "thesis",
            "",
            "Q3",
            "thesis",
            "",
            "GiB/s",
            "p99 ÷ bound",
        ],
        rows,
    )
}

/// Table 3 beside what table 2 implies for it. Ten readers always have one block under way each, so by
/// Little's law the mean latency of a block is readers × block ÷ bandwidth, whatever the controller does.
fn little(context: &mut EvalContext) -> Table {
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    let bandwidths = published_figures::column("table 2", "mean_gib_per_sec");
    let printed = published_figures::column("table 3", "mean_us");
    for ((backend, printed), (_, bandwidth)) in printed.into_iter().zip(bandwidths) {
        let bound_us = READERS * BLOCK / (bandwidth * GIB) * 1e6;
        let implied = READERS * BLOCK / (printed / 1e6) / GIB;
        let off = printed / bound_us - 1.0;
        let (kind, verdict) = if off.abs() > 0.1 {
            (CellKind::Missed, "contradicts")
        } else {
            (CellKind::Met, "agrees")
        };
        rows.push(vec![
            Cell::words(backend),
            number(bandwidth, 2),
            number(bound_us, 0),
            number(printed, 0),
            Cell::new(signed_percent(off), CellKind::Faint),
            number(implied, 2),
            Cell::new(verdict, kind),
        ]);
        figures.push(json!({
            "backend": backend,
            "bandwidth_of_table_2_gib_per_sec": bandwidth,
            "mean_by_littles_law_us": bound_us,
            "printed_mean_us": printed,
            "bandwidth_of_printed_mean_gib_per_sec": implied,
            "off_ratio": off,
            "contradicts": off.abs() > 0.1,
        }));
    }
    context
        .figures
        .insert("table_3_against_littles_law", figures.into());
    Table::new(
        "Table 3 against Little's law",
        &[
            "",
            "GiB/s (table 2)",
            "mean by law, µs",
            "printed mean, µs",
            "off",
            "GiB/s of printed mean",
            "",
        ],
        rows,
    )
}

/// Block latencies between the 5 % and 95 % quantiles, as figure 17 cuts them; and all of them as CSV.
fn histograms(context: &mut EvalContext, batch: &Batch) -> Plot {
    let mut csv = String::from("backend,from_ns,below_ns,blocks\n");
    let mut panels = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let Some(made) = batch.of(i).next() else {
            continue;
        };
        let blocks = &made.measures.limited_blocks;
        for (from, below, weight) in blocks.buckets() {
            let _ = writeln!(csv, "{},{from},{below},{weight}", choice.label);
        }
        let ink = if choice.name == "none" {
            Ink::Free
        } else {
            Ink::Held
        };
        let curves = vec![Curve {
            name: String::new(),
            ink,
            shape: Shape::Steps,
            points: outline(blocks),
        }];
        panels.push(Panel {
            title: choice.label.clone(),
            curves,
        });
    }
    context
        .files
        .insert("blocks-thesis-latency.csv".into(), csv);
    Plot {
        title: "Figure 17: latency of blocks of 4 MiB, 5th to 95th percentile, first seed".into(),
        x: Axis::log("latency of a block, ms (logarithmic)"),
        y: Axis::linear("% of blocks"),
        panels,
        reference: None,
        panels_a_row: 3,
        has_own_axes: false,
    }
}

/// Part of the blocks in each sixth of an octave, in percent, over milliseconds.
fn outline(blocks: &weir_sim::Histogram) -> Vec<(f64, f64)> {
    let ends = (blocks.quantile_ns(0.05), blocks.quantile_ns(0.95));
    let (Some(low), Some(high)) = ends else {
        return Vec::new();
    };
    let mut bars: BTreeMap<i64, f64> = BTreeMap::new();
    for (from, below, weight) in blocks.buckets() {
        let middle = (from * below.max(1.0)).max(1.0).sqrt();
        if below >= low && from <= high {
            #[expect(clippy::cast_possible_truncation)] // At most 6 × 64.
            let bar = (middle.log2() * BARS_AN_OCTAVE).floor() as i64;
            *bars.entry(bar).or_default() += weight / blocks.count() * 1e2;
        }
    }
    let start = |bar: i64| (bar as f64 / BARS_AN_OCTAVE).exp2() / 1e6;
    let (Some(first), Some(last)) = (bars.keys().next(), bars.keys().last()) else {
        return Vec::new();
    };
    let all = *first..=*last;
    let mut points = vec![(start(*first), 0.0)];
    points.extend(all.map(|bar| (start(bar), bars.get(&bar).copied().unwrap_or(0.0))));
    points.push((start(last + 1), 0.0));
    points
}
