// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bounds, from both sides.

use super::*;
use crate::results::WorkloadShares;
use std::collections::BTreeSet;

#[test]
fn all_bounds_are_met_by_half_of_everything() {
    let checks = checks(&subject(), &results());
    assert_eq!(checks.len(), 8);
    let missed: Vec<&Check> = checks.iter().filter(|c| !c.is_met()).collect();
    assert!(missed.is_empty(), "{missed:?}");
    assert!(checks_table(&checks).ends_with("all 8 bounds met\n"));
    let empty = ScenarioInfo {
        expect: Expect::default(),
        ..subject()
    };
    assert!(crate::checks(&empty, &results()).is_empty());
}

/// Each bound, a change that puts the value just inside it, and one that puts it just outside.
#[test]
fn checks_flip_at_their_bounds() {
    type Change = fn(&mut Run, f64);
    let cases: [(usize, f64, f64, Change); 9] = [
        (0, 0.03, 0.0301, |r, v| r.bandwidth.bias_ratio = v),
        (0, -0.03, -0.0301, |r, v| r.bandwidth.bias_ratio = v),
        (1, 0.07, 0.0701, |r, v| r.bandwidth.rmse_ratio = v),
        (2, 11_999.0, 12_001.0, |r, v| {
            r.device_latency.mean_ns = Some(v)
        }),
        (3, 1_119_000.0, 1_121_000.0, |r, v| {
            r.light_reader.p50_ns = Some(v)
        }),
        (4, 5_599_000.0, 5_601_000.0, |r, v| {
            r.light_reader.p99_ns = Some(v)
        }),
        (5, 60e6, 60.1e6, |r, v| {
            r.limited_readers.latency.p99_ns = Some(v)
        }),
        (6, 139.9, 140.1, |r, v| r.cpu_sec_per_gib = Some(v)),
        (7, 55.1, 54.9, |r, v| r.throughput_ops_per_sec = Some(v)),
    ];
    for (at, inside, outside, change) in cases {
        for (value, passes) in [(inside, true), (outside, false)] {
            let mut results = results();
            change(&mut results.runs[1], value);
            let checks = checks(&subject(), &results);
            for (i, check) in checks.iter().enumerate() {
                assert_eq!(check.is_met(), i != at || passes, "{value}: {check:?}");
            }
        }
    }
}

#[test]
fn a_check_without_a_value_is_missed_and_says_why() {
    let mut results = results();
    results.runs[1].throughput_ops_per_sec = None;
    results.runs[1].missing.insert(
        "throughput_ops_per_sec".into(),
        "stress-ng left nothing".into(),
    );
    results.runs[0].cpu_sec_per_gib = Some(0.0);
    results.runs[1].limited_readers.little_bound_ns = Some(0.0);
    results.runs[1].bandwidth.rmse_ratio = f64::NAN;
    let checks = checks(&subject(), &results);
    let missed: Vec<usize> = (0..8).filter(|i| !checks[*i].is_met()).collect();
    assert_eq!(missed, [1, 5, 6, 7]);
    let text = checks_table(&checks);
    assert!(text.contains("max-min: stress-ng left nothing"), "{text}");
    assert!(text.contains("nothing to compare with"), "{text}");
    assert!(text.ends_with("4 of 8 bounds met\n"), "{text}");
}

#[test]
fn checks_need_both_runs() {
    let mut only_held = results();
    only_held.runs.remove(0);
    let passed =
        |r: &Results| -> Vec<bool> { checks(&subject(), r).iter().map(|c| c.is_met()).collect() };
    assert_eq!(
        passed(&only_held),
        [true, true, false, false, false, true, false, false]
    );
    let mut only_free = results();
    only_free.runs.pop();
    assert_eq!(passed(&only_free), [false; 8]);
    assert_eq!(passed(&Results::default()), [false; 8]);
}

#[test]
fn observing_and_hand_set_limits_are_not_control() {
    let mut results = results();
    let observed = Run {
        policy: "none".into(),
        backend: "none".into(),
        ..run("max-min", 80.0, 9e4)
    };
    let by_hand = Run {
        backend: "cpu.max 1 2 by hand".into(),
        ..observed.clone()
    };
    results.runs.insert(1, observed);
    results.runs.insert(2, by_hand);
    assert_eq!(
        run_rows::names(&results),
        ["none", "none #2", "cpu.max 1 2 by hand", "max-min"]
    );
    assert!(checks(&subject(), &results).iter().all(|c| c.is_met()));
}

/// A second back end of the same policy, with all that the first one reached.
fn with_another(backend: &str) -> Results {
    let mut results = results();
    let other = Run {
        backend: backend.into(),
        ..results.runs[1].clone()
    };
    results.runs.push(other);
    results
}

#[test]
fn each_back_end_is_checked_and_the_thesis_is_not() {
    let mut results = with_another("sched-ext-full");
    results.runs[2].light_reader.p99_ns = Some(1e9);
    let checks = checks(&subject(), &results);
    assert_eq!(checks.len(), 16);
    let missed: Vec<&Check> = checks.iter().filter(|c| !c.is_met()).collect();
    let [missed] = missed[..] else {
        panic!("{missed:?}");
    };
    assert_eq!(missed.run, "max-min/sched-ext-full");
    let text = checks_table(&checks);
    assert!(text.contains("\nmax-min/sched-ext-full:\n"), "{text}");
    assert!(text.ends_with("15 of 16 bounds met\n"), "{text}");
    let thesis = with_another("thesis-scx");
    assert_eq!(crate::checks(&subject(), &thesis).len(), 8);
    assert_eq!(without_bounds(&subject(), &thesis), ["thesis-scx"]);
    let mut other_policy = with_another("sched-ext-full");
    other_policy.runs[2].policy = "balance-point".into();
    assert_eq!(crate::checks(&subject(), &other_policy).len(), 16);
    assert!(without_bounds(&subject(), &other_policy).is_empty());
}

#[test]
fn the_thesis_is_checked_where_weir_did_not_run_or_by_name() {
    let mut alone = with_another("thesis-scx");
    alone.runs[1].backend = "thesis-cgroups".into();
    let runs: BTreeSet<String> = checks(&subject(), &alone)
        .into_iter()
        .map(|c| c.run)
        .collect();
    let both = ["thesis-cgroups", "thesis-scx"].map(String::from);
    assert_eq!(runs, BTreeSet::from(both), "each of them");
    let mut subject = subject();
    let own = Expect {
        bias_ratio_max: Some(0.5),
        ..Expect::default()
    };
    subject.expect.backends.insert("thesis-scx".into(), own);
    let beside = with_another("thesis-scx");
    assert_eq!(checks(&subject, &beside).len(), 16);
}

/// Results with seeds 7 and 8, and what the second of them reached.
fn two_seeds(change: impl Fn(&mut Run)) -> Results {
    let mut results = results();
    for mut run in super::results().runs {
        run.seed = 8;
        change(&mut run);
        results.runs.push(run);
    }
    results
}

#[test]
fn each_seed_is_checked_against_its_own_run_without_control() {
    // Twice the latency with and without control is no change.
    let slower = two_seeds(|run| {
        let p99 = &mut run.light_reader.p99_ns;
        *p99 = p99.map(|ns| ns * 2.0);
    });
    let checks = checks(&subject(), &slower);
    assert_eq!(checks.len(), 16);
    assert!(checks.iter().all(|check| check.is_met()), "{checks:?}");
    let text = checks_table(&checks);
    assert!(text.ends_with("all 16 bounds met over 2 seeds\n"), "{text}");
    assert_eq!(text.lines().count(), 1 + 8 + 1, "one seed in full: {text}");
}

#[test]
fn what_a_later_seed_misses_is_said() {
    let missed = two_seeds(|run| run.bandwidth.rmse_ratio = 0.5);
    let checks = checks(&subject(), &missed);
    let text = checks_table(&checks);
    assert!(
        text.contains("\nmax-min, seed 8:\nMISSED  device bandwidth: RMSE"),
        "{text}"
    );
    assert!(
        text.ends_with("15 of 16 bounds met over 2 seeds\n"),
        "{text}"
    );
    assert!(!text.contains("no run without control"), "{text}");
}

#[test]
fn bounds_on_what_only_the_controlled_run_has() {
    let expect = Expect {
        bandwidth_bytes_per_sec_min: Some(36.0 * MIB),
        bandwidth_bytes_per_sec_max: Some(36.1 * MIB),
        settle_ms_max: Some(399.0),
        overshoot_ratio_max: Some(0.05),
        estimate_error_ratio_max: Some(0.1),
        ..Expect::default()
    };
    assert!(!expect.needs_free_run());
    let subject = ScenarioInfo {
        expect,
        ..subject()
    };
    let mut results = results();
    results.runs.remove(0);
    let errors = [("a", 0.02), ("b", 0.11)].map(|(name, error)| (name.to_owned(), error));
    results.runs[0].estimate_error_ratio.extend(errors);
    let found = checks(&subject, &results);
    let passed: Vec<bool> = found.iter().map(|check| check.is_met()).collect();
    assert_eq!(passed, [true, false, false, true, false]);
    let text = checks_table(&found);
    for line in [
        "36.4 MiB/s  ≤ 36.1 MiB/s",
        "400 ms      ≤ 399 ms",
        "11.0 %      ≤ 10.0 %",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn a_back_end_may_have_bounds_of_its_own() {
    let results = with_another("sched-ext-full");
    let mut subject = subject();
    let own = Expect {
        rmse_ratio_max: Some(1e-9),
        ..Expect::default()
    };
    subject.expect.backends.insert("sched-ext-full".into(), own);
    let checks = checks(&subject, &results);
    let missed: Vec<(&str, &str)> = checks
        .iter()
        .filter(|c| !c.is_met())
        .map(|c| (c.run.as_str(), c.of.name.as_str()))
        .collect();
    assert_eq!(
        missed,
        [(
            "max-min/sched-ext-full",
            "device bandwidth: RMSE to set-point"
        )]
    );
}

/// The worst workload counts, on either side of its target.
#[test]
fn a_share_is_checked_by_its_worst_error() {
    let mut subject = subject();
    subject.expect = Expect {
        share_error_ratio_max: Some(0.02),
        ..Expect::default()
    };
    let checked = |error: f64| {
        let mut held = run("drf", 36.0, 1000.0);
        for (name, error) in [("a", 0.01), ("b", error)] {
            let shares = WorkloadShares {
                error_ratio: Some(error),
                ..WorkloadShares::default()
            };
            held.shares.insert(name.into(), shares);
        }
        let results = Results {
            runs: vec![held],
            ..Results::default()
        };
        let checks = checks(&subject, &results);
        (checks[0].is_met(), checks[0].of.value.clone().ok())
    };
    assert_eq!(checked(-0.015), (true, Some(0.015)));
    assert_eq!(checked(-0.03), (false, Some(0.03)));
}

#[test]
fn an_estimate_is_checked_by_its_worst_error_and_only_if_there_is_one() {
    let mut subject = subject();
    subject.expect = Expect {
        estimate_error_ratio_max: Some(0.15),
        ..Expect::default()
    };
    let checked = |errors: &[f64]| {
        let mut held = run("max-min", 36.0, 1000.0);
        let named = errors.iter().enumerate();
        held.estimate_error_ratio = named.map(|(i, e)| (format!("w{i}"), *e)).collect();
        let results = Results {
            runs: vec![run("none", 60.0, 2000.0), held],
            ..Results::default()
        };
        let checks = checks(&subject, &results);
        assert_eq!(checks.len(), 1);
        (checks[0].is_met(), checks[0].of.value.clone().ok())
    };
    assert_eq!(checked(&[0.05, 0.125]), (true, Some(0.125)));
    assert_eq!(checked(&[0.05, 0.2]), (false, Some(0.2)));
    assert_eq!(
        checked(&[]),
        (false, None),
        "what was not measured was not shown"
    );
}
