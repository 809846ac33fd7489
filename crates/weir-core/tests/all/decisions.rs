// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single decisions on made-up, noiseless observations, where every figure can be computed by hand.

use crate::parts::{MS, decision, group, limit_of, near};
use crate::steady::{Bench, TICK_MS, steady};
use weir_core::rates::attribution::Provenance;
use weir_core::seam::observation::Missing;
use weir_core::seam::plan::Why;
use weir_core::seam::topology::NodeCoverage;
use weir_core::{
    Config, Description, DeviceId, Nanos, NodeId, Observation, Plan, Reading, State, step,
};

/// The first limit that is set on `id`, in CPUs.
fn first_limit(world: &mut Bench, id: &str) -> f64 {
    for _ in 0..40 {
        let plan = world.ticks(1);
        let of = plan.actions.iter().find(|a| a.workload.as_str() == id);
        if let Some(cpus) = of.and_then(|action| limit_of(action.kind)) {
            return cpus;
        }
    }
    panic!("{id} was never limited");
}

#[test]
fn the_first_observation_teaches_and_does_nothing() {
    let mut world = Bench::new(
        &[(group(0, 0), 4e6)],
        vec![steady("/a", 1.0, &[group(0, 0)])],
    );
    let plan = world.ticks(1);
    assert_eq!(plan.actions, []);
    assert_eq!(plan.devices[0].read_bytes_per_sec, None);
    assert_eq!(decision(&plan, "/a").why, Why::Learning);
    assert_eq!(
        decision(&plan, "/a").bandwidth.provenance,
        Provenance::Unknown
    );
}

#[test]
fn limit_is_allowed_over_intensity() {
    // κ is 4e6 per CPU-second, 1e6 is allowed: a quarter of a CPU.
    let mut world = Bench::new(
        &[(group(0, 0), 4e6)],
        vec![steady("/a", 1.0, &[group(0, 0)])],
    );
    near("limit", first_limit(&mut world, "/a"), 0.25);
    let plan = world.ticks(1);
    let found = decision(&plan, "/a");
    assert_eq!(found.bandwidth.provenance, Provenance::Counted);
    near("bandwidth", found.bandwidth.bytes_per_sec.get(), 4e6);
    near(
        "κ",
        found.intensity_bytes_per_cpu_sec.expect("measured"),
        4e6,
    );
    near("in force", found.limit_cpus.expect("limited").get(), 0.25);
}

#[test]
fn of_two_devices_the_tightest_limit_counts() {
    // On device 0 it moves 2e6 of allowed 1e6 (half a CPU), on device 1 8e6 (an eighth).
    let both = [group(0, 0), group(1, 0)];
    let mut world = Bench::new(
        &[(both[0], 2e6), (both[1], 8e6)],
        vec![steady("/a", 1.0, &both)],
    );
    near("limit", first_limit(&mut world, "/a"), 0.125);
    let plan = world.ticks(1);
    near(
        "both together",
        decision(&plan, "/a").bandwidth.bytes_per_sec.get(),
        10e6,
    );
    assert_eq!(plan.devices.len(), 2);

    // The other way round, so that it is not the order that decides.
    let mut world = Bench::new(
        &[(both[0], 8e6), (both[1], 2e6)],
        vec![steady("/a", 1.0, &both)],
    );
    near("limit", first_limit(&mut world, "/a"), 0.125);
}

#[test]
fn a_device_that_limits_no_workload_is_not_corrected() {
    // Device 1 is far below its set-point, and no workload is held back because of it.
    let both = [group(0, 0), group(1, 0)];
    let mut world = Bench::new(
        &[(both[0], 4e6), (both[1], 1e5)],
        vec![steady("/a", 1.0, &both)],
    );
    // For no longer than a limit may be exceeded before it is said to hold nothing: nothing reacts here.
    let plan = world.ticks(18);
    near("idle device", plan.devices[1].correction_ratio, 1.0);
    assert!(
        plan.devices[0].correction_ratio < 0.9,
        "{:?}",
        plan.devices[0]
    );
}

#[test]
fn a_part_of_a_nodes_traffic_is_held_at_nothing() {
    let both = [group(0, 0), group(1, 0)];
    let workloads = both.map(|group| steady(["/a", "/b"][group.device.0 as usize], 1.0, &[group]));
    let mut world = Bench::new(&both.map(|group| (group, 4e6)), Vec::from(workloads));
    let plan = world.ticks(40);
    assert!(["/a", "/b"].map(|id| decision(&plan, id).limit_cpus.is_some()) == [true; 2]);
    for (node, group) in (1..).zip(&mut world.machine.groups) {
        group.node = Some(NodeId(node));
    }
    world.machine.partly_counted.push(NodeCoverage {
        node: NodeId(1),
        counted: vec!["mem0".into()],
        uncounted: vec!["mem1".into()],
    });
    // Limits rise step by step, as where nothing is known any more.
    let plan = world.ticks(600);
    assert_eq!(plan.devices[0].set_point_bytes_per_sec, None);
    assert_eq!(decision(&plan, "/a").limit_cpus, None);
    let why = &decision(&plan, "/a").why;
    assert!(matches!(why, Why::NotEnforced { detail } if detail.contains("mem1")));
    assert!(decision(&plan, "/b").limit_cpus.is_some());
}

#[test]
fn cpus_that_went_offline_were_used_until_then() {
    let mut world = Bench::new(
        &[(group(0, 0), 4e6)],
        vec![steady("/a", 10.0, &[group(0, 0)])],
    );
    world.machine.cpu_count = 64;
    world.ticks(4);
    world.machine.cpu_count = 1;
    let plan = world.ticks(1);
    let provenance = decision(&plan, "/a").bandwidth.provenance;
    assert_eq!(provenance, Provenance::Counted);
}

#[test]
fn traffic_that_cannot_be_limited_is_taken_off_first() {
    // Of 1e6, 4e5 go to an excluded workload and 2e5 have no owner: 2e5 remain for each of two.
    let groups = [group(0, 0), group(0, 1), group(0, 2)];
    let rates = [(groups[0], 4e6), (groups[1], 4e5), (groups[2], 2e5)];
    let mut kept = steady("/kept", 1.0, &[groups[1]]);
    kept.excluded = true;
    let heavy = |id| steady(id, 1.0, &[groups[0]]);
    let mut world = Bench::new(&rates, vec![heavy("/a"), heavy("/b"), kept]);
    world.config.limit = false;
    let plan = world.ticks(60);
    for id in ["/a", "/b"] {
        let found = decision(&plan, id);
        near(
            "allowed",
            found.allowed_bytes_per_sec.expect("set-point").get(),
            2e5,
        );
        assert_eq!(found.bandwidth.provenance, Provenance::Apportioned);
    }
    let unowned = plan.devices[0]
        .unattributed_bytes_per_sec
        .expect("counters are there");
    near("without an owner", unowned.get(), 2e5);
    assert_eq!(decision(&plan, "/kept").allowed_bytes_per_sec, None);
}

#[test]
fn a_rewritten_limit_gives_back_what_rewriting_gives_away() {
    // The refill leak: after w writes a second a limit yields 1 + ratio · period · w of itself.
    // One write, remembered for 2 s, is 0.5 a second; a period of 200 ms makes that a tenth.
    let group = group(0, 0);
    let mut world = Bench::new(&[(group, 4e6)], vec![steady("/a", 1.0, &[group])]);
    world = world.uncorrected();
    world.config.min_write_interval_ms = 0;
    world.config.dead_band_ratio = 0.0;
    for actuator in world.machine.actuator.iter_mut() {
        actuator.period_ns = Nanos(200 * MS);
        actuator.refill_on_write_ratio = 1.0;
    }
    near("first", first_limit(&mut world, "/a"), 0.25);
    // The limit is a quarter and a full CPU is used: demand and κ stay, so the target stays too.
    let fade = (-0.025f64).exp();
    near(
        "second",
        first_limit(&mut world, "/a"),
        0.25 / (1.0 + 0.1 * fade),
    );
}

#[test]
fn at_the_floor_no_limit_falls_further_and_the_correction_waits() {
    let groups = [group(0, 0), group(0, 1)];
    let mut kept = steady("/kept", 1.0, &[groups[1]]);
    // So heavy that the other's fair share of the set-point is below the floor.
    (kept.excluded, kept.weight) = (true, 10_000.0);
    let heavy = steady("/a", 1.0, &[groups[0]]);
    let mut world = Bench::new(&[(groups[0], 4e6), (groups[1], 2e6)], vec![heavy, kept]);
    let plan = world.ticks(15);
    assert_eq!(decision(&plan, "/a").why, Why::AtFloor);
    // Nothing reacts here: it goes on to use a whole CPU.
    let plan = world.ticks(200);
    let found = decision(&plan, "/a");
    assert!(
        matches!(found.why, Why::NotEnforced { .. }),
        "{:?}",
        found.why
    );
    near(
        "floor",
        found.limit_cpus.expect("limited").get(),
        world.config.floor_cpus,
    );
    let least = 1.0 - world.config.kp - 0.1;
    let correction = plan.devices[0].correction_ratio;
    assert!(correction >= least, "wound down to {correction}");
}

/// A scheduler's overload cap may park a workload for a moment before it has any limit.
#[test]
fn one_that_was_parked_without_a_limit_claims_what_it_would_have_run() {
    let group = group(0, 0);
    let workloads = vec![
        steady("/heavy", 1.0, &[group]),
        steady("/light", 0.05, &[group]),
    ];
    let mut world = Bench::new(&[(group, 4e6)], workloads).uncorrected();
    world.held = 0.06;
    let plan = world.ticks(15);
    assert_eq!(decision(&plan, "/light").why, Why::BelowFairShare);
    assert_eq!(decision(&plan, "/light").limit_cpus, None);
    assert!(decision(&plan, "/heavy").limit_cpus.is_some());
}

#[test]
fn an_empty_machine_gives_an_empty_plan() {
    let mut state = State::default();
    let seen = Observation::default();
    let plan = step(
        &mut state,
        &Config::default(),
        &Description::default(),
        &seen,
    );
    assert_eq!(plan, Plan::default());
}

#[test]
fn without_a_back_end_nothing_is_requested_and_the_reason_is_given() {
    let mut world = Bench::new(
        &[(group(0, 0), 4e6)],
        vec![steady("/a", 1.0, &[group(0, 0)])],
    );
    world.machine.actuator = None;
    let plan = world.ticks(10);
    assert_eq!(plan.actions, []);
    let why = &decision(&plan, "/a").why;
    assert!(
        matches!(why, Why::NotEnforced { detail } if detail.contains("doctor")),
        "{why:?}"
    );
}

#[test]
fn the_integral_goes_by_the_time_that_the_counters_spanned() {
    // 10 % too much, clearly more than noise, for 2.5 s, read at every tick or at every second one:
    // the same correction.
    let corrected = |every: u32| {
        let group = group(0, 0);
        let mut world = Bench::new(&[(group, 1.1e6)], vec![steady("/a", 1.0, &[group])]);
        world.config.kp = 0.0;
        let mut plan = Plan::default();
        for tick in 0..50 {
            world.lost = (tick % every != 0).then_some(DeviceId(0));
            plan = world.ticks(1);
        }
        plan.devices[0].correction_ratio
    };
    let (each, second) = (corrected(1), corrected(2));
    assert!(
        (0.74..0.80).contains(&each),
        "2.5 s of 10 % at ki = 1: {each}"
    );
    assert!((each - second).abs() < 0.02, "{each} and {second}");
}

/// Ticks of `/a`, which used `cpus` before, and `/b`, which runs. At the last three the reading of `/a` is
/// the one before.
fn repeated(cpus: f64) -> (Bench, Plan) {
    let shared = [group(0, 0)];
    let workloads = vec![steady("/a", cpus, &shared), steady("/b", 1.0, &shared)];
    let mut world = Bench::new(&[(group(0, 0), 4e5)], workloads);
    world.ticks(10);
    let seen = world.see();
    let known = seen.workloads[0].cpu_ns.clone();
    let mut plan = world.step(&seen);
    for _ in 0..3 {
        let mut seen = world.see();
        seen.workloads[0].cpu_ns = known.clone();
        plan = world.step(&seen);
    }
    (world, plan)
}

#[test]
fn a_repeated_reading_of_what_stood_still_is_no_use_of_cpu() {
    let (mut world, plan) = repeated(0.0);
    let a = decision(&plan, "/a");
    assert_eq!(a.cpu_cpus.map(|c| c.get()), Some(0.0));
    assert_eq!(a.bandwidth.provenance, Provenance::Apportioned);
    assert_eq!(a.bandwidth.bytes_per_sec.get(), 0.0);
    assert!(!matches!(a.why, Why::NoData { .. }), "{:?}", a.why);
    near(
        "the other has it all",
        decision(&plan, "/b").bandwidth.bytes_per_sec.get(),
        4e5,
    );
    // It has run for half of the four ticks since then: the mean counts, no more.
    let mut seen = world.see();
    seen.workloads[0].cpu_ns = Reading::new(seen.at, Nanos(2 * TICK_MS * MS));
    let plan = world.step(&seen);
    near(
        "CPUs",
        decision(&plan, "/a").cpu_cpus.expect("read").get(),
        0.5,
    );
}

#[test]
fn a_repeated_reading_of_what_ran_says_nothing() {
    let (_, plan) = repeated(0.5);
    let a = decision(&plan, "/a");
    assert_eq!(a.cpu_cpus, None);
    assert_eq!(a.bandwidth.provenance, Provenance::Unknown);
}

#[test]
fn what_stood_still_and_cannot_be_read_is_not_known() {
    let (mut world, _) = repeated(0.0);
    let mut seen = world.see();
    seen.workloads[0].cpu_ns = Reading::missing(seen.at, Missing::NotYetRead);
    let plan = world.step(&seen);
    assert_eq!(decision(&plan, "/a").cpu_cpus, None);
}

#[test]
fn no_limit_begins_on_a_device_that_moves_nothing() {
    let group = group(0, 0);
    let mut world = Bench::new(&[(group, 4e6)], vec![steady("/a", 1.0, &[group])]);
    world.config.limit = false;
    world.ticks(10);
    // From now on it may act, and the counters stand still for one observation, because their writer is late.
    world.config.limit = true;
    world.set_rate(group, 0.0);
    let plan = world.ticks(1);
    assert_eq!(plan.actions, [], "the device moved nothing");
    world.set_rate(group, 8e6);
    let plan = world.ticks(1);
    assert_eq!(plan.actions.len(), 1);
    let Why::Limited {
        asked_bytes_per_sec: Some(demanded),
        demand_bytes_per_sec: demand,
        ..
    } = decision(&plan, "/a").why
    else {
        panic!("{:?}", decision(&plan, "/a").why)
    };
    // The figures that decided: it is the only demand, and more than the set-point.
    near("demanded", demanded.get(), demand.get());
    assert!(demanded.get() > 1e6);
}
