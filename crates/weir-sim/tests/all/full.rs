// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weir's scheduler for all ordinary tasks: fair by weights, quick to tasks that mostly sleep, and the device
//! capped between two observations. How well it holds a set-point is tested beside partial mode, in
//! `partial.rs`.

use proptest::prelude::*;
use weir_sim::{Backend, ControllerKind, RunMetrics, Scenario, WorkloadSeries, run};

const STEP: &str = include_str!("../../../../scenarios/sim/step.toml");
/// What a parked task waits for at most, while no more than ten of its workload wait (`starvation_ns`).
const TURN_MS: f64 = 500.0;
/// A slice ends at the first tick of the kernel (HZ=250) after 4 ms.
const SLICE_MS: f64 = 8.0;

fn scenario(cores: u32, measure_sec: f64, workloads: &str) -> Scenario {
    let text = format!(
        "name = \"test\"\nabout = \"full mode\"\n[machine]\ncores = {cores}\nthreads_per_core = 1\nhz = 250\n\
         [[device]]\nprofile = \"agilex-thesis\"\n[control]\nset_point_bytes_per_sec = 2e9\n\
         settle_sec = 1.0\nmeasure_sec = {measure_sec}\n{workloads}"
    );
    Scenario::parse(&text, "test").unwrap_or_else(|e| panic!("{e}"))
}

fn spinner(name: &str, keys: &str) -> String {
    format!(
        "[[workload]]\nname = \"{name}\"\nrole = \"light\"\n{keys}\n[[workload.phase]]\nkind = \"compute\"\n"
    )
}

fn reader(name: &str, keys: &str) -> String {
    format!(
        "[[workload]]\nname = \"{name}\"\nrole = \"heavy\"\nresident_mib = 64\n{keys}\n\
         [[workload.phase]]\nkind = \"access\"\nblock_kib = 256\n"
    )
}

/// A workload that sleeps most of the time.
fn sleeper(name: &str) -> String {
    format!(
        "[[workload]]\nname = \"{name}\"\nrole = \"light\"\n[[workload.phase]]\nkind = \"compute\"\n\
         chunk_us = 100.0\ntimes = 1\n[[workload.phase]]\nkind = \"sleep\"\nmean_us = 10000.0\nrandom = true\n"
    )
}

fn held(scenario: &Scenario, seed: u64) -> RunMetrics {
    let variant = ControllerKind::weir_with(Backend::SchedExtFull, scenario);
    run(scenario, &variant, seed).unwrap_or_else(|e| panic!("{e}"))
}

fn of<'a>(measures: &'a RunMetrics, name: &str) -> &'a WorkloadSeries {
    let found = measures.workloads.iter().find(|w| w.name == name);
    found.unwrap_or_else(|| panic!("no {name}"))
}

/// Mean of a series from the end of settling on.
fn mean(series: &[f64]) -> f64 {
    series[10..].iter().sum::<f64>() / (series.len() - 10) as f64
}

fn near(value: f64, wanted: f64, ratio: f64) {
    assert!(
        (value / wanted - 1.0).abs() <= ratio,
        "{value} instead of {wanted}"
    );
}

#[test]
fn a_task_that_computes_gets_its_weight() {
    let both = spinner("one", "weight = 100.0") + &spinner("three", "weight = 300.0");
    for (cores, seed) in [(1, 1), (1, 2), (1, 3)] {
        let m = held(&scenario(cores, 10.0, &both), seed);
        near(mean(&of(&m, "one").cpus), 0.25, 0.02);
        near(mean(&of(&m, "three").cpus), 0.75, 0.02);
    }
}

/// The same setting as in the testbed: two tasks with 300 together beside six with about 100, on two CPUs.
#[test]
fn a_workload_gets_its_weight_however_many_tasks_it_has() {
    let both = spinner("few", "threads = 2\nweight = 150.0")
        + &spinner("many", "threads = 6\nweight = 17.0");
    for seed in 1..=3 {
        let m = held(&scenario(2, 10.0, &both), seed);
        let times = mean(&of(&m, "few").cpus) / mean(&of(&m, "many").cpus);
        near(times, 300.0 / 102.0, 0.05);
    }
}

/// One of four tasks has a lock that the others wait for: it has the part of all.
#[test]
fn a_task_that_waits_for_a_lock_leaves_its_part_to_its_workload() {
    let locked = spinner("locked", "threads = 4\nweight = 25.0") + "chunk_us = 1e9\nlock = 0\n";
    let both = locked + &spinner("other", "weight = 100.0");
    for seed in 1..=3 {
        let m = held(&scenario(1, 10.0, &both), seed);
        near(mean(&of(&m, "locked").cpus), 0.5, 0.02);
    }
}

/// A task that slept for seconds and computes then has no more than a slice of credit.
#[test]
fn a_long_sleep_is_no_long_credit() {
    let rare = "[[workload]]\nname = \"rare\"\nrole = \"light\"\n[[workload.phase]]\nkind = \"compute\"\n\
                for_ms = 1000\n[[workload.phase]]\nkind = \"sleep\"\nmean_us = 2000000.0\n";
    let all = spinner("busy", "count = 2") + rare;
    for seed in 1..=3 {
        let m = held(&scenario(1, 20.0, &all), seed);
        for name in ["busy-1", "busy-2"] {
            let longest = of(&m, name).longest_wait_ns as f64 / 1e6;
            assert!(longest < 6.0 * SLICE_MS, "seed {seed}: {name} {longest} ms");
        }
    }
}

/// Where a budget makes a run in seconds only, every task runs all the same.
#[test]
fn a_task_in_debt_runs_by_the_starvation_guard() {
    let mut all = String::new();
    for i in 0..8 {
        all += &reader(&format!("r{i}"), "threads = 8\nweight = 1.0");
    }
    let mut scenario = scenario(4, 20.0, &(all + &reader("big", "weight = 10000.0")));
    scenario.control.set_point_bytes_per_sec = 2e7;
    for seed in 1..=2 {
        let m = held(&scenario, seed);
        let waits = m.workloads.iter().map(|w| w.longest_wait_ns);
        let longest_ms = waits.max().unwrap_or(0) as f64 / 1e6;
        assert!(
            longest_ms < TURN_MS + 20.0 * SLICE_MS,
            "seed {seed}: {longest_ms} ms"
        );
    }
}

/// Beside two tasks that compute on the only CPU, a task that wakes has it at once.
#[test]
fn a_task_that_mostly_sleeps_does_not_wait_for_the_end_of_a_slice() {
    let all = spinner("busy", "count = 2") + &sleeper("quick");
    for seed in 1..=3 {
        let m = held(&scenario(1, 20.0, &all), seed);
        let waits = &of(&m, "quick").waits;
        assert!(waits.count() > 1000.0);
        let micros = |q| waits.quantile_ns(q).expect("it woke") / 1e3;
        assert!(micros(0.99) < 500.0, "seed {seed}: {} us", micros(0.99));
        let longest = of(&m, "quick").longest_wait_ns as f64 / 1e6;
        assert!(longest < SLICE_MS, "seed {seed}: {longest} ms");
    }
}

/// Weights of workloads that are limited are the policy's, and what they are not given the others get. A task
/// that its budget releases waits behind those that have had less, so a part of the budget stays unused where
/// CPUs are full.
#[test]
fn the_limited_get_their_budgets_and_the_others_the_rest() {
    let all = reader("one", "weight = 100.0")
        + &reader("three", "weight = 300.0")
        + &spinner("busy", "count = 4");
    for seed in 1..=3 {
        let m = held(&scenario(4, 10.0, &all), seed);
        near(m.bandwidth.mean_bytes_per_sec, 2e9, 0.025);
        near(mean(&of(&m, "one").bytes_per_sec), 0.5e9, 0.04);
        near(mean(&of(&m, "three").bytes_per_sec), 1.5e9, 0.04);
        let cpus: Vec<f64> = m.workloads.iter().map(|w| mean(&w.cpus)).collect();
        near(cpus.iter().sum(), 4.0, 0.005);
    }
}

/// Five readers begin at 5 s. Partial mode limits them with its next plan. Full mode caps the device's
/// traffic until then, also where the next observation is a second away.
#[test]
fn a_new_load_is_capped_before_the_next_observation() {
    let mut scenario = Scenario::parse(STEP, "step").unwrap_or_else(|e| panic!("{e}"));
    (scenario.control.settle_sec, scenario.control.measure_sec) = (5.0, 1.0);
    scenario.control.interval_ms = 2000;
    for seed in 1..=3 {
        let windows = |backend| {
            let variant = ControllerKind::weir_with(backend, &scenario);
            let m = run(&scenario, &variant, seed).unwrap_or_else(|e| panic!("{e}"));
            let parts = m.series[50..59].iter();
            parts
                .map(|p| p.bytes_per_sec / m.set_point_bytes_per_sec)
                .collect::<Vec<f64>>()
        };
        let full = windows(Backend::SchedExtFull);
        assert!(full.iter().all(|w| *w < 1.1), "{full:?}");
        assert!(full.iter().skip(1).all(|w| *w > 0.9), "{full:?}");
        let partial = windows(Backend::SchedExtServed);
        assert!(partial.iter().all(|w| *w > 1.4), "{partial:?}");
    }
}

/// One of two tasks that compute is never disturbed; after 8 s a third comes. Each should have two thirds of
/// a CPU, and no task should wait for longer than the others' slices.
#[test]
fn a_task_that_ran_undisturbed_for_long_gives_way_to_others() {
    let all =
        spinner("early", "count = 2") + &spinner("late", "start_ms = 8000") + &sleeper("quick");
    for seed in 1..=3 {
        let m = held(&scenario(2, 19.0, &all), seed);
        let parts = ["early-1", "early-2", "late"].map(|w| {
            let cpus = &of(&m, w).cpus[120..];
            cpus.iter().sum::<f64>() / cpus.len() as f64
        });
        println!("seed {seed}: {parts:.2?}");
        let longest = m.workloads.iter().map(|w| w.longest_wait_ns).max();
        println!("longest wait {:.0} ms", longest.unwrap_or(0) as f64 / 1e6);
        parts.iter().for_each(|p| near(*p, 0.65, 0.1));
        assert!((longest.unwrap_or(0) as f64) < 3e6 * SLICE_MS);
    }
}

/// No workload used the device for seconds. That is no credit for those that are limited then.
#[test]
fn a_rest_is_no_credit() {
    let mut scenario = Scenario::parse(STEP, "step").unwrap_or_else(|e| panic!("{e}"));
    (scenario.control.settle_sec, scenario.control.measure_sec) = (5.0, 1.0);
    for seed in 1..=3 {
        let m = held(&scenario, seed);
        let parts = m.series[50..].iter();
        let windows: Vec<f64> = parts
            .map(|p| p.bytes_per_sec / m.set_point_bytes_per_sec)
            .collect();
        println!("seed {seed}: {windows:.2?}");
        assert!(windows.iter().all(|w| *w < 1.1), "{windows:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever runs: the device is not above its set-point, no CPU is idle while a task waits for one, and
    /// no task waits for longer than the slices of all others.
    #[test]
    fn no_task_waits_for_ever(
        cores in 1..5u32,
        readers in 1..5u32,
        threads in 1..4u32,
        busy in 1..9u32,
        sleepers in 0..3u32,
        seed in 0..1000u64,
    ) {
        let mut all = reader("reader", &format!("count = {readers}\nthreads = {threads}"));
        all += &spinner("busy", &format!("count = {busy}"));
        for i in 0..sleepers {
            all += &sleeper(&format!("sleeper{i}"));
        }
        let scenario = scenario(cores, 4.0, &all);
        let m = held(&scenario, seed);
        let ratio = m.bandwidth.mean_bytes_per_sec / m.set_point_bytes_per_sec;
        prop_assert!(ratio < 1.01, "{} of the set-point", ratio);
        let used: f64 = m.workloads.iter().map(|w| mean(&w.cpus)).sum();
        if busy >= cores {
            prop_assert!(used > f64::from(cores) * 0.995, "{} CPUs used", used);
        }
        let others = f64::from(readers * threads + busy + sleepers + 1);
        let slices = SLICE_MS * (others / f64::from(cores)).ceil();
        for w in &m.workloads {
            let longest = w.longest_wait_ns as f64 / 1e6;
            let parked = if w.name.starts_with("reader") { TURN_MS } else { 0.0 };
            prop_assert!(longest <= parked + slices, "{}: {} ms", w.name, longest);
        }
    }
}
