// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The closing sentence: what it says of ordinary results, and of those that lack something.

use super::*;
use crate::closing;

/// Controlled with this back end, with windows this far from the set-point.
fn held_by(backend: &str, mean_mib: f64, scatter_mib: f64) -> Run {
    let windows = [
        (mean_mib - scatter_mib) * MIB,
        (mean_mib + scatter_mib) * MIB,
    ];
    Run {
        backend: backend.into(),
        bandwidth: Bandwidth::of(&windows, 36.0 * MIB),
        ..run("max-min", mean_mib, 10_000.0)
    }
}

/// `sentence` is one: it ends once, and nothing is in it that is not for people.
fn is_one_sentence(sentence: &str) {
    assert!(sentence.ends_with('.'), "{sentence}");
    assert!(!sentence.contains(['\n', '\u{1b}']), "{sentence}");
    for odd in ["NaN", "inf", "..", "  ", "( ", "()"] {
        assert!(!sentence.contains(odd), "{odd:?} in {sentence}");
    }
}

#[test]
fn one_controlled_run_is_named_by_its_back_end() {
    assert_eq!(
        closing(&results()),
        "weir (cpu-max) held the device at 36.4 of 36 MiB/s; light reader's p99 −50 % (8.00 to 4.00 ms), work \
         beside +100 %."
    );
}

#[test]
fn of_several_runs_the_one_that_scatters_least_is_named() {
    let mut results = results();
    results.runs = vec![
        results.runs[0].clone(),
        held_by("cpu-max", 36.0, 3.0),
        held_by("sched-ext-full", 36.036, 0.5),
        held_by("sched-ext", 37.8, 1.0),
    ];
    let sentence = closing(&results);
    let start = "weir (sched-ext-full) held the device at 36.0 of 36 MiB/s (RMSE 1.39 %; cpu-max: 8.33 %; sched-ext: \
                 5.72 %); light reader's p99 −50 %";
    assert!(sentence.starts_with(start), "{sentence}");
    for i in 0..4 {
        let name = format!("more{i}");
        results.runs.push(held_by(&name, 36.0, 4.0));
    }
    let sentence = closing(&results);
    assert!(sentence.contains("more0: 11.1 %; 3 more)"), "{sentence}");
}

#[test]
fn runs_are_named_by_what_differs() {
    let mut results = results();
    let other = Run {
        policy: "proportional".into(),
        ..held_by("cpu-max", 36.0, 9.0)
    };
    results.runs.push(other.clone());
    let sentence = closing(&results);
    assert!(
        sentence.contains("weir (max-min) held"),
        "one back end: {sentence}"
    );
    assert!(sentence.contains("; proportional: 25.0 %)"), "{sentence}");
    results.runs.push(Run {
        backend: "sched-ext".into(),
        ..other
    });
    let sentence = closing(&results);
    assert!(
        sentence.contains("weir (max-min, cpu-max) held"),
        "{sentence}"
    );
    // The same once more with another seed is no other run.
    let mut seeds = super::results();
    let again = seeds.runs[1].clone();
    seeds.runs.push(again);
    assert!(!closing(&seeds).contains("RMSE"));
}

#[test]
fn a_device_that_was_not_held_is_not_said_to_be() {
    let mut results = results();
    results.runs[1] = held_by("cpu-max", 54.0, 1.0);
    results.runs[1].light_reader.p99_ns = Some(9e6);
    assert_eq!(
        closing(&results),
        "weir (cpu-max) did not hold the device, which moved 54.0 MiB/s, 50.0 % above its set-point; light \
         reader's p99 +12 % (8.00 to 9.00 ms), work beside +100 %."
    );
    results.runs[1] = held_by("cpu-max", 18.0, 1.0);
    results.runs[1].light_reader.p99_ns = Some(8e6);
    let sentence = closing(&results);
    assert!(
        sentence.contains("50.0 % below its set-point"),
        "{sentence}"
    );
    assert!(
        sentence.contains("; light reader's p99 stays 8.00 ms, work"),
        "{sentence}"
    );
}

#[test]
fn other_controllers_are_named_where_weir_did_not_run() {
    let mut results = results();
    let thesis = held_by("thesis-scx", 36.0, 0.1);
    results.runs.push(thesis.clone());
    assert!(closing(&results).starts_with("weir (cpu-max) held"));
    results.runs[1] = thesis;
    assert!(closing(&results).starts_with("thesis-scx held the device at 36.0 of 36 MiB/s;"));
    results.runs.truncate(2);
    results.runs[1].policy = "none".into();
    results.runs[1].backend = "cpu.max 5000 20000 by hand".into();
    let sentence = closing(&results);
    let start = "A limit by hand (cpu.max 5000 20000 by hand) held";
    assert!(sentence.starts_with(start), "{sentence}");
}

#[test]
fn without_control_there_is_less_to_say() {
    let mut results = results();
    let held = results.runs.pop().unwrap();
    assert_eq!(
        closing(&results),
        "Without control the device moved 72.0 MiB/s, 100 % above its set-point; light reader's p99 8.00 ms."
    );
    results.runs = vec![held];
    assert_eq!(
        closing(&results),
        "weir (cpu-max) held the device at 36.4 of 36 MiB/s; light reader's p99 4.00 ms; no run without control \
         was made to compare with."
    );
    assert_eq!(closing(&Results::default()), "No run was made.");
}

#[test]
fn what_is_missing_is_said() {
    let mut results = results();
    let no_blocks = |run: &mut Run| {
        run.light_reader = Latency::default();
        let why = "no light reader finished a block".into();
        run.missing.insert("light_reader".into(), why);
    };
    no_blocks(&mut results.runs[1]);
    let end = "; light reader's p99 not known (no light reader finished a block), mean access latency −50 % (20.0 to \
               10.0 µs), work beside +100 %.";
    let sentence = closing(&results);
    assert!(sentence.ends_with(end), "{sentence}");
    // A scenario without a light reader lacks nothing.
    no_blocks(&mut results.runs[0]);
    let sentence = closing(&results);
    let end = "MiB/s; mean access latency −50 % (20.0 to 10.0 µs), work beside +100 %.";
    assert!(sentence.ends_with(end), "{sentence}");
    results.runs[0].device_latency.mean_ns = None;
    results.runs[0].throughput_ops_per_sec = None;
    let sentence = closing(&results);
    let end = "; mean access latency not known (no value and no reason in the results).";
    assert!(sentence.ends_with(end), "{sentence}");

    let no_window = "the measured time has no whole window";
    results.runs[1]
        .missing
        .insert("bandwidth".into(), no_window.into());
    let start = format!("The device's bandwidth with weir (cpu-max) is not known ({no_window}); ");
    let sentence = closing(&results);
    assert!(sentence.starts_with(&start), "{sentence}");
}

#[test]
fn of_several_seeds_the_means_are_given() {
    let mut results = results();
    for seed in [8, 9] {
        for run in super::results().runs {
            results.runs.push(Run { seed, ..run });
        }
    }
    // The figures are those of seed 9 alone: no seed's own figures are the means.
    results.runs[5].light_reader.p99_ns = Some(7e6);
    results.runs[5].throughput_ops_per_sec = Some(400.0);
    let sentence = closing(&results);
    let end = "light reader's p99 −38 % (8.00 to 5.00 ms), work beside +300 % (means of 3 seeds).";
    assert!(sentence.ends_with(end), "{sentence}");
    assert!(
        !sentence.contains("RMSE"),
        "another seed is no other controller: {sentence}"
    );
}

#[test]
fn absurd_results_give_a_sentence_too() {
    let nonsense = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300, f64::MIN_POSITIVE];
    for value in nonsense {
        let mut results = results();
        let mut odd = run("max-min", value, value);
        odd.set_point_bytes_per_sec = value;
        odd.bandwidth = Bandwidth::of(&[value], value);
        odd.backend = "x\u{1b}[2J\n".repeat(50);
        results.runs.push(odd.clone());
        is_one_sentence(&closing(&results));
        results.runs.remove(1);
        is_one_sentence(&closing(&results));
        results.runs = vec![odd];
        is_one_sentence(&closing(&results));
    }
    results().runs.iter_mut().for_each(|run| {
        *run = Run {
            policy: run.policy.clone(),
            backend: run.backend.clone(),
            ..Run::default()
        };
        let runs = vec![run.clone(), run.clone()];
        is_one_sentence(&closing(&Results {
            runs,
            ..Results::default()
        }));
    });
}

#[test]
fn a_device_below_its_set_point_had_nothing_to_be_limited() {
    let mut results = results();
    let below = |run: Run, mean: f64| Run {
        bandwidth: Bandwidth::of(&[mean * MIB, mean * MIB], 36.0 * MIB),
        ..run
    };
    let (free, held) = (results.runs[0].clone(), results.runs[1].clone());
    results.runs = vec![below(free.clone(), 18.0), below(held.clone(), 18.0)];
    let sentence = closing(&results);
    let start = "weir (cpu-max) had nothing to limit: the device moved 18.0 MiB/s, 50.0 % below its set-point; ";
    assert!(sentence.starts_with(start), "{sentence}");
    is_one_sentence(&sentence);
    // What weir took away was not nothing; nor is it known without a run to compare with.
    for runs in [
        vec![below(free.clone(), 60.0), below(held.clone(), 18.0)],
        vec![below(free, 30.0), below(held.clone(), 18.0)],
        vec![below(held, 18.0)],
    ] {
        results.runs = runs;
        let sentence = closing(&results);
        assert!(sentence.contains("did not hold the device"), "{sentence}");
    }
}
