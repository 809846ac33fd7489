// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many changes one step requests, and which go first.
//!
//! A write of `cpu.max` takes a lock of every CPU in the kernel, and a line in the journal before it. Ten
//! thousand workloads that each need one at the same step would hold the loop up for longer than its
//! interval. So a step requests at most [`WRITES_PER_STEP`] changes, and the rest is requested in
//! the next steps, from what is known then.
//!
//! *Order.* What has waited for [`PATIENCE`] steps, the longest first. Then limits that are lowered or set
//! for the first time, the largest overshoot first: the bytes per second that the change takes off the
//! device. Then limits that are raised, likewise.
//!
//! *Small changes*, by less than a quarter, are most of the requests where there are many limits, and do
//! little: at most [`SMALL_WRITES`] of them are made in a step, after all others, and those that move most
//! first, up or down.
//!
//! *Releases* have a quarter of the budget to themselves, the longest waiting first, so that no number of
//! limits delays them for long. A part that is not used is for the others.

use super::limits::{PendingWrite, URGENT};
use super::state::WorkloadState;
use std::cmp::Ordering;

/// Most changes that one [`super::step`] requests, limits and releases together. Ten thousand workloads asked
/// for thousands of writes in one step, which would have taken longer than the interval between two steps.
pub const WRITES_PER_STEP: usize = 256;

/// Most changes of a limit by less than [`URGENT`] in one step, of those that can be put off. Ten thousand
/// limits that are each a little beside where they should be are not worth the whole budget at each step.
const SMALL_WRITES: usize = 64;

/// Steps after which a change that was left over goes before all that are younger, whatever its effect.
const PATIENCE: u32 = 20;

/// One in this many changes is kept for releases, so that no number of limits delays them for long. What
/// releases do not use is for limits.
const RELEASES_OF: usize = 4;

pub(super) struct WriteBatch {
    pub limits: Vec<PendingWrite>,
    /// Positions of workloads.
    pub releases: Vec<usize>,
}

/// Chooses at most `budget` changes. Remembers of each that is left over how long it has waited, and forgets
/// that of all others.
pub(super) fn ration(
    mut limits: Vec<PendingWrite>,
    mut releases: Vec<usize>,
    workloads: &mut [WorkloadState],
    budget: usize,
) -> WriteBatch {
    let small = limits.iter().filter(|wish| is_small(wish)).count();
    let fits = limits.len() + releases.len() <= budget && small <= SMALL_WRITES;
    let mut before_now = Vec::new();
    if !fits {
        before_now.extend(workloads.iter().map(|tracked| tracked.hold.waited_steps));
    }
    for tracked in workloads.iter_mut() {
        tracked.hold.waited_steps = 0;
    }
    if fits {
        return WriteBatch { limits, releases };
    }
    let waited = |position: usize| before_now.get(position).copied().unwrap_or(0);
    let kept = (budget / RELEASES_OF).max(1).min(budget);
    let free = budget.saturating_sub(limits.len());
    releases.sort_by_key(|&position| std::cmp::Reverse(waited(position)));
    let mut late = releases.split_off(releases.len().min(kept.max(free)));
    limits.sort_by(|a, b| order(a, b, waited(a.position), waited(b.position)));
    let mut left = budget - releases.len();
    let mut small_left = SMALL_WRITES;
    limits.retain(|wish| {
        let is_chosen = left > 0 && (small_left > 0 || !is_small(wish));
        if is_chosen {
            left -= 1;
            small_left -= usize::from(is_small(wish));
        } else {
            late.push(wish.position);
        }
        is_chosen
    });
    for position in late {
        if let Some(tracked) = workloads.get_mut(position) {
            tracked.hold.waited_steps = waited(position).saturating_add(1);
        }
    }
    WriteBatch { limits, releases }
}

/// Small ones of both directions together: with the lowered ones first the device would be held below its
/// set-point.
fn rank(wish: &PendingWrite) -> u8 {
    match (is_small(wish), wish.lowers) {
        (false, true) => 0,
        (false, false) => 1,
        (true, _) => 2,
    }
}

fn is_small(wish: &PendingWrite) -> bool {
    wish.deviation.abs() <= URGENT && !wish.is_unsettled
}

fn order(a: &PendingWrite, b: &PendingWrite, a_waited: u32, b_waited: u32) -> Ordering {
    let overdue = |waited: u32| if waited >= PATIENCE { waited } else { 0 };
    overdue(b_waited)
        .cmp(&overdue(a_waited))
        .then(rank(a).cmp(&rank(b)))
        .then(b.moves.total_cmp(&a.moves))
        .then(b.deviation.abs().total_cmp(&a.deviation.abs()))
        .then(a.position.cmp(&b.position))
}

#[cfg(test)]
#[path = "writes_tests.rs"]
mod tests;
