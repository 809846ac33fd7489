// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What holds of any path whatever its equations are: capacities, the pool's size, Little's law.

use super::draw::{self, Dice};
use weir_hw::host_path::{
    EventPlan, Flow, HostMachine, HostStream, Keeping, PathNetwork, PathOutcome, StreamOp, compile,
    simulate, solve,
};

/// Rounding of the solver, relative.
const EXACT: f64 = 1e-6;

fn drawn(seed: u64) -> (PathNetwork, String) {
    let mut dice = Dice::new(seed);
    let machine = draw::machine(&mut dice);
    let streams = draw::streams(&mut dice);
    let network = compile(&machine, &streams).unwrap();
    (network, format!("{seed}: {}", draw::words(&streams)))
}

/// Buffers of a flow's first leg that its lines occupy, by Little's law.
fn buffers_used(network: &PathNetwork, flow: &Flow, outcome: &PathOutcome, number: usize) -> f64 {
    let leg = &flow.legs[0];
    let got = outcome.flows[number];
    let admitted = leg.path_ns + got.wait_ns;
    let memory = leg.memory_part * outcome.memories[leg.memory].residence_ns;
    let cached = (1.0 - leg.memory_part) * network.lookup_ns;
    let hold = match leg.keeping {
        Keeping::Held => admitted + memory + cached,
        Keeping::Posted => admitted,
    };
    got.lines_per_ns * hold
}

#[test]
fn capacities_and_pools_are_never_exceeded() {
    for seed in 0..600 {
        let (network, words) = drawn(seed);
        let outcome = solve(&network);
        for memory in &outcome.memories {
            assert!(memory.utilisation <= 1.0 + EXACT, "{words}: {memory:?}");
        }
        for (pool, got) in network.pools.iter().zip(&outcome.pools) {
            let entries = f64::from(pool.count);
            assert!(got.occupancy <= entries * (1.0 + EXACT), "{words}: {got:?}");
            let is_full = got.occupancy >= entries * (1.0 - 1e-4);
            assert!(
                got.wait_ns == 0.0 || is_full,
                "{words}: waits at a free pool {got:?}"
            );
        }
        for (number, flow) in network.flows.iter().enumerate() {
            let rate = outcome.flows[number].lines_per_ns;
            assert!(rate.is_finite() && rate > 0.0, "{words}: {rate}");
            assert!(rate <= flow.most_per_ns * (1.0 + EXACT), "{words}");
            let own = f64::from(flow.slots * flow.legs[0].buffers);
            let used = buffers_used(&network, flow, &outcome, number);
            assert!(
                used <= own * (1.0 + EXACT),
                "{words}: {used} of {own} buffers"
            );
        }
    }
}

/// Each flow is stopped by something: its buffers, its own time, its limit, its credits, a later leg.
#[test]
fn no_flow_is_slower_than_its_limits() {
    for seed in 0..300 {
        let (network, words) = drawn(seed);
        let outcome = solve(&network);
        let single = network
            .flows
            .iter()
            .enumerate()
            .filter(|(_, f)| f.legs.len() == 1);
        for (number, flow) in single {
            let got = outcome.flows[number];
            let used = buffers_used(&network, flow, &outcome, number);
            let slots = f64::from(flow.slots);
            let own = got.lines_per_ns * flow.own_ns / slots;
            let buffers = used / (slots * f64::from(flow.legs[0].buffers));
            let busy = if flow.is_serial {
                own + buffers
            } else {
                own.max(buffers)
            };
            let credits = flow.legs[0]
                .credits
                .map_or(0.0, |all| used / f64::from(all));
            let limit = got.lines_per_ns / flow.most_per_ns;
            let most = busy.max(credits).max(limit);
            assert!(
                (most - 1.0).abs() < 1e-6,
                "{words}: flow {number} could be faster: {most}"
            );
        }
    }
}

/// The lines one by one keep the same laws, though no equation tells them to.
#[test]
fn lines_keep_littles_law() {
    for seed in 0..6 {
        let (network, words) = drawn(seed);
        let outcome = simulate(
            &network,
            EventPlan {
                lines: 60_000,
                seed,
            },
        );
        for (pool, got) in network.pools.iter().zip(&outcome.pools) {
            assert!(
                got.occupancy <= f64::from(pool.count) * 1.02,
                "{words}: {got:?}"
            );
        }
        for memory in &outcome.memories {
            assert!(memory.utilisation <= 1.02, "{words}: {memory:?}");
        }
        for (number, flow) in network.flows.iter().enumerate() {
            let own = f64::from(flow.slots * flow.legs[0].buffers);
            let used = buffers_used(&network, flow, &outcome, number);
            assert!(used <= own * 1.05, "{words}: {used} of {own} buffers");
        }
    }
}

fn paper_b() -> HostMachine {
    HostMachine::named("paper-b").unwrap()
}

fn solved(machine: &HostMachine, streams: &[HostStream]) -> PathOutcome {
    solve(&compile(machine, streams).unwrap())
}

/// When a slow memory cannot take all posted lines, they wait n·W/C − path, whatever the size of the pool.
#[test]
fn the_wait_behind_posted_writers_does_not_depend_on_the_pool() {
    let mut machine = paper_b();
    machine.cores.nt.is_fenced = false;
    let streams = [
        HostStream::new("mmem", StreamOp::Ld, 8),
        HostStream::new("cxl", StreamOp::Ntst, 16),
    ];
    let lines_per_ns = 13.2e9 / 64.0 / 1e9;
    let expected = 16.0 * 16.0 / lines_per_ns - machine.cores.path_ns;
    for count in [200, 523, 2000] {
        machine.trackers.count = count;
        let wait = solved(&machine, &streams).pools[0].wait_ns;
        assert!(
            (wait / expected - 1.0).abs() < 1e-6,
            "{count}: {wait} for {expected}"
        );
    }
}

/// Loads on an idle machine take its idle latency, and a chase has one line under way.
#[test]
fn an_idle_path_takes_its_idle_time() {
    let machine = paper_b();
    let one = solved(&machine, &[HostStream::new("cxl", StreamOp::LdChase, 1)]);
    assert!((one.flows[0].lines_per_ns * 355.3 - 1.0).abs() < 1e-9);
    assert_eq!(one.pools[0].wait_ns, 0.0);
}

/// What readers of DRAM get with 32 slices of the pool, relative to one.
fn sliced(is_fenced: bool) -> f64 {
    let mut machine = paper_b();
    machine.cores.nt.is_fenced = is_fenced;
    let streams = [
        HostStream::new("mmem", StreamOp::Ld, 16),
        HostStream::new("cxl", StreamOp::Ntst, 16),
    ];
    let plan = EventPlan {
        lines: 150_000,
        seed: 5,
    };
    let whole = simulate(&compile(&machine, &streams).unwrap(), plan);
    machine.trackers.slices = 32;
    let sliced = simulate(&compile(&machine, &streams).unwrap(), plan);
    sliced.flows[0].lines_per_ns / whole.flows[0].lines_per_ns
}

/// Slices change little where each buffer is free by itself. A fence waits for the slowest of its lines, so
/// that writers with fences ask for less, and readers get more.
#[test]
fn slices_matter_for_fences() {
    let (free, fenced) = (sliced(false), sliced(true));
    println!("32 slices: readers get {free:.2} times as much, {fenced:.2} beside fences");
    assert!((0.6..=1.6).contains(&free), "{free}");
    assert!(fenced > 1.3 * free, "{fenced} {free}");
}
