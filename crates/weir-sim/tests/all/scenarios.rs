// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every scenario of the repository runs, and wrong ones say what is wrong with them.

use std::path::Path;
use weir_sim::{ControllerKind, Scenario, run};

const SMALL: &str = r#"name = "small"
about = "one reader"
[machine]
cores = 2
[[device]]
profile = "agilex-thesis"
[control]
set_point_bytes_per_sec = 1e9
settle_sec = 0.5
measure_sec = 1.0
[[workload]]
name = "reader"
role = "heavy"
resident_mib = 64
[[workload.phase]]
kind = "access"
block_kib = 256
"#;

#[test]
fn every_scenario_of_the_repository_runs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/sim");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("scenarios").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(entry.path()).expect("a readable file");
        let mut scenario = Scenario::parse(&text, &name).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(format!("{}.toml", scenario.name), name);
        // The thousand are left to the benchmark.
        scenario.control.settle_sec = 0.2;
        scenario.control.measure_sec = 0.5;
        scenario.control.control_from_sec = 0.0;
        scenario.workloads.iter_mut().for_each(|w| w.start_ms = 0);
        for variant in [ControllerKind::None, ControllerKind::weir(&scenario)] {
            let measures = run(&scenario, &variant, 1).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(
                measures.bandwidth.mean_bytes_per_sec > 1e6,
                "{name}: {:?}",
                measures.bandwidth
            );
            assert!(
                measures.bandwidth.mean_bytes_per_sec < 22e9,
                "{name}: {:?}",
                measures.bandwidth
            );
        }
        count += 1;
    }
    assert!(count >= 19, "only {count} scenarios");
}

/// What is replaced by what, and what the error must name.
const WRONG: [(&str, &str, &[&str]); 25] = [
    ("cores = 2", "coers = 2", &["line 4", "coers", "cores"]),
    ("settle_sec = 0.5", "", &["settle_sec"]),
    (
        "cores = 2",
        "cores = 0",
        &["test:4", "machine.cores = 0", "1 to 1024"],
    ),
    (
        "cores = 2",
        "threads_per_core = 8",
        &["test:4", "threads_per_core", "1 to 2"],
    ),
    (
        "cores = 2",
        "smt_speed_ratio = 1.5",
        &["test:4", "smt_speed_ratio = 1.5", "0.5 to 1"],
    ),
    ("cores = 2", "hz = 60", &["test:4", "hz = 60", "250"]),
    (
        "agilex-thesis",
        "abacus",
        &["test:6", "device[0].profile = abacus", "agilex-thesis"],
    ),
    (
        "= 1e9",
        "= -1.0",
        &["test:8", "set_point_bytes_per_sec = -1", "4096"],
    ),
    (
        "role = \"heavy\"",
        "role = \"fat\"",
        &["line 13", "fat", "heavy"],
    ),
    (
        "role = \"heavy\"",
        "role = \"heavy\"\ndevice = 3",
        &["test:14", "workload[0].device = 3", "0 to 0"],
    ),
    (
        "role = \"heavy\"",
        "role = \"heavy\"\ngroup = 1",
        &["test:14", "group = 1", "0 to 0"],
    ),
    (
        "resident_mib = 64\n",
        "",
        &["test:11", "resident_mib", "above 0"],
    ),
    (
        "block_kib = 256",
        "block_kib = 0",
        &["test:17", "workload[0].phase[0].block_kib = 0", "1 to"],
    ),
    (
        "block_kib = 256",
        "block_kib = 256\nmean_us = 5.0",
        &["test:18", "mean_us", "access", "block_kib"],
    ),
    (
        "block_kib = 256",
        "block_kib = 256\nworking_set_mib = 65.0",
        &["test:18", "resident_mib = 64"],
    ),
    (
        "block_kib = 256",
        "block_kib = 256\n[[workload.phase]]\nkind = \"compute\"",
        &["test:15", "for_ms"],
    ),
    ("\"reader\"", "\"a b\"", &["test:12", "a b", "letters"]),
    (
        "[control]",
        "[sensors]\nattribution = \"guess\"\n[control]",
        &["line 8", "guess", "counts", "cpu-time"],
    ),
    (
        "[control]",
        "[sensors]\nattribute = \"cpu-time\"\n[control]",
        &["line 8", "unknown field `attribute`", "`attribution`"],
    ),
    (
        "[[workload]]",
        "[expect.backends.sched-full]\nbias_ratio_max = 0.1\n[[workload]]",
        &["test:11", "backends.sched-full", "sched-ext-full"],
    ),
    (
        "[control]",
        "[sensors]\ncounts_bias_stddev = -1.0\n[control]",
        &["test:8", "sensors.counts_bias_stddev = -1", "0 to 2"],
    ),
    (
        "[[workload]]",
        "[expect.backends.scx-fll]\nbias_ratio_max = 0.1\n[[workload]]",
        &["test:11", "expect.backends.scx-fll", "sched-ext-full"],
    ),
    (
        "[[workload]]",
        "[expect]\nbackends.sched-ext.backends.sched-ext.bias_ratio_max = 0.1\n[[workload]]",
        &[
            "test:12",
            "expect.backends.sched-ext.backends",
            "not deeper",
        ],
    ),
    (
        "[[workload]]",
        "[expect]\nbackends = { sched-ext = { light_reduction_min = 1.5 } }\n[[workload]]",
        &[
            "test:12",
            "expect.backends.sched-ext.light_reduction_min = 1.5",
            "-10 to 1",
        ],
    ),
    (
        "[[workload]]",
        "[expect]\nbias_ratio_max = inf\n[[workload]]",
        &["test:12", "expect.bias_ratio_max = inf", "0 to 10"],
    ),
];

#[test]
fn wrong_scenarios_say_what_is_wrong() {
    assert!(Scenario::parse(SMALL, "test").is_ok());
    for (from, to, says) in WRONG {
        let text = SMALL.replacen(from, to, 1);
        let error = Scenario::parse(&text, "test").expect_err(to).to_string();
        for word in says {
            assert!(error.contains(word), "{to:?} must say {word:?}:\n{error}");
        }
    }
}

/// Every key that a scenario may have, table by table: the reader names them when it meets another one.
fn keys() -> Vec<String> {
    let places = [
        ("name =", "zzz = 1\nname ="),
        ("cores = 2", "cores = 2\nzzz = 1"),
        ("profile =", "zzz = 1\nprofile ="),
        ("settle_sec", "zzz = 1\nsettle_sec"),
        ("role =", "zzz = 1\nrole ="),
        ("block_kib", "zzz = 1\nblock_kib"),
        ("[[workload]]", "[sensors]\nzzz = 1\n[[workload]]"),
        ("[[workload]]", "[[fault]]\nzzz = 1\n[[workload]]"),
        ("[[workload]]", "[expect]\nzzz = 1\n[[workload]]"),
    ];
    let of = |(from, to): (&str, &str)| {
        let text = SMALL.replacen(from, to, 1);
        let said = Scenario::parse(&text, "test").expect_err(to).to_string();
        let (_, allowed) = said
            .split_once("expected ")
            .unwrap_or_else(|| panic!("{said}"));
        let names = allowed.split('`').skip(1).step_by(2).map(str::to_owned);
        names.collect::<Vec<_>>()
    };
    places.into_iter().flat_map(of).collect()
}

#[test]
fn every_key_of_a_scenario_is_documented() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let read = |name: &str| std::fs::read_to_string(docs.join(name)).expect("documentation");
    let pages = read("scenarios.md") + &read("results.md");
    let keys = keys();
    assert!(keys.len() > 55, "{keys:?}");
    for key in keys {
        let words = [
            format!("`{key}`"),
            format!("[{key}]"),
            format!("[[{key}]]"),
            format!("[[workload.{key}]]"),
            format!("[expect.{key}."),
        ];
        assert!(
            words.iter().any(|word| pages.contains(word)),
            "{key} is not documented"
        );
    }
}

/// The live testbed needs 0.2 s: observations come sooner until the device is near its set-point. At the
/// usual pace the second write of the first limits comes after 0.3 s.
#[test]
fn the_set_point_is_reached_before_the_usual_second_write() {
    const LIVE: &str = include_str!("../../../../scenarios/live-fio-stress.toml");
    let scenario = Scenario::parse(LIVE, "live-fio-stress").expect("a scenario");
    for seed in 1..=5 {
        let measures = run(&scenario, &ControllerKind::weir(&scenario), seed).expect("a run");
        let settled = measures.settle_ms.expect("it settles");
        assert!(settled < 250.0, "seed {seed}: after {settled} ms");
    }
}
