// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Causes of the traffic: group totals shared out to workloads.
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
//!    reads are shared out by loads and stores together, and its writes by stores to lines that are not
//!    written back yet. Where the stores of a workload are not known, or there are none while the device
//!    writes, writes are shared out as reads are, and that is an estimate. The group's own counters are never
//!    scaled.
//! 2. *CPU time × the part of its memory that is in the group*: a workload that runs is taken to use all its
//!    memory evenly ([`part_share`]). An estimate, and labelled as one.
//! 3. *CPU time × resident bytes*, where a workload's memory elsewhere is not known. Labelled likewise.
//!
//! A workload's memory in a group may not be known: its processes were not scanned yet, or may not be. Then
//! its sign is the most that it can be, all of its memory in the group. The others are given no more than
//! theirs; the bytes of such a workload are no figure of it, and are unattributed. Where its CPU time is not
//! known, as in its first interval, it may have moved all of it: then CPU time and memory say nothing of any
//! workload in the group. Alone in its group it has the count all the same: all others are known to have
//! nothing there.
//!
//! An owner may count its own bytes, as weir's probe does, and the kernel the pages that it migrates: they
//! are its part, at most what the group moved. What is left is shared out among the others. Where the
//! kernel's part is more than 2 % of a group, what is left is no count of a workload, even of one that is
//! alone there.
//!
//! A workload cannot move more than its CPU time allows ([`CPU_BYTES_PER_SEC`]), of all groups together: the
//! time that it spends on one it does not spend on another ([`possible_ratio`]). What devices count beyond
//! that was moved by something else (a device's DMA, a guest's host threads, a process that is not seen yet):
//! it is unattributed, and the rest is no count.
//!
//! Ratios of different kinds cannot be mixed: as soon as one user of a group has only the weaker
//! sign, or the better one saw nothing at all in this interval, the whole group uses the weaker
//! one. A workload alone in its group needs no sign: it gets the count itself. The parts of a group
//! add up to its count whenever one share is positive; the rest is reported as unattributed.

use crate::rates::bandwidth::GroupRate;
use crate::units::BytesPerSec;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

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
    Unknown,
}

/// A bandwidth and how we know it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Reads and writes together, in bytes per second.
    pub bytes_per_sec: BytesPerSec,
    /// How we know it: the weakest link of its parts.
    pub provenance: Provenance,
}

impl Estimate {
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
pub struct AccessSignal {
    /// Position of the group in the list of rates.
    pub group: usize,
    /// From [`sampled_share`].
    pub sampled: Option<f64>,
    /// Stores that are not written back yet, on a scale of their own; nothing where the sampler does not
    /// distinguish them from loads.
    pub stores: Option<f64>,
    /// From [`part_share`].
    pub part: Option<f64>,
    /// CPU time × resident bytes.
    pub resident: Option<f64>,
    /// Its memory there is not known: `part` and `resident` are the most that they can be.
    pub is_bound: bool,
    /// It has just come: what is not known of it now will be known soon.
    pub is_new: bool,
    /// What this owner counts itself. It then needs no other signal. With `is_bound` it is the most that it
    /// can be.
    pub counted: Option<OwnTraffic>,
}

/// Bytes per second that an owner counts itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnTraffic {
    pub read: f64,
    pub write: f64,
}

/// No core moves as much as this, in bytes per second of CPU time: its buffers for lines that it waits for,
/// at the latency of local memory, give less than half of it.
pub const CPU_BYTES_PER_SEC: f64 = (32u64 << 30) as f64;

/// A bound on what another owner moved, of less than this part of a group, leaves the rest a count.
pub const UNSURE_RATIO: f64 = 0.02;

/// What sampled loads and stores read of the device: each of them a line, by the write-allocate rule.
pub fn sampled_share(loads: f64, stores: f64) -> f64 {
    loads + stores
}

/// About what the caches of a CPU keep for one workload. What fits in there moves no bytes, however long it
/// runs.
const CACHED_BYTES: f64 = (32u64 << 20) as f64;

/// About what a core keeps in its own cache. A page or two of a shared library on the device makes no
/// workload a reader of it. Without this a task that computes is given the more, the more the real readers
/// are held back.
const CORE_CACHE_BYTES: f64 = (1u32 << 20) as f64;

/// Whether a core keeps so much in its own cache.
pub fn fits_a_core(bytes: f64) -> bool {
    bytes < CORE_CACHE_BYTES
}

/// The part of CPU time that finds its memory in the group and not in a cache, where all memory is there.
pub fn whole_share(cpus: f64, bytes: f64) -> f64 {
    let bytes = bytes.max(CORE_CACHE_BYTES);
    part_share(cpus, bytes, bytes)
}

/// CPU time × the part of a workload's memory that is in the group. The caches count as memory elsewhere: of
/// a few hot pages little comes from the device, and of less than a core's own cache nothing.
///
/// ```text
/// share = cpu · here / (all + cached),  0 where here < a core's cache
/// ```
pub fn part_share(cpus: f64, here_bytes: f64, all_bytes: f64) -> f64 {
    if fits_a_core(here_bytes) {
        return 0.0;
    }
    cpus * here_bytes / (all_bytes.max(here_bytes) + CACHED_BYTES)
}

/// What a workload has of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attributed {
    /// Reads and writes together. Known as the reads are, even where the writes are guessed.
    pub all: Estimate,
    pub read: Estimate,
    pub write: Estimate,
}

impl Attributed {
    pub const UNKNOWN: Attributed = Attributed {
        all: Estimate::UNKNOWN,
        read: Estimate::UNKNOWN,
        write: Estimate::UNKNOWN,
    };

    /// Keeps so much of what is no proof by itself; gives what it no longer has.
    pub fn keep(&mut self, ratio: f64) -> BytesPerSec {
        let before = self.all.bytes_per_sec;
        let is_proved = self.all.provenance == Provenance::Sampled;
        if is_proved || ratio >= 1.0 || before == BytesPerSec::ZERO {
            return BytesPerSec::ZERO;
        }
        for part in [&mut self.all, &mut self.read, &mut self.write] {
            part.bytes_per_sec = part.bytes_per_sec.scale(ratio);
            part.provenance = part.provenance.max(Provenance::Apportioned);
        }
        before - self.all.bytes_per_sec
    }

    /// The same part of reads and writes.
    fn alike(all: Estimate, read: BytesPerSec, write: BytesPerSec) -> Attributed {
        let total = read.get() + write.get();
        let ratio = if total > 0.0 {
            all.bytes_per_sec.get() / total
        } else {
            0.0
        };
        // Accesses say which workload reads; that writes go the same way is a guess.
        let guess = match all.provenance {
            Provenance::Sampled => Provenance::Apportioned,
            other => other,
        };
        Attributed {
            all,
            read: Estimate::new(read.scale(ratio), all.provenance),
            write: Estimate::new(write.scale(ratio), guess),
        }
    }
}

/// The part of what a workload has of all its groups that it can have moved in so much CPU time, but for
/// samples and counts of tasks, which are proof by themselves.
pub fn possible_ratio(parts: &[Attributed], cpus: f64) -> f64 {
    let (mut proved, mut others) = (0.0, 0.0);
    for part in parts {
        let sum = match part.all.provenance {
            Provenance::Sampled => &mut proved,
            _ => &mut others,
        };
        *sum += part.all.bytes_per_sec.get();
    }
    let most = (cpus.max(0.0) * CPU_BYTES_PER_SEC - proved).max(0.0);
    if others > most { most / others } else { 1.0 }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attribution {
    /// One part for each share, in the same order.
    pub parts: Vec<Attributed>,
    /// For each group the traffic without an owner; nothing where the group's rate is not known.
    pub unattributed: Vec<Option<BytesPerSec>>,
    /// For each group whether that is so for an owner that has just come: it says nothing of what is to be.
    pub is_passing: Vec<bool>,
}

#[derive(Clone, Copy, Default)]
struct GroupTotals {
    users: usize,
    without_sampled: bool,
    without_stores: bool,
    without_part: bool,
    /// The CPU time of at least one user is not known.
    is_blind: bool,
    /// All of the users have just come.
    is_passing: bool,
    /// What is left of the count may be another owner's.
    is_unsure: bool,
    sampled: f64,
    stores: f64,
    part: f64,
    resident: f64,
    /// The amount of `part` that is no more than a bound.
    part_bound: f64,
    resident_bound: f64,
}

/// What a group's count is shared out by.
#[derive(Clone, Copy, PartialEq)]
enum SignalKind {
    Sampled,
    Attributed,
    Resident,
}

impl GroupTotals {
    fn add(&mut self, share: &AccessSignal) {
        self.users += 1;
        match positive(share.sampled) {
            Some(s) => self.sampled += s,
            None => self.without_sampled = true,
        }
        match positive(share.stores) {
            Some(s) => self.stores += s,
            None => self.without_stores = true,
        }
        self.without_part |= share.part.is_none() && share.resident.is_some();
        let part = positive(share.part).unwrap_or(0.0);
        let resident = positive(share.resident).unwrap_or(0.0);
        self.part += part;
        self.resident += resident;
        if share.part.is_none() && share.resident.is_none() {
            self.is_passing = share.is_new && (self.is_passing || !self.is_blind);
            self.is_blind = true;
        }
        if share.is_bound {
            self.part_bound += part;
            self.resident_bound += resident;
        }
    }

    /// Whether CPU time and memory are to say what is whose, and say nothing.
    fn tells_nothing(&self) -> bool {
        self.users > 1 && self.is_blind && self.sign().0 != SignalKind::Sampled
    }

    /// The part of the count that goes to no workload.
    fn unowned(&self) -> f64 {
        let (sign, sum) = self.sign();
        let bound = match sign {
            SignalKind::Sampled => 0.0,
            SignalKind::Attributed => self.part_bound,
            SignalKind::Resident => self.resident_bound,
        };
        match sum > 0.0 {
            _ if self.users == 1 => 0.0,
            _ if self.tells_nothing() => 1.0,
            true => bound / sum,
            false => 1.0,
        }
    }

    /// The sign that is used, and its sum.
    fn sign(&self) -> (SignalKind, f64) {
        match () {
            () if !self.without_sampled && self.sampled > 0.0 => {
                (SignalKind::Sampled, self.sampled)
            }
            () if !self.without_part => (SignalKind::Attributed, self.part),
            () => (SignalKind::Resident, self.resident),
        }
    }

    /// Whether stores say which workload these writes belong to.
    fn tells_writers(&self, write: BytesPerSec) -> bool {
        !self.without_stores && (self.stores > 0.0 || write.get() <= 0.0)
    }
}

/// Not known if it is no number; otherwise finite (sums of millions of them too) and not negative.
fn positive(share: Option<f64>) -> Option<f64> {
    share.filter(|s| !s.is_nan()).map(|s| s.clamp(0.0, 1e280))
}

/// Shares the groups' rates out. Each workload must appear at most once per group. A share of a group that
/// does not exist stays unknown.
pub fn attribute(groups: &[GroupRate], shares: &[AccessSignal]) -> Attribution {
    let mut tallies = vec![GroupTotals::default(); groups.len()];
    let mut own: Vec<&AccessSignal> = Vec::new();
    for share in shares {
        if share.counted.is_some() {
            own.push(share);
        } else if let Some(tally) = tallies.get_mut(share.group) {
            tally.add(share);
        }
    }
    let (rest, counted) = take_counted(groups, &own);
    let bounds = own.iter().zip(&counted);
    for (share, part) in bounds.filter(|(share, _)| share.is_bound) {
        let group = groups.get(share.group).and_then(GroupRate::total);
        if let (Some(tally), Some(all)) = (tallies.get_mut(share.group), group) {
            tally.is_unsure |= part.all.bytes_per_sec.get() > UNSURE_RATIO * all.get();
        }
    }
    let mut counted = counted.into_iter();
    let part = |share: &AccessSignal| {
        if share.counted.is_some() {
            return counted.next().unwrap_or(Attributed::UNKNOWN);
        }
        match (tallies.get(share.group), rest.get(share.group)) {
            (Some(tally), Some(group)) => part_of(group, share, tally),
            _ => Attributed::UNKNOWN,
        }
    };
    let parts = shares.iter().map(part).collect();
    let unowned = |(tally, group): (&GroupTotals, &GroupRate)| {
        let all = group.total()?;
        Some(all.scale(tally.unowned()))
    };
    let unattributed = tallies.iter().zip(rest.iter()).map(unowned).collect();
    let is_passing = |tally: &GroupTotals| tally.is_passing && tally.tells_nothing();
    Attribution {
        parts,
        unattributed,
        is_passing: tallies.iter().map(is_passing).collect(),
    }
}

/// What is left of the groups when each owner that counts its own bytes has them, and the parts of these
/// owners, in their order. The bytes were counted at other moments than the group's, and some of them may
/// have come from a cache: no rate goes below zero.
fn take_counted<'a>(
    groups: &'a [GroupRate],
    own: &[&AccessSignal],
) -> (Cow<'a, [GroupRate]>, Vec<Attributed>) {
    let mut rest = Cow::Borrowed(groups);
    let mut parts = Vec::new();
    for share in own {
        let Some(counted) = share.counted else {
            continue;
        };
        let mut part = Attributed::UNKNOWN;
        let is_there = share.group < groups.len();
        let group = is_there.then(|| rest.to_mut().get_mut(share.group));
        if let Some(group) = group.flatten() {
            let take = |rate: &mut Result<BytesPerSec, _>, counted: f64| {
                let Ok(rate) = rate else {
                    return BytesPerSec::ZERO;
                };
                let own = positive(Some(counted)).unwrap_or(0.0).min(rate.get());
                *rate = BytesPerSec::new(rate.get() - own);
                BytesPerSec::new(own)
            };
            let read = take(&mut group.read, counted.read);
            let write = take(&mut group.write, counted.write);
            if group.total().is_some() {
                let sampled = |rate| Estimate::new(rate, Provenance::Sampled);
                part = Attributed {
                    all: sampled(read + write),
                    read: sampled(read),
                    write: sampled(write),
                };
            }
        }
        parts.push(part);
    }
    (rest, parts)
}

fn part_of(group: &GroupRate, share: &AccessSignal, tally: &GroupTotals) -> Attributed {
    let (Ok(read), Ok(write)) = (&group.read, &group.write) else {
        return Attributed::UNKNOWN;
    };
    let (read, write) = (*read, *write);
    let total = read + write;
    if tally.users == 1 {
        let provenance = if tally.is_unsure {
            Provenance::Apportioned
        } else {
            Provenance::Counted
        };
        return Attributed::alike(Estimate::new(total, provenance), read, write);
    }
    let (sign, sum) = tally.sign();
    let (own, provenance) = match sign {
        SignalKind::Sampled => (share.sampled, Provenance::Sampled),
        SignalKind::Attributed => (share.part, Provenance::Apportioned),
        SignalKind::Resident => (share.resident, Provenance::Apportioned),
    };
    let is_figure = sign == SignalKind::Sampled || !(share.is_bound || tally.is_blind);
    let Some(own) = positive(own).filter(|_| is_figure) else {
        return Attributed::UNKNOWN;
    };
    if sum > 0.0 && sign == SignalKind::Sampled && tally.tells_writers(write) {
        let stores = positive(share.stores).unwrap_or(0.0);
        return by_stores(read.scale(own / sum), write, stores, tally.stores);
    }
    match sum > 0.0 {
        true => Attributed::alike(
            Estimate::new(total.scale(own / sum), provenance),
            read,
            write,
        ),
        // No workload ran: the cause of what the device still counted is not known.
        false if total.get() > 0.0 => Attributed::UNKNOWN,
        false => Attributed::alike(Estimate::new(BytesPerSec::ZERO, provenance), read, write),
    }
}

/// The traffic of a workload that has read so much and made so many of the stores: it gets the same part of
/// the written bytes as of the stores.
fn by_stores(read: BytesPerSec, write: BytesPerSec, stores: f64, sum: f64) -> Attributed {
    let write = if sum > 0.0 {
        write.scale(stores / sum)
    } else {
        BytesPerSec::ZERO
    };
    let sampled = |rate| Estimate::new(rate, Provenance::Sampled);
    Attributed {
        all: sampled(read + write),
        read: sampled(read),
        write: sampled(write),
    }
}

#[cfg(test)]
#[path = "attribution_tests.rs"]
mod tests;
