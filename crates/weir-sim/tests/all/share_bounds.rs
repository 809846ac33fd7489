// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bounds of `scenarios/fairness`, and what means over a run do not show: windows of 10 and 100 ms.

use std::path::{Path, PathBuf};
use weir_sim::{ControllerKind, RunMetrics, Scenario, SharesVariant, run};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/fairness")
}

fn read(path: &Path) -> Scenario {
    let text = std::fs::read_to_string(path).expect("a scenario");
    Scenario::parse(&text, &path.display().to_string()).unwrap_or_else(|e| panic!("{e}"))
}

fn named(name: &str) -> Scenario {
    read(&folder().join(format!("{name}.toml")))
}

fn shared(scenario: &Scenario, variant: SharesVariant) -> RunMetrics {
    run(scenario, &ControllerKind::Shares(variant), 1).unwrap_or_else(|e| panic!("{e}"))
}

fn worst_error(metrics: &RunMetrics) -> f64 {
    let errors = metrics.shares.values().filter_map(|s| s.error_ratio);
    errors.map(f64::abs).fold(0.0, f64::max)
}

/// The same bounds as `weir sim FILE --check`, in shorter runs.
#[test]
fn scenarios_of_shares_keep_their_bounds() {
    let mut bounds = 0;
    for entry in std::fs::read_dir(folder()).expect("scenarios").flatten() {
        let mut scenario = read(&entry.path());
        (scenario.control.settle_sec, scenario.control.measure_sec) = (1.0, 3.0);
        for (name, variant) in SharesVariant::ALL {
            let own = scenario.expect.backends.get(name);
            let Some(most) = own.and_then(|own| own.share_error_ratio_max) else {
                continue;
            };
            let error = worst_error(&shared(&scenario, variant));
            assert!(error <= most, "{}, {name}: {error}", scenario.name);
            bounds += 1;
        }
    }
    assert!(bounds >= 35, "only {bounds} bounds");
}

/// Of windows of 100 ms, relative to the mean.
fn scatter(series: &[f64]) -> f64 {
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    let squares: f64 = series.iter().map(|x| (x - mean).powi(2)).sum();
    (squares / series.len() as f64).sqrt() / mean
}

#[test]
fn parts_of_a_memory_hardly_scatter() {
    for name in ["5-2-1-2", "5-5-1-1", "5-5-5-1", "5-6", "5-7"] {
        let metrics = shared(&named(&format!("drfqs-{name}")), SharesVariant::Both);
        let users = metrics.workloads.iter();
        for user in users.filter(|w| w.bytes_per_sec.iter().any(|b| *b > 0.0)) {
            let scatter = scatter(&user.bytes_per_sec[20..]);
            assert!(scatter <= 0.03, "{name}, {}: {scatter}", user.name);
        }
    }
}

/// Two copies and a disk that begins after a second. `at_ms` after that begins a window of 10 ms; of each
/// copy what it has in it ÷ what it has in the mean later.
fn after_a_disk_begins(variant: SharesVariant, at_ms: u64) -> [f64; 2] {
    let mut scenario = named("drfqs-5-5-1-1");
    scenario.workloads[0].count = 2;
    scenario.workloads[1].start_ms = 1000;
    scenario.workloads[1].spread_ms = 0.0;
    let mut bytes = |settle_ms: u64, measure_ms: u64| {
        scenario.control.settle_sec = settle_ms as f64 / 1e3;
        scenario.control.measure_sec = measure_ms as f64 / 1e3;
        let uses = shared(&scenario, variant).uses;
        [uses[0].all_bytes(), uses[1].all_bytes()]
    };
    let (soon, later) = (bytes(1000 + at_ms, 10), bytes(1500, 1000));
    [soon[0] / later[0], soon[1] / later[1]]
}

/// From 50 ms after a DMA stream began others are within a tenth of their shares.
#[test]
fn shares_are_soon_right_after_a_disk_begins() {
    for at_ms in [50, 60, 80, 150] {
        for ratio in after_a_disk_begins(SharesVariant::Both, at_ms) {
            assert!((ratio - 1.0).abs() <= 0.1, "{at_ms} ms: {ratio}");
        }
    }
}

/// While a gate is shut, the memory that its users want gives what it is held at.
#[test]
fn a_shut_gate_leaves_nothing_unused() {
    for name in ["drfqs-5-2-1-2", "drfqs-cap"] {
        let scenario = named(name);
        let metrics = shared(&scenario, SharesVariant::Source);
        assert!(metrics.gate_stops > Some(0), "{name}");
        let least = metrics.series.iter().skip(20).map(|p| p.bytes_per_sec);
        let least = least.fold(f64::INFINITY, f64::min);
        let part = least / scenario.control.set_point_bytes_per_sec;
        assert!(part >= 0.97, "{name}: {part}");
    }
}
