// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Things that come while weir runs, and things that go: are they found, said once, limited and let go, and
//! recorded?

use crate::world::desk::{Desk, as_kept, done};
use crate::world::{Daemon, Ended, HEAVY, LATE, World};
use rustix::process::Signal;
use serde_json::Value;

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
