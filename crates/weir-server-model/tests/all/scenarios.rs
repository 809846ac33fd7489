// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generated scenarios: each cause does what its name says.

use super::sum;
use weir_server_model::random::{
    Cause, Strength, busy_scenario, healthy_scenario, idle_scenario, random_scenario,
};
use weir_server_model::{Machine, ServerWindow, Stage, Target};

fn run(cause: Cause, strength: Strength, seed: u64) -> ServerWindow {
    let mut scenario = cause.scenario(strength, seed).expect("a scenario");
    scenario.run.window_us = 150.0;
    scenario.run(seed).expect("windows").remove(0)
}

/// Waiting time of the victim's requests at a stage, nanoseconds a request that was there.
fn wait_ns(window: &ServerWindow, stage: Stage) -> f64 {
    let rows = window
        .truth
        .places
        .iter()
        .filter(|row| row.workload == "victim" && row.stage == stage);
    let (requests, ns) = rows.fold((0, 0.0), |(n, ns), row| {
        (n + row.requests, ns + row.wait_ns)
    });
    ns / (requests as f64).max(1.0)
}

/// Part of the victim's stalls at a stage, by target.
fn stalled(window: &ServerWindow, is_there: impl Fn(Stage, Target) -> bool) -> f64 {
    let rows = window
        .truth
        .stalls
        .iter()
        .filter(|row| row.workload == "victim");
    let (there, all) = rows.fold((0.0, 0.0), |(there, all), row| {
        let is = f64::from(u8::from(is_there(row.stage, row.target)));
        (there + is * row.ns, all + row.ns)
    });
    there / all
}

#[test]
fn neighbours_cause_waits_where_their_name_says() {
    for (cause, stage) in [
        (Cause::DeviceSaturated, Stage::Device),
        (Cause::LinkReads, Stage::Port),
        (Cause::LinkWrites, Stage::Port),
        (Cause::TorHeld, Stage::Mesh),
        (Cause::DramContended, Stage::Dram),
    ] {
        let [weak, strong] =
            [Strength::Weak, Strength::Strong].map(|strength| run(cause, strength, 5));
        let (less, more) = (wait_ns(&weak, stage), wait_ns(&strong, stage));
        assert!(
            more > 1.5 * less && more > 20.0,
            "{}: {less} and {more} ns",
            cause.name()
        );
        let rows = strong.truth.waits.iter();
        let rows = rows.filter(|row| row.stage == stage && row.workload == "victim");
        let (mut own, mut others) = (0.0, 0.0);
        for row in rows {
            let is_other = row.behind.as_ref().is_some_and(|name| name != "victim");
            *if is_other { &mut others } else { &mut own } += row.ns;
        }
        assert!(
            others > 5.0 * own,
            "{}: {others} behind others, {own} not",
            cause.name()
        );
    }
}

#[test]
fn causes_without_neighbours_show_where_they_should() {
    let strong = |cause| run(cause, Strength::Strong, 3);
    let far = stalled(&strong(Cause::RemoteSocket), |stage, _| stage == Stage::Upi);
    assert!(far > 0.5, "remote socket: {far}");
    let device = stalled(&strong(Cause::DeviceSlow), |stage, _| {
        stage == Stage::Device
    });
    assert!(device > 0.6, "device slower: {device}");
    // The oldest load always has its buffer; those behind it wait for one.
    let buffers = wait_ns(&strong(Cause::FillBuffersHeld), Stage::FillBuffer);
    assert!(buffers > 50.0, "fill buffers: {buffers}");
    let chains = stalled(&strong(Cause::Chains), |_, target| target == Target::Cxl);
    assert!(chains > 0.95, "chains: {chains}");
    let stores = strong(Cause::StoreBound);
    assert!(
        sum(&stores, "cpu", "stalls.bound_on_stores") > 10 * sum(&stores, "cpu", "stalls.l1d_miss")
    );
    let late = strong(Cause::PrefetchLate);
    assert!(
        sum(&late, "cpu", "l2.pf_late") * 2 > sum(&late, "cpu", "l2.pf_miss"),
        "late prefetches"
    );
    let useless = strong(Cause::PrefetchUseless);
    assert!(sum(&useless, "cpu", "l2.pf_useless") * 3 > sum(&useless, "cpu", "l2.pf_miss"));
    let errors = strong(Cause::LinkErrors);
    assert!(sum(&errors, "cxlcm", "txc_resends") > 0 && sum(&errors, "cxlcm", "rxc_resends") > 0);
}

#[test]
fn a_displaced_working_set_misses_more() {
    let part = |strength| {
        let window = run(Cause::LlcDisplaced, strength, 9);
        let rows = window
            .truth
            .lines
            .iter()
            .filter(|row| row.workload == "victim" && row.path.is_read());
        let (hits, all) = rows.fold((0, 0), |(hits, all), row| {
            (
                hits + row.lines * u64::from(row.target == Target::Llc),
                all + row.lines,
            )
        });
        hits as f64 / all as f64
    };
    let (weak, strong) = (part(Strength::Weak), part(Strength::Strong));
    assert!(strong < 0.7 * weak, "hits fall from {weak} to {strong}");
}

#[test]
fn healthy_and_busy_machines_are_so() {
    for seed in 0..4 {
        for scenario in [healthy_scenario(seed), busy_scenario(seed)] {
            let mut scenario = scenario.expect("a scenario");
            scenario.run.window_us = 80.0;
            let window = scenario.run(seed).expect("windows").remove(0);
            let waits = window
                .truth
                .places
                .iter()
                .map(|row| row.wait_ns)
                .sum::<f64>();
            let requests = window.truth.lines.iter().map(|row| row.lines).sum::<u64>();
            let each = waits / requests as f64;
            assert!(each < 60.0, "{}: a request waits {each} ns", scenario.name);
        }
    }
}

#[test]
fn random_machines_differ_and_run() {
    let mut stalling = 0;
    for seed in 0..6 {
        let mut scenario = random_scenario(seed).expect("a scenario");
        scenario.run.window_us = 60.0;
        let window = scenario.run(seed).expect("windows").remove(0);
        let ns = window.truth.to_ns - window.truth.from_ns;
        stalling += window
            .truth
            .cpus
            .iter()
            .filter(|cpu| cpu.measured_stall_ns > 0.1 * ns)
            .count();
        for cpu in &window.truth.cpus {
            assert!(
                cpu.instructions > 0 && cpu.accesses > 0,
                "{}: {cpu:?}",
                scenario.name
            );
        }
    }
    assert!(
        stalling >= 12,
        "only {stalling} CPUs stall for more than a tenth of the time"
    );
}

#[test]
fn on_the_idle_machine_nothing_waits() {
    let machine = Machine::named("small").expect("built in");
    let scenario = idle_scenario(&machine).expect("a scenario");
    let window = scenario.run(1).expect("windows").remove(0);
    let targets = [Target::Dram, Target::DramRemote, Target::Cxl];
    for target in targets {
        let rows = window
            .truth
            .places
            .iter()
            .filter(|row| row.target == target);
        let reads: u64 = rows
            .clone()
            .filter(|row| row.stage == Stage::Mesh)
            .map(|row| row.requests)
            .sum();
        assert!(reads > 50, "{}: {reads}", target.name());
        let waits: f64 = rows.map(|row| row.wait_ns).sum();
        assert!(
            waits / (reads as f64) < 15.0,
            "{}: {waits} ns of {reads}",
            target.name()
        );
    }
}
