// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cgroup through which one process is limited.
//!
//! A process that is alone in its leaf is limited there. A process that shares its leaf is refused, unless
//! the operator allowed weir to take such processes. Then weir moves it into `/weir.slice/pid-PID-START` for
//! as long as it is limited, and back to where it was. Its leaf belongs to systemd or to a container runtime,
//! and the process leaves the accounting of these meanwhile. For this reason weir moves no process without
//! the operator's flag. Processes that it starts meanwhile are limited with it, and move back with it.

use crate::kernel::escape::{escape, unescape};
use crate::kernel::fd_budget::is_want;
use crate::kernel::files::{
    Buffer, for_each_dir, inode, make_dir, open_beneath, open_dir, remove_dir, write_at,
};
use crate::kernel::parse::cgroup::{lists, pids};
use crate::kernel::parse::process::cgroup_path;
use crate::leases::undo::{LeaseChange, RecordPhase, Undo, UndoHost, UndoOutcome};
use crate::workloads::cgroups::cgroup_type::is_threaded_domain;
use crate::workloads::discovery::Process;
use crate::workloads::processes::proc_pid::{Unread, read_stat};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_core::WorkloadId;
use weir_core::seam::plan::OutcomeKind;

const SLICE: &str = "weir.slice";
/// Most entries of a cgroup's directory that are read.
const BELOW_MAX: usize = 8192;
/// Scans for processes that go back: one may be born between a scan and the move of its parent.
const SCANS_MAX: usize = 16;
/// In the place of an inode, while the cgroup is yet to be made.
const NOT_MADE: u64 = 0;

/// The lease on a process that was moved into a cgroup of its own: which, and from where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TakenProcess {
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
    pub(crate) from: String,
    pub(crate) from_inode: u64,
    pub(crate) to: String,
    /// Of `to`; 0 before that is made.
    pub(crate) inode: u64,
}

/// Its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum ProcessRecord {
    /// On disk BEFORE its cgroup is made, and again with its inode BEFORE the move.
    Take(TakenProcess),
    /// It is back, or gone. The record of the limit's end, too: that is in the same cgroup.
    Done {
        inode: u64,
        /// The cgroup that was to be made, where that has no inode.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    },
}

impl Undo for TakenProcess {
    /// The cgroup of its own, by path: it is noted before it has an inode.
    type Key = String;
    type Record = ProcessRecord;
    const OPS: &'static [(&'static str, RecordPhase)] =
        &[("take", RecordPhase::Begin), ("done", RecordPhase::End)];

    fn replay(
        _: &BTreeMap<String, Self>,
        record: ProcessRecord,
    ) -> Result<LeaseChange<Self>, String> {
        Ok(match record {
            ProcessRecord::Take(take) => {
                Box::new(move |open| drop(open.insert(take.to.clone(), take)))
            }
            ProcessRecord::Done { to: Some(to), .. } => {
                Box::new(move |open| drop(open.remove(&to)))
            }
            ProcessRecord::Done { inode, to: None } => {
                Box::new(move |open| open.retain(|_, take| take.inode != inode))
            }
        })
    }

    fn records(&self) -> Vec<ProcessRecord> {
        vec![ProcessRecord::Take(self.clone())]
    }

    fn has_cgroup(open: &BTreeMap<String, Self>, inode: u64) -> bool {
        open.values().any(|taken| taken.inode == inode)
    }

    fn undo(&self, host: &mut UndoHost<'_>) -> Vec<(WorkloadId, UndoOutcome)> {
        let outcome = host.below_cgroup_root(|root, buffer| put_back(root, self, buffer));
        let id = WorkloadId::new(format!("pid:{}@{}", self.pid, self.start_ticks));
        vec![(id, outcome)]
    }
}

/// Where a process is.
pub(crate) struct Home {
    pub(crate) path: Vec<u8>,
    /// Nothing in the root cgroup, which has no limit.
    pub(crate) dir: Option<OwnedFd>,
    /// Processes that share it.
    pub(crate) others: usize,
    /// Whether cgroups below it would be limited with it. Those of a threaded domain have no processes of
    /// their own.
    pub(crate) has_below: bool,
}

/// Finds the cgroup of a process that is still the one that was seen.
pub(crate) fn home(
    root: BorrowedFd<'_>,
    proc: &OwnedFd,
    process: &Process,
    buffer: &mut Buffer,
) -> Result<Home, OutcomeKind> {
    still_there(proc, process.pid, process.start_ticks, buffer)?;
    let text = buffer.read_at(proc, &format!("{}/cgroup", process.pid));
    let path = match text.map(cgroup_path) {
        Ok(Ok(path)) => path.to_vec(),
        Ok(Err(e)) => return Err(OutcomeKind::Refused(format!("not in a cgroup v2: {e}"))),
        Err(e) if is_want(e) => {
            return Err(OutcomeKind::Failed(format!("process {}: {e}", process.pid)));
        }
        Err(_) => return Err(OutcomeKind::Vanished),
    };
    if path == b"/" {
        return Ok(Home {
            path,
            dir: None,
            others: 0,
            has_below: false,
        });
    }
    let dir = open_beneath(root, &path).map_err(|e| {
        OutcomeKind::Refused(format!(
            "its cgroup {} cannot be opened: {e}",
            escape(&path)
        ))
    })?;
    let inside = buffer
        .read_at(&dir, "cgroup.procs")
        .map_err(|_| Errno::NODEV);
    let inside = inside.ok().and_then(|text| pids(text).ok());
    let inside = inside.ok_or_else(|| {
        OutcomeKind::Refused(format!(
            "the processes of {} cannot be listed",
            escape(&path)
        ))
    })?;
    let others = inside.iter().filter(|pid| **pid != process.pid).count();
    let has_below = has_cgroups_below(&dir, buffer)
        .map_err(|e| OutcomeKind::Failed(format!("the cgroups below {}: {e}", escape(&path))))?;
    Ok(Home {
        path,
        dir: Some(dir),
        others,
        has_below,
    })
}

fn has_cgroups_below(dir: &OwnedFd, buffer: &mut Buffer) -> Result<bool, Errno> {
    let mut has_below = false;
    match for_each_dir(dir, BELOW_MAX, |_| has_below = true) {
        Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
        Err(e) => return Err(e),
    }
    Ok(has_below && !is_threaded_domain(dir, buffer))
}

fn still_there(
    proc: &OwnedFd,
    pid: u32,
    start_ticks: u64,
    buffer: &mut Buffer,
) -> Result<(), OutcomeKind> {
    let stat = read_stat(proc, pid, buffer).map_err(|why| match why {
        Unread::Gone(_) => OutcomeKind::Vanished,
        Unread::Want(e) => OutcomeKind::Failed(format!("process {pid}: {e}")),
    })?;
    if stat.start_ticks == start_ticks {
        Ok(())
    } else {
        Err(OutcomeKind::Vanished)
    }
}

impl TakenProcess {
    /// That all of it is undone.
    pub(crate) fn done(&self) -> ProcessRecord {
        ProcessRecord::Done {
            inode: self.inode,
            to: (self.inode == NOT_MADE).then(|| self.to.clone()),
        }
    }

    /// What is noted before the cgroup for a process is made: that has no inode yet.
    pub(crate) fn planned(
        root: BorrowedFd<'_>,
        process: &Process,
        home: &Home,
    ) -> Result<Self, OutcomeKind> {
        let from_inode = match &home.dir {
            Some(dir) => inode(dir).map_err(|_| OutcomeKind::Vanished)?.st_ino,
            None => inode(root).map_err(|_| OutcomeKind::Vanished)?.st_ino,
        };
        Ok(TakenProcess {
            pid: process.pid,
            start_ticks: process.start_ticks,
            from: escape(&home.path),
            from_inode,
            to: format!("/{SLICE}/pid-{}-{}", process.pid, process.start_ticks),
            inode: NOT_MADE,
        })
    }
}

/// Makes the cgroup for a process, without moving it, and what to write down before doing so.
pub(crate) fn prepare(
    root: BorrowedFd<'_>,
    planned: TakenProcess,
) -> Result<(OwnedFd, TakenProcess), OutcomeKind> {
    let refused = |what: &str, e: Errno| OutcomeKind::Refused(format!("{what}: {e}"));
    let name = planned.to.rsplit('/').next().unwrap_or_default();
    make(root, SLICE).map_err(|e| refused("cannot make /weir.slice", e))?;
    let slice = open_dir(root, SLICE.as_bytes()).map_err(|e| refused("/weir.slice", e))?;
    let mut buffer = Buffer::new();
    let enabled = buffer
        .read_at(&slice, "cgroup.subtree_control")
        .map(|t| lists(t, b"cpu"));
    if enabled != Ok(true) {
        write_at(&slice, "cgroup.subtree_control", "+cpu").map_err(|e| {
            let next = "enable it above: echo +cpu > cgroup.subtree_control in the cgroup root";
            OutcomeKind::Refused(format!("no cpu controller in /weir.slice: {e}; {next}"))
        })?;
    }
    make(slice.as_fd(), name).map_err(|e| refused("cannot make its cgroup", e))?;
    let dir = open_dir(&slice, name.as_bytes()).map_err(|e| refused("its cgroup", e))?;
    let inode = inode(&dir).map_err(|e| refused("its cgroup", e))?.st_ino;
    Ok((dir, TakenProcess { inode, ..planned }))
}

fn make(dir: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    match make_dir(dir, name) {
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

/// Moves the process. A process id can be recycled between the check and the move, so it is checked again
/// afterwards. If it is another process then, it moves back at once.
pub(crate) fn carry(
    root: BorrowedFd<'_>,
    proc: &OwnedFd,
    dir: &OwnedFd,
    take: &TakenProcess,
    buffer: &mut Buffer,
) -> Result<(), OutcomeKind> {
    still_there(proc, take.pid, take.start_ticks, buffer)?;
    match write_at(dir, "cgroup.procs", &take.pid.to_string()) {
        Ok(()) => {}
        Err(Errno::SRCH) => return Err(OutcomeKind::Vanished),
        Err(e) => {
            return Err(OutcomeKind::Failed(format!(
                "cannot move it to {}: {e}",
                take.to
            )));
        }
    }
    still_there(proc, take.pid, take.start_ticks, buffer).inspect_err(|_| {
        let _ = put_back(root, take, buffer);
    })
}

/// Brings all processes of the cgroup back to where the first came from and removes the cgroup.
pub(crate) fn put_back(
    root: BorrowedFd<'_>,
    take: &TakenProcess,
    buffer: &mut Buffer,
) -> UndoOutcome {
    let Some(own) = unescape(&take.to).filter(|to| is_ours(to)) else {
        return UndoOutcome::LeftAlone(format!("{} is not below /{SLICE}", take.to));
    };
    let dir = match open_beneath(root, &own) {
        Ok(dir) if take.inode == NOT_MADE || is_inode(&dir, take.inode) => dir,
        Err(e) if is_want(e) => return UndoOutcome::Failed(format!("{}: {e}", take.to)),
        _ => return UndoOutcome::Vanished,
    };
    let mut failed = String::new();
    for _ in 0..SCANS_MAX {
        let inside = match buffer.read_at(&dir, "cgroup.procs") {
            Ok(text) => pids(text).unwrap_or_default(),
            Err(e) if is_want(e) => return UndoOutcome::Failed(format!("{}: {e}", take.to)),
            Err(_) => Vec::new(),
        };
        if inside.is_empty() {
            match remove(root, &own) {
                UndoOutcome::Failed(why) => failed = why,
                outcome => return outcome,
            }
        } else if take.inode == NOT_MADE {
            // weir moved none there.
            return UndoOutcome::LeftAlone(format!("other processes are in {}", take.to));
        } else {
            let Some(home) = open_home(root, take) else {
                return UndoOutcome::LeftAlone(format!(
                    "{} is gone: it stays in {}, without limit",
                    take.from, take.to
                ));
            };
            if let Err(why) = move_all(&home, take, &inside) {
                failed = why;
            }
        }
    }
    UndoOutcome::Failed(failed)
}

fn is_inode(dir: &OwnedFd, wanted: u64) -> bool {
    inode(dir).is_ok_and(|stat| stat.st_ino == wanted)
}

/// The cgroup that a process came from, if that is still the same one.
fn open_home(root: BorrowedFd<'_>, take: &TakenProcess) -> Option<OwnedFd> {
    let from = unescape(&take.from).unwrap_or_default();
    let home = match from.as_slice() {
        b"/" => root.try_clone_to_owned().ok(),
        from => open_beneath(root, from).ok(),
    };
    home.filter(|home| is_inode(home, take.from_inode))
}

/// Moves all that can be moved.
fn move_all(home: &OwnedFd, take: &TakenProcess, pids: &[u32]) -> Result<(), String> {
    let mut moved = Ok(());
    for pid in pids {
        match write_at(home, "cgroup.procs", &pid.to_string()) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(e) => {
                moved = Err(format!(
                    "process {pid} cannot go back to {}: {e}",
                    take.from
                ))
            }
        }
    }
    moved
}

/// Removes an empty cgroup that weir made.
pub(crate) fn remove(root: BorrowedFd<'_>, path: &[u8]) -> UndoOutcome {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    let slice = match open_dir(root, SLICE.as_bytes()) {
        Ok(slice) => slice,
        Err(_) => return UndoOutcome::Vanished,
    };
    match remove_dir(&slice, &name) {
        Ok(()) => UndoOutcome::Restored,
        Err(Errno::NOENT) => UndoOutcome::Vanished,
        Err(e) => UndoOutcome::Failed(format!("{} cannot be removed: {e}", escape(path))),
    }
}

/// Whether a cgroup is one that weir made for a process, or below one.
pub(crate) fn is_in_slice(path: &[u8]) -> bool {
    path.strip_prefix(b"/weir.slice/").is_some()
}

/// Whether a path is one that [`prepare`] makes: `/weir.slice/pid-…`, one level deep.
fn is_ours(path: &[u8]) -> bool {
    let name = path.strip_prefix(b"/weir.slice/pid-").unwrap_or_default();
    !name.is_empty() && name.iter().all(|b| b.is_ascii_digit() || *b == b'-')
}

#[cfg(test)]
#[path = "move_process_tests.rs"]
mod tests;
