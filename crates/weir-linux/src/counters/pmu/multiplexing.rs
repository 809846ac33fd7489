// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Differences between two readings of a set of events, which may be multiplexed: weir-core scales them
//! ([`MuxGroup`]).

use super::set::Counted;
use weir_core::Missing;
use weir_core::rates::multiplexing::MuxGroup;

impl Counted {
    /// The time since an earlier reading of the same set.
    ///
    /// # Errors
    /// The same as [`MuxGroup::between`] has.
    pub(crate) fn running_since(&self, before: &Counted) -> Result<MuxGroup, Missing> {
        let times = |counted: &Counted| (counted.enabled_ns, counted.running_ns);
        MuxGroup::between(times(before), times(self))
    }

    /// What an event counted since then. Counts are 64 bits wide and widened by the kernel: they go back only
    /// when a device was lost, and then it is nothing.
    pub(crate) fn count_since(&self, before: &Counted, place: usize) -> f64 {
        let of = |counted: &Counted| counted.counts.get(place).copied();
        let before = of(before).unwrap_or(0);
        of(self).unwrap_or(before).saturating_sub(before) as f64
    }
}
