// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is there a check mark only before what can be used, and does each next move work on the machine that it is
//! said to?

use crate::world::{HEAVY, World, stderr, stdout};
use rustix::process::Signal;
use serde_json::Value;

const CPU: &str = "sys/bus/event_source/devices/cpu";

fn facts(world: &World) -> Vec<Value> {
    let report: Value = serde_json::from_str(&stdout(&world.weir(&["doctor", "--json"]))).unwrap();
    report["description"]["facts"].as_array().unwrap().clone()
}

fn fact(world: &World, name: &str) -> Value {
    let all = facts(world);
    let found = all.iter().find(|fact| fact["name"] == name);
    found
        .unwrap_or_else(|| panic!("{name} is not in {all:?}"))
        .clone()
}

#[test]
fn what_cannot_be_used_has_no_check_mark() {
    let world = World::new();
    for fact in facts(&world) {
        let value = fact["value"]["Ok"].as_str().unwrap_or_default();
        for word in ["cannot be used", "not in this kernel", "died"] {
            assert!(!value.contains(word), "{fact}");
        }
    }
    for name in [
        "backend.sched_ext",
        "attribution.resctrl",
        "attribution.sampling",
        "attribution.task_counts",
        "sched_ext.state",
    ] {
        let why = fact(&world, name)["value"]["Err"]["detail"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(!why.is_empty(), "{name} is there: {}", fact(&world, name));
        assert!(!why.contains("not supported:"), "said twice: {why}");
    }
    // Nothing of this is needed.
    let page = stdout(&world.weir(&["doctor"]));
    assert!(page.contains("✓ weir can observe here"), "{page}");
    for line in page.lines().filter(|line| line.contains("✓")) {
        assert!(!line.contains("cannot") && !line.contains("died"), "{line}");
    }
}

#[test]
fn limits_of_a_weir_that_runs_are_in_order_and_those_of_a_dead_one_are_not() {
    let world = World::new();
    let daemon = world.start_limiting();
    let running = fact(&world, "leases.journal");
    assert!(
        running["value"]["Ok"]
            .to_string()
            .contains(&daemon.pid().to_string()),
        "{running}"
    );
    assert!(running["next_move"].is_null(), "{running}");
    daemon.signal(Signal::KILL);
    assert_eq!(daemon.end().code, None);
    let dead = fact(&world, "leases.journal");
    assert!(dead["value"]["Err"].to_string().contains("died"), "{dead}");
    assert!(
        dead["next_move"].to_string().contains("weir reset"),
        "{dead}"
    );
    assert_eq!(world.weir(&["reset"]).status.code(), Some(0));
    assert!(fact(&world, "leases.journal")["value"]["Ok"].is_string());
}

/// A guest on a Sapphire Rapids host (intel/pcm issue 704).
fn guest() -> World {
    let world = World::new();
    world.take_away("sys/class");
    let cpuinfo = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nflags\t\t: fpu hypervisor\n\n";
    world.write("proc/cpuinfo", cpuinfo);
    world.write("proc/sys/kernel/osrelease", "6.12.0\n");
    world.write(&format!("{CPU}/type"), "4\n");
    world.write(&format!("{CPU}/format/event"), "config:0-7\n");
    world.write(&format!("{CPU}/format/umask"), "config:8-15\n");
    world
}

#[test]
fn a_guest_without_uncore_is_named_as_such() {
    let world = guest();
    for args in [
        &["events"][..],
        &["events", "--family", "sapphire-rapids"],
        &["doctor"],
    ] {
        let page = stdout(&world.weir(args));
        assert!(
            page.contains("virtual machine") && page.contains("host of this virtual machine"),
            "{args:?}: {page}"
        );
        assert!(
            !page.contains("no PMU uncore_cha_#; needs Linux 6.11"),
            "{args:?}: {page}"
        );
        assert!(!page.contains("modprobe"), "{args:?}: {page}");
    }
    let report: Value = serde_json::from_str(&stdout(&world.weir(&["events", "--json"]))).unwrap();
    assert!(report["guest"].as_str().unwrap().contains("hypervisor"));
    assert!(
        report["obstacle"]["next_move"]
            .as_str()
            .unwrap()
            .contains("host")
    );
}

#[test]
fn an_arm_host_is_named_as_such() {
    let world = guest();
    world.write(
        "proc/cpuinfo",
        "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n",
    );
    let page = stdout(&world.weir(&["events"]));
    assert!(
        page.contains("an Arm CPU (implementer 0x41, part 0xd4f)"),
        "{page}"
    );
    let page = stdout(&world.weir(&["doctor"]));
    assert!(
        page.contains("Arm CPU") && !page.contains("modprobe"),
        "{page}"
    );
    assert!(!page.contains("vendor_id"), "{page}");
}

#[test]
fn limits_beside_a_foreign_scheduler_need_trust_cpu_max() {
    let world = World::new();
    world.write("sys/kernel/sched_ext/state", "enabled\n");
    world.write("sys/kernel/sched_ext/root/ops", "lavd\n");
    let state = fact(&world, "sched_ext.state");
    assert!(
        state["next_move"].to_string().contains("--trust-cpu-max"),
        "{state}"
    );
    let limit = ["run", "--limit", "--set-point", "300MiB/s", "--json"];
    let daemon = world.start(&limit);
    world.wait_for_ticks(20);
    assert_eq!(world.cpu_max(HEAVY[0]), "max 100000");
    daemon.signal(Signal::TERM);
    let refused = daemon.end();
    assert!(
        refused.stderr.contains("--trust-cpu-max"),
        "{}",
        refused.stderr
    );
    let trusting = [&limit[..], &["--trust-cpu-max"]].concat();
    let daemon = world.start(&trusting);
    world.wait("limited", || world.cpu_max(HEAVY[0]) != "max 100000");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code, Some(0));
    assert_eq!(world.cpu_max(HEAVY[0]), "max 100000");
}

#[test]
fn an_observer_restores_nothing() {
    let world = World::new();
    let daemon = world.start(&["run"]);
    world.wait_for_ticks(3);
    daemon.signal(Signal::INT);
    let said = daemon.end().stderr;
    assert!(
        said.contains("SIGINT: weir ends") && !said.contains("restored"),
        "{said}"
    );
    let help = stdout(&world.weir(&["--help"]));
    assert!(
        help.starts_with("weir keeps CXL memory below the point where its latency rises steeply"),
        "{help}"
    );
    let slip = world.weir(&["sim", "thesis-limt"]);
    assert!(
        stderr(&slip).contains("did you mean `thesis-limit`?"),
        "{}",
        stderr(&slip)
    );
}
