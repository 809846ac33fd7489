// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Servers that hold a quarter of an hour of a small fleet: two simulated hosts, one in trouble, and one that
//! has gone.

use super::queries::{rules, text};
use super::{Answered, STEP_SECS};
use crate::world::desk::{Desk, done};
use crate::world::server::{Kind, Server, free_address, program_of};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Recordings of the simulator begin at 2026-01-01.
pub const START_SECS: u64 = 1_767_225_600;
pub const END_SECS: u64 = START_SECS + 900;
/// Hosts on which all is well.
pub const CALM: [&str; 2] = ["host-a", "host-b"];
/// What runs there: one has two devices, one writes much and has a source of latency.
const SCENARIOS: [(&str, &str); 2] = [
    ("two-devices", ""),
    ("write-heavy", "goal = { latency_ns = 600 }\n"),
];
pub const TROUBLED: &str = "host-c";
/// Its figures end after a minute.
pub const GONE: &str = "host-d";

/// A server, and the rules as Prometheus reads them.
pub struct Filled {
    pub server: Server,
    pub rules: String,
}

impl Filled {
    pub fn prometheus() -> Option<Filled> {
        let promtool = program_of("prometheus", "promtool")?;
        let desk = Desk::new();
        let mut files = fleet();
        let start = |files: &[PathBuf]| {
            let target = free_address();
            Server::start_with(Kind::Prometheus { target }, |dir| {
                put_rules(dir);
                for file in files {
                    import(&promtool, file, &dir.join("data"));
                }
            })
        };
        let server = start(&files)?;
        let rules = server.get("/api/v1/rules", &[])?;
        let filled = Filled { server, rules };
        let recorded = desk.path("recorded.om");
        fs::write(&recorded, filled.recorded()).unwrap();
        files.push(recorded);
        let Filled { rules, .. } = filled;
        let server = start(&files)?;
        Some(Filled { server, rules })
    }

    pub fn victoria_metrics() -> Option<Filled> {
        let Filled { rules, .. } = Filled::rules_only()?;
        let server = Server::start(Kind::VictoriaMetrics)?;
        for file in fleet() {
            put(&server, &fs::read_to_string(file).unwrap());
        }
        let filled = Filled { server, rules };
        put(&filled.server, &filled.recorded());
        Some(filled)
    }

    /// A Prometheus without figures.
    pub fn rules_only() -> Option<Filled> {
        let target = free_address();
        let server = Server::start_with(Kind::Prometheus { target }, put_rules)?;
        let rules = server.get("/api/v1/rules", &[])?;
        Some(Filled { server, rules })
    }

    /// What the recording rules would have recorded meanwhile.
    fn recorded(&self) -> String {
        let mut text = String::new();
        for rule in rules(self).iter().filter(|rule| !rule.is_alert) {
            let found = Answered::over_time(&self.server, &rule.query);
            assert!(found.has_figures(), "{}: {}", rule.name, rule.query);
            for series in &found.0 {
                let labels = series["metric"].as_object().unwrap().iter();
                let labels = labels.filter(|(name, _)| *name != "__name__");
                let labels: Vec<String> = labels
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                for (secs, value) in Answered::points(series) {
                    let labels = labels.join(",");
                    writeln!(text, "{}{{{labels}}} {value} {secs}", rule.name).unwrap();
                }
            }
        }
        text + "# EOF\n"
    }
}

fn put_rules(dir: &Path) {
    fs::create_dir(dir.join("rules")).unwrap();
    for name in ["recording.yml", "alerts.yml"] {
        let rules = text(&format!("packaging/monitoring/{name}"));
        fs::write(dir.join("rules").join(name), rules).unwrap();
    }
}

fn import(promtool: &Path, file: &Path, data: &Path) {
    let output = Command::new(promtool)
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .args([file, data])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", file.display());
}

fn put(server: &Server, text: &str) {
    let taken = server.send("/api/v1/import/prometheus", &[], text);
    assert!(taken.is_some(), "{}", server.log());
    server.get("/internal/force_flush", &[]);
}

/// Files of all hosts, made once for all tests.
fn fleet() -> Vec<PathBuf> {
    static FLEET: OnceLock<(Desk, Vec<PathBuf>)> = OnceLock::new();
    let made = || {
        let desk = Desk::new();
        let files = hosts(&desk);
        (desk, files)
    };
    FLEET.get_or_init(made).1.clone()
}

fn hosts(desk: &Desk) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (host, (scenario, goal)) in CALM.iter().zip(SCENARIOS) {
        let file = desk.text(&format!("{host}.weir"));
        record(scenario, goal, &file);
        let out = desk.path(&format!("{host}.om"));
        let format = ["--format", "openmetrics", "--instance", host];
        let to = ["--out", out.to_str().unwrap()];
        done(&[&["export", &file][..], &format, &to].concat());
        files.push(out);
    }
    let trouble = desk.path("trouble.om");
    fs::write(&trouble, in_trouble()).unwrap();
    files.push(trouble);
    files
}

/// A quarter of an hour and a bit, a tick a second, with limits.
fn record(scenario: &str, goal: &str, file: &str) {
    let lines = done(&["sim", scenario, "--print"]);
    let mut longer = String::new();
    for line in lines.lines() {
        let line = match line.split(" = ").next().unwrap_or_default() {
            "settle_sec" => "settle_sec = 0.0\ninterval_ms = 1000",
            "measure_sec" => "measure_sec = 910.0",
            _ => line,
        };
        longer += &format!("{line}\n");
        if line.starts_with("set_point_bytes_per_sec") {
            longer += goal;
        }
    }
    let path = format!("{file}.toml");
    fs::write(&path, longer).unwrap();
    done(&["sim", &path, "--backend", "cpu-max", "--record", file]);
}

type Series = (&'static str, &'static str, fn(f64) -> f64);

/// What a host in trouble says, by the seconds since the start.
const TROUBLES: [Series; 29] = [
    ("up", "", |_| 0.0),
    ("weir_build_info", "version=\"0.1.0\"", |_| 1.0),
    ("weir_ticks_total", "", |t| t * 20.0),
    ("weir_last_tick_timestamp_seconds", "", |_| {
        START_SECS as f64
    }),
    ("weir_limiting", "", |_| 1.0),
    ("weir_late_ticks_total", "", |t| t * 5.0),
    ("weir_limit_rewrites_total", "", |t| t / 15.0),
    ("weir_loop_cpu_seconds", "", |_| 0.001),
    ("process_start_time_seconds", "", |t| START_SECS as f64 + t),
    ("process_cpu_seconds_total", "", |t| t * 0.01),
    ("process_resident_memory_bytes", "", |_| 3e7),
    ("weir_push_waiting_batches", "", |_| 360.0),
    ("weir_push_dropped_batches_total", "", |t| t / 15.0),
    (
        "weir_cxl_read_bytes_total",
        "device=\"cxl0\",group=\"0\"",
        |t| t * 5e9,
    ),
    (
        "weir_cxl_write_bytes_total",
        "device=\"cxl0\",group=\"0\"",
        |t| t * 1e9,
    ),
    (
        "weir_cxl_unattributed_bytes_total",
        "device=\"cxl0\"",
        |t| t * 2e9,
    ),
    (
        "weir_cxl_set_point_bytes_per_second",
        "device=\"cxl0\"",
        |_| 4e9,
    ),
    ("weir_cxl_unenforceable", "device=\"cxl0\"", |_| 1.0),
    ("weir_cxl_saturated", "device=\"cxl0\"", |_| 1.0),
    (
        "weir_cxl_request_latency_seconds",
        "device=\"cxl0\",source=\"probe\"",
        |t| {
            if t < 60.0 { 3e-7 } else { 2e-6 }
        },
    ),
    (
        "weir_cxl_devload",
        "device=\"cxl0\",weir_cxl_devload=\"light\"",
        |_| 0.0,
    ),
    (
        "weir_cxl_devload",
        "device=\"cxl0\",weir_cxl_devload=\"severe\"",
        |_| 1.0,
    ),
    (
        "weir_cxl_lost_readings_total",
        "device=\"cxl0\",group=\"0\",event=\"read_bytes\"",
        |t| t / 15.0,
    ),
    ("weir_workloads", "why=\"limited\"", |_| 3.0),
    ("weir_workloads", "why=\"not_enforced\"", |_| 2.0),
    ("weir_workloads", "why=\"no_data\"", |_| 1.0),
    (
        "weir_limit_changes_total",
        "change=\"limit\",outcome=\"failed\"",
        |t| t / 15.0,
    ),
    (
        "weir_cgroup_throttled_seconds_total",
        "cgroup=\"/a\"",
        |t| t / 2.0,
    ),
    (
        "weir_cgroup_limited_since_timestamp_seconds",
        "cgroup=\"/a\"",
        |_| START_SECS as f64 - 25_000.0,
    ),
];

/// History of the host in trouble and of the one that goes; and what a server adds to scrapes of the others.
fn in_trouble() -> String {
    is_described();
    let times = || (START_SECS..=END_SECS).step_by(STEP_SECS as usize);
    let mut text = String::new();
    for host in CALM {
        for secs in times() {
            writeln!(text, "up{{job=\"weir\",instance=\"{host}\"}} 1 {secs}").unwrap();
        }
    }
    for (name, labels, value) in TROUBLES {
        let comma = if labels.is_empty() { "" } else { "," };
        for secs in times() {
            let value = value((secs - START_SECS) as f64);
            let labels = format!("job=\"weir\",instance=\"{TROUBLED}\"{comma}{labels}");
            writeln!(text, "{name}{{{labels}}} {value} {secs}").unwrap();
        }
    }
    // VictoriaMetrics shows a series from its second sample on.
    for secs in (START_SECS - 300..START_SECS + 60).step_by(STEP_SECS as usize) {
        writeln!(
            text,
            "weir_ticks_total{{job=\"weir\",instance=\"{GONE}\"}} 7 {secs}"
        )
        .unwrap();
    }
    text + "# EOF\n"
}

/// No name is made up: each is one of weir's metrics.
fn is_described() {
    let page = text("docs/reference/json-and-metrics.md");
    let names: BTreeSet<&str> = TROUBLES.iter().map(|(name, ..)| *name).collect();
    for name in names.into_iter().filter(|name| *name != "up") {
        assert!(page.contains(&format!("| `{name}` |")), "no metric {name}");
    }
}
