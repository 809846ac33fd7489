// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `weir sim --check` check all that ran, and refuse where there is nothing to check?

use crate::sim::{done, small, stderr, stdout, weir};
use serde_json::Value;
use weir_report::results::Results;

#[test]
fn the_exit_code_says_whether_bounds_are_met() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let met = small(dir.path(), "[expect]\nbias_ratio_max = 0.5\n");
    let text = done(&["sim", &met, "--check"]);
    assert!(
        text.contains("\nBounds:\nmet ") && text.contains("\nthe bound is met\n"),
        "{text}"
    );
    let missed = small(other.path(), "[expect]\nrmse_ratio_max = 0.000001\n");
    done(&["sim", &missed]);
    let output = weir(&["sim", &missed, "--check"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("\nBounds:\nMISSED "), "{text}");
    assert!(text.contains("\nthe bound is missed\n"), "{text}");
    // A program that reads the figures is not left without the verdict.
    let output = weir(&["sim", &missed, "--check", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    serde_json::from_str::<Results>(&stdout(&output)).unwrap();
    assert!(stderr(&output).contains("MISSED "), "{}", stderr(&output));
}

#[test]
fn a_check_of_nothing_is_no_pass() {
    let dir = tempfile::tempdir().unwrap();
    let unbound = small(dir.path(), "");
    for (args, says) in [
        (&["sim", &unbound, "--check"][..], "states no bounds"),
        (
            &["sim", "thesis-limit", "--backend", "none", "--check"],
            "nothing is controlled",
        ),
        (
            &[
                "sim",
                "thesis-limit",
                "--backend",
                "thesis-monitor",
                "--check",
            ],
            "nothing is controlled",
        ),
        (
            &[
                "sim",
                "thesis-limit",
                "--backend",
                "thesis-cgroups",
                "--check",
            ],
            "--backend none,thesis-cgroups",
        ),
        (
            &["sim", "thesis-limit", "--backend", "cpu-max", "--check"],
            "--backend none,cpu-max",
        ),
    ] {
        let output = weir(args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
        assert_eq!(stdout(&output), "", "nothing was run");
    }
}

#[test]
fn each_back_end_and_seed_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    // No controller can hold it so well: only a run that is not checked would not miss it.
    let file = small(dir.path(), "[expect]\nrmse_ratio_max = 0.000001\n");
    let backends = "none,cpu-max,sched-ext-full,thesis-cgroups";
    let output = weir(&[
        "sim",
        &file,
        "--check",
        "--seeds",
        "2",
        "--backend",
        backends,
    ]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for run in ["max-min/cpu-max", "max-min/sched-ext-full"] {
        for seed in [1, 2] {
            assert!(
                text.contains(&format!("\n{run}, seed {seed}:\nMISSED ")),
                "{text}"
            );
        }
    }
    assert!(text.contains("0 of 4 bounds met over 2 seeds"), "{text}");
    assert!(
        text.contains("No bounds are stated for thesis-cgroups."),
        "{text}"
    );
    let alone = weir(&["sim", &file, "--check", "--backend", "none,thesis-cgroups"]);
    assert_eq!(
        alone.status.code(),
        Some(1),
        "checked where weir did not run"
    );
}

#[test]
fn every_scenario_that_is_built_in_states_bounds() {
    let list: Value = serde_json::from_str(&done(&["sim", "--list", "--json"])).unwrap();
    let names = list
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap());
    // Those that weir's controller is being worked on for.
    let open = ["neighbour-busy", "phases", "small-among-big"];
    let without: Vec<&str> = names
        .filter(|name| !open.contains(name))
        .filter(|name| !done(&["sim", name, "--print"]).contains("\n[expect"))
        .collect();
    assert!(without.is_empty(), "{without:?}");
}
