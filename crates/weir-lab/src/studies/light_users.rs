// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-lab light-users`: what control does to light users, and how exact the bandwidths are that weir
//! gives workloads. Blocks of light readers of all seeds are taken together, because the 99th percentile of
//! one run hangs on a few waits for a CPU.

use super::{Study, StudyColumn};
use anyhow::Result;
use clap::Args;
use serde_json::Value;
use weir::lab::{Exit, builtin_scenarios, whole};
use weir_core::seam::plan::ActionKind;
use weir_core::{Observation, Plan};
use weir_scenario::simulated::Role;
use weir_sim::{ControllerKind, Histogram, Scenario, run_watched};

/// `weir-lab light-users`.
#[derive(Debug, Args)]
pub struct LightUsersArgs {
    /// Name of a scenario that is built in (`weir sim --list`), or path of a TOML file
    #[arg(default_value = "phases", value_name = "SCENARIO")]
    pub scenario: String,

    /// Controllers, as `weir-lab controllers` names them
    #[arg(default_values = ["none", "weir"], value_name = "CONTROLLER")]
    pub controllers: Vec<String>,

    /// How many seeds are taken together
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = whole::<u64>)]
    pub seeds: u64,

    /// Print an array of JSON objects, a key and its unit for each column
    #[arg(long)]
    pub json: bool,
}

#[derive(Default)]
struct Sums {
    blocks: Histogram,
    by_seed_us: Vec<f64>,
    light_limits: usize,
    errors: Vec<f64>,
    rmse: f64,
    bias: f64,
}

/// Runs each controller and prints a line.
///
/// # Errors
/// There is no such scenario or controller, or stdout cannot be written.
pub fn light_users(args: &LightUsersArgs) -> Result<Exit> {
    let scenario = builtin_scenarios::load(&args.scenario)?.scenario;
    let seeds = args.seeds.max(1);
    let mut rows = Vec::new();
    for name in &args.controllers {
        let controller = crate::studies::controllers::named(name, &scenario)?;
        let mut sums = Sums::default();
        for seed in 1..=seeds {
            eprintln!("{name}, seed {seed} of {seeds}");
            add(&mut sums, &scenario, &controller, seed)?;
        }
        rows.push((name.clone(), row(&sums, seeds as f64)));
    }
    let study = Study {
        title: String::new(),
        varies: "controller",
        columns: &COLUMNS,
        rows,
    };
    study.print(args.json)
}

const COLUMNS: [StudyColumn; 8] = [
    StudyColumn("light_mean_ns", "light mean µs", 1e-3, 0),
    StudyColumn("light_p50_ns", "p50 µs", 1e-3, 0),
    StudyColumn("light_p99_ns", "p99 µs", 1e-3, 0),
    StudyColumn("light_limits", "limits", 1.0, 0),
    StudyColumn("estimate_error_ratio", "estimate %", 1e2, 1),
    StudyColumn("rmse_ratio", "RMSE %", 1e2, 1),
    StudyColumn("bias_ratio", "bias %", 1e2, 1),
    StudyColumn("light_p99_by_seed_us", "p99 µs by seed", 1.0, 0),
];

fn add(
    sums: &mut Sums,
    scenario: &Scenario,
    variant: &ControllerKind,
    seed: u64,
) -> Result<(), weir_sim::SimError> {
    let mut limited: Vec<String> = Vec::new();
    let measures = run_watched(
        scenario,
        variant,
        seed,
        &mut |_: &Observation, plan: &Plan| {
            let limits = plan.actions.iter();
            let limits = limits.filter(|a| matches!(a.kind, ActionKind::Limit(_)));
            limited.extend(limits.map(|a| a.workload.as_str().to_owned()));
        },
    )?;
    let lights = measures.workloads.iter().filter(|w| w.role == Role::Light);
    for light in lights {
        let id = format!("/sim.slice/{}.scope", light.name);
        sums.light_limits += limited.iter().filter(|l| **l == id).count();
    }
    sums.blocks.merge(&measures.light_blocks);
    let p99 = measures.light_reader.p99_ns;
    sums.by_seed_us.extend(p99.map(|ns| (ns / 1e3).round()));
    sums.errors.extend(measures.estimate_error_ratio.values());
    sums.rmse += measures.bandwidth.rmse_ratio;
    sums.bias += measures.bandwidth.bias_ratio;
    Ok(())
}

fn row(sums: &Sums, seeds: f64) -> [Value; COLUMNS.len()] {
    let error = sums.errors.iter().sum::<f64>() / sums.errors.len() as f64;
    [
        sums.blocks.mean_ns().into(),
        sums.blocks.quantile_ns(0.5).into(),
        sums.blocks.quantile_ns(0.99).into(),
        sums.light_limits.into(),
        error.into(),
        (sums.rmse / seeds).into(),
        (sums.bias / seeds).into(),
        sums.by_seed_us.clone().into(),
    ]
}
