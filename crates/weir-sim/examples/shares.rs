// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shares of each workload in scenarios, by controller: the rows of `docs/evidence/fairness-sim.md`.
//!
//! ```text
//! cargo run --release -p weir-sim --example shares -- CONTROLLER,… SCENARIO.toml…
//! ```

use weir_sim::{ControllerKind, RunMetrics, Scenario, run};

fn main() {
    if let Err(why) = tables() {
        eprintln!("shares: {why}");
        std::process::exit(1);
    }
}

fn tables() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let names = arguments
        .next()
        .ok_or("CONTROLLER,… and scenarios are needed")?;
    for path in arguments {
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        let scenario = Scenario::parse(&text, &path).map_err(|e| e.to_string())?;
        println!("\n{}: {}", scenario.name, scenario.about);
        for name in names.split(',') {
            let kind = match name {
                "none" => Some(ControllerKind::None),
                name => ControllerKind::named(name, &scenario),
            };
            let kind = kind.ok_or_else(|| format!("there is no controller {name}"))?;
            let metrics = run(&scenario, &kind, 1).map_err(|e| e.to_string())?;
            print(name, &metrics);
        }
    }
    Ok(())
}

fn print(name: &str, metrics: &RunMetrics) {
    let mean = metrics.bandwidth.mean_bytes_per_sec / 1048576.0;
    println!("  {name}: {mean:.0} MiB/s, {} mixes", metrics.solved);
    for (workload, shares) in &metrics.shares {
        let series = metrics.workloads.iter().find(|w| w.name == *workload);
        let (bytes, scatter) = series.map_or((0.0, 0.0), |s| mean_and_scatter(&s.bytes_per_sec));
        println!(
            "    {workload:<12} weight {:>5} {:>6.0} MiB/s ± {:>4.1} %  cpu {:.4} dram {:.4} cxl {:.4} dma {:.4}  \
             dominant {} {:.4}",
            shares.weight,
            bytes / 1048576.0,
            scatter * 100.0,
            shares.cpu_ratio,
            shares.dram_ratio,
            shares.cxl_ratio,
            shares.dma_ratio,
            shares.dominant,
            shares.dominant_ratio,
        );
    }
}

/// Of windows of 100 ms, without the first tenth.
fn mean_and_scatter(series: &[f64]) -> (f64, f64) {
    let series = &series[series.len() / 10..];
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    let squares: f64 = series.iter().map(|x| (x - mean).powi(2)).sum();
    (
        mean,
        (squares / series.len() as f64).sqrt() / mean.max(1e-9),
    )
}
