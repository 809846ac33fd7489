// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which part of weir's controller brings what: one part changed at a time, the same scenarios and seeds.

use super::context::{EvalContext, command, number, of_run, slim, text};
use anyhow::Result;
use serde_json::json;
use weir::lab::batch::{self, Batch};
use weir::lab::controllers::Choice;
use weir_core::units::GIB;
use weir_figures::{Cell, Part, Section, Table};
use weir_sim::{Attribution, ControllerKind, WeirOptions};

/// What is changed, by name.
type AblationChange = (&'static str, fn(&mut WeirOptions));

const CHANGES: [AblationChange; 17] = [
    ("as it is", |_| ()),
    ("no feedback (kp = ki = 0)", |o| {
        (o.config.kp, o.config.ki_per_sec) = (0.0, 0.0)
    }),
    ("no integral (ki = 0)", |o| o.config.ki_per_sec = 0.0),
    ("no proportional part (kp = 0)", |o| o.config.kp = 0.0),
    ("rewrites at once, not at the refill", |o| {
        o.waits_for_refill = false
    }),
    ("refills not moved apart", |o| o.staggers = false),
    ("neither of both", |o| {
        (o.waits_for_refill, o.staggers) = (false, false)
    }),
    ("no dead band", |o| o.config.dead_band_ratio = 0.0),
    ("dead band 3 %", |o| o.config.dead_band_ratio = 0.03),
    ("rewrites as often as it looks", |o| {
        o.config.min_write_interval_ms = 0
    }),
    ("period 2 ms", |o| o.period_ms = Some(2)),
    ("period 5 ms", |o| o.period_ms = Some(5)),
    ("period 20 ms", |o| o.period_ms = Some(20)),
    ("period 100 ms", |o| o.period_ms = Some(100)),
    ("looks every 150 ms", |o| o.interval_ms = Some(150)),
    ("intensity not smoothed", |o| o.config.intensity_alpha = 1.0),
    ("attributes by bad samples", |o| {
        o.attribution = Some(Attribution::Sampling)
    }),
];

/// Where the parts are judged: steady load, and load that comes and goes.
const SCENARIOS: [&str; 2] = ["thesis-limit", "on-off"];

pub fn ablation(context: &mut EvalContext) -> Result<Section> {
    let mut parts = vec![text(
        "One part of weir's controller changed at a time, all else as it is; means over the seeds. A part that changes nothing here may still be \
         needed elsewhere.",
    )];
    let mut figures = serde_json::Map::new();
    for name in SCENARIOS {
        let loaded = context.scenario(name)?;
        let choice = |(label, change): &AblationChange| {
            let ControllerKind::Weir(mut options) = ControllerKind::weir(&loaded.scenario) else {
                return Choice::of(ControllerKind::None);
            };
            change(&mut options);
            let mut choice = Choice::of(ControllerKind::Weir(options));
            (*label).clone_into(&mut choice.label);
            choice
        };
        let choices: Vec<Choice> = CHANGES.iter().map(choice).collect();
        let batch = batch::run(&loaded, &choices, &context.seeds, slim)?;
        let (table, values) = table(&batch);
        figures.insert(name.into(), values.into());
        parts.push(Part::Table(table));
    }
    context.figures.insert("ablation", figures.into());
    parts.push(command("weir-lab thesis"));
    Ok(Section::new(
        "ablation",
        "What each part of the controller brings",
        parts,
    ))
}

fn table(batch: &Batch) -> (Table, Vec<serde_json::Value>) {
    let mut rows = Vec::new();
    let mut values = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let rmse = of_run(batch, i, |r| Some(r.bandwidth.rmse_ratio * 1e2));
        let bias = of_run(batch, i, |r| Some(r.bandwidth.bias_ratio * 1e2));
        let mean = of_run(batch, i, |r| Some(r.bandwidth.mean_bytes_per_sec / GIB));
        let starved = of_run(batch, i, |r| {
            Some(r.limited_readers.latency.p99_ns? / r.limited_readers.little_bound_ns?)
        });
        let settles = of_run(batch, i, |r| Some(r.settle_ms? / 1e3));
        let cost = of_run(batch, i, |r| r.cpu_sec_per_gib);
        let middle = |r: Option<[f64; 3]>| r.map(|r| r[1]);
        rows.push(vec![
            Cell::words(&choice.label),
            number(middle(mean), 2),
            number(middle(rmse), 1),
            number(rmse.map(|r| r[0]), 1),
            number(rmse.map(|r| r[2]), 1),
            number(middle(bias), 1),
            number(middle(starved), 1),
            number(middle(settles), 1),
            number(middle(cost), 3),
        ]);
        values.push(json!({
            "change": choice.label,
            "rmse_percent": rmse, "bias_percent": bias, "mean_gib_per_sec": mean,
            "limited_p99_per_bound": starved, "settle_sec": settles, "cpu_sec_per_gib": cost,
        }));
    }
    let table = Table::new(
        format!("{}: {}", batch.scenario.name, batch.scenario.about),
        &[
            "",
            "GiB/s",
            "RMSE, %",
            "lowest",
            "highest",
            "bias, %",
            "p99 ÷ bound",
            "settles, s",
            "s/GiB",
        ],
        rows,
    );
    (table, values)
}
