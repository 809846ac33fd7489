// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The other side of `bpf/probes/samples_intf.h`: rows of 64-bit words in the machine's byte order.

use super::super::counting_intf::words;

/// Ranges of memory that the program can search.
pub(super) const RANGES: usize = 16;
/// Groups that the program can distinguish.
pub(super) const PLACES: usize = 16;

/// A range of physical memory, both ends within, and the place of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) place: u64,
}

/// All of them, in the program's layout. Too many are left out: the caller refuses that.
pub(super) fn to_bytes(ranges: &[Range]) -> Vec<u8> {
    let some = &ranges[..ranges.len().min(RANGES)];
    let mut words = vec![some.len() as u64];
    words.extend(some.iter().flat_map(|r| [r.first, r.last, r.place]));
    words.resize(1 + 3 * RANGES, 0);
    words.into_iter().flat_map(u64::to_ne_bytes).collect()
}

/// Samples of a cgroup or a process, by place.
pub(super) type SampleCounts = [u64; PLACES];

/// Adds up what CPUs have. Words that are missing are 0.
pub(super) fn taken(rows: &[Vec<u8>]) -> SampleCounts {
    let mut sum = SampleCounts::default();
    for row in rows {
        for (ours, theirs) in sum.iter_mut().zip(words(row)) {
            *ours = ours.wrapping_add(theirs);
        }
    }
    sum
}

/// What became of all samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) taken: u64,
    pub(super) without_address: u64,
    pub(super) elsewhere: u64,
    pub(super) from_cache: u64,
    pub(super) lost: u64,
}

impl Fate {
    /// Of all CPUs.
    pub(super) fn from_rows(rows: &[Vec<u8>]) -> Fate {
        let mut sum = [0u64; 5];
        for row in rows {
            for (ours, theirs) in sum.iter_mut().zip(words(row)) {
                *ours = ours.wrapping_add(theirs);
            }
        }
        let [taken, without_address, elsewhere, from_cache, lost] = sum;
        Fate {
            taken,
            without_address,
            elsewhere,
            from_cache,
            lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::counting_intf::members;
    use super::*;

    const HEADER: &str = include_str!("../../../../../bpf/probes/samples_intf.h");

    fn number(name: &str) -> usize {
        let line = HEADER.lines().find(|l| l.contains(&format!("{name}\t")));
        let word = line.unwrap().split_whitespace().last().unwrap();
        word.parse().unwrap()
    }

    #[test]
    fn both_sides_have_the_same_words_in_the_same_order() {
        assert_eq!(members(HEADER, "memory_range"), ["first", "last", "group"]);
        assert_eq!(
            members(HEADER, "memory_ranges"),
            ["count", "ranges[MAX_RANGES]"]
        );
        assert_eq!(members(HEADER, "sample_counts"), ["by_group[MAX_GROUPS]"]);
        let fate = [
            "counted",
            "without_address",
            "elsewhere",
            "from_cache",
            "lost",
        ];
        assert_eq!(members(HEADER, "sample_stats"), fate);
        assert_eq!(
            (number("MAX_RANGES"), number("MAX_GROUPS")),
            (RANGES, PLACES)
        );
    }

    #[test]
    fn words_are_where_they_are() {
        let range = Range {
            first: 1,
            last: 2,
            place: 3,
        };
        let bytes = to_bytes(&[range; 20]);
        assert_eq!(bytes.len(), 8 * (1 + 3 * RANGES));
        assert_eq!(words(&bytes).take(5).collect::<Vec<_>>(), [16, 1, 2, 3, 1]);
        let row: Vec<u8> = (1..=16u64).flat_map(u64::to_ne_bytes).collect();
        assert_eq!(taken(&[row.clone(), row.clone(), vec![1]])[1], 4);
        assert_eq!(Fate::from_rows(&[row.clone(), row]).lost, 10);
    }
}
