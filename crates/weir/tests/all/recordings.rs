// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is what `weir run` saw and decided in the recording, whatever ends it?

use crate::world::desk::{Desk, as_kept, complaint, done};
use crate::world::{HEAVY, LIGHT, World, long_name, stderr};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;

/// Records a run that limits, and gives what it printed.
fn recorded(desk: &Desk, name: &str) -> String {
    let world = World::new();
    let file = desk.text(name);
    let limit = ["run", "--limit", "--set-point", "300MiB/s", "--json"];
    let daemon = world.start(&[&limit[..], &["--record", &file]].concat());
    world.wait("it limits", || {
        world.snapshot().to_string().contains("\"limited\"")
    });
    world.wait_for_ticks(20);
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("recorded in"), "{}", ended.stderr);
    ended.stdout
}

#[test]
fn a_replay_prints_what_the_run_printed() {
    let desk = Desk::new();
    let printed = recorded(&desk, "a.weir");
    let file = desk.text("a.weir");
    assert!(
        printed.lines().count() >= 20 && printed.contains("\"limited\""),
        "{printed}"
    );
    let as_kept = |text: &str| text.lines().map(as_kept).collect::<Vec<Value>>();
    let replayed = done(&["replay", &file]);
    assert!(
        as_kept(&printed) == as_kept(&replayed),
        "the replay differs"
    );
    // A recording has them once, as they were at its start.
    let facts = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["description"]["facts"].clone()
    };
    let at_start = facts(printed.lines().next().unwrap());
    assert!(at_start.as_array().is_some_and(|facts| !facts.is_empty()));
    assert!(replayed.lines().all(|line| facts(line) == at_start));
    assert!(printed.contains("\"processes\":") && !replayed.contains("\"processes\":"));
    assert!(
        !desk.path("a.weir-wal").exists(),
        "one file is left at the end"
    );
    let checked = done(&["replay", &file, "--check"]);
    assert!(
        checked.contains("each plan is the recorded one"),
        "{checked}"
    );
}

#[test]
fn another_policy_and_set_point_decide_otherwise_on_what_was_seen() {
    let desk = Desk::new();
    let file = desk.text("a.weir");
    let world = World::new();
    world.weir_for_ticks(40, &["record", &file, "--interval", "50ms"]);
    let replayed = done(&[
        "replay",
        &file,
        "--set-point",
        "100MiB/s",
        "--policy",
        "proportional",
    ]);
    let last: Value = serde_json::from_str(replayed.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["limiting"], &last["policy"]),
        (&true.into(), &"proportional".into())
    );
    assert_eq!(
        last["plan"]["devices"][0]["set_point_bytes_per_sec"],
        104_857_600.0
    );
    let limits = last["plan"]["workloads"].as_array().unwrap();
    assert!(
        limits.iter().any(|v| v["limit_cpus"].is_number()),
        "{replayed}"
    );
    let plain = done(&["replay", &file]);
    assert!(
        !plain.contains("\"limit_cpus\":0."),
        "no workload was limited then"
    );
}

#[test]
fn figures_are_those_of_the_machine() {
    let desk = Desk::new();
    let file = desk.text("a.weir");
    let world = World::new();
    let daemon = world.start(&["record", &file, "--interval", "100ms"]);
    let at = || world.snapshot()["plan"]["at"].as_f64();
    let mut first = None;
    world.wait("more than four seconds are recorded", || {
        let now = at();
        first = first.or(now);
        now.zip(first)
            .is_some_and(|(now, first)| now > first + 4.5e9)
    });
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code, Some(0));
    let csv = done(&["export", &file]);
    let mut lines = csv.lines();
    let titles: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| titles.iter().position(|title| *title == name).unwrap();
    let rates = |workload: &str| -> Vec<f64> {
        let rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let of = rows.filter(|row| row[column("workload")] == workload);
        // The first span has the first tick in it, which has no rate.
        of.skip(1)
            .map(|row| row[column("bytes_per_sec")].parse().unwrap())
            .collect()
    };
    let mean = |workload: &str| {
        let found = rates(workload);
        assert!(found.len() >= 2, "{csv}");
        found.iter().sum::<f64>() / found.len() as f64
    };
    let light = mean(LIGHT) / 0.05;
    for heavy in HEAVY {
        let found = mean(heavy) / light;
        assert!(
            (found - 1.0).abs() < 0.1,
            "by CPU, {heavy} has {found} of the light one"
        );
    }
    let devices = done(&["export", &file, "--table", "devices", "--format", "jsonl"]);
    let last: Value = serde_json::from_str(devices.lines().last().unwrap()).unwrap();
    let (read, write) = (&last["read_bytes_per_sec"], &last["write_bytes_per_sec"]);
    let ratio = read.as_f64().unwrap() / write.as_f64().unwrap();
    assert!(
        (ratio - 3.0).abs() < 0.1,
        "three quarters are reads: {devices}"
    );
    let part = done(&["export", &file, "--from", "2s", "--to", "3s"]);
    assert!(
        part.lines().count() < csv.lines().count() && part.lines().count() > 1,
        "{part}"
    );
    let influx = done(&["export", &file, "--format", "influx"]);
    assert!(
        influx.starts_with("weir_workload,session=1,workload=/"),
        "{influx}"
    );
    let out = desk.text("a.parquet");
    done(&["export", &file, "--format", "parquet", "--out", &out]);
    assert!(fs::read(&out).unwrap().starts_with(b"PAR1"));
    let said = complaint(&["export", &file, "--json", "--format", "openmetrics"]);
    assert!(said.contains("leave --format out"), "{said}");
    let again = complaint(&["export", &file, "--format", "parquet", "--out", &out]);
    assert!(
        again.contains("exists: give another name, or delete it"),
        "{again}"
    );
}

#[test]
fn a_kill_loses_at_most_the_last_interval() {
    let desk = Desk::new();
    let file = desk.text("a.weir");
    let world = World::new();
    let mut daemon = world.start(&["run", "--json", "--interval", "200ms", "--record", &file]);
    world.wait_for_ticks(15);
    daemon.signal(Signal::KILL);
    let _ = daemon.child.wait();
    let printed = daemon.end().stdout;
    // The kill may have torn the last line.
    let whole = printed.lines().filter(|line| line.ends_with('}'));
    let printed: Vec<Value> = whole.map(as_kept).collect();
    let replayed = done(&["replay", &file]);
    let replayed: Vec<Value> = replayed.lines().map(as_kept).collect();
    let common = printed.len().min(replayed.len());
    assert!(
        printed[..common] == replayed[..common],
        "a tick is not as it was printed"
    );
    assert!(
        printed.len() - common <= 1,
        "{} ticks were printed and {} recorded",
        printed.len(),
        replayed.len()
    );
    let info = done(&["record", &file, "--info"]);
    assert!(info.contains("no end: weir was killed"), "{info}");
    let output = world.weir(&["record", &file, "--interval", "100ms", "--duration", "1s"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let info: Value = serde_json::from_str(&done(&["record", &file, "--info", "--json"])).unwrap();
    assert_eq!(info["sessions"].as_array().unwrap().len(), 2, "{info}");
}

#[test]
fn two_recorders_do_not_mix() {
    let desk = Desk::new();
    let file = desk.text("a.weir");
    let world = World::new();
    let daemon = world.start(&["run", "--record", &file]);
    world.wait("it records", || desk.path("a.weir-wal").exists());
    let second = world.weir(&["run", "--duration", "1s", "--record", &file]);
    assert_eq!(second.status.code(), Some(75));
    assert!(
        stderr(&second).contains("another weir is recording"),
        "{}",
        stderr(&second)
    );
    assert!(
        !done(&["record", &file, "--info"]).is_empty(),
        "readers are not kept out"
    );
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code, Some(0));
}

#[test]
fn hostile_names_break_nothing() {
    let desk = Desk::new();
    let file = desk.text("a.weir");
    let long = long_name();
    let names = [
        "/new\nline.service",
        "/\u{1b}[2J\u{202e}evil",
        "/a,b=c \"d\"",
        long.as_str(),
    ];
    let world = World::with(&names);
    world.weir_for_ticks(20, &["record", &file, "--interval", "100ms"]);
    let csv = done(&["export", &file]);
    assert!(!csv.chars().any(|c| c.is_control() && c != '\n') && !csv.contains('\u{202e}'));
    assert!(
        csv.contains("/new\\012line.service") && csv.contains(&long.replace('\n', "\\012")),
        "{csv}"
    );
    let width = csv.lines().next().unwrap().split(',').count();
    let quoted = |line: &str| line.contains('"');
    assert!(
        csv.lines()
            .all(|line| quoted(line) || line.split(',').count() == width),
        "{csv}"
    );
    let influx = done(&["export", &file, "--format", "influx"]);
    assert!(
        influx
            .lines()
            .all(|line| line.starts_with("weir_workload,session=1,workload=/"))
    );
    assert!(influx.contains("workload=/a\\,b\\=c\\ \"d\" "), "{influx}");
    for line in done(&["export", &file, "--format", "jsonl"]).lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    let replayed = done(&["replay", &file]);
    let last: Value = serde_json::from_str(replayed.lines().last().unwrap()).unwrap();
    let ids = last["plan"]["workloads"].as_array().unwrap();
    for name in names {
        let id = name.replace('\n', "\\012").replace('\u{1b}', "\\033");
        let id = id.replace('\u{202e}', "\\342\\200\\256");
        assert!(
            ids.iter().any(|v| v["id"] == *id),
            "{id:?} is not in {ids:?}"
        );
    }
}
