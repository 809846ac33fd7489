// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of made-up results with known figures.

mod bounds;
mod closing;
mod figures;
mod origin;
mod picture;
mod plots;
mod profile;
mod written;

use super::*;
use crate::results::{Bandwidth, Caveat, Latency, LimitedLatency, Origin, Point, Run};

const MIB: f64 = 1048576.0;

fn subject() -> ScenarioInfo {
    ScenarioInfo {
        about: "nothing ran".into(),
        seed: 7,
        capacity_bytes_per_sec: 64e9 / 675.0,
        set_point_bytes_per_sec: 36.0 * MIB,
        settle_sec: 2.0,
        measure_sec: 8.0,
        toml: "name = \"made-up\"\nset_point_ratio = 0.4\n".into(),
        expect: Expect {
            bias_ratio_max: Some(0.03),
            rmse_ratio_max: Some(0.07),
            device_latency_reduction_min: Some(0.4),
            light_reduction_min: Some(0.3),
            limited_p99_per_bound_max: Some(3.0),
            cpu_cost_reduction_min: Some(0.3),
            throughput_gain_min: Some(0.1),
            ..Expect::default()
        },
    }
}

/// A run with latencies that are multiples of one number.
fn run(policy: &str, mean_mib: f64, latency_ns: f64) -> Run {
    let latency = |scale: f64| Latency {
        mean_ns: Some(scale * latency_ns),
        stddev_ns: Some(scale * latency_ns * 0.5),
        p50_ns: Some(scale * latency_ns * 0.8),
        p99_ns: Some(scale * latency_ns * 4.0),
    };
    let set_point = 36.0 * MIB;
    let point = |i: u32| Point {
        at_ms: f64::from(i) * 100.0,
        bytes_per_sec: (mean_mib + f64::from(i % 3)) * MIB,
    };
    Run {
        world: "vm".into(),
        policy: policy.into(),
        backend: if policy == "none" { "none" } else { "cpu-max" }.into(),
        set_point_bytes_per_sec: set_point,
        seed: 7,
        bandwidth: Bandwidth::of(&[(mean_mib - 1.0) * MIB, (mean_mib + 1.0) * MIB], set_point),
        device_latency: latency(1.0),
        light_reader: latency(100.0),
        limited_readers: LimitedLatency {
            latency: latency(1000.0),
            little_bound_ns: Some(latency_ns * 2000.0),
        },
        cpu_sec_per_gib: Some(latency_ns / 100.0),
        throughput_ops_per_sec: Some(1e6 / latency_ns),
        settle_ms: Some(400.0),
        overshoot_ratio: Some(0.05),
        series: (0..100).map(point).collect(),
        ..Run::default()
    }
}

/// Results without control (72 MiB/s and 20 µs) and with it (36.36 MiB/s and 10 µs): half of everything.
fn results() -> Results {
    let mut free = run("none", 72.0, 20_000.0);
    (free.settle_ms, free.overshoot_ratio) = (None, None);
    for name in ["settle_ms", "overshoot_ratio"] {
        free.missing
            .insert(name.into(), "nothing is controlled in this run".into());
    }
    Results {
        scenario: "made-up".into(),
        runs: vec![free, run("max-min", 36.36, 10_000.0)],
        ..Results::default()
    }
}
