// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scheduler of shares: dominant-resource fairness over CPUs, DRAM and CXL, and the DRFQS thesis's rules
//! on the same machine.

use crate::fair_runs::{folder, kept, scenario, shared, worst_error};
use weir_sim::{ControllerKind, RunMetrics, Scenario, SharesVariant, run};

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
    metrics.shares[name].dominant_ratio.unwrap_or(f64::NAN)
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
        let name = format!("drfqs-5-2-{a}-{b}");
        for (variant, most) in [(SharesVariant::Both, 0.01), (SharesVariant::Thesis, 0.02)] {
            let error = ratio_error(&kept(&name, variant), (a, b));
            assert!(error.abs() < most, "{a}:{b} {variant:?} {error}");
        }
    }
    let ours = ratio_error(&kept("drfqs-cap", SharesVariant::Both), (1.0, 2.0));
    let theirs = ratio_error(&kept("drfqs-cap", SharesVariant::Thesis), (1.0, 2.0));
    assert!(ours.abs() < 0.02, "{ours}");
    assert!(theirs > 0.5, "{theirs}");
}

/// Figure 5.6: by formula 0.2297 for each of the five. No gate shuts: the memory is not saturated.
#[test]
fn a_copy_beside_work_that_computes_has_the_same_dominant_share() {
    let metrics = kept("drfqs-5-6", SharesVariant::Both);
    for name in ["mbw", "sjeng-1", "sjeng-4"] {
        let got = dominant(&metrics, name);
        assert!((got / 0.2297 - 1.0).abs() < 0.01, "{name} {got}");
    }
}

/// What a disk moves counts while its task sleeps, and it goes on behind a gate or a controller of rates.
#[test]
fn a_disk_has_its_part_of_the_memory() {
    for weight in [1.0, 3.0, 5.0] {
        let name = format!("drfqs-5-5-{weight}-1");
        for variant in [SharesVariant::Both, SharesVariant::Source] {
            let metrics = kept(&name, variant);
            let error = rate(&metrics, "mbw") / rate(&metrics, "fio") / weight - 1.0;
            assert!(error.abs() < 0.02, "{weight} {variant:?} {error}");
        }
    }
}

/// Neither padded traffic nor more threads nor finer phases give a workload more of what it is there for. A
/// disk in place of loads gives it as much as its neighbours have, which all gain by the CPU that it leaves.
#[test]
fn no_behaviour_gains() {
    let useful = |name: &str, variant, ratio: f64| {
        ratio * rate(&kept(&format!("honest-{name}"), variant), "x")
    };
    let honest = useful("stream", SharesVariant::Both, 1.0);
    for (name, ratio) in [("padding", 0.8), ("threads", 1.0), ("spin", 1.0)] {
        let got = useful(name, SharesVariant::Both, ratio);
        assert!(got < 1.01 * honest, "{name}: {got} {honest}");
    }
    let gain = |variant| useful("finer", variant, 1.0) / useful("alternate", variant, 1.0);
    assert!(gain(SharesVariant::Both) < 1.01);
    assert!(gain(SharesVariant::Thesis) > 1.1);
    let disk = kept("honest-dma", SharesVariant::Both);
    assert!((rate(&disk, "x") / rate(&disk, "mem-1") - 1.0).abs() < 0.01);
}

/// Why a disk in place of loads gives more on four CPUs: it leaves CPU time. With CPUs to spare it gives
/// nothing.
#[test]
fn a_disk_gains_only_where_cpus_are_short() {
    let useful = |name: &str| {
        let mut scenario = scenario(name);
        scenario.machine.cores = 8;
        rate(&shared(&scenario, SharesVariant::Both), "x")
    };
    let gain = useful("honest-dma") / useful("honest-stream");
    assert!(gain < 1.01, "{gain}");
}

/// Whatever its weight, a task waits for two seconds and the turns of others that are late.
#[test]
fn no_task_starves() {
    for tasks in [10, 100, 1000] {
        let mut scenario = scenario(&format!("starve-{tasks}"));
        scenario.control.measure_sec = 9.0;
        let metrics = shared(&scenario, SharesVariant::Both);
        let longest = metrics.workloads.iter().map(|w| w.longest_wait_ns).max();
        let longest_ms = longest.unwrap() / 1_000_000;
        assert!(
            (1_900..2_500).contains(&longest_ms),
            "{tasks}: {longest_ms} ms"
        );
    }
}

/// The scheduler alone holds shares and loses bandwidth; rates alone do not know the CPUs.
#[test]
fn each_half_alone_lacks_something() {
    let error = |name: &str, variant| {
        let metrics = kept(name, variant);
        let mean = metrics.bandwidth.mean_bytes_per_sec;
        (worst_error(&metrics), mean)
    };
    let (both, _) = error("four-ways", SharesVariant::Both);
    let (target, _) = error("four-ways", SharesVariant::Target);
    assert!(both < 0.02 && target > 0.2, "{both} {target}");
    let (both, fast) = error("drfqs-5-2-1-2", SharesVariant::Both);
    let (source, slow) = error("drfqs-5-2-1-2", SharesVariant::Source);
    assert!(both < 0.02 && source < 0.02, "{both} {source}");
    assert!(slow < 0.95 * fast, "{slow} {fast}");
}

/// While no memory is saturated no gate shuts.
#[test]
fn none_waits_at_a_memory_that_is_not_saturated() {
    for name in ["drfqs-5-6", "drfqs-5-7", "drfqs-alone-mbw"] {
        let metrics = kept(name, SharesVariant::Both);
        assert_eq!(metrics.gate_stops, Some(0), "{name}");
    }
    let full = kept("drfqs-5-2-1-2", SharesVariant::Source);
    assert!(full.gate_stops > Some(10), "{:?}", full.gate_stops);
}

/// A memory of which the capacity is wrong is charged wrongly; CPUs are shared out all the same.
#[test]
fn a_capacity_far_too_large_leaves_shares_of_cpus() {
    let mut scenario = scenario("drfqs-5-6");
    scenario.devices[0].capacity_bytes_per_sec = Some(1e13);
    let metrics = shared(&scenario, SharesVariant::Both);
    for name in ["mbw", "sjeng-1"] {
        let got = metrics.shares[name].cpu_ratio.unwrap_or(f64::NAN);
        assert!((got / 0.2 - 1.0).abs() < 0.02, "{name} {got}");
    }
}

/// What is replaced by what in a scenario with DRAM and a disk, and what the error must name.
#[test]
fn wrong_memories_and_disks_say_what_is_wrong() {
    let text = std::fs::read_to_string(folder().join("drfqs-5-5-1-1.toml")).expect("a scenario");
    let wrong: [(&str, &str, &[&str]); 8] = [
        ("lpddr2-1066", "agilex-thesis", &["profile", "lpddr2-1066"]),
        ("entries = 128", "entries = 2", &["entries", "4 to 1024"]),
        (
            "order = \"fr-fcfs\"",
            "order = \"lifo\"",
            &["lifo", "fr-lvtf"],
        ),
        (
            "capacity_bytes_per_sec = 4e9",
            "capacity_bytes_per_sec = 0.0",
            &["capacity"],
        ),
        (
            "capacity_bytes_per_sec = 4e9",
            "groups = 2",
            &["groups", "one group"],
        ),
        ("disk = 0", "disk = 3", &["disk", "1 [[disk]]"]),
        ("lines_out = 64", "lines_out = 0", &["lines_out"]),
        ("kind = \"dram\"", "kind = \"cxl\"", &["dram", "only for"]),
    ];
    for (from, to, parts) in wrong {
        assert!(text.contains(from), "{from}");
        let said = Scenario::parse(&text.replacen(from, to, 1), "test");
        let said = said.expect_err(to).to_string();
        for part in parts {
            assert!(said.contains(part), "{to}: {said}");
        }
    }
}

/// A run is the same for the same seed.
#[test]
fn a_run_can_be_repeated() {
    let again = shared(&scenario("drfqs-5-5-2-1"), SharesVariant::Both);
    assert!(*kept("drfqs-5-5-2-1", SharesVariant::Both) == again);
}
