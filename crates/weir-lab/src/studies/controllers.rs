// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-lab controllers`: all controllers of the simulator on one scenario, as a table with a line for each
//! seed; weir's scheduler by name only (`weir-sched-ext-full`).

use super::{Study, StudyColumn};
use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;
use std::time::Instant;
use weir::lab::{Exit, builtin_scenarios, whole};
use weir_figures::text::harmless;
use weir_sim::{ControllerKind, RunMetrics, Scenario, run};

const GIB: f64 = 1073741824.0;

/// `weir-lab controllers`.
#[derive(Debug, Args)]
pub struct ControllersArgs {
    /// Name of a scenario that is built in (`weir sim --list`), or path of a TOML file
    #[arg(default_value = "thesis-limit", value_name = "SCENARIO")]
    pub scenario: String,

    /// Which, by the names in the table; also weir-sched-ext, weir-sched-ext-full and weir@RATIO (weight of
    /// limited workloads) [default: none, the thesis's and weir]
    #[arg(value_name = "CONTROLLER")]
    pub controllers: Vec<String>,

    /// How many seeds
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole::<u64>)]
    pub seeds: u64,

    /// Print an array of JSON objects, a key and its unit for each column
    #[arg(long)]
    pub json: bool,
}

/// A controller of this name.
///
/// # Errors
/// There is none.
pub fn named(name: &str, scenario: &Scenario) -> Result<ControllerKind> {
    let found = ControllerKind::named(name, scenario);
    found.with_context(|| {
        let all = ControllerKind::all(scenario);
        let names: Vec<&str> = all.iter().map(ControllerKind::name).collect();
        format!(
            "there is no controller `{}`: use {}, weir-sched-ext or weir-sched-ext-full",
            harmless(name),
            names.join(", ")
        )
    })
}

/// Runs each with each seed and prints a table.
///
/// # Errors
/// There is no such scenario or controller, or stdout cannot be written.
pub fn controllers(args: &ControllersArgs) -> Result<Exit> {
    let scenario = builtin_scenarios::load(&args.scenario)?.scenario;
    let chosen = args.controllers.iter().map(|name| named(name, &scenario));
    let mut all: Vec<ControllerKind> = chosen.collect::<Result<_>>()?;
    if all.is_empty() {
        all = ControllerKind::all(&scenario);
    }
    let mut rows = Vec::new();
    for controller in all {
        for seed in 1..=args.seeds {
            eprintln!("{}, seed {seed} of {}", controller.name(), args.seeds);
            let begun = Instant::now();
            let metrics = run(&scenario, &controller, seed)?;
            let figures = row(seed, &metrics, begun.elapsed().as_secs_f64());
            rows.push((controller.name().to_owned(), figures));
        }
    }
    let study = Study {
        title: format!("{}: {}", scenario.name, scenario.about),
        varies: "controller",
        columns: &COLUMNS,
        rows,
    };
    study.print(args.json)
}

const COLUMNS: [StudyColumn; 20] = [
    StudyColumn("seed", "seed", 1.0, 0),
    StudyColumn("mean_bytes_per_sec", "GiB/s", 1.0 / GIB, 2),
    StudyColumn("stddev_bytes_per_sec", "sd GiB/s", 1.0 / GIB, 2),
    StudyColumn("rmse_ratio", "rmse %", 1e2, 1),
    StudyColumn("bias_ratio", "bias %", 1e2, 1),
    StudyColumn("line_ns", "line ns", 1.0, 0),
    StudyColumn("block_mean_ns", "block µs", 1e-3, 0),
    StudyColumn("block_stddev_ns", "sd µs", 1e-3, 0),
    StudyColumn("block_p99_ns", "p99 µs", 1e-3, 0),
    StudyColumn("cpu_sec_per_gib", "CPU s/GiB", 1.0, 3),
    StudyColumn("throughput_ops_per_sec", "ops/s", 1.0, 0),
    StudyColumn("settle_ms", "settle ms", 1.0, 0),
    StudyColumn("overshoot_ratio", "over %", 1e2, 1),
    StudyColumn("controller_cpus", "ctl %", 1e2, 2),
    StudyColumn("p99_per_bound_ratio", "p99/bound", 1.0, 2),
    StudyColumn("longest_wait_ns", "wait ms", 1e-6, 1),
    StudyColumn("light_p99_ns", "light p99 µs", 1e-3, 0),
    StudyColumn("simulated_sec_per_sec", "speed", 1.0, 0),
    StudyColumn("events", "events", 1.0, 0),
    StudyColumn("solved", "solved", 1.0, 0),
];

fn row(seed: u64, m: &RunMetrics, took: f64) -> [Value; COLUMNS.len()] {
    let bound = m.limited_readers.p99_ns.zip(m.little_bound_ns);
    let waits = m.workloads.iter().map(|w| w.longest_wait_ns);
    [
        seed.into(),
        m.bandwidth.mean_bytes_per_sec.into(),
        m.bandwidth.stddev_bytes_per_sec.into(),
        m.bandwidth.rmse_ratio.into(),
        m.bandwidth.bias_ratio.into(),
        m.device_latency.mean_ns.into(),
        m.limited_readers.mean_ns.into(),
        m.limited_readers.stddev_ns.into(),
        m.limited_readers.p99_ns.into(),
        m.cpu_sec_per_gib.into(),
        m.throughput_ops_per_sec.into(),
        m.settle_ms.into(),
        m.overshoot_ratio.into(),
        m.controller_cpus.into(),
        bound.map(|(p99, bound)| p99 / bound).into(),
        waits.max().into(),
        m.light_reader.p99_ns.into(),
        (m.simulated_sec / took).into(),
        m.events.into(),
        m.solved.into(),
    ]
}
