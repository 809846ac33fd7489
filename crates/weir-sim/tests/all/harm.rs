// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weir must not do to workloads that use a device little: cut them, or make them wait longer than without control.

use weir_core::seam::plan::ActionKind;
use weir_core::{Observation, Plan};
use weir_sim::{Attribution, Histogram, Measures, Scenario, Variant, run, run_watched};

const PHASES: &str = include_str!("../../../../scenarios/sim/phases.toml");
const SMALL: &str = include_str!("../../../../scenarios/sim/small-among-big.toml");
const BUSY: &str = include_str!("../../../../scenarios/sim/neighbour-busy.toml");

/// One of the scenarios with some keys changed, measured for so long.
fn scenario(text: &str, changes: &[(&str, &str)], measure_sec: f64) -> Scenario {
    let mut text = text.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let mut scenario = Scenario::parse(&text, "test").unwrap_or_else(|e| panic!("{e}"));
    scenario.control.measure_sec = measure_sec;
    scenario
}

/// The scenarios of the repository, and others like them: other phases, other shares, several light users, heavy ones with
/// little memory, a group of its own kind.
fn all(measure_sec: f64) -> Vec<Scenario> {
    let of = |text, changes: &[(&str, &str)]| scenario(text, changes, measure_sec);
    vec![
        of(PHASES, &[]),
        of(SMALL, &[]),
        of(BUSY, &[]),
        of(
            PHASES,
            &[
                ("for_ms = 3000", "for_ms = 1300"),
                ("for_ms = 2000", "for_ms = 700"),
            ],
        ),
        of(
            PHASES,
            &[
                ("for_ms = 2000", "for_ms = 5000"),
                ("count = 6", "count = 9"),
                ("write_ratio = 0.5", "write_ratio = 0.9"),
            ],
        ),
        of(
            BUSY,
            &[
                ("role = \"light\"\n", "role = \"light\"\ncount = 5\n"),
                ("resident_mib = 1024", "resident_mib = 128"),
            ],
        ),
        of(
            SMALL,
            &[
                ("count = 12", "count = 3"),
                ("count = 4", "count = 7"),
                ("resident_mib = 64", "resident_mib = 3000"),
            ],
        ),
    ]
}

fn mean_error(measures: &Measures) -> f64 {
    let errors = &measures.estimate_error_ratio;
    errors.values().sum::<f64>() / errors.len() as f64
}

#[test]
fn estimates_are_within_15_percent() {
    for scenario in all(8.0) {
        for seed in 1..=2 {
            let held = run(&scenario, &Variant::weir(&scenario), seed).expect("a run");
            let error = mean_error(&held);
            println!("{}, seed {seed}: {error:.3}", scenario.name);
            assert!(error <= 0.15, "{}, seed {seed}: {error}", scenario.name);
        }
    }
}

/// Without counts weir has CPU time and memory, and takes a workload that computes for a reader. Where all workloads read
/// all the time, that is good enough.
#[test]
fn without_counts_the_estimate_is_as_good_as_memory_tells() {
    for (text, range) in [(PHASES, 0.3..1.5), (SMALL, 0.0..0.3), (BUSY, 0.0..0.15)] {
        let mut scenario = scenario(text, &[], 8.0);
        scenario.sensors.shares = Attribution::CpuTime;
        let held = run(&scenario, &Variant::weir(&scenario), 1).expect("a run");
        let error = mean_error(&held);
        assert!(range.contains(&error), "{}: {error}", scenario.name);
    }
}

#[test]
fn light_users_are_never_limited() {
    for shares in [Attribution::Counts, Attribution::CpuTime] {
        for mut scenario in all(6.0) {
            scenario.sensors.shares = shares;
            let mut limited = Vec::new();
            let mut watch = |_: &Observation, plan: &Plan| {
                let limits = plan.actions.iter();
                let limits = limits.filter(|a| matches!(a.kind, ActionKind::Limit { .. }));
                limited.extend(limits.map(|a| a.workload.as_str().to_owned()));
            };
            run_watched(&scenario, &Variant::weir(&scenario), 3, &mut watch).expect("a run");
            assert!(!limited.is_empty(), "{}: no limit", scenario.name);
            let is_light = |id: &&String| id.contains("light") || id.contains("small");
            assert_eq!(limited.iter().find(is_light), None, "{}", scenario.name);
        }
    }
}

/// 99th percentile of all blocks of light readers, of 24 runs together, in microseconds. That of one run hangs on a few
/// waits for a CPU, and these on the moment between two ticks at which the reader wakes.
fn light_p99_us(scenario: &Scenario, variant: &Variant) -> f64 {
    let mut blocks = Histogram::default();
    for seed in 1..=24 {
        blocks.merge(&run(scenario, variant, seed).expect("a run").light_blocks);
    }
    blocks.quantile_ns(0.99).expect("blocks") / 1e3
}

/// A limit's period that is a multiple of what programs wake at makes some of them meet a burst of a limited reader at each
/// wake-up: 5 ms here. The default is not.
#[test]
fn periods_of_limits_do_not_keep_time_with_wake_ups() {
    let usual = scenario(BUSY, &[], 60.0);
    let mut in_step = usual.clone();
    in_step.control.period_ms = Some(10);
    let without = light_p99_us(&usual, &Variant::None);
    let [usual, in_step] = [usual, in_step].map(|s| light_p99_us(&s, &Variant::weir(&s)));
    println!("p99 without {without:.0} us, with weir {usual:.0} us, in step {in_step:.0} us");
    assert!(in_step > 1.1 * usual, "{in_step} and {usual}");
    // 72 seeds have 18 % more than without control: see below.
    assert!(usual < 1.2 * without, "{usual} and {without}");
}

/// Where all CPUs are wanted, limits by `cpu.max` make light users wait for a CPU longer than no limits do: a light user that
/// wakes is put on an idle CPU, which is one that a limited reader has left, and waits behind it once it is released. It is the
/// weight of those readers: with a quarter of it while they are limited, nobody waits longer. And it is the full CPUs: with
/// three fewer workers nothing is left of it.
#[test]
fn light_users_wait_behind_released_readers_where_all_cpus_are_wanted() {
    const ON_OFF: &str = include_str!("../../../../scenarios/sim/on-off.toml");
    let full = scenario(ON_OFF, &[], 24.0);
    let p99_us = |scenario: &Scenario, variant: Variant| {
        let mut blocks = Histogram::default();
        for seed in 1..=12 {
            blocks.merge(&run(scenario, &variant, seed).expect("a run").light_blocks);
        }
        blocks.quantile_ns(0.99).expect("blocks") / 1e3
    };
    let without = p99_us(&full, Variant::None);
    let held = p99_us(&full, Variant::weir(&full));
    let low = p99_us(&full, Variant::weir_with_low_weights(&full));
    let room = scenario(ON_OFF, &[("count = 39", "count = 36")], 24.0);
    let with_room = p99_us(&room, Variant::weir(&room));
    println!(
        "{without:.0} us without, {held:.0} with weir, {low:.0} with low weights, {with_room:.0} with room"
    );
    assert!(held > 1.5 * without, "{held} and {without}: no longer so?");
    assert!(low < 1.03 * without, "{low} and {without}");
    assert!(with_room < 0.1 * without, "{with_room} and {without}");
}

/// Each step changes some of hundreds of limits by more than a quarter. The device's correction must go on meanwhile: with a
/// pause at each such change the device stayed 4 % above its set-point.
#[test]
fn a_thousand_workloads_are_held_at_the_set_point() {
    let text = include_str!("../../../../scenarios/sim/thousand.toml");
    let scenario = scenario(text, &[], 10.0);
    let held = run(&scenario, &Variant::weir(&scenario), 1).expect("a run");
    let bias = held.bandwidth.bias_ratio;
    assert!(bias.abs() < 0.02, "{bias}");
}
