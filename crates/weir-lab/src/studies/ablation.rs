// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-lab ablation`: what each part of weir brings on one scenario. Each line changes one thing.

use super::{Study, StudyColumn};
use anyhow::Result;
use clap::Args;
use serde_json::Value;
use weir::lab::{Exit, builtin_scenarios, whole};
use weir_sim::{Attribution, ControllerKind, CpuMax, WeirOptions, run};

/// `weir-lab ablation`.
#[derive(Debug, Args)]
pub struct AblationArgs {
    /// Name of a scenario that is built in (`weir sim --list`), or path of a TOML file
    #[arg(default_value = "thesis-limit", value_name = "SCENARIO")]
    pub scenario: String,

    /// How many seeds the means are of
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = whole::<u64>)]
    pub seeds: u64,

    /// Print an array of JSON objects, a key and its unit for each column
    #[arg(long)]
    pub json: bool,
}

fn variants(base: &WeirOptions) -> Vec<(&'static str, ControllerKind)> {
    let with = |change: &dyn Fn(&mut WeirOptions)| {
        let mut options = base.clone();
        change(&mut options);
        ControllerKind::Weir(Box::new(options))
    };
    // 0.31 CPUs each hold five readers near 4 GiB/s.
    let fixed = |period_us: u64| {
        let period_ns = period_us * 1000;
        ControllerKind::Fixed(CpuMax {
            quota_ns: period_ns / 100 * 31,
            period_ns,
        })
    };
    vec![
        ("fixed, period 3.3 ms", fixed(3300)),
        ("fixed, period 5 ms", fixed(5000)),
        ("fixed, period 10 ms", fixed(10_000)),
        ("fixed, period 20 ms", fixed(20_000)),
        ("fixed, period 100 ms", fixed(100_000)),
        ("weir", with(&|_| ())),
        (
            "rewrites do not wait",
            with(&|o| o.waits_for_refill = false),
        ),
        ("refills not moved apart", with(&|o| o.staggers = false)),
        (
            "attribution by sampling",
            with(&|o| o.attribution = Some(Attribution::Sampling)),
        ),
        ("interval 100 ms", with(&|o| o.interval_ms = Some(100))),
        ("interval 20 ms", with(&|o| o.interval_ms = Some(20))),
        (
            "interval 20 ms, faster",
            with(&|o| {
                o.interval_ms = Some(20);
                o.config.min_write_interval_ms = 40;
                (o.config.kp, o.config.ki_per_sec) = (0.6, 2.0);
                o.config.dead_band_ratio = 0.02;
            }),
        ),
        ("period 2 ms", with(&|o| o.period_ms = Some(2))),
        ("period 5 ms", with(&|o| o.period_ms = Some(5))),
        ("period 20 ms", with(&|o| o.period_ms = Some(20))),
        ("period 30 ms", with(&|o| o.period_ms = Some(30))),
        ("no proportional term", with(&|o| o.config.kp = 0.0)),
        ("no integral", with(&|o| o.config.ki_per_sec = 0.0)),
        ("dead band 2 %", with(&|o| o.config.dead_band_ratio = 0.02)),
        ("dead band 15 %", with(&|o| o.config.dead_band_ratio = 0.15)),
        (
            "write interval 100 ms",
            with(&|o| o.config.min_write_interval_ms = 100),
        ),
        (
            "write interval 2 s",
            with(&|o| o.config.min_write_interval_ms = 2000),
        ),
    ]
}

const COLUMNS: [StudyColumn; 5] = [
    StudyColumn("rmse_ratio", "rmse %", 1e2, 1),
    StudyColumn("bias_ratio", "bias %", 1e2, 1),
    StudyColumn("settle_ms", "settle ms", 1.0, 0),
    StudyColumn("p99_per_bound_ratio", "p99/bound", 1.0, 1),
    StudyColumn("line_ns", "line ns", 1.0, 0),
];

/// Runs each and prints a line of means.
///
/// # Errors
/// There is no such scenario, or stdout cannot be written.
pub fn ablation(args: &AblationArgs) -> Result<Exit> {
    let scenario = builtin_scenarios::load(&args.scenario)?.scenario;
    let seeds = args.seeds.max(1);
    let mut rows = Vec::new();
    for (name, variant) in variants(&WeirOptions::default()) {
        eprintln!("{name}, {seeds} seeds");
        let mut sums = [0.0; 5];
        for seed in 1..=seeds {
            let m = run(&scenario, &variant, seed)?;
            let bound = m.little_bound_ns.unwrap_or(f64::NAN);
            let row = [
                m.bandwidth.rmse_ratio,
                m.bandwidth.bias_ratio,
                m.settle_ms.unwrap_or(f64::NAN),
                m.limited_readers.p99_ns.unwrap_or(f64::NAN) / bound,
                m.device_latency.mean_ns.unwrap_or(f64::NAN),
            ];
            sums.iter_mut()
                .zip(row)
                .for_each(|(sum, value)| *sum += value / seeds as f64);
        }
        rows.push((name.to_owned(), sums.map(Value::from)));
    }
    let study = Study {
        title: format!("{}, {seeds} seeds: means", scenario.name),
        varies: "variant",
        columns: &COLUMNS,
        rows,
    };
    study.print(args.json)
}
