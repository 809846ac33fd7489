// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts of a cgroup, kept for a while: its processes for two seconds, the page cache charged to it for six.
//! Its weight and limit change seldom, and are kept for six seconds, or for thirty where weir does not decide
//! by them. A thousand cgroups cost little else than these reads.
//!
//! Where weir only observes, and reads the list of each cgroup, a *settled* cgroup is read half as often,
//! then a third as often. A cgroup is settled if it has the same processes as before, and none of them has
//! new page faults or more or fewer pages ([`crate::workloads::processes::rescan`]). A read of it finds
//! little, and costs a read of one file for each process. These files stay open from then on, while there is
//! room: to open and close them costs more than to read them.

use super::tree::{Leaf, Trouble};
use crate::kernel::fd_budget::{Budget, Kept, Rank};
use crate::kernel::files::{Buffer, inode};
use crate::kernel::parse::cgroup::{CpuMax, pids};
use crate::workloads::discovery::Watched;
use crate::workloads::processes::numa_stat::Charged;
use crate::workloads::task_iter::process_table::ProcessTable;
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use weir_core::{Missing, Nanos};

/// Time between two reads of a cgroup's processes.
pub(crate) const PIDS_EVERY: Nanos = Nanos::from_millis(2000);
/// Longest time between them, for a settled cgroup.
const PIDS_SETTLED_EVERY: Nanos = Nanos::from_millis(6000);
/// Time between two reads of its page cache.
const CHARGED_EVERY: Nanos = Nanos::from_millis(6000);
/// The same where the kernel does not report it (no memory controller there).
const CHARGED_SELDOM: Nanos = Nanos::from_millis(30_000);
/// Time between two reads of its weight and its limit, where weir limits. Read in each round with all the
/// rest, a thousand workloads cost 2.3 to 2.6 % of a CPU, nearly all of it system calls of discovery.
pub(crate) const OWNER_EVERY: Nanos = Nanos::from_millis(6000);
/// The same where it only observes.
pub(crate) const OWNER_SELDOM: Nanos = Nanos::from_millis(30_000);

pub(crate) struct CachedCgroup {
    inode: u64,
    /// When its processes were read.
    pub(crate) at: Nanos,
    /// Time between this list and the next.
    pause: Nanos,
    /// The list was as the one before. Not where it is empty: a process that comes shows in nothing else.
    is_same: bool,
    /// Its list, kept open once it was settled.
    list: Option<Kept>,
    charged_at: Nanos,
    owner_at: Nanos,
    pub(crate) pids: Result<Vec<u32>, Trouble>,
    /// Those of them that no list of its own has: in cgroups below one that is delegated.
    below: Vec<u32>,
    pub(crate) weight: f64,
    pub(crate) limit: Option<CpuMax>,
    /// `memory.numa_stat`, once it was read.
    pub(crate) charged: Option<Result<Charged, Missing>>,
    /// It has to stand in for `numa_maps`.
    pub(crate) stands_in: bool,
    /// The result of all this, until a part of it is read again.
    pub(crate) watched: Option<Arc<Watched>>,
}

/// How the processes of cgroups are read in a round.
#[derive(Clone, Copy)]
pub(crate) enum PidSource<'a> {
    /// Each by its own list, when it is due.
    Lists,
    /// All processes were read at once, just now.
    Table(&'a ProcessTable),
    /// They were in an earlier round: only the list of a new cgroup is read.
    NewOnes,
}

impl<'a> PidSource<'a> {
    pub(crate) fn table(self) -> Option<&'a ProcessTable> {
        match self {
            PidSource::Table(table) => Some(table),
            PidSource::Lists | PidSource::NewOnes => None,
        }
    }
}

impl CachedCgroup {
    /// What is read of `leaf` at `at`, or `old` while that is recent enough. The owner's decisions are recent
    /// enough for `owner_every`.
    pub(crate) fn of(
        leaf: &Leaf,
        old: Option<CachedCgroup>,
        root: BorrowedFd<'_>,
        at: Nanos,
        how: PidSource<'_>,
        owner_every: Nanos,
        buffer: &mut Buffer,
    ) -> CachedCgroup {
        let since = |then: Nanos| at.0.saturating_sub(then.0);
        let old = old.filter(|a| a.inode == leaf.inode);
        let is_good = |old: &CachedCgroup| match how {
            PidSource::Lists => {
                since(old.at) < old.pause.0
                    && since(old.charged_at) < old.charged_every().0
                    && since(old.owner_at) < owner_every.0
            }
            PidSource::Table(_) => false,
            PidSource::NewOnes => true,
        };
        let old = match old {
            Some(old) if is_good(&old) => return old,
            old => old,
        };
        let list = old.as_ref().and_then(|old| old.list.as_ref());
        let pids = match how {
            PidSource::Table(table) if leaf.is_in_tables() => Ok(table.of_cgroup(leaf.inode)),
            PidSource::Table(_) | PidSource::Lists | PidSource::NewOnes => {
                leaf.pids(list, root, buffer)
            }
        };
        match old {
            // A shortage of weir's own says nothing about the cgroup.
            Some(old) if matches!(pids, Err(Trouble::Want(_))) => old,
            Some(mut old) => {
                // The file is not needed while all are read at once.
                old.list = old.list.filter(|_| matches!(how, PidSource::Lists));
                old.renewed(pids, at)
                    .decided(leaf, root, owner_every, buffer)
            }
            None => {
                let new = CachedCgroup {
                    inode: leaf.inode,
                    at,
                    pause: PIDS_EVERY,
                    is_same: false,
                    list: None,
                    charged_at: at,
                    owner_at: Nanos(0),
                    pids,
                    below: Vec::new(),
                    weight: 100.0,
                    limit: None,
                    charged: None,
                    stands_in: false,
                    watched: None,
                };
                new.decided(leaf, root, Nanos(0), buffer)
            }
        }
    }

    /// The same entry with processes that were read at `at`.
    fn renewed(self, pids: Result<Vec<u32>, Trouble>, at: Nanos) -> CachedCgroup {
        let is_due = at.0.saturating_sub(self.charged_at.0) >= self.charged_every().0;
        // What stands in for the memory that processes have mapped is read as often as that.
        let charged = self.charged.filter(|_| !is_due && !self.stands_in);
        CachedCgroup {
            at,
            is_same: !self.stands_in
                && self.pids == pids
                && pids.as_ref().is_ok_and(|p| !p.is_empty()),
            watched: None,
            charged_at: if is_due { at } else { self.charged_at },
            stands_in: self.stands_in && !is_due,
            // After a search it was nothing.
            pause: self.pause.max(PIDS_EVERY),
            pids,
            // The list is new: what is below is added to it again. Without this, a process that was below and
            // is in the new list would be taken for one below that has gone.
            below: Vec::new(),
            charged,
            ..self
        }
    }

    pub(crate) fn listed(&self) -> impl Iterator<Item = u32> {
        let all = self.pids.iter().flatten().copied();
        all.filter(|pid| !self.below.contains(pid))
    }

    /// It has these too, in cgroups below it.
    pub(crate) fn add_below(&mut self, below: &[u32]) {
        let listed: Vec<u32> = self.listed().collect();
        let Ok(pids) = &mut self.pids else { return };
        let news = below.iter().filter(|pid| !listed.contains(pid));
        let all: Vec<u32> = listed.iter().chain(news).copied().collect();
        if *pids != all {
            self.watched = None;
            *pids = all;
        }
        self.below = below.to_vec();
    }

    /// Its list and its page cache are due.
    pub(crate) fn search(&mut self) {
        self.pause = Nanos(0);
        if matches!(self.charged, Some(Ok(_))) {
            self.charged_at = Nanos(0);
        }
    }

    fn charged_every(&self) -> Nanos {
        match &self.charged {
            Some(Err(Missing::NotSupported(_))) => CHARGED_SELDOM,
            _ => CHARGED_EVERY,
        }
    }

    /// All in it were met. Where nothing of them had changed either, there is time for the next list: it is
    /// settled.
    pub(crate) fn settle(&mut self, is_unchanged: bool) -> bool {
        let longer = Nanos(self.pause.0 + PIDS_EVERY.0).min(PIDS_SETTLED_EVERY);
        let is_settled = self.is_same && is_unchanged;
        self.pause = if is_settled { longer } else { PIDS_EVERY };
        is_settled
    }

    /// Keeps its list open from now on, while there is room.
    pub(crate) fn keep_list(&mut self, leaf: &Leaf, root: BorrowedFd<'_>, budget: &Arc<Budget>) {
        if self.list.is_none()
            && budget.has_room(Rank::EachTick)
            && let Ok(list) = leaf.list(root)
        {
            self.list = budget.keep(list, Rank::EachTick);
        }
    }

    /// The entry with the owner's decisions, read again if the last read was more than `every` ago.
    fn decided(
        self,
        leaf: &Leaf,
        root: BorrowedFd<'_>,
        every: Nanos,
        buffer: &mut Buffer,
    ) -> CachedCgroup {
        if self.at.0.saturating_sub(self.owner_at.0) < every.0 {
            return self;
        }
        CachedCgroup {
            owner_at: self.at,
            weight: leaf.weight(root, buffer),
            limit: leaf.cpu_max(root, buffer).ok(),
            ..self
        }
    }
}

/// The processes in the root cgroup; nothing new between two times that all are read at once.
pub(crate) fn in_root(
    how: PidSource<'_>,
    root: BorrowedFd<'_>,
    buffer: &mut Buffer,
) -> Option<Vec<u32>> {
    let listed = |buffer: &mut Buffer| {
        let text = buffer.read_list_at(root, "cgroup.procs").ok();
        text.and_then(|text| pids(text).ok()).unwrap_or_default()
    };
    match how {
        PidSource::NewOnes => None,
        PidSource::Lists => Some(listed(buffer)),
        PidSource::Table(table) => {
            let of_it = inode(root).map(|stat| table.of_cgroup(stat.st_ino));
            Some(of_it.unwrap_or_else(|_| listed(buffer)))
        }
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
