// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Policy drf in single decisions: all devices and CPU time together, beside what max-min does.

use crate::parts::{GROUP, decision, group, near};
use crate::steady::{Bench, SET_POINT, Steady, steady};
use weir_core::policy::Policy;
use weir_core::seam::plan::{FairShare, SharedResource, Why};
use weir_core::{DeviceId, GroupId, Plan};

/// A workload: its CPUs, and what it moves in a second on each device that it uses.
type Load<'a> = (&'static str, f64, &'a [(u32, f64)]);

/// Workloads with a group of their own on each device that they use.
fn bench(policy: Policy, loads: &[Load<'_>]) -> Bench {
    let mut rates: Vec<(GroupId, f64)> = Vec::new();
    let mut workloads: Vec<Steady> = Vec::new();
    for (index, (id, cpus, moves)) in (0..).zip(loads) {
        let own = moves
            .iter()
            .map(|(device, rate)| (group(*device, index), *rate));
        rates.extend(own.clone());
        let groups: Vec<GroupId> = own.map(|(id, _)| id).collect();
        workloads.push(steady(id, *cpus, &groups));
    }
    rates.sort_by_key(|(id, _)| *id);
    Bench::new(&rates, workloads).by(policy)
}

fn fair(plan: &Plan, id: &str) -> FairShare {
    decision(plan, id).fair.expect("a share")
}

fn allowed(plan: &Plan, id: &str) -> f64 {
    let allowed = decision(plan, id).allowed_bytes_per_sec;
    allowed.expect("a part").get()
}

/// One workload on both devices, and one of its own on each.
const CROSSING: [Load<'_>; 3] = [
    ("/both", 1.0, &[(0, 1e6), (1, 0.5e6)]),
    ("/first", 1.0, &[(0, 1e6)]),
    ("/second", 1.0, &[(1, 1e6)]),
];

fn crossing(policy: Policy) -> Bench {
    bench(policy, &CROSSING)
}

#[test]
fn what_one_device_holds_back_is_left_on_the_other() {
    let plan = crossing(Policy::Drf).ticks(4);
    near("first", allowed(&plan, "/first"), 0.5e6);
    near("both", allowed(&plan, "/both"), 0.75e6);
    near("second", allowed(&plan, "/second"), 0.75e6);
    let both = fair(&plan, "/both");
    assert_eq!(both.dominant, SharedResource::Device(DeviceId(0)));
    assert_eq!(both.held_back_by, Some(both.dominant));
    near("target", both.target_ratio, 0.5);
    near("used", both.used_ratio, 1.0);
    // Max-min splits each device by itself, and leaves a quarter of the second one unused.
    let plan = crossing(Policy::MaxMin).ticks(4);
    near("second by max-min", allowed(&plan, "/second"), 0.5e6);
    assert_eq!(decision(&plan, "/both").fair, None);
}

#[test]
fn a_limit_on_several_devices_is_one_limit() {
    let mut bench = crossing(Policy::Drf);
    bench.ticks(3);
    let plan = bench.ticks(1);
    let limit = |id: &str| decision(&plan, id).limit_cpus.expect("limited").get();
    near("both", limit("/both"), 0.5);
    near("second", limit("/second"), 0.75);
}

/// Set 4 of the DRFQS thesis: a reader with 0.708 of the memory for a quarter of the CPUs, four that compute.
fn set_4(policy: Policy) -> Bench {
    reader_among_four(policy, 0.2 * 2.832 * SET_POINT)
}

fn reader_among_four(policy: Policy, rate: f64) -> Bench {
    let moves = [(0, rate)];
    let mut loads: Vec<Load<'_>> = vec![("/mbw", 0.8, &moves)];
    loads.extend(["/sjeng1", "/sjeng2", "/sjeng3", "/sjeng4"].map(|id| (id, 0.8, &[][..])));
    let mut bench = bench(policy, &loads);
    bench.machine.cpu_count = 4;
    bench
}

#[test]
fn a_device_user_is_limited_where_cpus_are_full() {
    let mut bench = set_4(Policy::Drf);
    let plan = bench.ticks(15);
    assert!(matches!(&decision(&plan, "/mbw").why, Why::Limited { policy, .. } if policy == "drf"));
    let plan = bench.ticks(25);
    let limit = decision(&plan, "/mbw").limit_cpus.expect("limited").get();
    near("its CPU share", limit / 4.0, 0.0811);
    let share = fair(&plan, "/mbw");
    assert_eq!(share.dominant, SharedResource::Device(DeviceId(0)));
    assert_eq!(share.held_back_by, Some(SharedResource::Cpu));
    near("its dominant share", share.target_ratio, 0.2297);
    // The device has headroom: that it is not used is no error that a correction could remove.
    let plan = bench.ticks(400);
    assert_eq!(plan.devices[0].correction_ratio, 1.0);
    assert!(plan.workloads.iter().all(|v| v.id.as_str() == "/mbw"));
    // A back end that counts the device's bytes holds what was planned, and not the set-point.
    let planned = plan.devices[0].target().expect("held").get();
    near("planned", planned, allowed(&plan, "/mbw"));
    // Max-min of one device has nothing to hold back.
    let plan = set_4(Policy::MaxMin).ticks(40);
    assert_eq!(decision(&plan, "/mbw").limit_cpus, None);
}

/// A limit by `cpu.max` takes more than it should where CPUs are full. What is lost is given back, in bounds.
#[test]
fn a_limit_for_want_of_cpu_time_is_corrected_by_what_is_used() {
    let mut bench = set_4(Policy::Drf);
    let limit = |plan: &Plan| decision(plan, "/mbw").limit_cpus.expect("limited").get();
    let before = limit(&bench.ticks(40));
    for one in &mut bench.workloads {
        one.cpus = 0.92;
    }
    bench.workloads[0].cpus = 0.29;
    bench.set_rate(GROUP, 0.29 / 0.8 * 0.2 * 2.832 * SET_POINT);
    bench.held = 0.5;
    let limits = (0..40).map(|_| limit(&bench.ticks(5)));
    let most = limits.fold(0.0, f64::max);
    assert!(
        most > before * 1.05 && most < before * 1.3,
        "{before}, then up to {most}"
    );
}

#[test]
fn weights_decide_between_a_device_and_the_cpus() {
    let mut bench = set_4(Policy::Drf);
    bench.workloads[0].weight = 200.0;
    let plan = bench.ticks(40);
    let share = fair(&plan, "/mbw").target_ratio;
    // d of the reader is twice that of the others: d/2.832 + 4·d/2 = 1.
    near("share", share, 1.0 / (1.0 / 2.832 + 2.0));
}

#[test]
fn weights_at_their_ends_are_taken_as_they_are() {
    for (weight, want) in [(0.0, 1e-3 / (1e-3 + 100.0)), (10_000.0, 100.0 / 101.0)] {
        let both: [Load<'_>; 2] = [("/a", 1.0, &[(0, 1e6)]), ("/b", 1.0, &[(0, 1e6)])];
        let mut bench = bench(Policy::Drf, &both);
        bench.workloads[0].weight = weight;
        let plan = bench.ticks(4);
        near("target", fair(&plan, "/a").target_ratio, want);
    }
}

#[test]
fn idle_cpus_hold_nothing_back() {
    let mut bench = set_4(Policy::Drf);
    bench.machine.cpu_count = 8;
    let plan = bench.ticks(40);
    assert_eq!(decision(&plan, "/mbw").limit_cpus, None);
    assert_eq!(fair(&plan, "/mbw").held_back_by, None);
    assert_eq!(decision(&plan, "/mbw").why, Why::Headroom);
}

/// The kernel holds it to its part of the CPUs by its weight; a limit would only cost.
#[test]
fn a_device_user_that_needs_cpus_most_is_left_to_the_kernel() {
    let mut bench = reader_among_four(Policy::Drf, 0.05 * SET_POINT);
    let plan = bench.ticks(60);
    let share = fair(&plan, "/mbw");
    assert_eq!(share.dominant, SharedResource::Cpu);
    assert_eq!(decision(&plan, "/mbw").limit_cpus, None);
    near("allowed", allowed(&plan, "/mbw"), 0.05 * SET_POINT);
    // The same holds where its weight is small, and a limit would seem to follow.
    bench.workloads[0].weight = 10.0;
    let plan = bench.ticks(60);
    assert_eq!(fair(&plan, "/mbw").held_back_by, Some(SharedResource::Cpu));
    assert_eq!(decision(&plan, "/mbw").limit_cpus, None);
    near("allowed", allowed(&plan, "/mbw"), 0.05 * SET_POINT);
}

#[test]
fn what_may_not_be_limited_is_taken_off_first() {
    let beside_kernel = |rate: f64| {
        let moves = [(0, rate)];
        let kernel: Load<'_> = ("/kernel", 6.0, &moves);
        let mut bench = bench(Policy::Drf, &[&CROSSING[..], &[kernel]].concat());
        bench.workloads[3].excluded = true;
        bench.uncorrected()
    };
    let plan = beside_kernel(0.2e6).ticks(20);
    near("first", allowed(&plan, "/first"), 0.4e6);
    near("target", fair(&plan, "/first").target_ratio, 0.5);
    assert_eq!(decision(&plan, "/kernel").fair, None);
    // More than its fair share, a third of the device: the others pay for that.
    let plan = beside_kernel(0.6e6).ticks(20);
    near("first", allowed(&plan, "/first"), 0.2e6);
    // It takes all: limits of the others would remove less than half of the overload. None is set, and the
    // reason names the device.
    let plan = beside_kernel(2e6).ticks(40);
    near("first", allowed(&plan, "/first"), 1e6);
    assert_eq!(decision(&plan, "/first").limit_cpus, None);
    let full = SharedResource::Device(DeviceId(0));
    assert_eq!(fair(&plan, "/first").held_back_by, Some(full));
}

#[test]
fn a_workload_without_counts_counts_by_its_cpu_time_and_that_is_said() {
    let mut bench = crossing(Policy::Drf);
    bench.lost = Some(DeviceId(1));
    let plan = bench.ticks(4);
    let second = fair(&plan, "/second");
    assert!(second.is_by_cpu_alone && second.dominant == SharedResource::Cpu);
    assert!(matches!(decision(&plan, "/second").why, Why::NoData { .. }));
    assert!(!fair(&plan, "/first").is_by_cpu_alone);
}

#[test]
fn a_device_that_vanishes_is_no_resource_any_more() {
    let mut bench = crossing(Policy::Drf).uncorrected();
    bench.ticks(4);
    bench.remove_device(DeviceId(1));
    let plan = bench.ticks(40);
    near("both", allowed(&plan, "/both"), 0.5e6);
    let second = plan.workloads.iter().find(|v| v.id.as_str() == "/second");
    let is_free =
        second.is_none_or(|v| v.allowed_bytes_per_sec.is_none() && v.limit_cpus.is_none());
    assert!(is_free, "{second:?}");
    assert_eq!(plan.devices.len(), 1);
}

#[test]
fn without_a_set_point_a_device_is_no_resource() {
    let mut bench = crossing(Policy::Drf);
    bench.config.set_point_bytes_per_sec = None;
    bench.config.limit = false;
    let plan = bench.ticks(4);
    assert_eq!(fair(&plan, "/both").dominant, SharedResource::Cpu);
    assert_eq!(decision(&plan, "/both").why, Why::ObserveOnly);
}
