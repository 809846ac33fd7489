// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which cgroup a workload is limited by, read from the kernel just before the first change.

use super::BackendContext;
use super::move_process::{self, ProcessRecord, TakenProcess};
use super::eligibility::outcome;
use crate::kernel::files::open_same;
use crate::workloads::discovery::WorkloadSource;
use rustix::fd::{AsFd, OwnedFd};
use weir_core::seam::plan::OutcomeKind;

/// The directory of a cgroup, its path, and the move of a process into it where one is needed.
pub(crate) type LimitTarget = (OwnedFd, Vec<u8>, Option<TakenProcess>);

impl BackendContext {
    /// The cgroup to limit a workload by, and the move that this needs: its cgroup is made and noted, and the
    /// process not moved yet.
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
        let home = move_process::home(root, &self.proc, process, &mut self.buffer)?;
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
        let planned = TakenProcess::planned(root, process, &home)?;
        self.leases.note(&ProcessRecord::Take(planned.clone()))?;
        let made = move_process::prepare(root, planned.clone()).and_then(|(dir, take)| {
            self.leases.note(&ProcessRecord::Take(take.clone()))?;
            Ok((dir, take))
        });
        match made {
            Ok((dir, take)) => Ok((dir, take.to.clone().into_bytes(), Some(take))),
            Err(why) => {
                move_process::put_back(root, &planned, &mut self.buffer);
                let inode = planned.inode;
                let _ = self.leases.note(&ProcessRecord::Done { inode });
                Err(why)
            }
        }
    }
}
