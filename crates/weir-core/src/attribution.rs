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
//! 2. *CPU time × resident bytes*: who runs, and can reach much of the group, is taken to use it.
//!    An estimate, and labelled as one.
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
    /// The group's count shared out by CPU time × resident bytes: an estimate.
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
    /// CPU time × resident bytes.
    pub apportioned: Option<f64>,
}

/// Sampled loads and stores as one share, by the write-allocate rule.
pub fn sampled_share(loads: f64, stores: f64) -> f64 {
    loads + 2.0 * stores
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
    sampled: f64,
    apportioned: f64,
}

impl Tally {
    fn add(&mut self, share: &Share) {
        self.users += 1;
        match positive(share.sampled) {
            Some(s) => self.sampled += s,
            None => self.without_sampled = true,
        }
        self.apportioned += positive(share.apportioned).unwrap_or(0.0);
    }

    fn by_sampling(&self) -> bool {
        !self.without_sampled && self.sampled > 0.0
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
    let owned = |t: &Tally| t.users == 1 || t.by_sampling() || t.apportioned > 0.0;
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
    let (own, sum, provenance) = if tally.by_sampling() {
        (positive(share.sampled), tally.sampled, Provenance::Sampled)
    } else {
        (
            positive(share.apportioned),
            tally.apportioned,
            Provenance::Apportioned,
        )
    };
    match own {
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

    fn share(group: usize, sampled: Option<f64>, apportioned: Option<f64>) -> Share {
        Share {
            group,
            sampled,
            apportioned,
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
            signs in prop::collection::vec((prop::option::of(any::<f64>()), prop::option::of(any::<f64>())), 0..40),
        ) {
            let shares: Vec<Share> = signs.iter().map(|(s, a)| share(0, *s, *a)).collect();
            let found = attribute(&[group(0, total, 0.0)], &shares);
            let sum: f64 = found.parts.iter().map(|e| e.bytes_per_sec.get()).sum();
            let lost = found.unattributed[0].map_or(0.0, BytesPerSec::get);
            prop_assert!((sum + lost - total).abs() <= 1e-9 * total, "{} + {} is not {}", sum, lost, total);
            prop_assert!(lost == 0.0 || sum == 0.0);
        }
    }
}
