// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program as researchers meet it.
#![allow(clippy::unwrap_used)] // In helpers of tests, which clippy takes for code.

mod bench;
mod random;
mod studies;
mod thesis;

use std::process::{Command, Output};

fn weir_eval(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-eval"));
    command.args(args).output().unwrap()
}

/// Runs it, expects success, and returns what it printed.
fn done(args: &[&str]) -> String {
    let output = weir_eval(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    String::from_utf8(output.stdout).unwrap()
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
        let output = weir_eval(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        for part in parts {
            assert!(said.contains(part), "{args:?}: {part:?} is not in {said:?}");
        }
    }
}
