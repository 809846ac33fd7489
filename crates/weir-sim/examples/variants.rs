// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All variants on one scenario, as a table: `cargo run --release -p weir-sim --example variants --
//! scenarios/sim/thesis-limit.toml [SEEDS] [VARIANT…]`; weir's scheduler by name only
//! (`weir-sched-ext-full`).

use std::time::Instant;
use weir_sim::{ControllerKind, RunMetrics, Scenario, run};

const GIB: f64 = 1073741824.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .unwrap_or("scenarios/sim/thesis-limit.toml".into());
    let seeds: u64 = arguments.next().map_or(Ok(1), |n| n.parse())?;
    let chosen: Vec<String> = arguments.collect();
    let scenario = Scenario::parse(&std::fs::read_to_string(&path)?, &path)?;
    println!("{}: {}", scenario.name, scenario.about);
    println!(
        "{:22} {:>6} {:>6} {:>6} {:>6} | {:>6} {:>8} {:>7} {:>8} | {:>6} {:>7} {:>7} {:>6} {:>5} {:>5} {:>7} {:>8} {:>6}",
        "variant",
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
    );
    let named =
        |name: &String| ControllerKind::named(name, &scenario).ok_or(format!("no variant {name}"));
    let mut variants: Vec<ControllerKind> = chosen.iter().map(named).collect::<Result<_, _>>()?;
    if variants.is_empty() {
        variants = ControllerKind::all(&scenario);
    }
    for variant in variants {
        for seed in 1..=seeds {
            let begun = Instant::now();
            let measures = run(&scenario, &variant, seed)?;
            print(&variant, &measures, begun.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

fn print(variant: &ControllerKind, m: &RunMetrics, took: f64) {
    let micros = |ns: Option<f64>| ns.map_or(f64::NAN, |ns| ns / 1e3);
    let bound = m.limited_readers.p99_ns.zip(m.little_bound_ns);
    let waits = m.workloads.iter().map(|w| w.longest_wait_ns);
    println!(
        "{:22} {:6.2} {:6.2} {:6.1} {:6.1} | {:6.0} {:8.0} {:7.0} {:8.0} | {:6.3} {:7.0} {:7.0} {:6.1} {:5.2} {:5.2} {:7.1} {:8.0} {:6.0}  ev {} solved {}",
        variant.name(),
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
    );
}
