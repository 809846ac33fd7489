// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Putting back what a weir that died had set, from its journal.
//!
//! A value is put back only where it is still ours: the cgroup at that path is the same one (inode),
//! and what is in it is one of the last two values weir wrote. A cgroup that is gone took its limit
//! with it. A value that somebody else set since is left alone and reported.

use super::journal::{self, Journal, Lease, Record, Story};
use super::run_dir::{Lock, RunDir};
use crate::backends::cpu_max::move_process;
use crate::backends::sched_ext::threads;
use crate::error::LinuxError;
use crate::kernel::escape::escape;
use crate::kernel::files::{Buffer, inode, open_beneath, open_root, write_at};
use crate::kernel::parse::cgroup::{CpuMax, cpu_max};
use crate::kernel::parse::decimal;
use crate::options::Roots;
use crate::task_traffic;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use serde::Serialize;
use std::collections::BTreeSet;
use weir_core::WorkloadId;

/// What became of the limits of a weir that died.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResetReport {
    /// Put back exactly as they were.
    pub restored: Vec<WorkloadId>,
    /// Were as they should be already.
    pub unchanged: Vec<WorkloadId>,
    /// The cgroup or process is gone; its limit went with it.
    pub vanished: Vec<WorkloadId>,
    /// Somebody else set another value since: left alone.
    pub left_alone: Vec<NotRestored>,
    /// Could not be put back; they stay in the journal for another try.
    pub failed: Vec<NotRestored>,
    /// Lines of the journal that make no sense. The journal is kept beside as `journal.damaged`.
    pub problems: Vec<String>,
}

/// A limit that was not put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotRestored {
    /// The cgroup.
    pub workload: WorkloadId,
    /// Why.
    pub why: String,
}

impl ResetReport {
    /// Whether there was nothing to do and nothing to complain of.
    pub fn is_empty(&self) -> bool {
        *self == ResetReport::default()
    }

    /// Whether a limit may have been left behind.
    pub fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.problems.is_empty()
    }
}

/// Restores from the journal, and removes it when everything is dealt with. Without a journal there
/// is nothing to do, and the report is empty.
///
/// # Errors
/// [`LinuxError::Locked`] while a weir is alive (stop it: it puts back what it set),
/// [`LinuxError::Distrusted`] if the journal may not be weir's, and errors of the operating system.
pub fn reset(roots: &Roots) -> Result<ResetReport, LinuxError> {
    let Some(dir) = RunDir::open(roots)? else {
        return Ok(ResetReport::default());
    };
    let _lock: Lock = dir.lock()?;
    restore(roots, &dir)
}

/// What was owed to resctrl is in the report of limits.
fn with_resctrl(
    roots: &Roots,
    dir: &RunDir,
    force: bool,
    mut report: ResetReport,
) -> Result<ResetReport, LinuxError> {
    task_traffic::settle(roots, dir, force, &mut report)?;
    Ok(report)
}

/// Restores from the journal of a weir that may be alive. That one finds its limits changed by
/// somebody else, and may set them again; its journal is left as it is.
///
/// # Errors
/// As [`reset`], except for the lock.
pub fn reset_even_if_running(roots: &Roots) -> Result<ResetReport, LinuxError> {
    match reset(roots) {
        Err(LinuxError::Locked { .. }) => {}
        other => return other,
    }
    let Some(dir) = RunDir::open(roots)? else {
        return Ok(ResetReport::default());
    };
    let report = match journal::read(&dir)? {
        Some(story) => put_back(roots, &story)?.0,
        None => ResetReport::default(),
    };
    with_resctrl(roots, &dir, true, report)
}

/// Restores under a lock that the caller holds.
pub(crate) fn restore(roots: &Roots, dir: &RunDir) -> Result<ResetReport, LinuxError> {
    let Some(story) = journal::read(dir)? else {
        return with_resctrl(roots, dir, false, ResetReport::default());
    };
    let (report, again) = put_back(roots, &story)?;
    if !report.problems.is_empty() {
        journal::put_aside(dir)?;
    }
    if again.is_empty() {
        journal::remove(dir)?;
    } else {
        Journal::rewrite(dir, &again)?;
    }
    with_resctrl(roots, dir, false, report)
}

/// Puts everything back; also returns the records of what has to be tried again.
fn put_back(roots: &Roots, story: &Story) -> Result<(ResetReport, Vec<Record>), LinuxError> {
    let root = open_root(&roots.cgroup).map_err(|e| LinuxError::io("open", &roots.cgroup, e))?;
    let root = root.as_fd();
    let problems = story.problems.clone();
    let mut back = Back {
        report: ResetReport {
            problems,
            ..ResetReport::default()
        },
        again: Vec::new(),
    };
    let mut buffer = Buffer::new();
    // Of a cgroup of which both were changed the most that was done is told, and all that was not.
    let limits: BTreeSet<u64> = story.leases.iter().map(|l| l.inode).collect();
    let mut weighed = BTreeSet::new();
    for lease in &story.weights {
        let workload = WorkloadId::new(escape(&lease.path));
        let given = in_cgroup(root, &lease.path, lease.inode, |dir| {
            lease.give_back_in(dir, &mut buffer)
        });
        let has_limit = limits.contains(&lease.inode);
        match given {
            Given::Unchanged | Given::Vanished if has_limit => {}
            Given::Restored if has_limit => {
                weighed.insert(lease.inode);
            }
            given => back.tell(workload, given, || lease.records()),
        }
    }
    for lease in &story.leases {
        let workload = WorkloadId::new(escape(&lease.path));
        let given = in_cgroup(root, &lease.path, lease.inode, |dir| {
            give_back_in(dir, lease, &mut buffer)
        });
        let given = match given {
            Given::Unchanged if weighed.contains(&lease.inode) => Given::Restored,
            given => given,
        };
        back.tell(workload, given, || lease.records());
    }
    for taken in &story.takes {
        let workload = WorkloadId::new(format!("pid:{}@{}", taken.pid, taken.start_ticks));
        let given = move_process::give_back(root, taken, &mut buffer);
        back.tell(workload, given, || vec![Record::Take(taken.clone())]);
    }
    for moved in &story.moves {
        let workload = WorkloadId::new(moved.path.clone());
        let given = threads::give_back(root, moved, &mut buffer);
        back.tell(workload, given, || vec![Record::Moved(moved.clone())]);
    }
    Ok((back.report, back.again))
}

/// What has become of everything so far.
struct Back {
    report: ResetReport,
    /// Records of what has to be tried again.
    again: Vec<Record>,
}

impl Back {
    fn tell(&mut self, workload: WorkloadId, given: Given, records: impl FnOnce() -> Vec<Record>) {
        let report = &mut self.report;
        match given {
            Given::Restored => report.restored.push(workload),
            Given::Unchanged => report.unchanged.push(workload),
            Given::Vanished => report.vanished.push(workload),
            Given::LeftAlone(why) => report.left_alone.push(NotRestored { workload, why }),
            Given::Failed(why) => {
                self.again.extend(records());
                report.failed.push(NotRestored { workload, why });
            }
        }
    }
}

/// What became of one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Restored,
    Unchanged,
    Vanished,
    LeftAlone(String),
    Failed(String),
}

/// Puts one thing back in the cgroup at this path, if that is still the same one.
fn in_cgroup(
    root: BorrowedFd<'_>,
    path: &[u8],
    wanted: u64,
    give_back: impl FnOnce(BorrowedFd<'_>) -> Given,
) -> Given {
    match open_beneath(root, path) {
        Ok(dir) => match inode(&dir) {
            Ok(stat) if stat.st_ino == wanted => give_back(dir.as_fd()),
            _ => Given::Vanished,
        },
        Err(Errno::NOENT | Errno::NODEV) => Given::Vanished,
        Err(e) => Given::Failed(format!("not opened below the cgroup root: {e}")),
    }
}

/// Puts one limit back, given its directory. First the limit, then the burst, which may not exceed
/// the quota.
pub(crate) fn give_back_in(dir: BorrowedFd<'_>, lease: &Lease, buffer: &mut Buffer) -> Given {
    let current = match read_max(dir, buffer) {
        Ok(current) => current,
        Err(Errno::NOENT | Errno::NODEV) => return Given::Vanished,
        Err(e) => return Given::Failed(format!("cpu.max: {e}")),
    };
    let mut given = Given::Unchanged;
    let mut stands = lease.theirs;
    if current != lease.theirs {
        if !lease.ours.contains(&current) {
            let theirs = lease.theirs;
            given = Given::LeftAlone(format!("somebody set {current} since; it was {theirs}"));
            stands = current;
        } else {
            match write_at(dir, "cpu.max", &lease.theirs.to_string()) {
                Ok(()) => given = Given::Restored,
                Err(Errno::NODEV) => return Given::Vanished,
                Err(e) => return Given::Failed(format!("cpu.max: {e}")),
            }
        }
    }
    match give_back_burst(dir, lease, stands, buffer) {
        Given::Unchanged => given,
        Given::Restored if matches!(given, Given::LeftAlone(_)) => given,
        burst => burst,
    }
}

/// Puts the burst back under the limit that stands now: the kernel takes none above the quota, and
/// somebody may have tightened that while the burst was lowered.
fn give_back_burst(
    dir: BorrowedFd<'_>,
    lease: &Lease,
    stands: CpuMax,
    buffer: &mut Buffer,
) -> Given {
    let theirs = lease.burst_us.filter(|burst| *burst > 0);
    let Some(burst) = theirs.map(|burst| burst.min(stands.quota_us.unwrap_or(burst))) else {
        return Given::Unchanged;
    };
    // We only ever lower a burst to 0; any other value is somebody else's.
    let lowered = buffer
        .read_at(dir, "cpu.max.burst")
        .ok()
        .and_then(|text| decimal(text).ok());
    if lowered != Some(0) {
        return Given::Unchanged;
    }
    match write_at(dir, "cpu.max.burst", &burst.to_string()) {
        Ok(()) => Given::Restored,
        Err(Errno::NODEV) => Given::Vanished,
        Err(e) => Given::Failed(format!("cpu.max.burst: {e}")),
    }
}

fn read_max(dir: BorrowedFd<'_>, buffer: &mut Buffer) -> Result<CpuMax, Errno> {
    cpu_max(buffer.read_at(dir, "cpu.max")?).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;
