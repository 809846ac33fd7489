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
//! 1. *sampled accesses*: loads and stores. A store that misses first loads its line
//!    (write-allocate), so the device sees a read and a write for it, while the sampler sees one
//!    store (thesis 6.2.1: 1 GiB/s of stores gave 0.99 GiB/s of reads and of writes each). So the group's
//!    reads are shared out by loads and stores together, and its writes by stores whose lines are not
//!    written back yet. Where stores of somebody are not known, or there are none while the device writes,
//!    writes are shared out as reads are, and that is an estimate. The group's own counters are never scaled.
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
    pub const UNKNOWN: Estimate = Estimate::new(BytesPerSec::ZERO, Provenance::Unknown);

    const fn new(bytes_per_sec: BytesPerSec, provenance: Provenance) -> Estimate {
        Estimate {
            bytes_per_sec,
            provenance,
        }
    }

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
    /// Stores that are not written back yet, on a scale of their own; nothing where the sampler does not tell them
    /// from loads.
    pub stores: Option<f64>,
    /// From [`part_share`].
    pub part: Option<f64>,
    /// CPU time × resident bytes.
    pub resident: Option<f64>,
}

/// What sampled loads and stores read of the device: each of them a line, by the write-allocate rule.
pub fn sampled_share(loads: f64, stores: f64) -> f64 {
    loads + stores
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

/// What a workload has of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Reads and writes together. Known as the reads are, even where the writes are guessed.
    pub all: Estimate,
    /// Reads alone.
    pub read: Estimate,
    /// Writes alone.
    pub write: Estimate,
}

impl Part {
    /// Nothing is known.
    pub const UNKNOWN: Part = Part {
        all: Estimate::UNKNOWN,
        read: Estimate::UNKNOWN,
        write: Estimate::UNKNOWN,
    };

    /// The same part of reads and writes.
    fn alike(all: Estimate, read: BytesPerSec, write: BytesPerSec) -> Part {
        let total = read.get() + write.get();
        let ratio = match total > 0.0 {
            true => all.bytes_per_sec.get() / total,
            false => 0.0,
        };
        // Accesses tell who reads; that writes go the same way is a guess.
        let guess = match all.provenance {
            Provenance::Sampled => Provenance::Apportioned,
            other => other,
        };
        Part {
            all,
            read: Estimate::new(read.scale(ratio), all.provenance),
            write: Estimate::new(write.scale(ratio), guess),
        }
    }
}

/// What [`attribute`] found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attribution {
    /// One part for each share, in the same order.
    pub parts: Vec<Part>,
    /// For each group the traffic without an owner; nothing where the group's rate is not known.
    pub unattributed: Vec<Option<BytesPerSec>>,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    users: usize,
    without_sampled: bool,
    without_stores: bool,
    without_part: bool,
    sampled: f64,
    stores: f64,
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
        match positive(share.stores) {
            Some(s) => self.stores += s,
            None => self.without_stores = true,
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

    /// Whether stores tell whose these writes are.
    fn tells_writers(&self, write: BytesPerSec) -> bool {
        !self.without_stores && (self.stores > 0.0 || write.get() <= 0.0)
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
    let part = |share: &Share| match (tallies.get(share.group), groups.get(share.group)) {
        (Some(tally), Some(group)) => part_of(group, share, tally),
        _ => Part::UNKNOWN,
    };
    let parts = shares.iter().map(part).collect();
    let owned = |t: &Tally| t.users == 1 || t.sign().1 > 0.0;
    let unattributed = tallies
        .iter()
        .zip(groups)
        .map(|(tally, group)| {
            let left = |all| if owned(tally) { BytesPerSec::ZERO } else { all };
            group.total().map(left)
        })
        .collect();
    Attribution {
        parts,
        unattributed,
    }
}

fn part_of(group: &GroupRate, share: &Share, tally: &Tally) -> Part {
    let (Ok(read), Ok(write)) = (&group.read, &group.write) else {
        return Part::UNKNOWN;
    };
    let (read, write) = (*read, *write);
    let total = read + write;
    if tally.users == 1 {
        return Part::alike(Estimate::new(total, Provenance::Counted), read, write);
    }
    let (sign, sum) = tally.sign();
    let (own, provenance) = match sign {
        Sign::Sampled => (share.sampled, Provenance::Sampled),
        Sign::Part => (share.part, Provenance::Apportioned),
        Sign::Resident => (share.resident, Provenance::Apportioned),
    };
    let Some(own) = positive(own) else {
        return Part::UNKNOWN;
    };
    if sum > 0.0 && sign == Sign::Sampled && tally.tells_writers(write) {
        let stores = positive(share.stores).unwrap_or(0.0);
        return by_stores(read.scale(own / sum), write, stores, tally.stores);
    }
    match sum > 0.0 {
        true => Part::alike(
            Estimate::new(total.scale(own / sum), provenance),
            read,
            write,
        ),
        // Nobody ran: nothing is known about who caused what the device still counted.
        false if total.get() > 0.0 => Part::UNKNOWN,
        false => Part::alike(Estimate::new(BytesPerSec::ZERO, provenance), read, write),
    }
}

/// Of who has read so much, and made so many of the stores.
fn by_stores(read: BytesPerSec, write: BytesPerSec, stores: f64, sum: f64) -> Part {
    let write = match sum > 0.0 {
        true => write.scale(stores / sum),
        false => BytesPerSec::ZERO,
    };
    let sampled = |rate| Estimate::new(rate, Provenance::Sampled);
    Part {
        all: sampled(read + write),
        read: sampled(read),
        write: sampled(write),
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
            resident,
            ..Share::default()
        }
    }

    /// One whose loads and stores are known.
    fn accesses(loads: f64, stores: f64) -> Share {
        Share {
            stores: Some(stores),
            ..share(0, Some(sampled_share(loads, stores)), None)
        }
    }

    fn got(groups: &[GroupRate], shares: &[Share]) -> Vec<(f64, Provenance)> {
        let parts = attribute(groups, shares).parts;
        parts
            .iter()
            .map(|part| (part.all.bytes_per_sec.get(), part.all.provenance))
            .collect()
    }

    /// Reads and writes of each.
    fn ways(groups: &[GroupRate], shares: &[Share]) -> Vec<[(f64, Provenance); 2]> {
        let of = |e: Estimate| (e.bytes_per_sec.get(), e.provenance);
        let parts = attribute(groups, shares).parts;
        parts.iter().map(|p| [of(p.read), of(p.write)]).collect()
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
        let shares = [accesses(1.0, 0.0), accesses(0.0, 1.0)];
        let parts = got(&[group(0, 2.0, 1.0)], &shares);
        assert_eq!(
            parts,
            [(1.0, Provenance::Sampled), (2.0, Provenance::Sampled)]
        );
    }

    #[test]
    fn who_only_reads_is_given_no_writes_however_many_there_are() {
        use Provenance::Sampled;
        // More is written back than was stored in the same time, and less.
        for written in [5.0, 0.5, 0.0] {
            let shares = [accesses(30.0, 0.0), accesses(0.0, 10.0)];
            let ways = ways(&[group(0, 4.0, written)], &shares);
            let reader = [(3.0, Sampled), (0.0, Sampled)];
            assert_eq!(ways, [reader, [(1.0, Sampled), (written, Sampled)]]);
        }
    }

    #[test]
    fn without_stores_of_all_writes_are_guessed_and_called_so() {
        use Provenance::{Apportioned, Sampled};
        let guessed = [
            [(3.0, Sampled), (1.5, Apportioned)],
            [(1.0, Sampled), (0.5, Apportioned)],
        ];
        let loads_alone = share(0, Some(10.0), None);
        let shares = [accesses(20.0, 10.0), loads_alone];
        assert_eq!(ways(&[group(0, 4.0, 2.0)], &shares), guessed);
        // Nobody stored, and still lines are written back.
        let shares = [accesses(30.0, 0.0), accesses(10.0, 0.0)];
        assert_eq!(ways(&[group(0, 4.0, 2.0)], &shares), guessed);
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
                part: is_all_known.then(|| part_share(cpus, here * GIB, all * GIB)),
                resident: Some(cpus * here * GIB),
                ..Share::default()
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
            part,
            resident,
            ..Share::default()
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
        assert!(found.parts.iter().all(|part| *part == Part::UNKNOWN));
    }

    #[test]
    fn a_lost_counter_makes_its_users_unknown() {
        let mut lost = group(0, 8.0, 0.0);
        lost.write = Err(Missing::NotYetRead);
        let found = attribute(
            &[lost],
            &[share(0, Some(1.0), None), share(7, None, Some(1.0))],
        );
        assert_eq!(found.parts, [Part::UNKNOWN, Part::UNKNOWN]);
        assert_eq!(found.unattributed, [None]);
    }

    proptest! {
        #[test]
        fn parts_of_a_group_add_up_to_its_count(
            (read, write) in (0.0..1e18f64, prop_oneof![Just(0.0), 0.0..1e18f64]),
            signs in prop::collection::vec(prop::array::uniform4(prop::option::of(any::<f64>())), 0..40),
            all_store in any::<bool>(),
        ) {
            let shares: Vec<Share> = signs
                .iter()
                .map(|[sampled, stores, part, resident]| Share {
                    group: 0,
                    sampled: sampled.or(all_store.then_some(1.0)),
                    stores: stores.or(all_store.then_some(0.0)),
                    part: *part,
                    resident: *resident,
                })
                .collect();
            let found = attribute(&[group(0, read, write)], &shares);
            let sum = |of: fn(&Part) -> Estimate| -> f64 {
                found.parts.iter().map(|part| of(part).bytes_per_sec.get()).sum()
            };
            let lost = found.unattributed[0].map_or(0.0, BytesPerSec::get);
            for (sum, count) in [(sum(|p| p.all), read + write), (sum(|p| p.read), read), (sum(|p| p.write), write)] {
                let is_all = (sum - count).abs() <= 1e-9 * count;
                prop_assert!(is_all || sum == 0.0 && lost > 0.0, "{} is not {}", sum, count);
            }
            prop_assert!(lost == 0.0 || (lost - read - write).abs() <= 1e-9 * lost);
        }
    }
}
