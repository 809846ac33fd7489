// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Thesis 6.4: CPU use of the readers and their limits (figures 13 and 14), and what its text says of them.

use super::context::{EvalContext, command, number, picture, text};
use super::measured::{self, heavy};
use super::processes::some_seconds;
use anyhow::Result;
use serde_json::json;
use weir::lab::batch::{Batch, Made};
use weir::lab::controllers::Choice;
use weir_figures::{Cell, CellKind, Ink, Part, Section, Table};
use weir_report::{Axis, Curve, Panel, Plot, Shape, plot};

const TITLE: &str = "6.4 CPU limits";
/// A limit that varies by less than this part of its mean is settled, one that varies by more is readjusted.
/// The thesis has no number; printed are "settle" and "fluctuate heavily".
const SETTLED: f64 = 0.1;

/// Figures 13 and 14.
pub fn limits(context: &mut EvalContext) -> Result<Section> {
    let batch = context.all("thesis-limit")?;
    let rows = variation(context, &batch);
    let mut parts = vec![
        text(
            "The same runs as in 6.3: CPU use of each reader and its limit, first seed. The limits of the thesis's sched_ext variants are what they shorten slices to, \
             not quotas: use follows them only where another task waits for the CPU. The thesis says that they are constantly readjusted during the whole benchmark, and that those of cgroups settle. \
             The table has the standard deviation of each reader's limit in the measured time ÷ its mean; below 0.1 it counts as settled here.",
        ),
        Part::Table(Table::new(
            "How much limits change after 20 s",
            &[
                "",
                "stddev ÷ mean",
                "thesis",
                "",
                "with limits by CPU time used",
                "threshold ÷ bandwidth alone",
            ],
            rows,
        )),
        text(
            "The last two columns are other readings of the thesis's text (tested causes, below): with limits that multiply the last limit, as eq. 4 is written, an overload that slices cannot end drives \
             them to their floor of 1 %, where they stay.",
        ),
    ];
    parts.extend([
        picture(plot(
            &cpu_limits(
                &batch,
                "Figure 13: CPU use of each reader, and its limit, means over 1 s",
            ),
            &context.fonts,
        )),
        picture(plot(&detail(&batch), &context.fonts)),
        command("workloads-thesis-limit.csv has all of it"),
    ]);
    Ok(Section::new("limits", TITLE, parts))
}

/// The thesis's claims on limits, against ours.
fn variation(context: &mut EvalContext, batch: &Batch) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    let (mut claims, mut kept) = (0, 0);
    for (i, choice) in batch.choices.iter().enumerate() {
        let ours = measured::value(batch, i, "limit_variation_ratio").map(|v| v[1]);
        let claim = match choice.name {
            name if name.starts_with("thesis-scx") => Some("readjusted"),
            name if name.starts_with("thesis-cgroups") => Some("settled"),
            _ => None,
        };
        let is_kept = claim
            .zip(ours)
            .map(|(claim, v)| (claim == "settled") == (v < SETTLED));
        (claims, kept) = (
            claims + u32::from(claim.is_some()),
            kept + u32::from(is_kept == Some(true)),
        );
        let verdict = match is_kept {
            Some(true) => Cell::new("as printed", CellKind::Met),
            Some(false) => Cell::new("not so", CellKind::Missed),
            None => Cell::words(""),
        };
        let mut row = vec![
            Cell::words(&choice.label),
            number(ours, 2),
            Cell::words(claim.unwrap_or("")),
            verdict,
        ];
        for (_, found) in &context.limit_readings[..context.limit_readings.len().min(2)] {
            let same = |f: &&serde_json::Value| f["backend"] == choice.name;
            let with = found
                .iter()
                .find(same)
                .and_then(|f| f["limit_variation_ratio"].as_f64());
            row.push(number(with.filter(|_| claim == Some("readjusted")), 2));
        }
        rows.push(row);
        figures
            .push(json!({"backend": choice.name, "limit_variation_ratio": ours, "printed": claim}));
    }
    context.figures.insert("limit_variation", figures.into());
    context
        .figures
        .insert("limit_variation_by_reading", json!(context.limit_readings));
    context.show(
        TITLE,
        "thesis, figures 13 and 14: limits of sched_ext are readjusted, those of cgroups settle",
        "as printed, of each of its five",
        format!("{kept} of {claims}{}", with_another_reading(context)),
        kept == claims,
    );
    rows
}

/// What the first of the other readings makes of the limits of the schedulers.
fn with_another_reading(context: &EvalContext) -> String {
    let Some((_, found)) = context.limit_readings.first() else {
        return String::new();
    };
    let values = found
        .iter()
        .filter_map(|f| f["limit_variation_ratio"].as_f64());
    let readjusted = values.clone().filter(|v| *v >= SETTLED).count();
    format!(
        "; with limits by CPU time used {readjusted} of {} of sched_ext are readjusted",
        values.count()
    )
}

/// Figure 14: some seconds of figure 13 at the full resolution.
fn detail(batch: &Batch) -> Plot {
    let panel = |(i, choice): (usize, &Choice)| {
        let mut curves = Vec::new();
        if let Some(made) = batch.of(i).next() {
            for w in heavy(made) {
                let mut add = |name: &str, ink, values: &[f64]| {
                    curves.push(Curve {
                        name: name.into(),
                        ink,
                        shape: Shape::Line,
                        points: some_seconds(batch, made, values.iter().copied()),
                    });
                };
                add("used", Ink::Held, &w.cpus);
                if w.limit_cpus.iter().any(|l| l.is_finite()) {
                    add("limit", Ink::Limit, &w.limit_cpus);
                }
            }
        }
        Panel {
            title: choice.label.clone(),
            curves,
        }
    };
    Plot {
        title: "Figure 14: the same in detail, windows of 100 ms".into(),
        x: Axis::linear("time since the start of measuring, s"),
        y: Axis {
            to: Some(1.1),
            ..Axis::linear("CPUs")
        },
        panels: batch.choices.iter().enumerate().map(panel).collect(),
        reference: None,
        panels_a_row: 3,
        has_own_axes: false,
    }
}

pub fn cpu_limits(batch: &Batch, title: &str) -> Plot {
    let panel = |(i, choice): (usize, &Choice)| {
        let mut curves = Vec::new();
        let Some(made) = batch.of(i).next() else {
            return Panel {
                title: choice.label.clone(),
                curves,
            };
        };
        let over_time = |values: &[f64]| seconds(made, values);
        let curve = |name: &str, ink, values: &[f64]| Curve {
            name: name.into(),
            ink,
            shape: Shape::Line,
            points: over_time(values),
        };
        for workload in heavy(made) {
            curves.push(curve("used", Ink::Held, &workload.cpus));
            if workload.limit_cpus.iter().any(|l| l.is_finite()) {
                curves.push(curve("limit", Ink::Limit, &workload.limit_cpus));
            }
        }
        Panel {
            title: choice.label.clone(),
            curves,
        }
    };
    Plot {
        title: title.into(),
        x: Axis::linear("time since the start of the run, s"),
        y: Axis {
            to: Some(1.1),
            ..Axis::linear("CPUs")
        },
        panels: batch.choices.iter().enumerate().map(panel).collect(),
        reference: None,
        panels_a_row: 3,
        has_own_axes: false,
    }
}

/// Means over a second (ten windows), at the second's beginning.
fn seconds(made: &Made, values: &[f64]) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = made
        .measures
        .series
        .iter()
        .zip(values)
        .map(|(p, v)| (p.at_ms / 1e3, *v))
        .collect();
    let mean = |part: &[(f64, f64)]| {
        let sum: f64 = part.iter().map(|p| p.1).sum();
        (part[0].0, sum / part.len() as f64)
    };
    points.chunks(10).map(mean).collect()
}
