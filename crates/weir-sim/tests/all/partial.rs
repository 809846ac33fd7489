// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weir's scheduler in the simulated host: the kernel's arithmetic under weir's own controller.

use weir_sim::{Attribution, Backend, ControllerKind, RunMetrics, Scenario, run};

const IDLE: &str = include_str!("../../../../scenarios/sim/thesis-idle.toml");
const SATURATED: &str = include_str!("../../../../scenarios/sim/thesis-limit.toml");

fn scenario(text: &str) -> Scenario {
    let mut scenario = Scenario::parse(text, "test").unwrap_or_else(|e| panic!("{e}"));
    (scenario.control.settle_sec, scenario.control.measure_sec) = (5.0, 15.0);
    scenario
}

fn pair(scenario: &Scenario, backend: Backend, seed: u64) -> [RunMetrics; 2] {
    [
        ControllerKind::None,
        ControllerKind::weir_with(backend, scenario),
    ]
    .map(|v| run(scenario, &v, seed).unwrap_or_else(|e| panic!("{e}")))
}

/// What was promised of the scheduler: RMSE, bias, latency of the device (as a part of what it was), and the
/// readers' own (p99, in Little's bounds).
fn is_as_promised(
    scenario: &Scenario,
    backend: Backend,
    latency_max: f64,
    p99_max: f64,
    seed: u64,
) {
    let [free, held] = pair(scenario, backend, seed);
    let (rmse, bias) = (held.bandwidth.rmse_ratio, held.bandwidth.bias_ratio);
    assert!(rmse < 0.03, "seed {seed}: RMSE {rmse}");
    assert!(bias.abs() < 0.01, "seed {seed}: bias {bias}");
    let ns = |m: &RunMetrics| m.device_latency.mean_ns.expect("lines were moved");
    let ratio = ns(&held) / ns(&free);
    assert!(
        ratio <= latency_max,
        "seed {seed}: latency {ratio} of what it was"
    );
    let (p99, bound) = (held.limited_readers.p99_ns, held.little_bound_ns);
    let times = p99.zip(bound).map(|(p, b)| p / b);
    assert!(
        times.is_some_and(|t| t <= p99_max),
        "seed {seed}: {times:?} of Little's bound"
    );
}

/// Where no other task needs the CPUs, which is where the thesis's schedulers did nothing.
#[test]
fn an_idle_machine_is_held_at_the_set_point() {
    for seed in 1..=5 {
        // A quantile is up to 3.2 % off: the next bucket after 2.0 is 2.067.
        is_as_promised(&scenario(IDLE), Backend::SchedExt, 0.5, 2.1, seed);
        is_as_promised(&scenario(IDLE), Backend::SchedExtFull, 0.5, 2.1, seed);
    }
}

/// When all ordinary tasks are in one queue, limited tasks do not wait behind the others: the set-point is
/// held without the kernel's help, a reader is never away for long, and the work beside has more than without
/// control.
#[test]
fn a_saturated_machine_is_held_in_full_mode() {
    let scenario = scenario(SATURATED);
    for seed in 1..=5 {
        is_as_promised(&scenario, Backend::SchedExtFull, 0.53, 2.0, seed);
        let [free, held] = pair(&scenario, Backend::SchedExtFull, seed);
        let rmse = held.bandwidth.rmse_ratio;
        assert!(rmse < 0.012, "seed {seed}: RMSE {rmse}");
        let [before, now] = [&free, &held].map(|m| m.throughput_ops_per_sec.expect("work beside"));
        assert!(
            now > 1.04 * before,
            "seed {seed}: {now} beside, {before} before"
        );
        let waits = held.workloads.iter().map(|w| w.longest_wait_ns);
        let longest_ms = waits.max().unwrap_or(0) as f64 / 1e6;
        assert!(longest_ms < 50.0, "seed {seed}: {longest_ms} ms");
    }
}

/// Where ordinary tasks need nearly all CPUs, if the kernel gives limited ones more than its usual 5 %. The
/// goal is half of the latency; readers that run a quarter above the set-point keep 46 to 52 %. (2.1: as
/// above.)
#[test]
fn a_saturated_machine_is_held_if_the_kernel_serves_limited_tasks() {
    for seed in 1..=5 {
        is_as_promised(
            &scenario(SATURATED),
            Backend::SchedExtServed,
            0.53,
            2.1,
            seed,
        );
    }
}

/// `SCHED_EXT` ranks below the fair class. Where ordinary tasks need nearly all CPUs, limited ones would get
/// what those leave, and the device would stay a quarter below its set-point: the back end is refused, and
/// the reason names both figures and what to take instead.
#[test]
fn a_saturated_machine_is_refused_with_the_reason() {
    let scenario = scenario(SATURATED);
    for seed in 1..=3 {
        let variant = ControllerKind::weir_with(Backend::SchedExt, &scenario);
        let said = run(&scenario, &variant, seed).expect_err("39 workers need 39 of 40 CPUs");
        let said = said.to_string();
        for word in [
            "weir-sched-ext is refused",
            "of 40 CPUs",
            "cpu-max",
            "sched-ext-full",
        ] {
            assert!(said.contains(word), "seed {seed}: {word}: {said}");
        }
    }
}

/// When there are some workers fewer, the limited readers have what they need, and nothing is refused.
#[test]
fn a_machine_with_cpus_for_limited_tasks_is_not_refused() {
    let mut scenario = scenario(SATURATED);
    for workload in &mut scenario.workloads {
        if workload.name == "stress" {
            workload.count = 36;
        }
    }
    for seed in 1..=3 {
        let held = &pair(&scenario, Backend::SchedExt, seed)[1];
        let bias = held.bandwidth.bias_ratio;
        assert!(bias.abs() < 0.01, "seed {seed}: bias {bias}");
    }
}

/// A machine that becomes full while limits are in force is noticed then.
#[test]
fn a_machine_that_becomes_full_is_refused_then() {
    let mut scenario = scenario(SATURATED);
    for workload in &mut scenario.workloads {
        if workload.name == "stress" {
            workload.start_ms = 8000;
        }
    }
    let variant = ControllerKind::weir_with(Backend::SchedExt, &scenario);
    let said = run(&scenario, &variant, 1).expect_err("full from the eighth second on");
    let said = said.to_string();
    let second: Option<u64> = said
        .split_once("second ")
        .and_then(|(_, rest)| rest.split_once(':')?.0.parse().ok());
    assert!(second.is_some_and(|s| (8..=12).contains(&s)), "{said}");
}

/// Where the scheduler cannot read the device's counters, it goes by estimates and by what weir sees a
/// hundred times a second: the mean is as exact, and windows of 100 ms nearly so.
#[test]
fn what_weir_sees_holds_a_device_too() {
    for (text, backend) in [
        (IDLE, Backend::SchedExt),
        (SATURATED, Backend::SchedExtFull),
    ] {
        let scenario = scenario(text);
        for seed in 1..=5 {
            let variant = ControllerKind::weir_that_polls(backend, &scenario);
            let held = run(&scenario, &variant, seed).unwrap_or_else(|e| panic!("{e}"));
            let (rmse, bias) = (held.bandwidth.rmse_ratio, held.bandwidth.bias_ratio);
            assert!(rmse < 0.03, "{backend:?}, seed {seed}: RMSE {rmse}");
            assert!(bias.abs() < 0.003, "{backend:?}, seed {seed}: bias {bias}");
        }
    }
}

/// Every reader goes on moving: none is starved, and equal ones get the same.
#[test]
fn equal_readers_get_equal_parts() {
    for (text, backend) in [
        (IDLE, Backend::SchedExt),
        (SATURATED, Backend::SchedExtFull),
    ] {
        let mut scenario = scenario(text);
        // Counts have an error of their own for each reader, and a reader that is taken for a larger one gets
        // less.
        scenario.sensors.attribution = Attribution::CpuTime;
        are_equal(&pair(&scenario, backend, 7)[1]);
    }
}

fn are_equal(held: &RunMetrics) {
    let rates: Vec<f64> = held
        .workloads
        .iter()
        .filter(|w| w.name.contains("fio-") && !w.name.contains("control"))
        .map(|w| w.bytes_per_sec[60..].iter().sum::<f64>() / (w.bytes_per_sec.len() - 60) as f64)
        .collect();
    assert_eq!(rates.len(), 5);
    let mean = rates.iter().sum::<f64>() / 5.0;
    assert!(
        rates.iter().all(|r| (r / mean - 1.0).abs() < 0.05),
        "{rates:?}"
    );
    for w in held
        .workloads
        .iter()
        .filter(|w| w.name.starts_with("fio-") && w.name != "fio-control")
    {
        let holes = w.bytes_per_sec[60..]
            .iter()
            .filter(|b| **b < 0.2 * mean)
            .count();
        assert_eq!(holes, 0, "{}: windows with next to nothing", w.name);
    }
}
