// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where weir does not see the machine's workloads (a container, cgroup version 1), does it say so, and what
//! would work?

use crate::world::{World, stderr, stdout};

/// All that a command says, and how it ends.
fn said(world: &World, args: &[&str]) -> (Option<i32>, String) {
    let output = world.weir(args);
    (output.status.code(), stdout(&output) + &stderr(&output))
}

const LIMIT: [&str; 6] = [
    "run",
    "--limit",
    "--set-point",
    "300MiB/s",
    "--duration",
    "1s",
];

/// The top of the tree is a container's own cgroup.
fn container() -> World {
    let world = World::new();
    for slice in ["system.slice", "batch.slice"] {
        world.take_away(&format!("sys/fs/cgroup/{slice}"));
    }
    world.write("sys/fs/cgroup/cgroup.type", "domain\n");
    world.write("sys/fs/cgroup/cgroup.subtree_control", "");
    world.write("proc/1/cgroup", "0::/../../../init.scope\n");
    world
}

#[test]
fn doctor_in_a_container_says_what_cannot_be_seen_and_what_would_work() {
    let world = container();
    let (code, page) = said(&world, &["doctor"]);
    assert_eq!(code, Some(1));
    assert!(
        page.contains("cgroup namespace") && page.contains("--cgroupns=host"),
        "{page}"
    );
    assert!(page.contains("✗ weir cannot observe here"), "{page}");
    assert!(
        !page.contains("subtree_control"),
        "what would not help is proposed: {page}"
    );
    let (_, report) = said(&world, &["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        (&report["can_observe"], &report["can_limit"]),
        (&false.into(), &false.into())
    );
}

#[test]
fn top_and_run_in_a_container_give_the_reason() {
    let world = container();
    let (code, table) = said(&world, &["top", "--once"]);
    assert_eq!(code, Some(0));
    assert!(
        table.contains("workloads are seen: ") && table.contains("namespace"),
        "{table}"
    );
    let (code, observed) = said(&world, &["run", "--duration", "200ms"]);
    assert_eq!(code, Some(0));
    assert!(
        observed.contains("warning:") && observed.contains("--cgroupns=host"),
        "{observed}"
    );
    let (code, limited) = said(&world, &LIMIT);
    assert_eq!(code, Some(69), "{limited}");
    assert!(
        limited.contains("not possible") && limited.contains("namespace"),
        "{limited}"
    );
}
