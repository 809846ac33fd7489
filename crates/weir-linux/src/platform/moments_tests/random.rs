// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers that a seed decides.

use weir_core::random::SplitMix;

pub(super) struct Random(SplitMix);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(SplitMix::new(seed))
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.0.bits() % end as u64) as usize
    }

    pub(super) fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    pub(super) fn ratio(&mut self) -> f64 {
        self.below(1000) as f64 / 1000.0
    }
}
