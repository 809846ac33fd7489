// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metrics, by a page of them: name, type, unit and meaning stand in it, labels are those of its samples.

use super::page::{cell, code, table};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use weir_core::seam::plan::Outcome;
use weir_core::seam::snapshot::{Delivery, SelfCost, Snapshot};
use weir_core::{Bytes, Nanos, Observation, Plan, WorkloadId};
use weir_store::metrics::{Dialect, OwnProcess, Totals, metrics};

/// A table of all metrics, in the order of the page.
pub fn section() -> String {
    let page = page();
    let labels = labels(&page);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in page.lines() {
        let mut words = line.splitn(4, ' ').skip(1);
        let (Some(what), Some(name), Some(text)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        match what {
            "TYPE" => rows.push(row_of(name, text, &labels)),
            "UNIT" => set(&mut rows, 2, cell(text)),
            "HELP" => set(&mut rows, 4, cell(text)),
            _ => {}
        }
    }
    table(&["metric", "type", "unit", "labels", "meaning"], rows)
}

fn row_of(name: &str, kind: &str, labels: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let sample = match kind {
        "counter" => format!("{name}_total"),
        "info" => format!("{name}_info"),
        _ => name.to_owned(),
    };
    let labels = labels
        .get(&sample)
        .unwrap_or_else(|| panic!("{sample}: no sample"));
    let shown: Vec<String> = labels.iter().map(|label| code(label)).collect();
    let shown = if shown.is_empty() {
        "–".into()
    } else {
        shown.join(", ")
    };
    vec![
        code(&sample),
        kind.to_owned(),
        "–".into(),
        shown,
        String::new(),
    ]
}

fn set(rows: &mut [Vec<String>], column: usize, text: String) {
    if let Some(row) = rows.last_mut() {
        row[column] = text;
    }
}

/// Labels of each sample's name. Values in this page have no comma and no brace.
fn labels(page: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').expect("a sample");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let known = found.entry(name.to_owned()).or_default();
        let names = labels
            .trim_end_matches('}')
            .split(',')
            .filter_map(|l| Some(l.split_once('=')?.0));
        for label in names {
            if !known.iter().any(|known| known == label) {
                known.push(label.to_owned());
            }
        }
    }
    found
}

/// A page on which each metric has a sample.
fn page() -> String {
    let (snapshot, totals) = sample();
    let own = OwnProcess {
        cpu: Nanos(1),
        resident: Some(Bytes(1)),
        address_space: Some(Bytes(1)),
        open_fds: Some(1),
        max_fds: Some(1),
        start_unix_secs: Some(1.0),
        server_restarts: Some(1),
    };
    metrics(&snapshot, &totals, Some(&own), Dialect::OpenMetrics)
}

/// A tick that has all that metrics are made of. Made of JSON, in which what is not said has its default.
fn sample() -> (Snapshot, Totals) {
    let id = json!({ "device": 0, "index": 0 });
    let reading = |value: u64| json!({ "at": 1, "value": { "Ok": value } });
    let pod = "pod2f4c1a7e-0b1d-4c3e-9f5a-6b7c8d9e0f1a";
    let container = "0d1f".repeat(16);
    let workloads = [
        format!("/kubepods/{pod}/{container}"),
        "/machine.slice/machine-vm.scope".to_owned(),
    ];
    let mut totals = Totals::default();
    let mut snapshot = Snapshot::empty();
    for (tick, provenance) in ["counted", "sampled", "apportioned"]
        .into_iter()
        .enumerate()
    {
        let way = json!({ "bytes_per_sec": 5e8, "provenance": provenance });
        let decided = |id: &String| {
            json!({
                "id": id, "bandwidth": { "bytes_per_sec": 1e9, "provenance": provenance }, "limit_cpus": 0.5,
                "throttled_ns": 1, "why": { "why": "learning" }, "allowed_bytes_per_sec": 1e9,
                "traffic": { "read": way, "write": way, "age_ns": 0 },
            })
        };
        let seen = |id: &String| {
            json!({
                "id": id, "kind": "cgroup", "cpu_ns": reading(1), "throttled_ns": reading(1), "uses": [], "weight": 100.0,
            })
        };
        let at = tick * 1_000_000_000;
        let observation: Observation = of_json(json!({
            "seq": 0, "at": at, "latencies": [], "skipped": [],
            "groups": [{ "id": id, "read_bytes": reading(64), "write_bytes": reading(64) }],
            "workloads": workloads.iter().map(seen).collect::<Vec<_>>(),
        }));
        let state = json!({
            "id": 0, "set_point_bytes_per_sec": 4e9, "correction_ratio": 1.0, "unattributed_bytes_per_sec": 1e6,
        });
        let plan: Plan = of_json(json!({
            "seq": 0, "at": at, "devices": [state], "actions": [],
            "workloads": workloads.iter().map(decided).collect::<Vec<_>>(),
        }));
        let outcomes: Vec<Outcome> = Vec::new();
        totals.add(&observation, &plan, &outcomes);
        snapshot.plan = plan;
    }
    snapshot.description = of_json(json!({
        "kernel": "", "cpu_count": 1, "facts": [],
        "devices": [{
            "id": 0, "name": "cxl", "counter_mask_bytes": u64::MAX, "capacity_bytes_per_sec": 1e10,
            "counted_by": "unknown",
        }],
        "groups": [{ "id": id, "node": 2, "size_bytes": 1 }],
    }));
    snapshot.latencies = of_json(json!([{ "id": 0, "mean_ns": reading(300), "source": "probe" }]));
    snapshot.pod_names = of_json(json!({
        "pods": { pod.trim_start_matches("pod"): { "namespace": "shop", "pod": "web-0" } },
        "containers": { container: "app" },
    }));
    totals.follow_pod_names(&snapshot.pod_names);
    snapshot.devload = of_json(json!([{
        "id": 0, "load": { "at": 1, "value": { "Ok": "light" } },
    }]));
    let limited = workloads.iter().map(|id| (WorkloadId::new(id.as_str()), 1));
    snapshot.limited_since_unix_ms = limited.collect();
    snapshot.push = Some(Delivery::default());
    snapshot.limit_rewrites_total = Some(0);
    snapshot.self_cost = Some(SelfCost::default());
    (snapshot, totals)
}

fn of_json<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn each_metric_has_a_row_with_type_unit_and_labels() {
    let text = section();
    for row in [
        "| `weir_cxl_read_bytes_total` | counter | bytes | `device`, `group`, `node` | Bytes read",
        "| `weir_cgroup_cxl_bytes_total` | counter | bytes | `cgroup`, `namespace`, `pod`, `container`, `pod_uid`, `container_id`, `source`, `machine` | ",
        "| `weir_limiting` | gauge | – | – | ",
        "| `weir_source_info` | info | – | `device`, `backend`, `quality` | ",
        "| `weir_push_sent_batches_total` | counter | ",
        "| `weir_loop_cpu_seconds` | gauge | seconds | ",
    ] {
        assert!(text.contains(row), "no row `{row}` in\n{text}");
    }
    let families = page()
        .lines()
        .filter(|line| line.starts_with("# TYPE "))
        .count();
    assert_eq!(text.lines().count(), families + 2);
}

/// The keys of a snapshot are described by hand: each stands on the page.
#[test]
fn each_key_of_a_snapshot_stands_on_the_page() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/json-and-metrics.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let snapshot = serde_json::to_value(sample().0).expect("JSON");
    let (plan, workload) = (&snapshot["plan"], &snapshot["plan"]["workloads"][0]);
    let parts = [
        &snapshot,
        plan,
        &plan["devices"][0],
        workload,
        &snapshot["self_cost"],
    ];
    let keys = parts
        .iter()
        .flat_map(|part| part.as_object().expect("an object").keys());
    let missing: Vec<&String> = keys
        .filter(|key| !page.contains(&format!("`{key}`")) && !page.contains(&format!("`{key}[]`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
