// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which cgroup a limit is aimed at, and whether whoever is in it may be limited at all. Asked just
//! before the first change, of the kernel and not of the scout's last view.

use super::move_process::{self, TakenProcess};
use crate::kernel::fd_budget::is_want;
use crate::kernel::files::{Buffer, open_same};
use crate::kernel::parse::cgroup::pids;
use crate::workloads::cgroups::cgroup_type;
use crate::workloads::discovery::{Watched, WorkloadSource};
use crate::workloads::exclude::Rules;
use crate::workloads::processes::proc_pid::Unread;
use crate::workloads::processes::sched_policy::{any_real_time, is_own};
use crate::workloads::processes::{fresh, fresh_leader};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use weir_core::seam::observation::Excluded;
use weir_core::seam::plan::OutcomeKind;

/// The directory of a cgroup, its path, and the move of a process into it where one is needed.
pub(crate) type LimitTarget = (OwnedFd, Vec<u8>, Option<TakenProcess>);

/// What it takes to find it.
pub(crate) struct TargetFinder<'a> {
    pub(crate) root: &'a OwnedFd,
    pub(crate) proc: &'a OwnedFd,
    pub(crate) rules: &'a Rules,
    pub(crate) take_processes: bool,
    pub(crate) buffer: &'a mut Buffer,
}

impl TargetFinder<'_> {
    /// The cgroup to limit a workload by, and the move that this needs.
    pub(crate) fn target(&mut self, source: &WorkloadSource) -> Result<LimitTarget, OutcomeKind> {
        let root = self.root.as_fd();
        let process = match source {
            WorkloadSource::Cgroup(leaf) => {
                let name = leaf.id.as_str();
                let dir = open_same(root, &leaf.path, leaf.inode).map_err(|e| outcome(e, name))?;
                return Ok((dir, leaf.path.clone(), None));
            }
            WorkloadSource::Process(process) => process,
            WorkloadSource::Set(_) => {
                return Err(OutcomeKind::Refused(
                    "its processes are in no cgroup that weir can limit".into(),
                ));
            }
            WorkloadSource::Inner(_) => {
                return Err(OutcomeKind::Refused(
                    "cgroups below it would be limited too".into(),
                ));
            }
        };
        let home = move_process::home(root, self.proc, process, self.buffer)?;
        match home.dir {
            Some(dir) if home.others == 0 => return Ok((dir, home.path, None)),
            _ if self.take_processes => {}
            Some(_) => {
                return Err(OutcomeKind::Refused(format!(
                    "it shares the cgroup {} with {} processes: limit by cgroup, or let weir take it",
                    crate::kernel::escape::escape(&home.path),
                    home.others
                )));
            }
            None => {
                let why = "it is in the root cgroup, which has no limit: let weir take it";
                return Err(OutcomeKind::Refused(why.into()));
            }
        }
        let (dir, take) = move_process::prepare(root, process, &home)?;
        Ok((dir, take.to.clone().into_bytes(), Some(take)))
    }

    /// Looks once more, just before the first change, at who would be limited.
    pub(crate) fn check_members(
        &mut self,
        watched: &Watched,
        dir: &OwnedFd,
        take: Option<&TakenProcess>,
    ) -> Result<(), OutcomeKind> {
        let mut inside = match self.buffer.read_at(dir, "cgroup.procs") {
            Ok(text) => pids(text).unwrap_or_default(),
            Err(e) if is_want(e) => return Err(outcome(e, watched.id.as_str())),
            Err(_) => Vec::new(),
        };
        let threads = self.threads_of(dir);
        inside.extend(take.map(|t| t.pid));
        let mut members = Vec::with_capacity(inside.len());
        for pid in inside {
            let is_asked = threads.is_some() && take.is_none_or(|t| t.pid != pid);
            let look = if is_asked { fresh_leader } else { fresh };
            match look(self.proc, pid, self.buffer) {
                Ok(member) => members.push((pid, member)),
                // Who could not be looked at may be one who is never limited.
                Err(Unread::Want(e)) => return Err(outcome(e, watched.id.as_str())),
                Err(Unread::Gone(_)) => {}
            }
        }
        let path = match &watched.source {
            WorkloadSource::Cgroup(leaf) => leaf.path.as_slice(),
            WorkloadSource::Process(_) | WorkloadSource::Set(_) | WorkloadSource::Inner(_) => b"",
        };
        let kernel = |tid: &u32| members.iter().any(|(pid, m)| pid == tid && m.is_kernel);
        let has_kernel = members.iter().any(|(_, m)| m.is_kernel);
        let asked = threads.unwrap_or_default().into_iter();
        let asked = asked.filter(|tid| !(has_kernel && kernel(tid)));
        let real_time = || any_real_time(asked).then_some(Excluded::RealTime);
        let each = members.iter().map(|(pid, member)| (*pid, member));
        let verdict = self.rules.on_cgroup(watched.id.as_str(), path, each);
        match verdict.or_else(real_time) {
            Some(why) => Err(never(&why)),
            None => Ok(()),
        }
    }

    /// The threads of a cgroup, where they can be asked by number: of thousands, that is the difference between
    /// milliseconds and seconds in which nobody is told anything.
    fn threads_of(&mut self, dir: &OwnedFd) -> Option<Vec<u32>> {
        if !is_own(self.proc) {
            return None;
        }
        cgroup_type::threads(dir, self.buffer).ok()
    }
}

/// What an error of the operating system means for an action on `name`.
pub(crate) fn outcome(error: Errno, name: &str) -> OutcomeKind {
    match error {
        Errno::NODEV | Errno::NOENT | Errno::SRCH => OutcomeKind::Vanished,
        Errno::PERM | Errno::ACCESS | Errno::ROFS => {
            OutcomeKind::Refused(format!("{name}: {error}: run weir as root, on the host"))
        }
        _ => OutcomeKind::Failed(format!("{name}: {error}")),
    }
}

/// The refusal of a rule.
pub(crate) fn never(why: &Excluded) -> OutcomeKind {
    OutcomeKind::Refused(format!("never limited: {why:?}"))
}
