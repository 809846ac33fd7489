// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lease on a cgroup's `cpu.weight`: the value before, what weir wrote, and how the value is restored.
//!
//! ```text
//! weight       cgroup (path and inode), weight and nice value before   on disk BEFORE the first change
//! weighed      the weight that is about to be written                  before each change
//! weight_done  restored, or gone
//! ```

use super::lease::{NO_PATH, NOT_HELD};
use crate::kernel::escape::{escape, unescape};
use crate::kernel::files::{Buffer, write_at};
use crate::kernel::parse::{decimal, signed};
use crate::leases::undo::{LastTwo, LeaseChange, RecordPhase, Undo, UndoHost, UndoOutcome};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_core::WorkloadId;

/// Weights that the kernel takes.
pub(crate) const WEIGHTS: std::ops::RangeInclusive<u64> = 1..=10_000;
/// Nice values that the kernel takes.
pub(crate) const NICES: std::ops::RangeInclusive<i64> = -20..=19;
/// Why it is left alone where `cpu.idle` is set.
pub(crate) const IDLE: &str = "cpu.idle is 1: it has the least weight already";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum WeightRecord {
    Weight {
        path: String,
        inode: u64,
        weight: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nice: Option<i64>,
    },
    Weighed {
        inode: u64,
        weight: u64,
    },
    WeightDone {
        inode: u64,
    },
}

/// A cgroup with a weight of weir's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WeightLease {
    pub(crate) path: Vec<u8>,
    pub(crate) inode: u64,
    /// The value of before, which is restored at the end.
    pub(crate) theirs: u64,
    /// The same as `cpu.weight.nice` shows it, where the kernel does.
    pub(crate) nice: Option<i64>,
    pub(crate) ours: LastTwo<u64>,
}

impl WeightLease {
    pub(crate) fn begin(&self) -> WeightRecord {
        WeightRecord::Weight {
            path: escape(&self.path),
            inode: self.inode,
            weight: self.theirs,
            nice: self.nice,
        }
    }

    /// Puts it back, given its directory.
    pub(crate) fn put_back_in(&self, dir: BorrowedFd<'_>, buffer: &mut Buffer) -> UndoOutcome {
        let current = match read_weight(dir, buffer) {
            Ok(current) => current,
            Err(Errno::NOENT | Errno::NODEV) => return UndoOutcome::Vanished,
            Err(e) => return UndoOutcome::Failed(format!("cpu.weight: {e}")),
        };
        if current == self.theirs {
            return UndoOutcome::Unchanged;
        }
        // Its weight reads as 1 then, which weir may have set too, and cannot be written.
        if is_idle(dir, buffer) == Ok(true) {
            return UndoOutcome::LeftAlone(IDLE.into());
        }
        if !self.ours.contains(&current) {
            let theirs = self.theirs;
            return UndoOutcome::LeftAlone(format!(
                "another program set weight {current} since; it was {theirs}"
            ));
        }
        match self.write_theirs(dir, buffer) {
            Ok(()) => UndoOutcome::Restored,
            Err(Errno::NODEV) => UndoOutcome::Vanished,
            Err(e) => UndoOutcome::Failed(format!("cpu.weight: {e}")),
        }
    }

    /// One write where the kernel's tables are the known ones: weir may die between two.
    pub(crate) fn write_theirs(
        &self,
        dir: BorrowedFd<'_>,
        buffer: &mut Buffer,
    ) -> Result<(), Errno> {
        if let Some(nice) = self.nice.filter(|nice| self.is_finer(*nice)) {
            write_at(dir, "cpu.weight.nice", &nice.to_string())?;
        }
        if read_weight(dir, buffer) != Ok(self.theirs) {
            write_at(dir, "cpu.weight", &self.theirs.to_string())?;
        }
        if let Some(nice) = self.nice
            && read_nice(dir, buffer) != Some(nice)
        {
            write_at(dir, "cpu.weight.nice", &nice.to_string())?;
        }
        Ok(())
    }

    /// Whether this nice value was set as such: another is read where the weight is written.
    fn is_finer(&self, nice: i64) -> bool {
        nice_of_weight(self.theirs) != nice && weight_of(nice) == self.theirs
    }
}

/// Weights of the nice values -20 to 19, where 1024 is normal (kernel, `sched_prio_to_weight`).
pub(crate) const PRIO_WEIGHTS: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// What `cpu.weight.nice` shows for a written `cpu.weight` (kernel, `cpu_weight_nice_read_s64`).
fn nice_of_weight(weight: u64) -> i64 {
    let shares = (weight.saturating_mul(1024) + 50) / 100;
    let by_distance = PRIO_WEIGHTS.iter().zip(*NICES.start()..);
    let nearest = by_distance.min_by_key(|(prio, _)| prio.abs_diff(shares));
    nearest.map_or(0, |(_, nice)| nice)
}

/// What `cpu.weight` shows for a written nice value (kernel, `cpu_weight_read_u64`). A nice value of 0 has
/// 1024 shares and a weight of 100; both conversions round to the nearest, as `DIV_ROUND_CLOSEST_ULL` does.
fn weight_of(nice: i64) -> u64 {
    let place = usize::try_from(nice - NICES.start()).unwrap_or(usize::MAX);
    let shares = PRIO_WEIGHTS.get(place).copied().unwrap_or(1024);
    (shares * 100 + 512) / 1024
}

impl Undo for WeightLease {
    type Key = u64;
    type Record = WeightRecord;
    const OPS: &'static [(&'static str, RecordPhase)] = &[
        ("weight", RecordPhase::Begin),
        ("weighed", RecordPhase::Write),
        ("weight_done", RecordPhase::End),
    ];

    fn replay(
        open: &BTreeMap<u64, Self>,
        record: WeightRecord,
    ) -> Result<LeaseChange<Self>, String> {
        Ok(match record {
            WeightRecord::Weight {
                path,
                inode,
                weight,
                nice,
            } => {
                let lease = WeightLease {
                    path: unescape(&path).ok_or(NO_PATH)?,
                    inode,
                    theirs: a_weight(weight)?,
                    nice: nice.filter(|nice| NICES.contains(nice)),
                    ours: LastTwo::default(),
                };
                Box::new(move |open| drop(open.insert(inode, lease)))
            }
            WeightRecord::Weighed { inode, weight } => {
                let weight = a_weight(weight)?;
                open.get(&inode).ok_or(NOT_HELD)?;
                Box::new(move |open| {
                    open.entry(inode)
                        .and_modify(|lease| lease.ours.push(weight));
                })
            }
            WeightRecord::WeightDone { inode } => Box::new(move |open| drop(open.remove(&inode))),
        })
    }

    fn records(&self) -> Vec<WeightRecord> {
        let weighed = |weight: &u64| WeightRecord::Weighed {
            inode: self.inode,
            weight: *weight,
        };
        std::iter::once(self.begin())
            .chain(self.ours.iter().map(weighed))
            .collect()
    }

    fn has_cgroup(open: &BTreeMap<u64, Self>, inode: u64) -> bool {
        open.contains_key(&inode)
    }

    fn undo(&self, host: &mut UndoHost<'_>) -> Vec<(WorkloadId, UndoOutcome)> {
        let outcome = host.in_cgroup(&self.path, self.inode, |dir, buffer| {
            self.put_back_in(dir, buffer)
        });
        vec![(WorkloadId::new(escape(&self.path)), outcome)]
    }
}

fn a_weight(weight: u64) -> Result<u64, String> {
    let is_one = WEIGHTS.contains(&weight);
    is_one
        .then_some(weight)
        .ok_or_else(|| format!("{weight} is no weight"))
}

pub(crate) fn read_weight(dir: BorrowedFd<'_>, buffer: &mut Buffer) -> Result<u64, Errno> {
    decimal(buffer.read_once_at(dir, "cpu.weight")?).map_err(|_| Errno::INVAL)
}

pub(crate) fn read_nice(dir: BorrowedFd<'_>, buffer: &mut Buffer) -> Option<i64> {
    let nice = signed(buffer.read_once_at(dir, "cpu.weight.nice").ok()?).ok()?;
    NICES.contains(&nice).then_some(nice)
}

/// Kernels before 5.15 have no `cpu.idle`.
pub(crate) fn is_idle(dir: BorrowedFd<'_>, buffer: &mut Buffer) -> Result<bool, Errno> {
    match buffer.read_once_at(dir, "cpu.idle") {
        Ok(text) => Ok(decimal(text) == Ok(1)),
        Err(Errno::NOENT) => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Linux 6.18 showed (`testbed/harness/tests/vm/leases.rs`): nice 15 is weight 4, and a written 4
    /// reads as nice 14.
    #[test]
    fn nice_values_and_weights_are_as_the_kernel_shows_them() {
        for (nice, weight, read_back) in [
            (0, 100, 0),
            (15, 4, 14),
            (17, 2, 18),
            (18, 2, 18),
            (19, 1, 19),
        ] {
            assert_eq!(
                (weight_of(nice), nice_of_weight(weight)),
                (weight, read_back),
                "nice {nice}"
            );
        }
        assert_eq!((weight_of(-20), nice_of_weight(10_000)), (8668, -20));
    }
}
