// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The threads of one limited cgroup: moved under weir's scheduler, followed while the limit lasts, and given
//! their own policies back. The scheduler itself is not needed for it.

use super::noted::ChosenThread;
use super::scan::{Portion, Roll};
use super::{self as threads, ScxThread, ThreadsRecord};
use crate::backends::eligibility::outcome;
use crate::leases::LeaseBook;
use crate::leases::undo::UndoOutcome;
use crate::workloads::cgroups::cgroup_type::threads_within;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::Nanos;
use weir_core::seam::plan::OutcomeKind;

/// The threads of a cgroup, and the lease on their policies.
pub(crate) struct MovedThreads {
    dir: OwnedFd,
    lease: ScxThread,
    roll: Roll,
}

impl MovedThreads {
    /// The threads of the cgroup at this path, with this inode. Nothing is changed yet.
    pub(crate) fn new(dir: OwnedFd, path: String, inode: u64) -> Self {
        let lease = ScxThread {
            path,
            inode,
            policies: BTreeMap::new(),
            chosen: BTreeSet::new(),
        };
        MovedThreads {
            dir,
            lease,
            roll: Roll::default(),
        }
    }

    /// Inode of the cgroup's directory, which is the cgroup's id.
    pub(in crate::backends::sched_ext) fn inode(&self) -> u64 {
        self.lease.inode
    }

    /// Path of the cgroup below the root of cgroups.
    pub(in crate::backends::sched_ext) fn path(&self) -> &str {
        &self.lease.path
    }

    /// Notes that threads are moved from now on, and which ones are `SCHED_EXT` by themselves.
    ///
    /// # Errors
    /// It cannot be noted, so no thread may be moved.
    pub(crate) fn begin(&mut self, leases: &mut LeaseBook) -> Result<(), OutcomeKind> {
        let threads = threads_within(&self.dir).map_err(|e| outcome(e, &self.lease.path))?;
        let mut chosen = BTreeSet::new();
        for tid in threads.into_iter().filter(|tid| threads::is_ext(*tid)) {
            match ChosenThread::now(tid) {
                Some(thread) => drop(chosen.insert(thread)),
                // It would not be known as one of these.
                None if threads::is_ext(tid) => {
                    let why = format!("the start of thread {tid} cannot be read");
                    return Err(OutcomeKind::Failed(format!("{}: {why}", self.lease.path)));
                }
                None => {}
            }
        }
        self.lease.chosen = chosen;
        leases.note(&ThreadsRecord::Moved(self.lease.clone()))
    }

    /// Moves threads that are not under the scheduler yet.
    pub(crate) fn follow(
        &mut self,
        until: Nanos,
        leases: &mut LeaseBook,
    ) -> Result<Portion, Errno> {
        self.roll.renew(|| threads_within(&self.dir))?;
        self.roll.go_on(until, |tid| {
            let note = |record: &ThreadsRecord| leases.note(record).map_err(|_| Errno::IO);
            threads::take(tid, &mut self.lease, note)
        })
    }

    /// All threads are visited again, as from the beginning.
    pub(in crate::backends::sched_ext) fn follow_anew(&mut self) {
        self.roll = Roll::default();
    }

    /// From now on threads get their own policies back.
    pub(in crate::backends::sched_ext) fn begin_to_leave(&mut self) {
        self.roll.begin_again();
    }

    /// Gives threads their own policies back, as many as there is time for.
    pub(in crate::backends::sched_ext) fn leave(&mut self, until: Nanos) -> Result<Portion, Errno> {
        self.roll.renew(|| threads_within(&self.dir))?;
        self.roll
            .go_on(until, |tid| threads::give(tid, &self.lease))
    }

    /// Gives all threads their own policies back, however long it takes.
    pub(crate) fn leave_now(&self) -> UndoOutcome {
        threads::put_back_in(self.dir.as_fd(), &self.lease)
    }

    /// Notes that all threads have their own policies.
    pub(crate) fn end(&self, leases: &mut LeaseBook) {
        let inode = self.lease.inode;
        let _ = leases.note(&ThreadsRecord::Done { inode });
    }

    /// The next scan reads the list anew, however short ago the last one was.
    #[cfg(test)]
    pub(crate) fn be_due(&mut self) {
        self.roll.be_due();
    }
}
