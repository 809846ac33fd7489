// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the sampling program (`bpf/probes/samples.bpf.c`) and weir share: where memory is, and how many
//! samples were taken of it.

use crate::kernel::bpf::{BpfValue, bpf_values};
use crate::kernel::skeletons::samples::types::{
    memory_range, memory_ranges, sample_counts, sample_stats,
};
use crate::kernel::skeletons::samples::{MAX_GROUPS, MAX_RANGES};

/// Ranges of memory that the program can search.
pub(super) const RANGES: usize = MAX_RANGES as usize;
/// Groups that the program can distinguish.
pub(super) const PLACES: usize = MAX_GROUPS as usize;

bpf_values!(memory_range, memory_ranges, sample_counts, sample_stats);

/// All of them, for the program. Too many are left out: the caller refuses that.
pub(super) fn all(some: &[memory_range]) -> memory_ranges {
    let mut all = memory_ranges::default();
    for (ours, range) in all.ranges.iter_mut().zip(some) {
        *ours = *range;
        all.count += 1;
    }
    all
}

/// Samples of a cgroup or a process, by place.
pub(super) type SampleCounts = [u64; PLACES];

pub(super) fn taken(rows: &[Vec<u8>]) -> SampleCounts {
    let mut sum = SampleCounts::default();
    for row in rows {
        let theirs = sample_counts::from_bytes(row).by_group;
        for (ours, theirs) in sum.iter_mut().zip(theirs) {
            *ours = ours.wrapping_add(theirs);
        }
    }
    sum
}

/// What became of all samples, on all CPUs.
pub(super) fn fate(rows: &[Vec<u8>]) -> sample_stats {
    let mut sum = sample_stats::default();
    for row in rows {
        let theirs = sample_stats::from_bytes(row);
        sum.counted = sum.counted.wrapping_add(theirs.counted);
        sum.without_address = sum.without_address.wrapping_add(theirs.without_address);
        sum.elsewhere = sum.elsewhere.wrapping_add(theirs.elsewhere);
        sum.from_cache = sum.from_cache.wrapping_add(theirs.from_cache);
        sum.lost = sum.lost.wrapping_add(theirs.lost);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_beyond_the_last_place_are_left_out() {
        let range = memory_range {
            first: 1,
            last: 2,
            group: 3,
        };
        let some = all(&[range; 2]);
        assert_eq!(
            (some.count, some.ranges[1].group, some.ranges[2].group),
            (2, 3, 0)
        );
        assert_eq!(all(&[range; RANGES + 4]).count, RANGES as u64);
    }

    #[test]
    fn cpus_are_added_up() {
        let row: Vec<u8> = (1..=16u64).flat_map(u64::to_ne_bytes).collect();
        assert_eq!(taken(&[row.clone(), row.clone(), vec![1]])[1], 4);
        let sum = fate(&[row.clone(), row]);
        assert_eq!((sum.counted, sum.from_cache, sum.lost), (2, 8, 10));
    }
}
