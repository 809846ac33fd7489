// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bounds of `scenarios/fairness`, and what means over a run do not show: windows of 10 and 100 ms.

use crate::fair_runs::{folder, kept, scenario, shared, worst_error};
use weir_sim::{ControllerKind, RunMetrics, SharesVariant, UsePerSec, run};

/// The same bounds as `weir sim FILE --check`, in shorter runs.
#[test]
fn scenarios_of_shares_keep_their_bounds() {
    let mut bounds = 0;
    for entry in std::fs::read_dir(folder()).expect("scenarios").flatten() {
        let path = entry.path();
        let name = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .expect("a name");
        let expect = scenario(name).expect;
        for (controller, variant) in SharesVariant::ALL {
            let own = expect.backends.get(controller);
            let Some(most) = own.and_then(|own| own.share_error_ratio_max) else {
                continue;
            };
            let error = worst_error(&kept(name, variant));
            assert!(error <= most, "{name}, {controller}: {error}");
            bounds += 1;
        }
    }
    assert!(bounds >= 35, "only {bounds} bounds");
}

/// Scatter of windows of 100 ms, relative to the mean.
fn scatter(series: &[f64]) -> f64 {
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    let squares: f64 = series.iter().map(|x| (x - mean).powi(2)).sum();
    (squares / series.len() as f64).sqrt() / mean
}

#[test]
fn parts_of_a_memory_hardly_scatter() {
    for name in ["5-2-1-2", "5-5-1-1", "5-5-5-1", "5-6", "5-7"] {
        let metrics = kept(&format!("drfqs-{name}"), SharesVariant::Both);
        let users = metrics.workloads.iter();
        for user in users.filter(|w| w.bytes_per_sec.iter().any(|b| *b > 0.0)) {
            let scatter = scatter(&user.bytes_per_sec[20..]);
            assert!(scatter <= 0.03, "{name}, {}: {scatter}", user.name);
        }
    }
}

/// Bytes of two copies in a window of milliseconds, per second; a disk begins beside them after one second.
fn copies_beside_a_disk(from_ms: u64, measure_ms: u64) -> [f64; 2] {
    let mut scenario = scenario("drfqs-5-5-1-1");
    scenario.workloads[0].count = 2;
    scenario.workloads[1].start_ms = 1000;
    scenario.workloads[1].spread_ms = 0.0;
    scenario.control.settle_sec = from_ms as f64 / 1e3;
    scenario.control.measure_sec = measure_ms as f64 / 1e3;
    let uses = shared(&scenario, SharesVariant::Both).uses;
    [uses[0].all_bytes(), uses[1].all_bytes()]
}

/// From 50 ms after a DMA stream began others are within a tenth of their shares.
#[test]
fn shares_are_soon_right_after_a_disk_begins() {
    let later = copies_beside_a_disk(1500, 1000);
    for at_ms in [50, 60, 80, 150] {
        let soon = copies_beside_a_disk(1000 + at_ms, 10);
        for (soon, later) in soon.iter().zip(later) {
            assert!(
                (soon / later - 1.0).abs() <= 0.1,
                "{at_ms} ms: {soon} of {later}"
            );
        }
    }
}

/// Least bytes per second in a window of 100 ms while gates alone hold shares.
fn least_behind_gates(name: &str) -> f64 {
    let metrics = kept(name, SharesVariant::Source);
    assert!(metrics.gate_stops > Some(0), "{name}");
    let windows = metrics.series.iter().skip(20).map(|p| p.bytes_per_sec);
    windows.fold(f64::INFINITY, f64::min)
}

/// While a gate is shut, the memory that its users want gives what it is held at.
#[test]
fn a_shut_gate_leaves_nothing_unused() {
    for name in ["drfqs-5-2-1-2", "drfqs-cap"] {
        let set_point = scenario(name).control.set_point_bytes_per_sec;
        let part = least_behind_gates(name) / set_point;
        assert!(part >= 0.97, "{name}: {part}");
    }
}

/// Why a memory gives less than its set-point in 5.5, 3:1: the copy cannot fill it while the disk waits, and
/// the disk has to wait for most of the time. What that leaves is given.
#[test]
fn a_shut_gate_leaves_what_others_cannot_use() {
    let rates = |metrics: &RunMetrics| -> Vec<f64> {
        metrics.uses.iter().map(UsePerSec::all_bytes).collect()
    };
    let free = |name: &str| {
        let metrics = run(&scenario(name), &ControllerKind::None, 1);
        rates(&metrics.unwrap_or_else(|e| panic!("{e}")))
    };
    let (alone, beside) = (free("drfqs-alone-mbw")[0], free("drfqs-5-5-3-1"));
    // The disk's part of time at which the copy has three times its bytes.
    let part = alone / (3.0 * beside[1] + alone - beside[0]);
    let whole = alone + part * (beside[0] + beside[1] - alone);
    let set_point = scenario("drfqs-5-5-3-1").control.set_point_bytes_per_sec;
    assert!(whole < 0.97 * set_point, "{whole}");
    let least = least_behind_gates("drfqs-5-5-3-1");
    assert!(least >= 0.97 * whole, "{least} of {whole}");
}
