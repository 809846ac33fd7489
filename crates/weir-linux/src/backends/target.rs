// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which cgroup a workload is limited by, read from the kernel just before the first change, and whether that
//! is still so afterwards.

use super::BackendContext;
use super::eligibility::outcome;
use super::process_home::{Home, home};
use crate::kernel::escape::escape;
use crate::kernel::files::{inode, open_same};
use crate::workloads::discovery::{Watched, WorkloadSource};
use rustix::fd::{AsFd, OwnedFd};
use weir_core::seam::plan::OutcomeKind;

/// Why a process cannot be limited by the cgroup that it is in, if so.
fn shared(home: &Home) -> Option<String> {
    let name = escape(&home.path);
    match (&home.dir, home.others, home.has_below) {
        (None, ..) => Some("it is in the root cgroup, which has no limit".into()),
        (Some(_), 0, false) => None,
        (Some(_), 0, true) => Some(format!("cgroups below {name} would be limited too")),
        (Some(_), 1, _) => Some(format!("it shares the cgroup {name} with another process")),
        (Some(_), others, _) => Some(format!(
            "it shares the cgroup {name} with {others} processes"
        )),
    }
}

impl BackendContext {
    /// The cgroup to limit a workload by: its directory and its path.
    ///
    /// A cgroup is opened by its path and compared by its inode: one that was removed and made again under
    /// the same name is another one.
    ///
    /// # Errors
    ///
    /// There is none that limits this workload alone.
    pub(crate) fn target(
        &mut self,
        source: &WorkloadSource,
    ) -> Result<(OwnedFd, Vec<u8>), OutcomeKind> {
        let root = self.root.as_fd();
        let process = match source {
            WorkloadSource::Cgroup(leaf) => {
                let name = leaf.id.as_str();
                let dir = open_same(root, &leaf.path, leaf.inode).map_err(|e| outcome(e, name))?;
                self.must_be_unchanged(&dir, &leaf.path)?;
                return Ok((dir, leaf.path.clone()));
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
        let home = home(root, &self.proc, process, &mut self.buffer)?;
        match (shared(&home), home.dir) {
            (None, Some(dir)) => {
                self.must_be_unchanged(&dir, &home.path)?;
                Ok((dir, home.path))
            }
            (why, _) => Err(OutcomeKind::Refused(format!(
                "{}: limit by cgroup (--workloads cgroup), or start it in a cgroup of its own (systemd-run --scope)",
                why.unwrap_or_default()
            ))),
        }
    }

    /// A cgroup that is changed already, by a lease of this process or by one that could not be restored, has
    /// no value of its owner's to read.
    fn must_be_unchanged(&self, dir: &OwnedFd, path: &[u8]) -> Result<(), OutcomeKind> {
        let name = escape(path);
        let inode = inode(dir).map_err(|e| outcome(e, &name))?.st_ino;
        if !self.leases.has_cgroup(inode) {
            Ok(())
        } else {
            Err(OutcomeKind::Refused(format!(
                "weir has changed {name} already, for another process or before its last end, and has not \
                 restored it: if this stays so, end weir and call weir reset"
            )))
        }
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
    ) -> Result<(), OutcomeKind> {
        let WorkloadSource::Process(process) = &watched.source else {
            return Ok(());
        };
        let root = self.root.as_fd();
        let home = home(root, &self.proc, process, &mut self.buffer)?;
        let refused = |why: String| Err(OutcomeKind::Refused(why));
        if home.dir.is_none() || home.path != path {
            return refused(format!(
                "it is in another cgroup now: {}",
                escape(&home.path)
            ));
        }
        shared(&home).map_or(Ok(()), refused)
    }
}
