// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lease on a cgroup's `cpu.max`: the value before, what weir wrote, and how the value is restored.
//!
//! ```text
//! hold   cgroup (path and inode), limit and burst before   on disk BEFORE the first change
//! wrote  the limit that is about to be written             before each change
//! done   put back, or gone
//! ```
//!
//! A second `hold` of the same cgroup replaces what is restored: another program changed it meanwhile.

use crate::kernel::escape::{escape, unescape};
use crate::kernel::fd_budget::is_want;
use crate::kernel::files::{Buffer, write_at};
use crate::kernel::parse::cgroup::{CpuMax, cpu_max};
use crate::kernel::parse::decimal;
use crate::leases::undo::{LastTwo, LeaseChange, RecordPhase, Undo, UndoHost, UndoOutcome};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_core::WorkloadId;

/// Why a record with a path is refused.
pub(crate) const NO_PATH: &str = "a path that weir would not write";
/// Why a record of a value is refused.
pub(crate) const NOT_HELD: &str = "a value for a cgroup that is not held";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum CpuMaxRecord {
    Hold {
        path: String,
        inode: u64,
        max: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        burst_us: Option<u64>,
    },
    Wrote {
        inode: u64,
        max: String,
    },
    Done {
        inode: u64,
    },
}

/// A cgroup with a limit of weir's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuMaxLease {
    pub(crate) path: Vec<u8>,
    pub(crate) inode: u64,
    /// The value of before, which is restored at the end.
    pub(crate) theirs: CpuMax,
    /// The `cpu.max.burst` to restore, where the kernel has it.
    pub(crate) burst_us: Option<u64>,
    pub(crate) ours: LastTwo<CpuMax>,
}

impl CpuMaxLease {
    pub(crate) fn hold(&self) -> CpuMaxRecord {
        CpuMaxRecord::Hold {
            path: escape(&self.path),
            inode: self.inode,
            max: self.theirs.to_string(),
            burst_us: self.burst_us,
        }
    }

    pub(crate) fn wrote(&self, max: CpuMax) -> CpuMaxRecord {
        CpuMaxRecord::Wrote {
            inode: self.inode,
            max: max.to_string(),
        }
    }

    /// Puts the limit back, given its directory: first the limit, then the burst, because the kernel refuses
    /// a burst above the quota. A value that is none of the last two that weir wrote is another program's,
    /// and stays.
    pub(crate) fn put_back_in(&self, dir: BorrowedFd<'_>, buffer: &mut Buffer) -> UndoOutcome {
        let current = match read_max(dir, buffer) {
            Ok(current) => current,
            Err(Errno::NOENT | Errno::NODEV) => return UndoOutcome::Vanished,
            Err(e) => return UndoOutcome::Failed(format!("cpu.max: {e}")),
        };
        let mut outcome = UndoOutcome::Unchanged;
        let mut stands = self.theirs;
        if current != self.theirs {
            if !self.ours.contains(&current) {
                let theirs = self.theirs;
                outcome = UndoOutcome::LeftAlone(format!(
                    "another program set {current} since; it was {theirs}"
                ));
                stands = current;
            } else {
                match self.write_theirs(dir, buffer) {
                    Ok(()) => outcome = UndoOutcome::Restored,
                    Err(Errno::NODEV) => return UndoOutcome::Vanished,
                    Err(e) => return UndoOutcome::Failed(format!("cpu.max: {e}")),
                }
            }
        }
        match self.put_burst_back(dir, stands, buffer) {
            UndoOutcome::Unchanged => outcome,
            UndoOutcome::Restored if matches!(outcome, UndoOutcome::LeftAlone(_)) => outcome,
            burst => burst,
        }
    }

    /// Another program may have set a burst meanwhile that the kernel does not take beside the earlier quota.
    fn write_theirs(&self, dir: BorrowedFd<'_>, buffer: &mut Buffer) -> Result<(), Errno> {
        let theirs = self.theirs.to_string();
        match (write_at(dir, "cpu.max", &theirs), self.theirs.quota_us) {
            (Err(Errno::INVAL), Some(quota)) if read_burst(dir, buffer)? > Some(quota) => {
                write_at(dir, "cpu.max.burst", &quota.to_string())?;
                write_at(dir, "cpu.max", &theirs)
            }
            (written, _) => written,
        }
    }

    /// Puts the burst back under the limit that stands now: the kernel takes none above the quota, and
    /// another program may have tightened that while the burst was lowered.
    fn put_burst_back(
        &self,
        dir: BorrowedFd<'_>,
        stands: CpuMax,
        buffer: &mut Buffer,
    ) -> UndoOutcome {
        // Before the first write weir has not lowered it.
        let theirs = self.burst_us.filter(|burst| *burst > 0);
        let theirs = theirs.filter(|_| !self.ours.is_empty());
        let Some(burst) = theirs.map(|burst| burst.min(stands.quota_us.unwrap_or(burst))) else {
            return UndoOutcome::Unchanged;
        };
        // weir only ever lowers a burst to 0; any other value is another program's.
        match read_burst(dir, buffer) {
            Ok(Some(0)) => {}
            Ok(_) => return UndoOutcome::Unchanged,
            Err(e) => return UndoOutcome::Failed(format!("cpu.max.burst: {e}")),
        }
        match write_at(dir, "cpu.max.burst", &burst.to_string()) {
            Ok(()) => UndoOutcome::Restored,
            Err(Errno::NODEV) => UndoOutcome::Vanished,
            Err(e) => UndoOutcome::Failed(format!("cpu.max.burst: {e}")),
        }
    }
}

impl Undo for CpuMaxLease {
    type Key = u64;
    type Record = CpuMaxRecord;
    const OPS: &'static [(&'static str, RecordPhase)] = &[
        ("hold", RecordPhase::Begin),
        ("wrote", RecordPhase::Write),
        ("done", RecordPhase::End),
    ];

    /// A record of the journal, as a change of the open leases. A second `hold` replaces what is restored and
    /// keeps the values that weir wrote: one of them may be in force. A value for a cgroup that is not held
    /// is a damaged journal, and is refused.
    fn replay(
        open: &BTreeMap<u64, Self>,
        record: CpuMaxRecord,
    ) -> Result<LeaseChange<Self>, String> {
        let value = |max: &str| cpu_max(max.as_bytes()).map_err(|e| e.to_string());
        Ok(match record {
            CpuMaxRecord::Hold {
                path,
                inode,
                max,
                burst_us,
            } => {
                let theirs = value(&max)?;
                let path = unescape(&path).ok_or(NO_PATH)?;
                Box::new(move |open| {
                    let old = open.remove(&inode);
                    let lease = CpuMaxLease {
                        path,
                        inode,
                        theirs,
                        burst_us,
                        ours: old.map(|old| old.ours).unwrap_or_default(),
                    };
                    open.insert(inode, lease);
                })
            }
            CpuMaxRecord::Wrote { inode, max } => {
                let max = value(&max)?;
                open.get(&inode).ok_or(NOT_HELD)?;
                Box::new(move |open| {
                    open.entry(inode).and_modify(|lease| lease.ours.push(max));
                })
            }
            CpuMaxRecord::Done { inode } => Box::new(move |open| drop(open.remove(&inode))),
        })
    }

    fn records(&self) -> Vec<CpuMaxRecord> {
        let wrote = |max: &CpuMax| self.wrote(*max);
        std::iter::once(self.hold())
            .chain(self.ours.iter().map(wrote))
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

/// Nothing where the kernel has no such file.
///
/// # Errors
/// weir lacks something to read it, as a descriptor: another try may succeed.
pub(crate) fn read_burst(dir: BorrowedFd<'_>, buffer: &mut Buffer) -> Result<Option<u64>, Errno> {
    match buffer.read_once_at(dir, "cpu.max.burst") {
        Ok(text) => Ok(decimal(text).ok()),
        Err(e) if is_want(e) => Err(e),
        Err(_) => Ok(None),
    }
}

fn read_max(dir: BorrowedFd<'_>, buffer: &mut Buffer) -> Result<CpuMax, Errno> {
    cpu_max(buffer.read_once_at(dir, "cpu.max")?).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
