// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::ids::WorkloadId;
use std::collections::BTreeSet;

fn tracked(n: usize) -> Vec<WorkloadState> {
    (0..n)
        .map(|i| WorkloadState::new(WorkloadId::new(format!("/{i:05}"))))
        .collect()
}

fn lower(position: usize, moves: f64) -> PendingWrite {
    PendingWrite {
        position,
        device: None,
        cpus: 1.0,
        deviation: -0.5,
        effect: -moves,
        moves,
        lowers: true,
        due: true,
        is_lasting: false,
        is_unsettled: false,
    }
}

fn raise(position: usize, moves: f64) -> PendingWrite {
    PendingWrite {
        deviation: 0.5,
        effect: moves,
        lowers: false,
        ..lower(position, moves)
    }
}

fn positions(ration: &WriteBatch) -> Vec<usize> {
    ration.limits.iter().map(|wish| wish.position).collect()
}

#[test]
fn changes_within_the_budget_are_requested_as_they_are() {
    let mut workloads = tracked(4);
    workloads[3].hold.waited_steps = 7;
    let limits = vec![raise(2, 9.0), lower(0, 1.0)];
    let chosen = ration(limits, vec![1, 3], &mut workloads, 4);
    assert_eq!(positions(&chosen), [2, 0]);
    assert_eq!(chosen.releases, [1, 3]);
    assert!(workloads.iter().all(|t| t.hold.waited_steps == 0));
}

#[test]
fn lowered_ones_go_first_and_of_them_the_largest_overshoot() {
    let mut workloads = tracked(8);
    let limits = vec![
        raise(0, 100.0),
        lower(1, 1.0),
        lower(2, 5.0),
        raise(3, 200.0),
        lower(4, 3.0),
        lower(5, 0.0),
    ];
    let chosen = ration(limits, Vec::new(), &mut workloads, 5);
    assert_eq!(positions(&chosen), [2, 4, 1, 5, 3]);
    let waited: Vec<u32> = workloads.iter().map(|t| t.hold.waited_steps).collect();
    assert_eq!(waited, [1, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn no_number_of_limits_delays_releases() {
    let (budget, count) = (40, 30);
    let mut workloads = tracked(1000 + count);
    let mut waiting: BTreeSet<usize> = (1000..1000 + count).collect();
    let mut steps = 0;
    while !waiting.is_empty() {
        let limits = (0..1000).map(|i| lower(i, 1e9)).collect();
        let releases = waiting.iter().copied().collect();
        let chosen = ration(limits, releases, &mut workloads, budget);
        assert_eq!(chosen.limits.len() + chosen.releases.len(), budget);
        for position in &chosen.releases {
            assert!(waiting.remove(position));
        }
        steps += 1;
    }
    assert_eq!(steps, count.div_ceil(budget / RELEASES_OF));
}

#[test]
fn no_number_of_releases_delays_limits() {
    let mut workloads = tracked(1000);
    let releases = (10..1000).collect();
    let limits = (0..10).map(|i| lower(i, 1.0)).collect();
    let chosen = ration(limits, releases, &mut workloads, 40);
    assert_eq!((chosen.limits.len(), chosen.releases.len()), (10, 30));
}

#[test]
fn the_smallest_raise_has_its_turn_while_large_overshoots_come_again_and_again() {
    let mut workloads = tracked(100);
    let mut steps = Vec::new();
    for step in 0..=PATIENCE {
        let mut limits: Vec<PendingWrite> = (0..99).map(|i| lower(i, 1e9)).collect();
        limits.push(raise(99, 0.0));
        let chosen = ration(limits, Vec::new(), &mut workloads, 50);
        if positions(&chosen).contains(&99) {
            steps.push(step);
        }
    }
    assert_eq!(steps, [PATIENCE]);
}

#[test]
fn the_longest_waiting_goes_first_among_those_that_have_waited_too_long() {
    let mut workloads = tracked(3);
    workloads[0].hold.waited_steps = PATIENCE;
    workloads[1].hold.waited_steps = PATIENCE + 3;
    let limits = vec![raise(0, 1e9), raise(1, 0.0), lower(2, 1e12)];
    let chosen = ration(limits, Vec::new(), &mut workloads, 1);
    assert_eq!(positions(&chosen), [1]);
    assert_eq!(workloads[0].hold.waited_steps, PATIENCE + 1);
    assert_eq!(workloads[1].hold.waited_steps, 0);
}

#[test]
fn without_a_budget_nothing_is_requested() {
    let mut workloads = tracked(2);
    let chosen = ration(vec![lower(0, 1.0)], vec![1], &mut workloads, 0);
    assert!(chosen.limits.is_empty() && chosen.releases.is_empty());
    assert!(workloads.iter().all(|t| t.hold.waited_steps == 1));
}

#[test]
fn small_changes_come_by_turns_and_large_ones_beside_them() {
    let count = 3 * SMALL_WRITES;
    let mut workloads = tracked(count + 10);
    let mut writes = vec![0; count];
    for _ in 0..3 {
        let small = (0..count).map(|i| PendingWrite {
            deviation: -0.1,
            ..lower(i, 1e9 + i as f64)
        });
        // What was written needs no other write.
        let mut limits: Vec<PendingWrite> =
            small.filter(|wish| writes[wish.position] == 0).collect();
        limits.extend((count..count + 10).map(|i| lower(i, 1.0)));
        let chosen = positions(&ration(limits, Vec::new(), &mut workloads, WRITES_PER_STEP));
        assert_eq!(chosen.len(), SMALL_WRITES + 10);
        for position in chosen.into_iter().filter(|position| *position < count) {
            writes[position] += 1;
        }
    }
    assert!(writes.iter().all(|writes| *writes == 1));
}

#[test]
fn small_changes_go_by_what_they_move_and_not_by_direction() {
    let mut workloads = tracked(200);
    let small = |i: usize| {
        let wish = if i < 100 {
            lower(i, 1.0)
        } else {
            raise(i, 2.0)
        };
        let deviation = wish.deviation / 5.0;
        PendingWrite { deviation, ..wish }
    };
    let chosen = ration(
        (0..200).map(small).collect(),
        Vec::new(),
        &mut workloads,
        256,
    );
    assert_eq!(chosen.limits.len(), SMALL_WRITES);
    assert!(chosen.limits.iter().all(|wish| !wish.lowers));
}
