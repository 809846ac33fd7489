// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Examples from the literature, and input that makes no sense.

use super::*;
use crate::policy::NORMAL_WEIGHT;

fn cpu(capacity: f64) -> Resource {
    let kind = ResourceKind::Cpu;
    Resource { kind, capacity }
}

fn dram(capacity: f64) -> Resource {
    let kind = ResourceKind::Dram;
    Resource { kind, capacity }
}

fn flow(weight: f64, needs: &[Need]) -> Flow<'_> {
    Flow {
        weight,
        demand: f64::INFINITY,
        threads: f64::INFINITY,
        needs,
    }
}

fn needs<const N: usize>(of: [f64; N]) -> [Need; N] {
    of.map(Need::own)
}

fn near(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-12, "{got} should be {want}");
}

/// 6 CPUs and 6 GB; A's tasks take 1 CPU and 2 GB, B's 2 CPUs and 1 GB (DRFQS thesis, 2.4).
#[test]
fn the_example_of_the_drfqs_thesis() {
    let (a, b) = (needs([1.0, 2.0]), needs([2.0, 1.0]));
    let got = fill(&[cpu(6.0), dram(6.0)], &[flow(100.0, &a), flow(100.0, &b)]);
    for (level, dominant) in got.iter().zip([1, 0]) {
        near(level.progress, 2.0);
        near(level.dominant_ratio, 2.0 / 3.0);
        assert_eq!(level.dominant, Some(dominant));
    }
    let used = |of: &[Need; 2]| [of[0].own * 2.0, of[1].own * 2.0];
    assert_eq!((used(&a), used(&b)), ([2.0, 4.0], [4.0, 2.0]));
}

/// 9 CPUs and 18 GB; A's tasks take 1 CPU and 4 GB, B's 3 CPUs and 1 GB (Ghodsi et al., NSDI 2011, 4.1).
#[test]
fn the_example_of_nsdi_11() {
    let (a, b) = (needs([1.0, 4.0]), needs([3.0, 1.0]));
    let got = fill(&[cpu(9.0), dram(18.0)], &[flow(1.0, &a), flow(1.0, &b)]);
    near(got[0].progress, 3.0);
    near(got[1].progress, 2.0);
    for level in got {
        near(level.dominant_ratio, 2.0 / 3.0);
    }
}

/// Set 4 of the DRFQS thesis: mbw has 0.708 of the memory on a quarter of the CPUs; four sjeng compute.
#[test]
fn set_4_of_the_drfqs_thesis() {
    let (mbw, sjeng) = (needs([1.0, 2.832]), needs([1.0]));
    let mut flows = [flow(100.0, &sjeng); 5];
    flows[0].needs = &mbw;
    for one in &mut flows {
        one.threads = 0.25;
    }
    let got = fill(&[cpu(1.0), dram(1.0)], &flows);
    assert!((got[0].progress - 0.0811).abs() < 5e-5, "{:?}", got[0]);
    assert_eq!(got[0].dominant, Some(1));
    for level in got {
        assert!((level.dominant_ratio - 0.2297).abs() < 5e-5, "{level:?}");
        assert_eq!(level.stop, Stop::Full(0));
    }
}

#[test]
fn one_thread_does_not_take_two_cpus() {
    let needs = needs([1.0, 10.0]);
    let mut flows = [flow(100.0, &needs), flow(100.0, &needs)];
    flows[0].threads = 1.0;
    let got = fill(&[cpu(8.0), dram(1000.0)], &flows);
    near(got[0].progress, 1.0);
    near(got[1].progress, 7.0);
    assert_eq!((got[0].stop, got[1].stop), (Stop::Threads, Stop::Full(0)));
}

/// A disk that writes into memory for a sleeper takes as much as a reader of that memory.
#[test]
fn dma_counts_like_loads_and_stores() {
    let by_disk = [Need::default(), Need { own: 0.0, dma: 5.0 }];
    let by_loads = needs([0.1, 5.0]);
    let both = [Need::own(0.1), Need { own: 3.0, dma: 2.0 }];
    let got = fill(
        &[cpu(8.0), dram(100.0)],
        &[flow(1.0, &by_disk), flow(1.0, &by_loads), flow(2.0, &both)],
    );
    near(got[0].dominant_ratio, 0.25);
    near(got[1].dominant_ratio, 0.25);
    near(got[2].dominant_ratio, 0.5);
}

/// Each of two devices has its own users, and both have one user in common, which is held back by the first.
/// What it leaves of the second device goes to that device's own user.
#[test]
fn what_one_device_holds_back_leaves_the_other_to_others() {
    let (a, b, c) = (
        needs([1.0, 10.0, 5.0]),
        needs([1.0, 10.0]),
        needs([1.0, 0.0, 10.0]),
    );
    let resources = [cpu(64.0), dram(100.0), dram(100.0)];
    let got = fill(&resources, &[flow(1.0, &a), flow(1.0, &b), flow(1.0, &c)]);
    let memory = [got[0].progress * 5.0, got[2].progress * 10.0];
    near(got[0].dominant_ratio, 0.5);
    near(got[1].dominant_ratio, 0.5);
    near(memory[0], 25.0);
    near(memory[1], 75.0);
}

/// Weights of a tree, flattened: the group of two, with half of the weight, has a third of each resource,
/// because its members need different ones. Hierarchical DRF (Bhattacharya et al., SoCC 2013) would
/// give the group a half. See `docs/adr/0018-flat-weights.md`.
#[test]
fn flattened_weights_do_not_keep_a_groups_part() {
    let (alone, first, second) = (needs([1.0, 1.0]), needs([1.0, 0.0]), needs([0.0, 1.0]));
    let got = fill(
        &[cpu(1.0), dram(1.0)],
        &[flow(100.0, &alone), flow(50.0, &first), flow(50.0, &second)],
    );
    near(got[0].dominant_ratio, 2.0 / 3.0);
    near(got[1].dominant_ratio, 1.0 / 3.0);
    near(got[2].dominant_ratio, 1.0 / 3.0);
}

/// Members of a group that need the same keep their group's part, and none starves.
#[test]
fn flattened_weights_keep_the_part_of_a_group_with_one_need() {
    let (alone, member) = (needs([1.0, 0.2]), needs([0.1, 1.0]));
    let group = flow(25.0, &member);
    let got = fill(
        &[cpu(1.0), dram(1.0)],
        &[flow(100.0, &alone), group, group, group, group],
    );
    let of_group: f64 = got[1..].iter().map(|level| level.dominant_ratio).sum();
    assert!(of_group >= 0.5 && got[0].dominant_ratio >= 0.5, "{got:?}");
    assert!(got.iter().all(|level| level.dominant_ratio > 0.1));
}

#[test]
fn weights_beyond_reason_are_brought_into_bounds() {
    let needs = needs([1.0]);
    let share = |weight: f64| {
        let flows = [flow(weight, &needs), flow(NORMAL_WEIGHT, &needs)];
        fill(&[cpu(1.0)], &flows)[0].progress
    };
    near(share(f64::NAN), 0.5);
    near(share(10_000.0), 10_000.0 / 10_100.0);
    near(share(0.0), 1e-3 / (100.0 + 1e-3));
    near(share(-1.0), share(0.0));
    near(share(f64::INFINITY), 1e6 / (1e6 + 100.0));
}

#[test]
fn of_a_resource_that_is_not_there_is_nothing_to_divide() {
    let (user, other) = (needs([1.0, 1.0]), needs([1.0]));
    for capacity in [0.0, -1.0, f64::NAN] {
        let flows = [flow(1.0, &user), flow(1.0, &other)];
        let got = fill(&[cpu(2.0), dram(capacity)], &flows);
        assert_eq!((got[0].progress, got[0].stop), (0.0, Stop::Full(1)));
        assert_eq!((got[0].dominant, got[0].dominant_ratio), (Some(1), 0.0));
        near(got[1].progress, 2.0);
    }
}

#[test]
fn a_capacity_that_is_not_known_keeps_none_back() {
    let needs = needs([1.0, 1e9]);
    let got = fill(&[cpu(2.0), dram(f64::INFINITY)], &[flow(1.0, &needs)]);
    near(got[0].progress, 2.0);
    assert_eq!(got[0].dominant, Some(0));
    let mut wish = flow(1.0, &needs[1..]);
    wish.demand = 7.0;
    let got = fill(&[dram(f64::INFINITY)], &[wish]);
    assert_eq!((got[0].progress, got[0].dominant), (7.0, None));
}

#[test]
fn a_flow_without_counts_counts_by_its_cpu_time_alone() {
    let (counted, uncounted) = (needs([1.0, 4.0]), needs([1.0]));
    let got = fill(
        &[cpu(4.0), dram(4.0)],
        &[flow(1.0, &counted), flow(1.0, &uncounted)],
    );
    assert_eq!((got[0].dominant, got[1].dominant), (Some(1), Some(0)));
    near(got[0].progress, 0.8);
    near(got[1].progress, 3.2);
}

#[test]
fn nothing_wanted_is_nothing_taken() {
    let needs = needs([1.0]);
    for demand in [0.0, -3.0, f64::NAN] {
        let mut idle = flow(1.0, &needs);
        idle.demand = demand;
        let got = fill(&[cpu(1.0)], &[idle, flow(1.0, &needs)]);
        assert_eq!((got[0].progress, got[0].stop), (0.0, Stop::Satisfied));
        near(got[1].progress, 1.0);
    }
    assert_eq!(fill(&[cpu(1.0)], &[]), []);
    let none: &[Need] = &[];
    let got = fill(&[], &[flow(1.0, none)]);
    assert_eq!((got[0].level, got[0].stop), (0.0, Stop::Satisfied));
}
