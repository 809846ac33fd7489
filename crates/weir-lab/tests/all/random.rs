// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scenarios by chance that are kept.

use crate::{done, weir_lab};
use std::fs;
use weir_sim::{Backend, ControllerKind, Scenario, SimError, WeirOptions, run};

fn tasks(scenario: &Scenario) -> u32 {
    let each = scenario.workloads.iter().map(|w| w.count * w.threads);
    each.sum()
}

/// Beside full CPUs, as seed 1 has them, a scheduler for limited tasks alone refuses to go on.
#[test]
fn what_fails_is_kept_as_a_smaller_file_and_not_overwritten() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("kept/today");
    let seed = ["random", "--from", "1", "--scenarios", "1"];
    let args = [&seed[..], &["--backend", "sched-ext", "--keep"]].concat();
    let args = [&args[..], &[dir.to_str().unwrap()]].concat();
    let table = done(&args);
    assert!(
        table.contains("accepted by the back end | 1 of 1"),
        "{table}"
    );

    let file = dir.join("1-sched-ext-task-counts.toml");
    let text = fs::read_to_string(&file).unwrap();
    let head = "# Does not hold: accepted by the back end (found ";
    assert!(text.lines().any(|line| line.starts_with(head)), "{text}");
    let command = format!("# To run it: weir sim {} --seed 1", file.display());
    assert!(text.contains(&command), "{text}");
    let kept = Scenario::parse(&text, "kept").unwrap();
    let whole = Scenario::parse(&done(&[&seed[..], &["--show"]].concat()), "whole").unwrap();
    assert!(tasks(&kept) < tasks(&whole), "{text}");
    let weir = WeirOptions {
        backend: Backend::SchedExt,
        ..WeirOptions::default()
    };
    let outcome = run(&kept, &ControllerKind::Weir(Box::new(weir)), 1);
    assert!(matches!(outcome, Err(SimError::Refused { .. })), "{text}");

    let output = weir_lab(&args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(file.to_str().unwrap()), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}
