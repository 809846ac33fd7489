// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Thesis 6.5: latencies of blocks, and whether table 3 agrees with itself.

use super::super::batch::{Batch, Made};
use super::lab::{
    Lab, Printed, command, heads, number, over_seeds, picture, signed_percent, text, words,
};
use super::printed::{TABLE_2, TABLE_3};
use super::why;
use anyhow::Result;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use weir_core::units::GIB;
use weir_report::{
    Axis, Cell, CellKind, Curve, Ink, Panel, Part, Plot, Section, Shape, Table, plot,
};

/// Readers and bytes of a block in table 3's experiment.
const READERS: f64 = 10.0;
const BLOCK: f64 = 4.0 * 1048576.0;
const BARS_AN_OCTAVE: f64 = 6.0;

/// Table 3 and figure 17.
pub fn latency(lab: &mut Lab) -> Result<Section> {
    let batch = lab.all("thesis-latency")?;
    let mut parts = vec![
        text(
            "Ten fio readers of 4 MiB blocks and 39 workers. A reader has one block under way at any time, so readers, blocks per \
              second and the mean latency belong together (Little's law): mean = 10 × 4 MiB ÷ bandwidth. No controller can hold the \
              bandwidth at 4 GiB/s and have a lower mean than 9.8 ms, but by letting some starve to the end. What a controller can do is keep single blocks from starving: \
              the last column is p99 ÷ that bound.",
        ),
        Part::Table(table(lab, &batch)),
    ];
    parts.extend(why::of(lab, "table 3"));
    parts.push(text("Does table 3 agree with itself? The thesis prints no bandwidth for this experiment. With the bandwidths of its table 2 \
                     (five readers; without control ten get more, up to 10 GiB/s) the law demands the means below. A row contradicts where \
                     the printed mean is more than 10 % away. A mean below the law's means that some blocks are in no mean: of readers that starved to the end, or of times in which nothing was under \
             way. A mean above it cannot be at that bandwidth."));
    parts.push(Part::Table(little(lab)));
    parts.push(picture(plot(&histograms(lab, &batch), &lab.fonts)));
    parts.push(command("weir sim thesis-latency --backend all --seeds 3"));
    Ok(Section {
        id: "latency".into(),
        title: "6.5 Latency of blocks".into(),
        parts,
    })
}

fn table(lab: &mut Lab, batch: &Batch) -> Table {
    let micros = |ns: Option<f64>| ns.map(|ns| ns / 1e3);
    let mut rows = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let of =
            |pick: fn(&Made) -> Option<f64>| over_seeds(batch, i, move |made| micros(pick(made)));
        let ours = [
            ("mean_us", of(|m| m.measures.limited_readers.mean_ns)),
            ("stddev_us", of(|m| m.measures.limited_readers.stddev_ns)),
            ("q1_us", of(|m| m.measures.limited_blocks.quantile_ns(0.25))),
            ("q3_us", of(|m| m.measures.limited_blocks.quantile_ns(0.75))),
        ];
        let printed = TABLE_3.iter().find(|p| p.backend == choice.name);
        let printed = printed.map(|p| [p.mean, p.stddev, p.quartiles[0], p.quartiles[1]]);
        let mut row = vec![words(&choice.label)];
        for (n, (figure, values)) in ours.into_iter().enumerate() {
            match printed {
                Some(printed) => row.extend(lab.compare(
                    Printed {
                        printed_in: "table 3",
                        backend: choice.name,
                        figure,
                        value: printed[n],
                        decimals: 0,
                    },
                    values,
                )),
                None => row.extend([number(values.map(|v| v[1]), 0), words(""), words("")]),
            }
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
    Table {
        title: "Table 3: latency of blocks in µs, ours beside the thesis's".into(),
        heads: heads(&[
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
        ]),
        rows,
    }
}

fn little(lab: &mut Lab) -> Table {
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for (printed, bandwidth) in TABLE_3.iter().zip(&TABLE_2) {
        let bound_us = READERS * BLOCK / (bandwidth.mean * GIB) * 1e6;
        let implied = READERS * BLOCK / (printed.mean / 1e6) / GIB;
        let off = printed.mean / bound_us - 1.0;
        let (kind, verdict) = if off.abs() > 0.1 {
            (CellKind::Missed, "contradicts")
        } else {
            (CellKind::Met, "agrees")
        };
        rows.push(vec![
            words(printed.backend),
            number(bandwidth.mean, 2),
            number(bound_us, 0),
            number(printed.mean, 0),
            Cell::new(signed_percent(off), CellKind::Faint),
            number(implied, 2),
            Cell::new(verdict, kind),
        ]);
        figures.push(json!({
            "backend": printed.backend,
            "bandwidth_of_table_2_gib_per_sec": bandwidth.mean,
            "mean_by_littles_law_us": bound_us,
            "printed_mean_us": printed.mean,
            "bandwidth_of_printed_mean_gib_per_sec": implied,
            "off_ratio": off,
            "contradicts": off.abs() > 0.1,
        }));
    }
    lab.figures
        .insert("table_3_against_littles_law", figures.into());
    Table {
        title: "Table 3 against Little's law".into(),
        heads: heads(&[
            "",
            "GiB/s (table 2)",
            "mean by law, µs",
            "printed mean, µs",
            "off",
            "GiB/s of printed mean",
            "",
        ]),
        rows,
    }
}

/// Block latencies between the 5 % and 95 % quantiles, as figure 17 cuts them; and all of them as CSV.
fn histograms(lab: &mut Lab, batch: &Batch) -> Plot {
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
    lab.files.insert("blocks-thesis-latency.csv".into(), csv);
    Plot {
        title: "Figure 17: latency of blocks of 4 MiB, 5th to 95th percentile, first seed".into(),
        x: Axis::log("latency of a block, ms (logarithmic)"),
        y: Axis::linear("% of blocks"),
        panels,
        reference: None,
        panels_a_row: 3,
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
