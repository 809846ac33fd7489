// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is nonsense answered with the thing that is wrong and the next move, its exit code, and no panic?

use crate::world::{HEAVY, World, stderr};
use std::process::Output;

/// The exit code, one message that names all of `parts`, and nothing written.
fn refused(world: &World, output: &Output, code: i32, parts: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    assert_eq!(world.cpu_max(HEAVY[0]), "max 100000");
}

#[test]
fn nonsense_flags() {
    let world = World::new();
    for (args, code, parts) in [
        (&["run", "--limit"][..], 78, &["--set-point 4GiB/s"][..]),
        (
            &["run", "--limit", "--set-point", "40%"],
            78,
            &["--capacity 20GiB/s"],
        ),
        (
            &["run", "--set-point", "4G"],
            2,
            &["GiB (binary) or GB (decimal)"],
        ),
        (&["run", "--set-point", "-1"], 2, &["--set-point"]),
        (&["run", "--policy", "fair"], 2, &["fair", "max-min", "drf"]),
        (
            &["run", "--interval", "1ms"],
            78,
            &["interval", "5ms to 10s"],
        ),
        (&["run", "--period", "50"], 2, &["unit is missing"]),
        (&["run", "--log", "x=y=z"], 78, &["log", "debug"]),
        (
            &["run", "--config", "/nowhere/weir.toml"],
            78,
            &["/nowhere/weir.toml", "No such file"],
        ),
        (
            &["top", "--snapshot", "/dev/null"],
            2,
            &["/dev/null", "it is a device"],
        ),
        (
            &["run", "--attribution", "resctrl"],
            69,
            &["resctrl cannot be used", "leave --attribution out"],
        ),
        (
            &[
                "run",
                "--attribution",
                "resctrl",
                "--attribution-event",
                "sw:cpu-clock",
            ],
            78,
            &["--attribution-event"],
        ),
        (&["dance"], 2, &["dance"]),
    ] {
        refused(&world, &world.weir(args), code, parts);
    }
}

#[test]
fn a_machine_without_anything() {
    let world = World::new();
    let empty = tempfile::tempdir().unwrap();
    for command in [
        &["run"][..],
        &["top", "--once"],
        &["doctor"],
        &["explain"],
        &["reset"],
    ] {
        let mut weir = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = weir
            .arg("--root")
            .arg(empty.path())
            .args(command)
            .output()
            .unwrap();
        assert!(
            !stderr(&output).contains("panicked"),
            "{command:?}: {}",
            stderr(&output)
        );
        let is_known = |code| code <= 2 || code == 69;
        assert!(output.status.code().is_some_and(is_known), "{command:?}");
    }
    drop(world);
}
