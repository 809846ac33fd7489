// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is there a check mark only before what can be used, and does each next move work on the machine that it is
//! said to?

use crate::world::{World, stderr, stdout};
use rustix::process::Signal;
use serde_json::Value;

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
