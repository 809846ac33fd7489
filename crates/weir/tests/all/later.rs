// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Things that come while weir runs, and things that go: are they found, said once, limited and let go, and
//! recorded?

use crate::world::desk::{Desk, as_kept, done};
use crate::world::{Daemon, Ended, HEAVY, LATE, World};
use rustix::process::Signal;
use serde_json::Value;

const FREE: &str = "max 100000";

fn end(daemon: Daemon) -> Ended {
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    ended
}

fn devices(snapshot: &Value) -> Vec<&str> {
    let devices = snapshot["description"]["devices"].as_array();
    let all = devices.into_iter().flatten();
    all.filter_map(|device| device["name"].as_str()).collect()
}

/// Bytes per second of a workload, where they are known.
fn rate(snapshot: &Value, id: &str) -> Option<f64> {
    let workloads = snapshot["plan"]["workloads"].as_array()?;
    let found = workloads.iter().find(|workload| workload["id"] == id)?;
    found["bandwidth"]["bytes_per_sec"].as_f64()
}

fn times(text: &str, what: &str) -> usize {
    text.lines().filter(|line| line.contains(what)).count()
}

fn wait_for(world: &World, names: &[&str]) {
    world.wait(&format!("it has {names:?}"), || {
        devices(&world.snapshot()) == names
    });
}

/// Hot-added, and taken away again (xcena-dev/maru, issues 48 and 49).
#[test]
fn a_device_that_comes_and_goes_is_in_all_outputs() {
    let (world, desk) = (World::with_late(), Desk::new());
    let file = desk.text("a.weir");
    let daemon = world.start(&["run", "--json", "--record", &file]);
    world.wait_for_ticks(5);
    world.node_comes();
    world.counters_come();
    world.wait("the workload on it has its bytes", || {
        let seen = world.snapshot();
        devices(&seen) == ["weir_cxl0", "weir_cxl1"]
            && rate(&seen, LATE).is_some_and(|rate| rate > 0.0)
    });
    let before = rate(&world.snapshot(), HEAVY[0]);
    assert!(before.is_some_and(|rate| rate > 0.0), "{before:?}");
    world.wait_for_ticks(5);
    world.device_goes();
    wait_for(&world, &["weir_cxl0"]);
    world.wait_for_ticks(25);
    assert_eq!(rate(&world.snapshot(), LATE), None, "it has nothing there");
    let ended = end(daemon);
    for what in ["(weir_cxl1) came", "(weir_cxl1) went"] {
        assert_eq!(times(&ended.stderr, what), 1, "{}", ended.stderr);
    }
    is_recorded(&file, &ended.stdout);
}

/// Three sessions, each with the machine as it was.
fn is_recorded(file: &str, printed: &str) {
    let info = done(&["record", file, "--info"]);
    assert!(
        info.contains("session 3") && !info.contains("session 4"),
        "{info}"
    );
    let kept = |text: &str| text.lines().map(as_kept).collect::<Vec<Value>>();
    let replayed = done(&["replay", file]);
    assert!(kept(printed) == kept(&replayed), "the replay differs");
    let checked = done(&["replay", file, "--check"]);
    assert_eq!(
        times(&checked, "each plan is the recorded one"),
        3,
        "{checked}"
    );
    let second = done(&["replay", file, "--check", "--session", "2"]);
    assert_eq!(
        times(&second, "each plan is the recorded one"),
        1,
        "{second}"
    );
    let devices = done(&["export", file, "--table", "devices"]);
    let has = |session: &str, device: &str| {
        let line = |line: &str| line.starts_with(session) && line.split(',').nth(3) == Some(device);
        devices.lines().any(line)
    };
    assert!(
        has("1,", "0") && has("2,", "1") && has("3,", "0"),
        "{devices}"
    );
    assert!(!has("1,", "1") && !has("3,", "1"), "{devices}");
    let late = done(&["export", file, "--table", "workloads"]);
    assert!(late.contains(LATE), "{late}");
}

#[test]
fn limits_stay_when_a_device_comes_and_end_with_their_device() {
    let world = World::with_late();
    let daemon = world.start_limiting();
    world.node_comes();
    world.counters_come();
    world.wait("the reader on the new device is limited", || {
        world.cpu_max(LATE) != FREE
    });
    assert!(HEAVY.iter().all(|heavy| world.cpu_max(heavy) != FREE));
    world.device_goes();
    world.wait("a limit ends with its device", || {
        world.cpu_max(LATE) == FREE
    });
    assert!(HEAVY.iter().all(|heavy| world.cpu_max(heavy) != FREE));
    let ended = end(daemon);
    for workload in HEAVY.iter().chain([&LATE]) {
        assert_eq!(world.cpu_max(workload), FREE, "{workload}");
    }
    // From the first limit on, each tick has one.
    let limits = |id: &str| -> Vec<Option<f64>> {
        let all = ended.stdout.lines().map(|line| limit(line, id));
        all.skip_while(Option::is_none).collect()
    };
    assert!(
        limits(HEAVY[0]).iter().all(Option::is_some),
        "a limit was let go"
    );
    // 400 MiB/s for a CPU, and 300 MiB/s allowed. Traffic of the first second cannot be attributed yet, and
    // counts for no workload.
    let first = limits(LATE)[0];
    assert!(
        first.is_some_and(|cpus| (0.5..1.0).contains(&cpus)),
        "{first:?}"
    );
}

/// The limit in CPUs that a line of JSON has of a workload.
fn limit(line: &str, id: &str) -> Option<f64> {
    let seen: Value = serde_json::from_str(line).unwrap();
    let workloads = seen["plan"]["workloads"].as_array()?;
    let found = workloads.iter().find(|w| w["id"] == id)?;
    found["limit_cpus"].as_f64()
}

#[test]
fn a_node_without_counters_is_reported_once_and_counters_are_taken_up() {
    let world = World::with_late();
    let daemon = world.start(&["run"]);
    world.wait_for_ticks(2);
    world.node_comes();
    world.wait("it is reported", || {
        world.snapshot()["skipped"][0]["what"] == "node2"
    });
    world.wait_for_ticks(5);
    world.counters_come();
    wait_for(&world, &["weir_cxl0", "weir_cxl1"]);
    world.wait_for_ticks(5);
    assert_eq!(world.snapshot()["skipped"], serde_json::json!([]));
    let ended = end(daemon);
    assert_eq!(
        times(&ended.stderr, "node2: it is CXL memory"),
        1,
        "{}",
        ended.stderr
    );
    assert_eq!(
        times(&ended.stderr, "(weir_cxl1) came"),
        1,
        "{}",
        ended.stderr
    );
}

/// All of it goes, and weir waits for it to come again.
#[test]
fn a_machine_without_a_device_left_has_nothing_limited() {
    let world = World::new();
    let daemon = world.start_limiting();
    world.write("sys/devices/system/node/has_memory", "0\n");
    std::fs::rename(world.path("sys/class/weir_cxl"), world.path("away")).unwrap();
    wait_for(&world, &[]);
    world.wait("all are free", || {
        HEAVY.iter().all(|heavy| world.cpu_max(heavy) == FREE)
    });
    std::fs::rename(world.path("away"), world.path("sys/class/weir_cxl")).unwrap();
    world.write("sys/devices/system/node/has_memory", "0-1\n");
    world.wait("they are limited again", || world.cpu_max(HEAVY[0]) != FREE);
    let ended = end(daemon);
    assert_eq!(
        times(&ended.stderr, "(weir_cxl0) came"),
        1,
        "{}",
        ended.stderr
    );
    assert!(HEAVY.iter().all(|heavy| world.cpu_max(heavy) == FREE));
}
