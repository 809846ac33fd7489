// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a workload may be limited: [`may_be_limited`], and nowhere else.
//!
//! ```text
//! cached  what discovery found, up to some seconds ago     for each action of a plan, and for workloads under the overload cap
//! fresh   the processes and threads in it, as of now        just before the first change
//! ```
//!
//! The rules themselves, which members are never limited, are [`Rules::on_cgroup`]: discovery goes by them
//! too.

use super::BackendContext;
use crate::kernel::fd_budget::is_want;
use crate::kernel::parse::cgroup::pids;
use crate::kernel::privilege::hint;
use crate::workloads::cgroups::cgroup_type;
use crate::workloads::cgroups::tree::LeafKind;
use crate::workloads::discovery::{Watched, WorkloadSource};
use crate::workloads::exclude::Rules;
use crate::workloads::processes::proc_pid::Unread;
use crate::workloads::processes::sched_policy::{any_real_time, is_own};
use crate::workloads::processes::{CachedProcess, fresh, fresh_leader};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use weir_core::seam::observation::Excluded;
use weir_core::seam::plan::OutcomeKind;

/// The processes and threads in a cgroup, as of now.
pub(crate) struct FreshMembers<'a> {
    rules: &'a Rules,
    processes: Vec<(u32, CachedProcess)>,
    /// All threads, where their policies can be read by number. Else the policy of each process was read.
    threads: Vec<u32>,
}

/// Whether a workload may be limited.
///
/// # Errors
/// [`OutcomeKind::Vanished`] for one that is gone, [`OutcomeKind::Refused`] for one that is never limited.
pub(crate) fn may_be_limited(
    cached: &Watched,
    fresh: Option<FreshMembers<'_>>,
) -> Result<(), OutcomeKind> {
    if cached.source.is_gone() {
        return Err(OutcomeKind::Vanished);
    }
    let fresh = fresh.and_then(|members| members.excluded(cached));
    match cached.excluded.as_ref().or(fresh.as_ref()) {
        Some(why) => Err(OutcomeKind::Refused(why.to_string())),
        None => Ok(()),
    }
}

impl FreshMembers<'_> {
    fn excluded(self, watched: &Watched) -> Option<Excluded> {
        let path = match &watched.source {
            WorkloadSource::Cgroup(leaf) => leaf.path.as_slice(),
            WorkloadSource::Process(_) | WorkloadSource::Set(_) | WorkloadSource::Inner(_) => b"",
        };
        let members = &self.processes;
        let kernel = |tid: &u32| members.iter().any(|(pid, m)| pid == tid && m.is_kernel);
        let has_kernel = members.iter().any(|(_, m)| m.is_kernel);
        let threads = self.threads.into_iter();
        let threads = threads.filter(|tid| !(has_kernel && kernel(tid)));
        let real_time = || any_real_time(threads).then_some(Excluded::RealTime);
        let each = members.iter().map(|(pid, member)| (*pid, member));
        let by_members = self.rules.on_cgroup(watched.id.as_str(), path, each);
        by_members.or_else(real_time)
    }
}

impl BackendContext {
    /// Reads the processes and threads in a cgroup from the kernel.
    ///
    /// # Errors
    /// A member that could not be checked: it may be one that is never limited.
    pub(crate) fn fresh_members(
        &mut self,
        watched: &Watched,
        dir: &OwnedFd,
    ) -> Result<FreshMembers<'_>, OutcomeKind> {
        let kind = match &watched.source {
            WorkloadSource::Cgroup(leaf) => Some(leaf.kind),
            _ => None,
        };
        if kind == Some(LeafKind::Delegated) {
            // Neither the kernel's threads nor weir can be in there without its path saying so, and only its
            // own tasks wait for those that its owner has made real-time.
            return Ok(FreshMembers {
                rules: &self.rules,
                processes: Vec::new(),
                threads: Vec::new(),
            });
        }
        let inside = match &watched.source {
            WorkloadSource::Cgroup(leaf) if leaf.kind == LeafKind::Container => {
                let read = leaf.pids(None, self.root.as_fd(), &mut self.buffer);
                read.map_err(|why| {
                    let why = why.into_missing(watched.id.as_str());
                    OutcomeKind::Failed(why.to_string())
                })?
            }
            _ => match self.buffer.read_at(dir, "cgroup.procs") {
                Ok(text) => pids(text).unwrap_or_default(),
                Err(e) if is_want(e) => return Err(outcome(e, watched.id.as_str())),
                Err(_) => Vec::new(),
            },
        };
        let threads = self.threads_of(dir);
        let mut processes = Vec::with_capacity(inside.len());
        for pid in inside {
            let read = if threads.is_some() {
                fresh_leader
            } else {
                fresh
            };
            match read(&self.proc, pid, &mut self.buffer) {
                Ok(member) => processes.push((pid, member)),
                Err(Unread::Want(e)) => return Err(outcome(e, watched.id.as_str())),
                Err(Unread::Gone(_)) => {}
            }
        }
        Ok(FreshMembers {
            rules: &self.rules,
            processes,
            threads: threads.unwrap_or_default(),
        })
    }

    /// The threads of a cgroup, where they can be read by number: of thousands, that is the difference
    /// between milliseconds and seconds in which no heartbeat is sent.
    fn threads_of(&mut self, dir: &OwnedFd) -> Option<Vec<u32>> {
        if !is_own(&*self.proc) {
            return None;
        }
        cgroup_type::threads(dir, &mut self.buffer).ok()
    }
}

/// What an error of the operating system means for an action on `name`.
pub(crate) fn outcome(error: Errno, name: &str) -> OutcomeKind {
    match error {
        Errno::NODEV | Errno::NOENT | Errno::SRCH => OutcomeKind::Vanished,
        Errno::PERM | Errno::ACCESS | Errno::ROFS => {
            OutcomeKind::Refused(format!("{name}: {error}{}", hint(error)))
        }
        _ => OutcomeKind::Failed(format!("{name}: {error}")),
    }
}
