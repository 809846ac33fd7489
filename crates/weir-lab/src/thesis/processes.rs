// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What single readers get over time (thesis, figure 10), and how long single blocks take over time (figure
//! 16).

use super::context::{EvalContext, number, over_seeds, picture, text};
use super::measured::{heavy, inside};
use serde_json::json;
use weir::lab::batch::{Batch, Made};
use weir::lab::controllers::Choice;
use weir_core::units::GIB;
use weir_figures::{Cell, CellKind, Ink, Part, Table};
use weir_report::{Axis, Curve, Panel, Plot, Shape, plot};

/// Figures show so much from the start of measuring.
const FOR_SEC: f64 = 5.0;
/// A window of 100 ms with less than this is none.
const NOTHING_BYTES_PER_SEC: f64 = 0.01 * GIB;
/// "Longer periods" without bandwidth (6.3), read as this.
const LONG_SEC: f64 = 0.2;
/// "Around 4 GiB/s" (6.3): a spike of a single process is at least this.
const SPIKE_GIB: f64 = 3.0;

/// The longest time that a reader moved nothing, in seconds.
fn longest_gap_sec(batch: &Batch, made: &Made) -> Option<f64> {
    let of = |values: Vec<f64>| {
        let runs = values.split(|v| *v >= NOTHING_BYTES_PER_SEC);
        runs.map(<[f64]>::len).max().unwrap_or(0)
    };
    let all = heavy(made).map(|w| of(inside(batch, made, &w.bytes_per_sec)));
    all.max().map(|windows| windows as f64 * 0.1)
}

/// The most that a single reader moved in a window.
fn highest_gib(batch: &Batch, made: &Made) -> Option<f64> {
    let all = heavy(made).flat_map(|w| inside(batch, made, &w.bytes_per_sec));
    all.max_by(f64::total_cmp).map(|v| v / GIB)
}

/// Figure 10: a table of what its text says, and the picture.
pub fn figure_10(context: &mut EvalContext, batch: &Batch) -> Vec<Part> {
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    let (mut kept, mut claims) = (0, 0);
    for (i, choice) in batch.choices.iter().enumerate() {
        let gap = over_seeds(batch, i, |m| longest_gap_sec(batch, m)).map(|v| v[2]);
        let high = over_seeds(batch, i, |m| highest_gib(batch, m)).map(|v| v[2]);
        let (claim, is_kept) = match choice.name {
            n if n.starts_with("thesis-scx") => (
                "no bandwidth for longer periods",
                gap.map(|g| g >= LONG_SEC),
            ),
            n if n.starts_with("thesis-cgroups") => {
                ("spikes of about 4 GiB/s", high.map(|h| h >= SPIKE_GIB))
            }
            _ => ("", None),
        };
        (claims, kept) = (
            claims + u32::from(!claim.is_empty()),
            kept + u32::from(is_kept == Some(true)),
        );
        rows.push(vec![
            Cell::words(&choice.label),
            number(gap, 1),
            number(high, 2),
            Cell::words(claim),
            verdict(is_kept),
        ]);
        figures.push(json!({
            "backend": choice.name, "longest_time_without_bandwidth_sec": gap, "highest_window_gib_per_sec": high,
            "printed": claim, "is_as_printed": is_kept,
        }));
    }
    context.figures.insert("figure_10", figures.into());
    context.show(
        "6.3 Is the bandwidth held?",
        "thesis, figure 10: single readers without bandwidth under sched_ext, spikes under cgroups",
        format!("as printed, of each of its five: no bandwidth for {LONG_SEC} s; a window above {SPIKE_GIB} GiB/s"),
        format!("{kept} of {claims}"),
        kept == claims,
    );
    vec![
        text(
            "Figure 10, single readers. The thesis's text: under sched_ext some get no bandwidth for longer periods, under cgroups some have spikes of about 4 GiB/s. Its windows are fio's and may be those of single blocks; \
             a block of 4 MiB that is read alone takes about a millisecond, which is 4 GiB/s. In windows of 100 ms, the highest of the measured time:",
        ),
        Part::Table(Table::new(
            "Figure 10: what its text says of single readers",
            &[
                "",
                "longest time without, s",
                "highest window, GiB/s",
                "thesis",
                "",
            ],
            rows,
        )),
        picture(plot(&readers(batch), &context.fonts)),
    ]
}

fn verdict(is_kept: Option<bool>) -> Cell {
    match is_kept {
        Some(true) => Cell::new("as printed", CellKind::Met),
        Some(false) => Cell::new("not so", CellKind::Missed),
        None => Cell::words(""),
    }
}

/// The first seconds of measuring of a series.
pub fn some_seconds(
    batch: &Batch,
    made: &Made,
    values: impl Iterator<Item = f64>,
) -> Vec<(f64, f64)> {
    let begins = batch.scenario.control.settle_sec;
    let points = made.measures.series.iter().zip(values);
    let points = points.map(|(p, v)| (p.at_ms / 1e3 - begins, v));
    points
        .filter(|(at, _)| (0.0..FOR_SEC).contains(at))
        .collect()
}

fn readers(batch: &Batch) -> Plot {
    let panel = |(i, choice): (usize, &Choice)| {
        let made = batch.of(i).next();
        let curve = |(made, (n, w)): (&Made, (usize, &weir_sim::WorkloadSeries))| Curve {
            name: w.name.clone(),
            ink: Ink::CURVES[n % Ink::CURVES.len()],
            shape: Shape::Line,
            points: some_seconds(batch, made, w.bytes_per_sec.iter().map(|v| v / GIB)),
        };
        let all = made
            .into_iter()
            .flat_map(|m| heavy(m).enumerate().map(move |w| (m, w)));
        Panel {
            title: choice.label.clone(),
            curves: all.map(curve).collect(),
        }
    };
    Plot {
        title: "Figure 10: bandwidth of each reader, first seed, windows of 100 ms".into(),
        x: Axis::linear("time since the start of measuring, s"),
        y: Axis::linear("GiB/s"),
        panels: batch.choices.iter().enumerate().map(panel).collect(),
        reference: None,
        panels_a_row: 3,
        has_own_axes: false,
    }
}

/// Figure 16: blocks over time, and whether spikes are higher with control than without, as its caption says.
pub fn figure_16(context: &mut EvalContext, batch: &Batch) -> Vec<Part> {
    let longest = |i: usize| {
        over_seeds(batch, i, |made| {
            let from = batch.scenario.control.settle_sec * 1e3;
            let windows = made.measures.series.iter().zip(&made.measures.block_series);
            let inside = windows.filter(|(p, _)| p.at_ms >= from);
            inside
                .map(|(_, b)| b.longest_ns)
                .max()
                .map(|ns| ns as f64 / 1e6)
        })
    };
    let base = longest(0).map(|v| v[1]);
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    let (mut kept, mut claims) = (0, 0);
    for (i, choice) in batch.choices.iter().enumerate() {
        let ours = longest(i).map(|v| v[1]);
        let is_claimed = choice.name.starts_with("thesis-");
        let is_kept = ours.zip(base).filter(|_| is_claimed).map(|(o, b)| o > b);
        (claims, kept) = (
            claims + u32::from(is_claimed),
            kept + u32::from(is_kept == Some(true)),
        );
        let claim = if is_claimed { "higher than none" } else { "" };
        rows.push(vec![
            Cell::words(&choice.label),
            number(ours, 0),
            Cell::words(claim),
            verdict(is_kept),
        ]);
        figures.push(
            json!({"backend": choice.name, "longest_block_ms": ours, "is_as_printed": is_kept}),
        );
    }
    context.figures.insert("figure_16", figures.into());
    context.show(
        "6.5 Latency of blocks",
        "thesis, figure 16: latency spikes are higher with control than without",
        "as printed, of each of its five",
        format!("{kept} of {claims}"),
        kept == claims,
    );
    vec![
        Part::Table(Table::new(
            "Figure 16: the longest block of the measured time, ms, mean of the seeds",
            &["", "longest", "thesis", ""],
            rows,
        )),
        picture(plot(&blocks(batch), &context.fonts)),
    ]
}

fn blocks(batch: &Batch) -> Plot {
    let panel = |(i, choice): (usize, &Choice)| {
        let mut curves = Vec::new();
        if let Some(made) = batch.of(i).next() {
            let series = || made.measures.block_series.iter();
            let longest = series().map(|b| b.longest_ns as f64 / 1e6);
            let means = series().map(|b| b.sum_ns / b.count as f64 / 1e6);
            for (name, ink, points) in [
                (
                    "longest of the window",
                    Ink::Free,
                    some_seconds(batch, made, longest),
                ),
                (
                    "mean of the window",
                    Ink::Held,
                    some_seconds(batch, made, means),
                ),
            ] {
                curves.push(Curve {
                    name: name.into(),
                    ink,
                    shape: Shape::Line,
                    points,
                });
            }
        }
        Panel {
            title: choice.label.clone(),
            curves,
        }
    };
    Plot {
        title: "Figure 16: latency of blocks of 4 MiB over time, first seed, windows of 100 ms"
            .into(),
        x: Axis::linear("time since the start of measuring, s"),
        y: Axis::log("ms (logarithmic)"),
        panels: batch.choices.iter().enumerate().map(panel).collect(),
        reference: None,
        panels_a_row: 3,
        has_own_axes: false,
    }
}
