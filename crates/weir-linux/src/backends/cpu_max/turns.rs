// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chooses the limits that are checked at a tick, all in turn, and those that end with a new view.

use super::limited::LimitedCgroup;
use crate::workloads::discovery::View;
use std::collections::BTreeMap;
use std::ops::Bound;
use weir_core::WorkloadId;

/// Limits that are checked at one tick: this many, or this part of all where that is more. Each is checked
/// within this many ticks: a second at 50 ms, no longer than a contest waits anyway. Before each write of
/// weir its limit is checked in any case.
///
/// Reading `cpu.max` of every limit at each tick was as expensive, with 1000 limits, as to read their CPU
/// time.
const TEND_LEAST: usize = 2;
pub(crate) const TEND_PART: usize = 20;
/// The most at one tick: of ten thousand limits each is checked within 4 s at 50 ms. In tests it is less, so
/// that it happens.
pub(crate) const TEND_MOST: usize = if cfg!(test) { 40 } else { 128 };

/// The limits of what is no workload of the view. Both are in the order of ids.
pub(crate) fn over(holds: &BTreeMap<WorkloadId, LimitedCgroup>, view: &View) -> Vec<WorkloadId> {
    let mut there = view.workloads.iter().peekable();
    let is_over = |id: &&WorkloadId| {
        while there.next_if(|w| w.id != **id && w.id < **id).is_some() {}
        there.next_if(|w| w.id == **id).is_none()
    };
    holds.keys().filter(is_over).cloned().collect()
}

/// The last limit that was checked.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    last: Option<WorkloadId>,
}

impl Turns {
    /// The limits to check now; each call gives the next ones.
    pub(crate) fn next(&mut self, holds: &BTreeMap<WorkloadId, LimitedCgroup>) -> Vec<WorkloadId> {
        let part = holds.len().div_ceil(TEND_PART);
        let count = part.clamp(TEND_LEAST, TEND_MOST);
        let from = self.last.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut turn: Vec<_> = holds
            .range((from, Bound::Unbounded))
            .map(|(id, _)| id.clone())
            .take(count + 1)
            .collect();
        // The next call begins behind the last of them, or with the first if that was the end.
        if turn.len() > count {
            turn.pop();
            self.last = turn.last().cloned();
        }
        turn
    }
}
