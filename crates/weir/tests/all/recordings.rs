// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is what `weir run` saw and decided in the recording, whatever ends it?

use crate::world::desk::{Desk, as_kept, done};
use crate::world::{World, long_name, stderr};
use rustix::process::Signal;
use serde_json::Value;

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
        "drf",
    ]);
    let last: Value = serde_json::from_str(replayed.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["limiting"], &last["policy"]),
        (&true.into(), &"drf".into())
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
