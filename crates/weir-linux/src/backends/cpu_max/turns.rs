// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which limits are looked after at a tick: all of them, by turns.

use super::limited::LimitedCgroup;
use std::collections::BTreeMap;
use std::ops::Bound;
use weir_core::WorkloadId;

/// Limits that are looked after at one tick: so many, or this part of all where that is more. Every
/// one has its turn within this many ticks: a second at 50 ms, no longer than a contest waits anyway.
/// Before a write of ours each is looked at in any case.
const TEND_LEAST: usize = 8;
pub(crate) const TEND_PART: usize = 20;
/// And no more than this: of ten thousand limits each has its turn within 4 s at 50 ms. In tests less, so
/// that it happens.
pub(crate) const TEND_MOST: usize = if cfg!(test) { 40 } else { 128 };

/// Where the last turn ended.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    last: Option<WorkloadId>,
}

impl Turns {
    /// The limits that have their turn now; each time the next ones.
    pub(crate) fn next(&mut self, holds: &BTreeMap<WorkloadId, LimitedCgroup>) -> Vec<WorkloadId> {
        let part = holds.len().div_ceil(TEND_PART);
        let count = part.clamp(TEND_LEAST, TEND_MOST);
        let from = self.last.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut turn: Vec<_> = holds
            .range((from, Bound::Unbounded))
            .map(|(id, _)| id.clone())
            .take(count + 1)
            .collect();
        // Behind the last of them the next turn begins, or with the first, if that was the end.
        if turn.len() > count {
            turn.pop();
            self.last = turn.last().cloned();
        }
        turn
    }
}
