// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `weir run --probe` say what a load takes, everywhere, or why it does not know? The machine is made of
//! files; what is loaded from is node 0 of the machine that runs the test.

use crate::world::{World, stderr, stdout};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;

/// The device's memory is on node 0, as far as the files say.
fn world_on_node_0() -> World {
    let world = World::new();
    let nodes = "sys/devices/system/node";
    for (path, text) in [
        ("sys/class/weir_cxl/weir_cxl0/group0/node", "0\n"),
        (&format!("{nodes}/online"), "0-1\n"),
        (&format!("{nodes}/node0/distance"), "10 20\n"),
        (&format!("{nodes}/node1/distance"), "20 10\n"),
        (
            &format!("{nodes}/node0/meminfo"),
            "Node 0 MemTotal: 9999999 kB\nNode 0 MemFree: 9999999 kB\n",
        ),
    ] {
        let path = world.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    world
}

fn lines(text: &str) -> Vec<Value> {
    let line = |line: &str| serde_json::from_str(line).unwrap();
    text.lines().map(line).collect()
}

fn fact(snapshot: &Value) -> &Value {
    let facts = snapshot["description"]["facts"].as_array().unwrap();
    let found = facts.iter().find(|f| f["name"] == "latency.probe.cxl0");
    &found.unwrap()["value"]
}

#[test]
fn a_latency_is_in_json_recording_and_export() {
    let world = world_on_node_0();
    let recording = world.path("a.weir");
    let recording = recording.to_str().unwrap();
    let daemon = world.start(&["run", "--probe", "--json", "--record", recording]);
    let of = |tick: &Value| tick["latencies"][0]["mean_ns"]["value"]["Ok"].as_f64();
    world.wait("a latency, or why there is none", || {
        let seen = world.snapshot();
        of(&seen).is_some() || (seen.is_object() && fact(&seen).get("Err").is_some())
    });
    // On a busy machine the first latency is in the first tick, and one tick alone has no rate to record.
    world.wait_for_ticks(3);
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ticks = lines(&ended.stdout);
    if let Some(why) = fact(&ticks[0]).get("Err") {
        return eprintln!("SKIP the probe on node 0: {why}");
    }
    let known: Vec<&Value> = ticks.iter().filter(|tick| of(tick).is_some()).collect();
    let last = known.last().expect("never a latency");
    assert!(of(last).unwrap() > 0.0);
    assert_eq!(last["latencies"][0]["source"], "probe");
    let measured_at = last["latencies"][0]["mean_ns"]["at"].as_u64();
    assert!(measured_at > Some(0) && measured_at <= last["plan"]["at"].as_u64());
    let exported = world.weir(&[
        "export", recording, "--format", "jsonl", "--table", "devices",
    ]);
    assert_eq!(exported.status.code(), Some(0), "{}", stderr(&exported));
    let rows = lines(&stdout(&exported));
    let recorded = rows
        .iter()
        .filter_map(|row| row["latency_ns"].as_f64())
        .count();
    assert!(recorded > 0, "{:?}", rows.last());
}
