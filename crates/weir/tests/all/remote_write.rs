// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--push-format remote-write` to a real Prometheus and a real VictoriaMetrics: they know the figures of the
//! lines of `--json`, and that a weir process that ended has none any more.

use crate::world::server::{Kind, Server, free_address};
use crate::world::{HEAVY, World};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;

/// Values of a series by the time of their samples, in milliseconds.
type Samples = BTreeMap<i64, f64>;

fn answer(server: &Server, query: &str) -> Vec<Value> {
    server.get("/internal/force_flush", &[]);
    let text = server.get("/api/v1/query", &[("query", query), ("nocache", "1")]);
    let answer: Value = serde_json::from_str(&text.unwrap_or_else(|| "{}".into())).unwrap();
    let result = answer["data"]["result"].as_array();
    result.cloned().unwrap_or_default()
}

fn samples(server: &Server, selector: &str) -> Samples {
    let found = answer(server, &format!("{selector}[10m]"));
    assert!(found.len() <= 1, "{selector}: {found:?}");
    let each = found
        .iter()
        .flat_map(|series| series["values"].as_array().unwrap());
    let sample = |point: &Value| {
        let time_ms = (point[0].as_f64().unwrap() * 1e3).round() as i64;
        (time_ms, point[1].as_str().unwrap().parse().unwrap())
    };
    each.map(sample).collect()
}

/// Each sample is that of the tick of its time.
fn taken(server: &Server) {
    let world = World::new();
    let url = format!("http://{}/api/v1/write", server.address);
    let limiting = ["run", "--limit", "--set-point", "300MiB/s", "--json"];
    let push = [
        "--push",
        &url,
        "--push-format",
        "remote-write",
        "--push-interval",
        "1s",
    ];
    let daemon = world.start(&[&limiting[..], &push].concat());
    let limit = format!(
        "weir_cgroup_limit_cpus{{job=\"weir\",cgroup=\"{}\"}}",
        HEAVY[0]
    );
    world.wait("a limit has three samples", || {
        samples(server, &limit).len() >= 3
    });
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("pushed ") && !ended.stderr.contains("dropped"),
        "{}",
        ended.stderr
    );
    let mut limits: BTreeMap<i64, Option<f64>> = BTreeMap::new();
    for line in ended.stdout.lines() {
        let tick: Value = serde_json::from_str(line).unwrap();
        let all = tick["plan"]["workloads"].as_array().unwrap();
        let heavy = all.iter().find(|workload| workload["id"] == HEAVY[0]);
        let limit = heavy.and_then(|heavy| heavy["limit_cpus"].as_f64());
        limits.insert(tick["wall_unix_ms"].as_i64().unwrap(), limit);
    }
    let found = samples(server, &limit);
    assert!(found.len() >= 3, "{found:?}");
    for (time_ms, found) in found {
        let limit = limits[&time_ms].unwrap();
        // VictoriaMetrics rounds to 14 digits or so.
        assert!(
            (found - limit).abs() <= 1e-12 * limit,
            "at {time_ms}: {found}, not {limit}"
        );
    }
    assert!(!samples(server, "process_cpu_seconds_total{job=\"weir\"}").is_empty());
    world.wait("the series have ended", || {
        answer(server, "weir_ticks_total").is_empty()
    });
}

#[test]
fn prometheus_takes_what_is_written() {
    let target = free_address();
    if let Some(server) = Server::start(Kind::Prometheus { target }) {
        taken(&server);
    }
}

#[test]
fn victoria_metrics_takes_what_is_written() {
    if let Some(server) = Server::start(Kind::VictoriaMetrics) {
        taken(&server);
    }
}
