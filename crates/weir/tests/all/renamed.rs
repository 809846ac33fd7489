// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is each former name of a flag or a value an error that says the one of today, with exit code 2, and does
//! nothing else?

use crate::sim::{stderr, weir};

/// What it said: one error, exit code 2, nothing on stdout.
fn refusal(args: &[&str]) -> String {
    let output = weir(args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[test]
fn each_former_flag_names_the_one_of_today() {
    for (args, wanted) in [
        (&["run", "--shares", "auto"][..], "--attribution"),
        (&["record", "x", "--shares=resctrl"], "--attribution"),
        (
            &["run", "--share-event", "sw:cpu-clock"],
            "--attribution-event",
        ),
        (&["run", "--by", "cgroup"], "--workloads"),
        (&["top", "--once", "--by", "process"], "--workloads"),
        (&["doctor", "--by=process"], "--workloads"),
        (
            &["groups", "resize", "1=0", "--patience", "5s"],
            "--offline-timeout",
        ),
        (
            &["groups", "resize", "--check", "--copies", "x"],
            "--alias-map",
        ),
        (
            &["groups", "acpi", "--sizes", "1/2,1/2", "--grain-mib", "128"],
            "--align-mib",
        ),
        (&["calibrate", "--budget", "5s"], "--max-duration"),
        (&["calibrate", "--busy"], "--allow-other-traffic"),
        (&["export", "x", "--what", "devices"], "--table"),
        (&["export", "x", "--salvage", "y"], "--recover"),
    ] {
        let said = refusal(args);
        assert!(
            said.contains(&format!(" is called {wanted} now")),
            "{args:?}: {said}"
        );
    }
}

#[test]
fn each_command_that_left_names_its_program() {
    for (args, wanted) in [
        (
            &["bench", "loop", "--workloads", "10"][..],
            "weir-eval bench loop",
        ),
        (&["bench", "record"], "weir-eval bench record"),
        (&["sim", "evaluate", "--quick"], "weir-eval thesis"),
        (&["sim", "device"], "weir-eval device"),
    ] {
        let said = refusal(args);
        assert!(
            said.contains(&format!(" is called {wanted} now")),
            "{args:?}: {said}"
        );
    }
}

#[test]
fn each_former_value_names_the_one_of_today() {
    for (command, flag, old, new) in [
        (&["run"][..], "--attribution", "counts", "task-counts"),
        (&["record", "x"], "--attribution", "samples", "sampling"),
        (&["run"], "--backend", "cgroup", "cpu-max"),
        (&["run"], "--backend", "scx", "sched-ext"),
        (&["record", "x"], "--backend", "scx-full", "sched-ext-full"),
        (&["sim", "step"], "--backend", "cgroup", "cpu-max"),
        (&["sim", "step"], "--backend", "scx", "sched-ext"),
        (&["sim", "step"], "--backend", "scx-full", "sched-ext-full"),
        (
            &["sim", "step"],
            "--backend",
            "scx-served",
            "sched-ext-served",
        ),
        (
            &["sim", "step"],
            "--backend",
            "scx-looks",
            "sched-ext-polled",
        ),
        (
            &["sim", "step"],
            "--backend",
            "scx-full-looks",
            "sched-ext-full-polled",
        ),
    ] {
        let said = refusal(&[command, &[flag, old]].concat());
        let wanted = format!("{flag} {old} is called {flag} {new} now");
        assert!(said.contains(&wanted), "{wanted:?} is not in {said:?}");
    }
    let said = refusal(&["sim", "step", "--backend", "none,scx-full"]);
    assert!(said.contains("sched-ext-full now"), "{said}");
}
