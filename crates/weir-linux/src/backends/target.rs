// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which cgroup a workload is limited by, read from the kernel just before the first change, and whether that
//! is still so afterwards.

use super::BackendContext;
use super::eligibility::{may_be_limited, outcome};
use super::move_process::{self, Home, ProcessRecord, TakenProcess, is_in_slice};
use crate::kernel::escape::escape;
use crate::kernel::files::{inode, open_beneath, open_same};
use crate::leases::undo::UndoOutcome;
use crate::workloads::discovery::{Process, Watched, WorkloadSource};
use rustix::fd::{AsFd, OwnedFd};
use weir_core::seam::plan::OutcomeKind;

/// The directory of a cgroup, its path, and the move of a process into it where one is needed.
pub(crate) type LimitTarget = (OwnedFd, Vec<u8>, Option<TakenProcess>);

/// Why a process cannot be limited by the cgroup that it is in, if so.
fn shared(home: &Home) -> Option<String> {
    let name = escape(&home.path);
    match (&home.dir, home.others, home.has_below) {
        (None, ..) => Some("it is in the root cgroup, which has no limit".into()),
        (Some(_), 0, false) => None,
        (Some(_), 0, true) => Some(format!("cgroups below {name} would be limited too")),
        (Some(_), others, _) => Some(format!(
            "it shares the cgroup {name} with {others} processes"
        )),
    }
}

impl BackendContext {
    /// The cgroup to limit a workload by, and the move that this needs: its cgroup is made and noted, and the
    /// process not moved yet.
    pub(crate) fn target(&mut self, source: &WorkloadSource) -> Result<LimitTarget, OutcomeKind> {
        let root = self.root.as_fd();
        let process = match source {
            WorkloadSource::Cgroup(leaf) => {
                let name = leaf.id.as_str();
                let dir = open_same(root, &leaf.path, leaf.inode).map_err(|e| outcome(e, name))?;
                self.must_be_unchanged(&dir, &leaf.path)?;
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
        let home = move_process::home(root, &self.proc, process, &mut self.buffer)?;
        match (shared(&home), home.dir) {
            (None, Some(dir)) => {
                self.must_be_unchanged(&dir, &home.path)?;
                Ok((dir, home.path, None))
            }
            (why, _) if !self.take_processes => {
                let why = why.unwrap_or_default();
                let next = "limit by cgroup, or let weir take it";
                Err(OutcomeKind::Refused(format!("{why}: {next}")))
            }
            (_, dir) => self.own_cgroup(process, &Home { dir, ..home }),
        }
    }

    /// Makes a cgroup for one process.
    fn own_cgroup(&mut self, process: &Process, home: &Home) -> Result<LimitTarget, OutcomeKind> {
        let root = self.root.as_fd();
        if is_in_slice(&home.path) {
            return Err(OutcomeKind::Refused(format!(
                "weir made {} for another process, and it is limited with that one",
                escape(&home.path)
            )));
        }
        let planned = TakenProcess::planned(root, process, home)?;
        if let Ok(old) = open_beneath(root, planned.to.as_bytes()) {
            self.must_be_unchanged(&old, planned.to.as_bytes())?;
        }
        self.leases.note(&ProcessRecord::Take(planned.clone()))?;
        let made = move_process::prepare(root, planned.clone()).and_then(|(dir, take)| {
            self.leases.note(&ProcessRecord::Take(take.clone()))?;
            Ok((dir, take))
        });
        match made {
            Ok((dir, take)) => Ok((dir, take.to.clone().into_bytes(), Some(take))),
            Err(why) => {
                self.bring_home(&planned);
                Err(why)
            }
        }
    }

    /// A cgroup that is changed already, by a lease of this process or by one that could not be restored, has
    /// no value of its owner's to read.
    fn must_be_unchanged(&self, dir: &OwnedFd, path: &[u8]) -> Result<(), OutcomeKind> {
        let name = escape(path);
        let inode = inode(dir).map_err(|e| outcome(e, &name))?.st_ino;
        match self.leases.has_cgroup(inode) {
            false => Ok(()),
            true => Err(OutcomeKind::Refused(format!(
                "weir has changed {name} already, for another process or before its last end, and has not \
                 restored it: if this stays so, end weir and call weir reset"
            ))),
        }
    }

    /// Brings a process back that was taken, and notes that. What fails stays in the journal.
    pub(crate) fn bring_home(&mut self, take: &TakenProcess) -> UndoOutcome {
        let outcome = move_process::put_back(self.root.as_fd(), take, &mut self.buffer);
        match &outcome {
            UndoOutcome::Failed(why) | UndoOutcome::LeftAlone(why) => {
                tracing::warn!(pid = take.pid, why, "process not brought back");
            }
            UndoOutcome::Restored | UndoOutcome::Unchanged | UndoOutcome::Vanished => {}
        }
        if !matches!(outcome, UndoOutcome::Failed(_)) {
            let _ = self.leases.note(&take.done());
        }
        outcome
    }

    /// Whether a process is still limited by the cgroup that was found for it, and no process that is not to
    /// be limited is in there with it: it may have been moved, and others may have joined it.
    ///
    /// # Errors
    /// [`OutcomeKind::Refused`] where its limit has to end.
    pub(crate) fn still_limits(
        &mut self,
        watched: &Watched,
        path: &[u8],
        take: Option<&TakenProcess>,
    ) -> Result<(), OutcomeKind> {
        let WorkloadSource::Process(process) = &watched.source else {
            return Ok(());
        };
        let root = self.root.as_fd();
        let home = move_process::home(root, &self.proc, process, &mut self.buffer)?;
        let refused = |why: String| Err(OutcomeKind::Refused(why));
        let dir = match &home.dir {
            Some(dir) if home.path == path => dir,
            _ => {
                return refused(format!(
                    "it is in another cgroup now: {}",
                    escape(&home.path)
                ));
            }
        };
        if take.is_none() {
            return shared(&home).map_or(Ok(()), refused);
        }
        if home.has_below {
            return refused(format!(
                "cgroups below {} would be limited too",
                escape(path)
            ));
        }
        let fresh = self.fresh_members(watched, dir, None)?;
        may_be_limited(watched, Some(fresh))
    }
}
