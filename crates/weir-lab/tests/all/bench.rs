// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `weir-lab bench` measure what it says it does?

use crate::{done, weir_lab};
use serde_json::Value;

/// The day in docs/evidence/recordings.md, shorter; `make bench` measures the day itself.
#[test]
fn simulated_hours_are_recorded_queried_and_exported() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hour.weir");
    let file = file.to_str().unwrap();
    let args = [
        "bench",
        "record",
        "thesis-idle",
        "--hours",
        "0.1",
        "--out",
        file,
        "--json",
    ];
    let figures: Value = serde_json::from_str(&done(&args)).unwrap();
    let ticks = figures["ticks"].as_u64().unwrap();
    assert!((359..=360).contains(&ticks), "{figures}");
    let per_hour = figures["bytes_per_workload_hour"].as_f64().unwrap();
    assert!((1e5..8.5e5).contains(&per_hour), "{figures}");
    let database = rusqlite::Connection::open(file).unwrap();
    let sum = |query: &str| -> f64 { database.query_one(query, [], |row| row.get(0)).unwrap() };
    let workloads = sum("SELECT sum(1e-9 * span_ns * bytes_per_sec) FROM workloads");
    let devices =
        "SELECT sum(1e-9 * span_ns * (read_bytes_per_sec + write_bytes_per_sec)) FROM devices";
    let ratio = workloads / sum(devices);
    assert!(
        (ratio - 1.0).abs() < 0.01,
        "parts and whole differ: {ratio}"
    );
    let rows = database.query_one("SELECT count(*) FROM workloads", [], |row| {
        row.get::<_, u64>(0)
    });
    for export in figures["exports"].as_array().unwrap() {
        assert_eq!(
            export["rows"].as_u64(),
            rows.as_ref().ok().copied(),
            "{export}"
        );
    }
}

#[test]
fn the_bench_prints_a_figure_for_each_stage() {
    let printed = done(&[
        "bench",
        "loop",
        "--workloads",
        "10",
        "--iterations",
        "3",
        "--json",
    ]);
    let figures: Value = serde_json::from_str(&printed).unwrap();
    for stage in [
        "observe_cpu_ns",
        "step_cpu_ns",
        "apply_cpu_ns",
        "publish_cpu_ns",
        "total_cpu_ns",
    ] {
        assert!(
            figures[0][stage].as_u64().unwrap() > 0,
            "{stage}: {figures}"
        );
    }
    assert_eq!(figures[0]["workloads_seen"], 10);
}

#[test]
fn a_benchmark_of_nothing_is_refused() {
    for (args, says) in [
        (&["--hours", "0"][..], "above 0"),
        (&["--hours=-1"], "above 0"),
        (&["--hours", "nan"], "above 0"),
        (&["--hours", "inf"], "at most 8784"),
        (&["--hours", "0.0001"], "there is none in it"),
        (&["--hours", "0.01", "--interval", "100us"], "at least 1ms"),
    ] {
        let output = weir_lab(&[&["bench", "record", "thesis-idle"], args].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}
