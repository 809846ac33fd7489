// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shares of each workload in scenarios, by controller: the rows of `docs/evidence/fairness-sim.md`.
//!
//! ```text
//! cargo run --release -p weir-sim --example shares -- CONTROLLER,… [--cores N] [--without NAME,…] SCENARIO.toml…
//! ```
//!
//! `--cores` and `--without` change the scenarios: another machine, or without some workloads.

use std::collections::BTreeMap;
use weir_sim::{ControllerKind, RunMetrics, Scenario, UsePerSec, run, uses_alone};

fn main() {
    if let Err(why) = tables() {
        eprintln!("shares: {why}");
        std::process::exit(1);
    }
}

#[derive(Default)]
struct Changes {
    cores: Option<u32>,
    without: Vec<String>,
}

impl Changes {
    /// Takes an option and its value; false if this is none.
    fn take(
        &mut self,
        option: &str,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<bool, String> {
        let mut value = || rest.next().ok_or(format!("{option} needs a value"));
        match option {
            "--cores" => {
                let cores = value()?;
                self.cores = Some(cores.parse().map_err(|e| format!("--cores {cores}: {e}"))?);
            }
            "--without" => self.without = value()?.split(',').map(str::to_owned).collect(),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn apply(&self, scenario: &mut Scenario) -> Result<(), String> {
        if let Some(cores) = self.cores {
            scenario.machine.cores = cores;
        }
        for name in &self.without {
            let before = scenario.workloads.len();
            scenario.workloads.retain(|workload| workload.name != *name);
            if scenario.workloads.len() == before {
                return Err(format!("{} has no workload {name}", scenario.name));
            }
        }
        Ok(())
    }
}

fn tables() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let names = arguments
        .next()
        .ok_or("CONTROLLER,… and scenarios are needed")?;
    let mut changes = Changes::default();
    while let Some(path) = arguments.next() {
        if changes.take(&path, &mut arguments)? {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        let mut scenario = Scenario::parse(&text, &path).map_err(|e| e.to_string())?;
        changes.apply(&mut scenario)?;
        println!("\n{}: {}", scenario.name, scenario.about);
        let alone = uses_alone(&scenario, 1).map_err(|e| e.to_string())?;
        for name in names.split(',') {
            let kind = match name {
                "none" => Some(ControllerKind::None),
                name => ControllerKind::named(name, &scenario),
            };
            let kind = kind.ok_or_else(|| format!("there is no controller {name}"))?;
            let metrics = run(&scenario, &kind, 1).map_err(|e| e.to_string())?;
            print(name, &metrics, &alone);
        }
    }
    Ok(())
}

fn print(name: &str, metrics: &RunMetrics, alone: &BTreeMap<String, UsePerSec>) {
    let mean = metrics.bandwidth.mean_bytes_per_sec / MIB;
    let errors = metrics.shares.values().filter_map(|s| s.error_ratio);
    let worst = errors.map(f64::abs).fold(0.0, f64::max) * 100.0;
    let waits = metrics.workloads.iter().map(|w| w.longest_wait_ns).max();
    let windows = metrics.series.iter().map(|point| point.bytes_per_sec);
    let least = windows.skip(WARM_WINDOWS).fold(f64::INFINITY, f64::min);
    println!(
        "  {name}: {mean:.0} MiB/s, least in 100 ms {:.0}, {} stops at gates, worst error {worst:.2} %, \
         reads p99 {:.0} ns, longest wait {} ms",
        least / MIB,
        metrics.gate_stops.unwrap_or(0),
        metrics.device_latency.p99_ns.unwrap_or(0.0),
        waits.unwrap_or(0) / 1_000_000
    );
    if metrics.shares.len() > 12 {
        return;
    }
    for (workload, shares) in &metrics.shares {
        let series = metrics.workloads.iter().find(|w| w.name == *workload);
        let scatter = series.map_or(0.0, |s| scatter(&s.bytes_per_sec));
        let found = metrics.uses.iter().find(|u| u.name == *workload);
        let used = found.map_or(0.0, UsePerSec::all_bytes);
        let before = alone.get(workload).map_or(0.0, UsePerSec::all_bytes);
        println!(
            "    {workload:<8} weight {:>5} {:>5.0} MiB/s ± {:>4.1} %, {:.2} x slower  cpu {:.4} dram {:.4} \
             cxl {:.4} dma {:.4}  {} {:.4} target {:.4} error {:+.2} %",
            shares.weight,
            used / MIB,
            scatter * 100.0,
            if used > 0.0 { before / used } else { 1.0 },
            shares.cpu_ratio.unwrap_or_default(),
            shares.dram_ratio.unwrap_or_default(),
            shares.cxl_ratio.unwrap_or_default(),
            shares.dma_ratio.unwrap_or_default(),
            shares.dominant.as_deref().unwrap_or("-"),
            shares.dominant_ratio.unwrap_or_default(),
            shares.target_ratio.unwrap_or(0.0),
            shares.error_ratio.unwrap_or(0.0) * 100.0,
        );
    }
}

const MIB: f64 = 1048576.0;
/// Windows of 100 ms before the measured time.
const WARM_WINDOWS: usize = 20;

/// Scatter of windows of 100 ms, without the first two seconds or half of all.
fn scatter(series: &[f64]) -> f64 {
    let series = &series[WARM_WINDOWS.min(series.len() / 2)..];
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    let squares: f64 = series.iter().map(|x| (x - mean).powi(2)).sum();
    (squares / series.len() as f64).sqrt() / mean.max(1e-9)
}
