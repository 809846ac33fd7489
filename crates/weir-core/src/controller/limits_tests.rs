// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the limit of one workload goes in one step, and when it ends.

use super::*;
use crate::controller::budgets::WorkloadBudget;
use crate::controller::config::Config;
use crate::controller::signals::WorkloadSignals;
use crate::ids::WorkloadId;
use crate::rates::attribution::{Estimate, Provenance};
use crate::seam::observation::Observation;
use crate::seam::topology::Description;
use crate::units::BytesPerSec;

const DEVICE: DeviceId = DeviceId(0);
const CAP: f64 = 4.0;

/// Limited to so many CPUs, and wanting one.
fn limited(cpus: f64) -> WorkloadState {
    let mut tracked = WorkloadState::new(WorkloadId::new("/a"));
    (tracked.hold.in_force, tracked.hold.target) = (Some(cpus), Some(cpus));
    tracked.wanted = 1.0;
    tracked
}

/// Ready to be released where its device has headroom.
fn calm() -> WorkloadState {
    let mut tracked = limited(0.5);
    tracked.hold.covered_steps = CALM_STEPS;
    tracked
}

fn actuator() -> Actuator {
    Actuator {
        name: "made".into(),
        levers: vec![Lever::CpuTime],
        min_cpus: 0.001,
        grain_ns: Nanos(0),
        refill_on_write_ratio: 0.0,
        period_ns: Nanos::from_millis(20),
        min_quota_ns: Nanos(0),
        is_exact: false,
    }
}

/// What one step of 50 ms makes of it where the device has had headroom for so many steps. `part` is the
/// limit that follows from its part, if that is less than its demand.
fn step(mut tracked: WorkloadState, part: Option<f64>, headroom_steps: u32) -> (Option<f64>, bool) {
    let config = Config::default();
    let (machine, seen) = (Description::default(), Observation::default());
    let mut context = StepContext::begin(&mut State::default(), &config, &machine, &seen);
    context.dt = 0.05;
    let actuator = actuator();
    let signals = WorkloadSignals {
        is_limitable: true,
        cap: CAP,
        ..WorkloadSignals::default()
    };
    let demand = DeviceDemand {
        device: DEVICE,
        bandwidth: Estimate {
            bytes_per_sec: BytesPerSec::new(1e9),
            provenance: Provenance::Sampled,
        },
        intensity: Some(1e9),
        bytes_per_sec: 1e9,
        seen: 1e9,
    };
    let found = WorkloadFindings {
        signals: &signals,
        demands: &[demand],
        budget: &WorkloadBudget {
            short_on: part.map(|cpus| (DEVICE, cpus)),
            ..WorkloadBudget::default()
        },
        allowed: &[],
    };
    let mut device = DeviceTrack::new(DEVICE);
    device.headroom_steps = headroom_steps;
    let ends = move_target(&mut tracked, &found, &[device], &context, &actuator);
    (tracked.hold.target, ends)
}

fn near(got: (Option<f64>, bool), cpus: f64) {
    let is_near = got.0.is_some_and(|target| (target - cpus).abs() < 1e-9);
    assert!(is_near && !got.1, "{got:?}, should be {cpus}");
}

#[test]
fn a_target_moves_within_the_slew_limits_and_not_below_the_floor() {
    let config = Config::default();
    assert_eq!(
        (config.slew_up_per_sec, config.slew_down_per_sec),
        (1.0, 10.0)
    );
    for (before, part, after) in [
        (0.5, 2.0, 0.525),
        (0.5, 0.51, 0.51),
        (0.5, 0.3, 0.3),
        (0.5, 0.1, 0.25),
        (0.03, 0.0, config.floor_cpus),
        (3.9, 9.0, CAP),
    ] {
        near(step(limited(before), Some(part), CALM_STEPS), after);
    }
    // The first is where it should be at once.
    let mut free = limited(0.5);
    (free.hold.in_force, free.hold.target) = (None, None);
    near(step(free, Some(0.1), 0), 0.1);
}

#[test]
fn a_limit_that_is_not_needed_rises_until_there_is_headroom_over_what_is_wanted() {
    for (before, after) in [(0.5, 0.525), (1.08, 1.1), (1.2, 1.2)] {
        near(step(limited(before), None, 0), after);
    }
    let mut idle = limited(0.015);
    idle.wanted = 0.0;
    near(step(idle, None, 0), 0.01575);
}

#[test]
fn a_limit_ends_where_the_device_has_headroom_or_it_was_not_felt_for_long() {
    let ends = |tracked, headroom_steps| step(tracked, None, headroom_steps).1;
    assert!(ends(calm(), CALM_STEPS));
    assert!(!ends(calm(), CALM_STEPS - 1));
    let covered_for = |steps: u32| {
        let mut tracked = calm();
        tracked.hold.covered_steps = steps;
        ends(tracked, CALM_STEPS)
    };
    // This step counts too.
    assert!(covered_for(CALM_STEPS - 1) && !covered_for(CALM_STEPS - 2));

    let easy = |calm_secs: f64, used: f64| {
        let mut tracked = calm();
        tracked.hold.calm_secs = calm_secs;
        tracked.cpu_smooth.push(1.0, used);
        ends(tracked, 0)
    };
    assert!(easy(EASY_SECS, 0.44));
    assert!(!easy(EASY_SECS, 0.46) && !easy(EASY_SECS - 0.1, 0.44));
    // What is as much as all CPUs is no limit.
    let mut wide = calm();
    (wide.hold.in_force, wide.hold.target) = (Some(CAP), Some(CAP));
    assert!(ends(wide, 0));
}

#[test]
fn one_that_came_back_soon_must_not_be_felt_for_as_long_as_that_says() {
    let ends = |calm_secs: f64, headroom_steps: u32| {
        let mut tracked = calm();
        tracked.cpu_smooth.push(1.0, 0.1);
        tracked.hold.relapse.wait_secs = 8.0;
        tracked.hold.calm_secs = calm_secs;
        step(tracked, None, headroom_steps).1
    };
    assert!(!ends(7.9, CALM_STEPS) && ends(8.0, CALM_STEPS));
    assert!(!ends(7.9, 0) && ends(8.0, 0));
}

#[test]
fn without_its_traffic_a_limit_is_held_and_then_raised_until_it_ends() {
    let blind = |cpus: f64, steps: u32| {
        let mut tracked = limited(cpus);
        tracked.hold.target = Some(0.9 * cpus);
        tracked.hold.blind_steps = steps;
        step(tracked, Some(0.1), 0)
    };
    near(blind(0.5, 1), 0.5);
    near(blind(0.5, BLIND_STEPS), 0.5);
    near(blind(0.5, BLIND_STEPS + 1), 0.9 * 0.5 * 1.05);
    assert!(
        blind(1.1 / 0.9, BLIND_STEPS + 1).1,
        "it is above what is wanted"
    );
    let mut free = limited(0.5);
    (free.hold.in_force, free.hold.target) = (None, None);
    free.hold.blind_steps = BLIND_STEPS + 1;
    assert_eq!(step(free, None, 0), (None, false));
}

/// What is counted of these workloads, each with the limit that follows from its part.
fn counted(workloads: Vec<(WorkloadState, f64)>) -> LimitCounts {
    let devices = [DeviceTrack::new(DEVICE)];
    let mut counts = LimitCounts::default();
    for (tracked, part) in workloads {
        let budget = WorkloadBudget {
            short_on: Some((DEVICE, part)),
            ..WorkloadBudget::default()
        };
        if bound_by(&tracked, &devices) == Some(0) {
            counts.add(&tracked, &budget, Config::default().floor_cpus);
        }
    }
    counts
}

#[test]
fn limits_are_counted_by_device_until_they_are_covered_for_long() {
    let floor = Config::default().floor_cpus;
    let short = |covered_steps: u32, is_pinned: bool| {
        let mut tracked = limited(0.5);
        tracked.hold.last_short_on = Some(DEVICE);
        (tracked.hold.covered_steps, tracked.hold.pinned) = (covered_steps, is_pinned);
        tracked
    };
    let mut free = short(0, true);
    free.hold.in_force = None;
    let bound = counted(vec![
        (short(0, true), floor),
        (short(0, false), 0.5 * floor),
        (short(CALM_STEPS - 1, false), 1.01 * floor),
        (short(0, true), 1.0),
        (short(0, true), 1.0),
        (short(CALM_STEPS, true), floor),
        (free, floor),
    ]);
    let counts = (bound.limited, bound.at_floor, bound.pinned);
    assert_eq!(counts, (5, 2, 3));
}
