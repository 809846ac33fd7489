// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `weir run` measure, limit, and give everything back, whatever ends it?

use crate::world::{HEAVY, INTENSITY, LIGHT, MIB, World, stderr, wait};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn device_rate(snapshot: &Value) -> Option<f64> {
    let device = &snapshot["plan"]["devices"][0];
    Some(device["read_bytes_per_sec"].as_f64()? + device["write_bytes_per_sec"].as_f64()?)
}

/// Bytes between the first and the last tick: each rate by the time that it was measured over.
fn found_bytes(snapshots: &[Value]) -> f64 {
    let at = |snapshot: &Value| snapshot["plan"]["at"].as_f64().unwrap();
    let spans = snapshots.windows(2);
    spans
        .map(|pair| device_rate(&pair[1]).unwrap() * (at(&pair[1]) - at(&pair[0])) / 1e9)
        .sum()
}

/// What the heavy readers and the light one move in a second under the limits as they are.
fn allowed_rate(world: &World) -> f64 {
    let cpus = |cgroup: &&str| {
        let limit = world.cpu_max(cgroup);
        let (quota, period) = limit.split_once(' ').unwrap();
        let part = quota
            .parse::<f64>()
            .map(|q| q / period.parse::<f64>().unwrap());
        part.unwrap_or(1.0).min(1.0)
    };
    (HEAVY.iter().map(cpus).sum::<f64>() + 0.05) * INTENSITY
}

/// A workload's bytes a second, summed over all ticks that know them.
fn sum_of(snapshots: &[Value], id: &str) -> f64 {
    let workloads = snapshots
        .iter()
        .filter_map(|s| s["plan"]["workloads"].as_array());
    let its = workloads.flatten().filter(|w| w["id"] == id);
    its.filter_map(|w| w["bandwidth"]["bytes_per_sec"].as_f64())
        .sum()
}

#[test]
fn observing_measures_and_writes_nothing() {
    let world = World::new();
    let before = world.limits();
    let at_start = world.moved_bytes();
    let daemon = world.start(&["run", "--json", "--set-point", "300MiB/s"]);
    world.wait("the first tick", || world.seq().is_some());
    let after_first = world.moved_bytes();
    world.wait_for_ticks(100);
    let before_last = world.moved_bytes();
    world.wait_for_ticks(1);
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    let at_end = world.moved_bytes();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(world.limits(), before, "a cgroup's file was written");
    assert!(
        ended.stderr.contains("weir observes only"),
        "{}",
        ended.stderr
    );
    let ticks = lines(&ended.stdout);
    assert!(ticks.len() > 100, "{} ticks", ticks.len());
    // The first and the last tick are somewhere between these. Rates are a little off at their edges.
    let found = found_bytes(&ticks);
    let (least, most) = (before_last - after_first, at_end - at_start);
    assert!(
        0.95 * least < found && found < 1.05 * most,
        "{} MiB, not {} to {}",
        found / MIB,
        least / MIB,
        most / MIB
    );
    let last = ticks.last().unwrap();
    let (heavy, light) = (sum_of(&ticks, HEAVY[0]), sum_of(&ticks, LIGHT));
    assert!(
        heavy > 8.0 * light && light > 0.0,
        "{heavy} against {light}"
    );
    assert!(last["self_cost"]["process_cpus"].as_f64().unwrap() > 0.0);
    assert_eq!(last["limiting"], false);
}

/// Niceness of a process's first thread.
fn niceness(pid: u32) -> i64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    after_name.split(' ').nth(16).unwrap().parse().unwrap()
}

/// A weir process that limits must not wait for a CPU. One that only observes keeps the niceness it was
/// started with.
#[test]
fn a_loop_that_limits_goes_first_and_one_that_observes_does_not() {
    let world = World::new();
    let ours = niceness(std::process::id());
    let observer = world.start(&["run"]);
    world.wait("a view", || world.path("run/weir/snapshot.json").exists());
    assert_eq!(niceness(observer.pid()), ours);
    observer.signal(Signal::TERM);
    observer.end();
    // In a thread of its own, since niceness belongs to a thread.
    let may = thread::spawn(|| rustix::process::setpriority_process(None, -20).is_ok());
    if !may.join().unwrap() {
        return eprintln!("SKIP niceness of a loop that limits: not permitted (CAP_SYS_NICE)");
    }
    let daemon = world.start_limiting();
    world.wait("it goes first", || niceness(daemon.pid()) == -20);
    daemon.signal(Signal::TERM);
    daemon.end();
}

/// From the file that was written to the figure that an alarm reads.
#[test]
fn a_limit_that_another_program_writes_is_counted_and_set_again() {
    const THEIRS: &str = "max 100000";
    let world = World::new();
    let daemon = world.start_limiting();
    world.wait("a limit", || world.cpu_max(HEAVY[0]) != THEIRS);
    let rewrites = || world.snapshot()["limit_rewrites_total"].as_u64();
    world.wait("a figure", || rewrites().is_some());
    assert_eq!(rewrites(), Some(0));
    world.wait("a rewrite is counted", || {
        // Again where weir was about to write its own just then.
        if world.cpu_max(HEAVY[0]) != THEIRS {
            world.set_cpu_max(HEAVY[0], THEIRS);
        }
        rewrites() > Some(0)
    });
    world.wait("ours is in force again", || {
        world.cpu_max(HEAVY[0]) != THEIRS
    });
    daemon.signal(Signal::TERM);
    daemon.end();
    assert_eq!(world.cpu_max(HEAVY[0]), THEIRS);
}

#[test]
fn limiting_holds_the_set_point_and_sigterm_restores_exactly() {
    let world = World::new();
    world.set_cpu_max(HEAVY[1], "150000 100000\n");
    let daemon = world.start_limiting();
    let (mut last, mut held) = (0, 0);
    world.wait("the set-point is held for twenty ticks", || {
        if let Some(seq) = world.seq().filter(|seq| *seq > last) {
            let is_held = (allowed_rate(&world) / (300.0 * MIB) - 1.0).abs() < 0.1;
            held = if is_held { held + seq - last } else { 0 };
            last = seq;
        }
        held >= 20
    });
    assert_eq!(
        world.cpu_max(LIGHT),
        "max 100000",
        "the small user was limited"
    );
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for (cgroup, was) in [
        (HEAVY[0], "max 100000"),
        (HEAVY[1], "150000 100000"),
        (HEAVY[2], "max 100000"),
    ] {
        assert_eq!(world.cpu_max(cgroup), was, "{cgroup}");
    }
    assert!(
        !world.path("run/weir/snapshot.json").exists(),
        "the snapshot outlived its writer"
    );
    assert!(
        ended.stderr.contains("each device is held at 300.00 MiB/s"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("SIGTERM: limits are restored"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_reader_that_leaves_ends_it_well() {
    let world = World::new();
    let mut command = world.command(&["run", "--limit", "--set-point", "300MiB/s", "--json"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    world.wait("limited", || {
        line.clear();
        reader.read_line(&mut line).unwrap() > 0 && world.cpu_max(HEAVY[0]) != "max 100000"
    });
    drop(reader);
    let mut code = None;
    wait("weir ends", &mut || {
        code = child.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.and_then(|code| code.code()), Some(0));
    assert_eq!(world.cpu_max(HEAVY[0]), "max 100000");
}

#[test]
fn a_full_disk_behind_stdout_is_trouble_and_restores() {
    let world = World::new();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = world.command(&["run", "--limit", "--set-point", "300MiB/s", "--json"]);
    let output = command.stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(74));
    assert!(
        stderr(&output).contains("cannot write the JSON lines"),
        "{}",
        stderr(&output)
    );
    assert_eq!(world.cpu_max(HEAVY[0]), "max 100000");
}

#[test]
fn malformed_counters_are_said_once_and_survived() {
    let world = World::new();
    let daemon = world.start_limiting();
    world.break_counters(true);
    let rate = || device_rate(&world.snapshot());
    world.wait("the rate is lost", || {
        world.seq().is_some() && rate().is_none()
    });
    world.wait_for_ticks(20);
    world.break_counters(false);
    world.wait("the rate is known again", || rate().is_some());
    daemon.signal(Signal::INT);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let said = ended.stderr.matches("its counters cannot be read").count();
    assert!(
        (1..=3).contains(&said),
        "said {said} times:\n{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("its counters are read again"),
        "{}",
        ended.stderr
    );
    let ticks = lines(&ended.stdout);
    assert!(
        ticks.iter().any(|tick| device_rate(tick).is_none()),
        "a lost rate was made up"
    );
    assert!(device_rate(ticks.last().unwrap()).is_some());
    assert_eq!(world.cpu_max(HEAVY[0]), "max 100000");
}

#[test]
fn an_observer_is_published_only_while_no_weir_limits() {
    let world = World::new();
    let writer = || {
        let text = std::fs::read_to_string(world.path("run/weir/snapshot.json")).ok()?;
        serde_json::from_str::<Value>(&text).ok()?["writer_pid"].as_u64()
    };
    let observer = world.start(&["run"]);
    world.wait("it is seen", || writer() == Some(u64::from(observer.pid())));
    observer.signal(Signal::TERM);
    assert_eq!(observer.end().code, Some(0));
    let daemon = world.start_limiting();
    world.wait("it is seen", || writer() == Some(u64::from(daemon.pid())));
    let second = world.weir(&["run", "--duration", "1s"]);
    assert_eq!(second.status.code(), Some(0), "{}", stderr(&second));
    let said = format!("weir {} publishes there", daemon.pid());
    assert!(stderr(&second).contains(&said), "{}", stderr(&second));
    assert_eq!(
        writer(),
        Some(u64::from(daemon.pid())),
        "its end withdrew another's snapshot"
    );
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code, Some(0));
}
