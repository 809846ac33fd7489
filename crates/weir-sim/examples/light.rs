// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What control does to light users, and how exact the bandwidths are that weir gives workloads: `cargo run
//! --release -p weir-sim --example light -- scenarios/sim/phases.toml [SEEDS] [VARIANT…]`. Blocks of light
//! readers of all seeds are taken together, because the 99th percentile of one run hangs on a few waits for a
//! CPU.

use weir_core::seam::plan::ActionKind;
use weir_core::{Observation, Plan};
use weir_scenario::simulated::Role;
use weir_sim::{ControllerKind, Histogram, Scenario, run_watched};

/// Sums over seeds.
#[derive(Default)]
struct Sums {
    blocks: Histogram,
    by_seed_us: Vec<f64>,
    light_limits: usize,
    errors: Vec<f64>,
    rmse: f64,
    bias: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .unwrap_or("scenarios/sim/phases.toml".into());
    let seeds: u64 = arguments.next().map_or(Ok(5), |n| n.parse())?;
    let mut names: Vec<String> = arguments.collect();
    if names.is_empty() {
        names = ["none", "weir"].map(String::from).to_vec();
    }
    let scenario = Scenario::parse(&std::fs::read_to_string(&path)?, &path)?;
    println!(
        "variant       light us: mean    p50    p99 | limits | estimate % | RMSE %  bias % | p99 by seed"
    );
    for name in names {
        let variant =
            ControllerKind::named(&name, &scenario).ok_or(format!("no variant {name}"))?;
        let mut sums = Sums::default();
        for seed in 1..=seeds {
            add(&mut sums, &scenario, &variant, seed)?;
        }
        print(&name, &sums, seeds as f64);
    }
    Ok(())
}

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

fn print(name: &str, sums: &Sums, seeds: f64) {
    let micros = |ns: Option<f64>| ns.map_or(f64::NAN, |ns| ns / 1e3);
    let error = sums.errors.iter().sum::<f64>() / sums.errors.len() as f64;
    println!(
        "{name:16} {:12.0} {:6.0} {:6.0} | {:6} | {:10.1} | {:6.1} {:7.1} | {:?}",
        micros(sums.blocks.mean_ns()),
        micros(sums.blocks.quantile_ns(0.5)),
        micros(sums.blocks.quantile_ns(0.99)),
        sums.light_limits,
        error * 100.0,
        sums.rmse / seeds * 100.0,
        sums.bias / seeds * 100.0,
        sums.by_seed_us,
    );
}
