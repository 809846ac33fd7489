// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who causes the traffic: group totals shared out to workloads.
//!
//! The device counts exactly, but only per monitoring group; per workload there are only signs.
//! The signs give the ratio, the device gives the sum (thesis 4.3.2, eq. 3):
//!
//! ```text
//! b(t) = b_group · share(t) / Σ share(t')     over all users t' of the group
//! ```
//!
//! Signs, best first:
//!
//! 1. *sampled accesses*: loads plus twice the stores. A store that misses first loads its line
//!    (write-allocate), so the device sees a read and a write for it, while the sampler sees one
//!    store (thesis 6.2.1: 1 GiB/s of stores gave 0.99 GiB/s of reads and of writes each). The
//!    group's own counters hold both already and are never scaled.
//! 2. *CPU time × the part of its memory that is in the group*: who runs is taken to use all its memory
//!    evenly ([`part_share`]). An estimate, and labelled as one.
//! 3. *CPU time × resident bytes*, where it is not known of somebody what he has elsewhere. Labelled likewise.
//!
//! Ratios of different kinds cannot be mixed: as soon as one user of a group has only the weaker
//! sign, or the better one saw nothing at all in this interval, the whole group uses the weaker
//! one. A workload alone in its group needs no sign: it gets the count itself. The parts of a group
//! add up to its count whenever one share is positive; what then has no owner is reported.

use crate::bandwidth::GroupRate;
use crate::units::BytesPerSec;
use serde::{Deserialize, Serialize};

/// How a figure came about, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Counted by the device for this workload alone: it is the only user of its group.
    Counted,
    /// The group's count shared out by sampled accesses.
    Sampled,
    /// The group's count shared out by CPU time and resident memory: an estimate.
    Apportioned,
    /// Nothing is known.
    Unknown,
}

/// A bandwidth and how we know it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Reads and writes together.
    pub bytes_per_sec: BytesPerSec,
    /// How we know it: the weakest link of its parts.
    pub provenance: Provenance,
}

impl Estimate {
    /// Nothing is known.
    pub const UNKNOWN: Estimate = Estimate {
        bytes_per_sec: BytesPerSec::ZERO,
        provenance: Provenance::Unknown,
    };

    /// Both together: sums add, the weaker provenance stays.
    #[must_use]
    pub fn plus(self, other: Estimate) -> Estimate {
        Estimate {
            bytes_per_sec: self.bytes_per_sec + other.bytes_per_sec,
            provenance: self.provenance.max(other.provenance),
        }
    }
}

/// One workload's signs of use of one group over the last interval. Each sign is on its own scale;
/// only ratios count. Nothing means it is not known, which is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Position of the group in the list of rates.
    pub group: usize,
    /// From [`sampled_share`].
    pub sampled: Option<f64>,
    /// From [`part_share`].
    pub part: Option<f64>,
    /// CPU time × resident bytes.
    pub resident: Option<f64>,
}

/// Sampled loads and stores as one share, by the write-allocate rule.
pub fn sampled_share(loads: f64, stores: f64) -> f64 {
    loads + 2.0 * stores
}

/// About what the caches of a CPU keep for one workload. What fits in there moves no bytes, however long it runs.
const CACHED_BYTES: f64 = (32u64 << 20) as f64;

/// CPU time × the part of a workload's memory that is in the group. The caches count as memory elsewhere: of a few
/// hot pages little comes from the device.
///
/// ```text
/// share = cpu · here / (all + cached)
/// ```
pub fn part_share(cpus: f64, here_bytes: f64, all_bytes: f64) -> f64 {
    cpus * here_bytes / (all_bytes.max(here_bytes) + CACHED_BYTES)
}

/// What [`attribute`] found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attribution {
    /// One estimate for each share, in the same order.
    pub parts: Vec<Estimate>,
    /// For each group the traffic without an owner; nothing where the group's rate is not known.
    pub unattributed: Vec<Option<BytesPerSec>>,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    users: usize,
    without_sampled: bool,
    without_part: bool,
    sampled: f64,
    part: f64,
    resident: f64,
}

/// What a group's count is shared out by.
#[derive(Clone, Copy, PartialEq)]
enum Sign {
    Sampled,
    Part,
    Resident,
}

impl Tally {
    fn add(&mut self, share: &Share) {
        self.users += 1;
        match positive(share.sampled) {
            Some(s) => self.sampled += s,
            None => self.without_sampled = true,
        }
        // Who has neither stays unknown, and does not weaken the others.
        self.without_part |= share.part.is_none() && share.resident.is_some();
        self.part += positive(share.part).unwrap_or(0.0);
        self.resident += positive(share.resident).unwrap_or(0.0);
    }

    /// The sign that is used, and its sum.
    fn sign(&self) -> (Sign, f64) {
        match () {
            () if !self.without_sampled && self.sampled > 0.0 => (Sign::Sampled, self.sampled),
            () if !self.without_part => (Sign::Part, self.part),
            () => (Sign::Resident, self.resident),
        }
    }
}

/// Not known if it is no number; otherwise finite (sums of millions of them too) and not negative.
fn positive(share: Option<f64>) -> Option<f64> {
    share.filter(|s| !s.is_nan()).map(|s| s.clamp(0.0, 1e280))
}

/// Shares the groups' rates out. Each workload must appear at most once per group. A share whose
/// group does not exist stays unknown.
pub fn attribute(groups: &[GroupRate], shares: &[Share]) -> Attribution {
    let mut tallies = vec![Tally::default(); groups.len()];
    for share in shares {
        if let Some(tally) = tallies.get_mut(share.group) {
            tally.add(share);
        }
    }
    let totals: Vec<Option<BytesPerSec>> = groups.iter().map(GroupRate::total).collect();
    let part = |share: &Share| match (tallies.get(share.group), totals.get(share.group)) {
        (Some(tally), Some(Some(total))) => estimate(share, tally, *total),
        _ => Estimate::UNKNOWN,
    };
    let parts = shares.iter().map(part).collect();
    let owned = |t: &Tally| t.users == 1 || t.sign().1 > 0.0;
    let unattributed = tallies
        .iter()
        .zip(&totals)
        .map(|(tally, total)| total.map(|b| if owned(tally) { BytesPerSec::ZERO } else { b }))
        .collect();
    Attribution {
        parts,
        unattributed,
    }
}

fn estimate(share: &Share, tally: &Tally, total: BytesPerSec) -> Estimate {
    if tally.users == 1 {
        return Estimate {
            bytes_per_sec: total,
            provenance: Provenance::Counted,
        };
    }
    let (sign, sum) = tally.sign();
    let (own, provenance) = match sign {
        Sign::Sampled => (share.sampled, Provenance::Sampled),
        Sign::Part => (share.part, Provenance::Apportioned),
        Sign::Resident => (share.resident, Provenance::Apportioned),
    };
    match positive(own) {
        Some(own) if sum > 0.0 => Estimate {
            bytes_per_sec: total.scale(own / sum),
            provenance,
        },
        // Nobody ran: nothing is known about who caused what the device still counted.
        Some(_) if total.get() > 0.0 => Estimate::UNKNOWN,
        Some(_) => Estimate {
            bytes_per_sec: BytesPerSec::ZERO,
            provenance,
        },
        None => Estimate::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{DeviceId, GroupId};
    use crate::observation::Missing;
    use crate::units::Nanos;
    use proptest::prelude::*;

    fn group(index: u32, read: f64, write: f64) -> GroupRate {
        GroupRate {
            id: GroupId {
                device: DeviceId(0),
                index,
            },
            read: Ok(BytesPerSec::new(read)),
            write: Ok(BytesPerSec::new(write)),
            span: Nanos(1),
        }
    }

    fn share(group: usize, sampled: Option<f64>, resident: Option<f64>) -> Share {
        Share {
            group,
            sampled,
            part: None,
            resident,
        }
    }

    fn got(groups: &[GroupRate], shares: &[Share]) -> Vec<(f64, Provenance)> {
        let parts = attribute(groups, shares).parts;
        parts
            .iter()
            .map(|e| (e.bytes_per_sec.get(), e.provenance))
            .collect()
    }

    #[test]
    fn alone_in_a_group_is_counted() {
        let parts = got(&[group(0, 3.0, 1.0)], &[share(0, None, None)]);
        assert_eq!(parts, [(4.0, Provenance::Counted)]);
    }

    #[test]
    fn a_store_costs_a_read_and_a_write_and_neither_is_counted_twice() {
        // The thesis's mixed run: 1 of loads by one task, 1 of stores by another; the device sees
        // 2 of reads and 1 of writes (6.2.1 measured 1.65 and 1.03 for less loads).
        let shares = [
            share(0, Some(sampled_share(1.0, 0.0)), None),
            share(0, Some(sampled_share(0.0, 1.0)), None),
        ];
        let parts = got(&[group(0, 2.0, 1.0)], &shares);
        assert_eq!(
            parts,
            [(1.0, Provenance::Sampled), (2.0, Provenance::Sampled)]
        );
    }

    #[test]
    fn one_weaker_sign_makes_the_whole_group_weaker() {
        let shares = [share(0, Some(9.0), Some(1.0)), share(0, None, Some(3.0))];
        let parts = got(&[group(0, 8.0, 0.0)], &shares);
        assert_eq!(
            parts,
            [
                (2.0, Provenance::Apportioned),
                (6.0, Provenance::Apportioned)
            ]
        );
    }

    /// Workloads that compute all the time and read their memory evenly, on a device and on DRAM: who reads what is
    /// known. (CPUs, GiB on the device, GiB in all); the device serves `cpus · here / all` of each.
    const READERS: [(f64, f64, f64); 4] = [
        (1.0, 8.0, 8.0),
        (1.0, 8.0, 64.0),
        (2.0, 2.0, 2.0),
        (1.0, 0.0, 16.0),
    ];

    /// The greatest error of a workload's part, as a part of the whole.
    fn error(parts: &[f64], truth: &[f64]) -> f64 {
        let sum: f64 = truth.iter().sum();
        let errors = parts.iter().zip(truth).map(|(p, t)| (p - t / sum).abs());
        errors.fold(0.0, f64::max)
    }

    #[test]
    fn the_part_of_memory_that_is_there_tells_more_than_its_size() {
        const GIB: f64 = (1u64 << 30) as f64;
        let truth = READERS.map(|(cpus, here, all)| cpus * here / all);
        let shares_of = |is_all_known: bool| {
            READERS.map(|(cpus, here, all)| Share {
                group: 0,
                sampled: None,
                part: is_all_known.then(|| part_share(cpus, here * GIB, all * GIB)),
                resident: Some(cpus * here * GIB),
            })
        };
        let parts = |shares: [Share; 4]| {
            let got = got(&[group(0, 1.0, 0.0)], &shares);
            got.iter().map(|(bytes, _)| *bytes).collect::<Vec<f64>>()
        };
        let (by_part, by_size) = (parts(shares_of(true)), parts(shares_of(false)));
        let (with, without) = (error(&by_part, &truth), error(&by_size, &truth));
        println!("greatest error of a part: {with:.3}, by resident bytes {without:.3}");
        assert!(with < 0.01 && without > 0.25, "{by_part:?} {by_size:?}");
        assert_eq!(by_part[3], 0.0, "nothing there, nothing from there");
    }

    #[test]
    fn a_few_hot_pages_weigh_little() {
        let mib = |n: f64| n * f64::from(1 << 20);
        let spinner = part_share(1.0, mib(1.0), mib(2.0));
        let reader = part_share(1.0, mib(8192.0), mib(8192.0));
        assert!(spinner < 0.05 * reader, "{spinner} {reader}");
        // More here than in all is a stale figure, and no more than all.
        assert!(part_share(1.0, mib(8192.0), 0.0) <= 1.0);
    }

    #[test]
    fn one_whose_memory_elsewhere_is_not_known_makes_all_be_compared_by_bytes() {
        let with = |part, resident| Share {
            group: 0,
            sampled: None,
            part,
            resident,
        };
        let known = with(Some(0.5), Some(6.0));
        let shares = [known, with(None, Some(2.0))];
        let parts = got(&[group(0, 8.0, 0.0)], &shares);
        let want = [6.0, 2.0].map(|bytes| (bytes, Provenance::Apportioned));
        assert_eq!(parts, want);
        let shares = [known, with(Some(0.5), Some(1.0)), with(None, None)];
        let parts = got(&[group(0, 8.0, 0.0)], &shares);
        assert_eq!(parts[0], (4.0, Provenance::Apportioned));
        assert_eq!(parts[2], (0.0, Provenance::Unknown));
    }

    #[test]
    fn groups_do_not_mix() {
        let shares = [
            share(0, None, Some(1.0)),
            share(1, Some(1.0), None),
            share(1, Some(3.0), None),
        ];
        let parts = got(&[group(0, 8.0, 0.0), group(1, 4.0, 0.0)], &shares);
        let want = [
            (8.0, Provenance::Counted),
            (1.0, Provenance::Sampled),
            (3.0, Provenance::Sampled),
        ];
        assert_eq!(parts, want);
    }

    #[test]
    fn unknown_shares_stay_unknown_and_the_known_ones_hold_the_sum() {
        let shares = [
            share(0, None, None),
            share(0, None, Some(1.0)),
            share(0, None, Some(1.0)),
        ];
        let parts = got(&[group(0, 8.0, 0.0)], &shares);
        assert_eq!(parts[0], (0.0, Provenance::Unknown));
        assert_eq!(parts[1], (4.0, Provenance::Apportioned));
    }

    #[test]
    fn traffic_without_an_owner_is_reported() {
        let idle = [share(0, None, Some(0.0)), share(0, None, Some(0.0))];
        let found = attribute(&[group(0, 8.0, 0.0), group(1, 2.0, 1.0)], &idle);
        assert_eq!(
            found.unattributed,
            [Some(BytesPerSec::new(8.0)), Some(BytesPerSec::new(3.0))]
        );
        assert!(
            found
                .parts
                .iter()
                .all(|e| e.provenance == Provenance::Unknown)
        );
    }

    #[test]
    fn a_lost_counter_makes_its_users_unknown() {
        let mut lost = group(0, 8.0, 0.0);
        lost.write = Err(Missing::NotYetRead);
        let found = attribute(
            &[lost],
            &[share(0, Some(1.0), None), share(7, None, Some(1.0))],
        );
        assert_eq!(found.parts, [Estimate::UNKNOWN, Estimate::UNKNOWN]);
        assert_eq!(found.unattributed, [None]);
    }

    proptest! {
        #[test]
        fn parts_of_a_group_add_up_to_its_count(
            total in 0.0..1e18f64,
            signs in prop::collection::vec(prop::array::uniform3(prop::option::of(any::<f64>())), 0..40),
        ) {
            let shares: Vec<Share> = signs
                .iter()
                .map(|[sampled, part, resident]| Share { group: 0, sampled: *sampled, part: *part, resident: *resident })
                .collect();
            let found = attribute(&[group(0, total, 0.0)], &shares);
            let sum: f64 = found.parts.iter().map(|e| e.bytes_per_sec.get()).sum();
            let lost = found.unattributed[0].map_or(0.0, BytesPerSec::get);
            prop_assert!((sum + lost - total).abs() <= 1e-9 * total, "{} + {} is not {}", sum, lost, total);
            prop_assert!(lost == 0.0 || sum == 0.0);
        }
    }
}
