// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program as researchers meet it.
#![allow(clippy::unwrap_used)] // In helpers of tests, which clippy takes for code.

mod bench;
mod desk;
mod dram;
mod random;
mod server;
mod studies;
mod thesis;
mod type2;

use std::process::{Command, Output};

fn weir_lab(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-lab"));
    command.args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs it, expects success, and returns what it printed.
fn done(args: &[&str]) -> String {
    let output = weir_lab(args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn nonsense_is_answered_with_what_is_wrong() {
    for (args, parts) in [
        (
            &["thesis", "--out", "/dev/null/x"][..],
            &["/dev/null/x"][..],
        ),
        (&["thesis", "--seeds", "many"], &["many"]),
        (&["bench", "loop", "--workloads", "0"], &["0", "1..=100000"]),
        (&["bench", "loop", "--workloads", "-3"], &["-3 is not in"]),
        (&["ablation", "thesis-limt"], &["`thesis-limit`"]),
        (&["controllers", "step", "thesis"], &["thesis-scx-vtime"]),
        (&["random", "--scenarios", "0"], &["--scenarios", "1.."]),
        (
            &["random", "--keep", "/dev/null/x"],
            &["cannot make /dev/null/x"],
        ),
        (&["device", "--profile", "optane"], &["asic-x16"]),
    ] {
        let output = weir_lab(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        for part in parts {
            assert!(said.contains(part), "{args:?}: {part:?} is not in {said:?}");
        }
    }
}
