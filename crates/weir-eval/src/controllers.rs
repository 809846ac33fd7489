// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-eval controllers`: all controllers of the simulator on one scenario, as a table with a line for each
//! seed; weir's scheduler by name only (`weir-sched-ext-full`).

use anyhow::{Context, Result};
use clap::Args;
use std::time::Instant;
use weir::eval::{Exit, builtin_scenarios, harmless, print, whole};
use weir_sim::{ControllerKind, RunMetrics, Scenario, run};

const GIB: f64 = 1073741824.0;

/// `weir-eval controllers`.
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

/// Runs each with each seed and prints a line.
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
    print(&format!(
        "{}: {}\n{}\n",
        scenario.name,
        scenario.about,
        heads()
    ))?;
    for controller in all {
        for seed in 1..=args.seeds {
            let begun = Instant::now();
            let metrics = run(&scenario, &controller, seed)?;
            print(&line(&controller, &metrics, begun.elapsed().as_secs_f64()))?;
        }
    }
    Ok(Exit::Done)
}

fn heads() -> String {
    format!(
        "{:22} {:>6} {:>6} {:>6} {:>6} | {:>6} {:>8} {:>7} {:>8} | {:>6} {:>7} {:>7} {:>6} {:>5} {:>5} {:>7} {:>8} {:>6}",
        "controller",
        "GiB/s",
        "stddev",
        "rmse%",
        "bias%",
        "line",
        "block us",
        "sd us",
        "p99 us",
        "CPU/GiB",
        "ops/s",
        "settle",
        "over%",
        "ctl%",
        "bound",
        "wait ms",
        "light us",
        "speed"
    )
}

fn line(controller: &ControllerKind, m: &RunMetrics, took: f64) -> String {
    let micros = |ns: Option<f64>| ns.map_or(f64::NAN, |ns| ns / 1e3);
    let bound = m.limited_readers.p99_ns.zip(m.little_bound_ns);
    let waits = m.workloads.iter().map(|w| w.longest_wait_ns);
    format!(
        "{:22} {:6.2} {:6.2} {:6.1} {:6.1} | {:6.0} {:8.0} {:7.0} {:8.0} | {:6.3} {:7.0} {:7.0} {:6.1} {:5.2} {:5.2} {:7.1} {:8.0} {:6.0}  ev {} solved {}\n",
        controller.name(),
        m.bandwidth.mean_bytes_per_sec / GIB,
        m.bandwidth.stddev_bytes_per_sec / GIB,
        m.bandwidth.rmse_ratio * 100.0,
        m.bandwidth.bias_ratio * 100.0,
        m.device_latency.mean_ns.unwrap_or(f64::NAN),
        micros(m.limited_readers.mean_ns),
        micros(m.limited_readers.stddev_ns),
        micros(m.limited_readers.p99_ns),
        m.cpu_sec_per_gib.unwrap_or(f64::NAN),
        m.throughput_ops_per_sec.unwrap_or(f64::NAN),
        m.settle_ms.unwrap_or(f64::NAN),
        m.overshoot_ratio.map_or(f64::NAN, |o| o * 100.0),
        m.controller_cpus.map_or(f64::NAN, |c| c * 100.0),
        bound.map_or(f64::NAN, |(p99, bound)| p99 / bound),
        waits.max().unwrap_or(0) as f64 / 1e6,
        micros(m.light_reader.p99_ns),
        m.simulated_sec / took,
        m.events,
        m.solved,
    )
}
