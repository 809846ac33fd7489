// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scheduler of shares: dominant-resource fairness over CPUs, DRAM and CXL, and the DRFQS thesis's rules
//! on the same machine.

use std::path::Path;
use weir_sim::{ControllerKind, RunMetrics, Scenario, SharesVariant, run};

fn scenario(name: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/fairness");
    let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).expect("a scenario");
    let mut scenario = Scenario::parse(&text, name).unwrap_or_else(|e| panic!("{e}"));
    scenario.control.settle_sec = 1.0;
    scenario.control.measure_sec = 3.0;
    scenario
}

fn shared(scenario: &Scenario, variant: SharesVariant) -> RunMetrics {
    run(scenario, &ControllerKind::Shares(variant), 1).unwrap_or_else(|e| panic!("{e}"))
}

fn plain(name: &str) -> RunMetrics {
    run(&scenario(name), &ControllerKind::None, 1).unwrap_or_else(|e| panic!("{e}"))
}

/// Bytes of a memory that a workload had per second, without the first windows.
fn rate(metrics: &RunMetrics, name: &str) -> f64 {
    let found = metrics.workloads.iter().find(|w| w.name == name);
    let series = &found.unwrap_or_else(|| panic!("no {name}")).bytes_per_sec[10..];
    series.iter().sum::<f64>() / series.len() as f64
}

fn dominant(metrics: &RunMetrics, name: &str) -> f64 {
    metrics.shares[name].dominant_ratio
}

/// Ratio of two workloads' bytes ÷ ratio of their weights − 1.
fn ratio_error(metrics: &RunMetrics, weights: (f64, f64)) -> f64 {
    rate(metrics, "a") / rate(metrics, "b") / (weights.0 / weights.1) - 1.0
}

/// The plant: alone and together without control, as the thesis has them.
#[test]
fn the_machine_is_the_thesis_s() {
    let mib = 1048576.0;
    let (mbw, fio) = (plain("drfqs-alone-mbw"), plain("drfqs-alone-fio"));
    let (mbw, fio) = (rate(&mbw, "mbw") / mib, rate(&fio, "fio") / mib);
    assert!((mbw / 2700.0 - 1.0).abs() < 0.01, "{mbw}");
    assert!((fio / 2000.0 - 1.0).abs() < 0.01, "{fio}");
    let both = plain("drfqs-5-5-1-1");
    let slowed = mbw / (rate(&both, "mbw") / mib);
    assert!((1.7..2.1).contains(&slowed), "{slowed}");
    assert!(rate(&both, "fio") / mib > 0.97 * fio);
}

/// Figures 5.1 and 5.2, by both; and where the thesis's cap forgives debt, by ours alone.
#[test]
fn two_copies_share_the_memory_by_weight() {
    let weights = [(1.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0)];
    for (a, b) in weights {
        let scenario = scenario(&format!("drfqs-5-2-{a}-{b}"));
        for (variant, most) in [(SharesVariant::Both, 0.01), (SharesVariant::Thesis, 0.02)] {
            let error = ratio_error(&shared(&scenario, variant), (a, b));
            assert!(error.abs() < most, "{a}:{b} {variant:?} {error}");
        }
    }
    let cap = scenario("drfqs-cap");
    let ours = ratio_error(&shared(&cap, SharesVariant::Both), (1.0, 2.0));
    let theirs = ratio_error(&shared(&cap, SharesVariant::Thesis), (1.0, 2.0));
    assert!(ours.abs() < 0.02, "{ours}");
    assert!(theirs > 0.5, "{theirs}");
}

/// Figure 5.6: by formula 0.2297 for each of the five. No gate shuts: the memory is not saturated.
#[test]
fn a_copy_beside_work_that_computes_has_the_same_dominant_share() {
    let metrics = shared(&scenario("drfqs-5-6"), SharesVariant::Both);
    for name in ["mbw", "sjeng-1", "sjeng-4"] {
        let got = dominant(&metrics, name);
        assert!((got / 0.2297 - 1.0).abs() < 0.01, "{name} {got}");
    }
}

/// What a disk moves counts while its task sleeps, and it goes on behind a gate or a controller of rates.
#[test]
fn a_disk_has_its_part_of_the_memory() {
    for weight in [1.0, 3.0, 5.0] {
        let scenario = scenario(&format!("drfqs-5-5-{weight}-1"));
        for variant in [SharesVariant::Both, SharesVariant::Source] {
            let metrics = shared(&scenario, variant);
            let error = rate(&metrics, "mbw") / rate(&metrics, "fio") / weight - 1.0;
            assert!(error.abs() < 0.02, "{weight} {variant:?} {error}");
        }
    }
}

/// A run is the same for the same seed.
#[test]
fn a_run_can_be_repeated() {
    let scenario = scenario("drfqs-5-5-2-1");
    let (first, second) = (
        shared(&scenario, SharesVariant::Both),
        shared(&scenario, SharesVariant::Both),
    );
    assert!(first == second);
}
