// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts of a cgroup, kept for a while: its processes for two seconds, the page cache charged to it for six.
//! Its weight and limit change seldom, and are kept for six seconds, or for thirty where weir does not decide
//! by them. A thousand cgroups cost little else than these reads.
//!
//! Where weir only observes, and asks each by its own list, one that is *settled* is asked half as often,
//! then a third as often: the same processes are in it as before, and none has new page faults or more or
//! fewer pages ([`crate::workloads::processes::rescan`]). So little is to be found there, and its processes
//! are each a file to be read. These files stay open from then on, while there is room: opening and closing
//! them costs more than reading them.

use super::tree::{Leaf, Trouble};
use crate::kernel::fd_budget::{Budget, Kept, Rank};
use crate::kernel::files::{Buffer, inode};
use crate::kernel::parse::cgroup::{CpuMax, pids};
use crate::workloads::discovery::Watched;
use crate::workloads::processes::numa_stat::Charged;
use crate::workloads::task_iter::census::Census;
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use weir_core::{Missing, Nanos};

/// How often a cgroup is asked for its processes.
pub(crate) const ASK_EVERY: Nanos = Nanos::from_millis(2000);
/// How often at least, for one that is settled.
const ASK_SETTLED_EVERY: Nanos = Nanos::from_millis(6000);
/// How often for its page cache.
const CHARGED_EVERY: Nanos = Nanos::from_millis(6000);
/// How often for page cache where the kernel does not tell of it (no memory controller there).
const CHARGED_SELDOM: Nanos = Nanos::from_millis(30_000);
/// How often for its weight and its limit, where weir limits.
pub(crate) const OWNER_EVERY: Nanos = Nanos::from_millis(6000);
/// The same where it only observes.
pub(crate) const OWNER_SELDOM: Nanos = Nanos::from_millis(30_000);

/// Answers of a cgroup.
pub(crate) struct Asked {
    inode: u64,
    /// When it was asked for its processes.
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
    pub(crate) weight: f64,
    pub(crate) limit: Option<CpuMax>,
    /// `memory.numa_stat`, once it was asked for.
    pub(crate) charged: Option<Result<Charged, Missing>>,
    /// It has to stand in for `numa_maps`.
    pub(crate) stands_in: bool,
    /// What was made of all this, until something of it is asked anew.
    pub(crate) watched: Option<Arc<Watched>>,
}

/// How cgroups are asked for their processes in a round.
#[derive(Clone, Copy)]
pub(crate) enum Ask<'a> {
    /// Each by its own list, when it is due.
    Lists,
    /// All processes were read at once, just now.
    Census(&'a Census),
    /// They were in an earlier round: only the list of a new cgroup is read.
    NewOnes,
}

impl<'a> Ask<'a> {
    pub(crate) fn census(self) -> Option<&'a Census> {
        match self {
            Ask::Census(census) => Some(census),
            Ask::Lists | Ask::NewOnes => None,
        }
    }
}

impl Asked {
    /// What `leaf` answers at `at`, where `old` is not as good. Its owner's decisions are good for
    /// `owner_every`.
    pub(crate) fn of(
        leaf: &Leaf,
        old: Option<Asked>,
        root: BorrowedFd<'_>,
        at: Nanos,
        how: Ask<'_>,
        owner_every: Nanos,
        buffer: &mut Buffer,
    ) -> Asked {
        let since = |then: Nanos| at.0.saturating_sub(then.0);
        let old = old.filter(|a| a.inode == leaf.inode);
        let is_good = |old: &Asked| match how {
            Ask::Lists => {
                since(old.at) < old.pause.0
                    && since(old.charged_at) < old.charged_every().0
                    && since(old.owner_at) < owner_every.0
            }
            Ask::Census(_) => false,
            Ask::NewOnes => true,
        };
        let old = match old {
            Some(old) if is_good(&old) => return old,
            old => old,
        };
        let list = old.as_ref().and_then(|old| old.list.as_ref());
        let pids = match how {
            Ask::Census(census) => Ok(census.of_cgroup(leaf.inode)),
            Ask::Lists | Ask::NewOnes => leaf.pids(list, root, buffer),
        };
        match old {
            // A want of ours says nothing about it.
            Some(old) if matches!(pids, Err(Trouble::Want(_))) => old,
            Some(mut old) => {
                // The file is not needed while all are read at once.
                old.list = old.list.filter(|_| matches!(how, Ask::Lists));
                old.renewed(pids, at)
                    .decided(leaf, root, owner_every, buffer)
            }
            None => {
                let new = Asked {
                    inode: leaf.inode,
                    at,
                    pause: ASK_EVERY,
                    is_same: false,
                    list: None,
                    charged_at: at,
                    owner_at: Nanos(0),
                    pids,
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

    /// Asked again at `at`.
    fn renewed(self, pids: Result<Vec<u32>, Trouble>, at: Nanos) -> Asked {
        let is_due = at.0.saturating_sub(self.charged_at.0) >= self.charged_every().0;
        // What stands in for what processes have mapped is asked for as often as they.
        let charged = self.charged.filter(|_| !is_due && !self.stands_in);
        Asked {
            at,
            is_same: !self.stands_in
                && self.pids == pids
                && pids.as_ref().is_ok_and(|p| !p.is_empty()),
            watched: None,
            charged_at: if is_due { at } else { self.charged_at },
            stands_in: self.stands_in && !is_due,
            pids,
            charged,
            ..self
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
        let longer = Nanos(self.pause.0 + ASK_EVERY.0).min(ASK_SETTLED_EVERY);
        let is_settled = self.is_same && is_unchanged;
        self.pause = if is_settled { longer } else { ASK_EVERY };
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

    /// With what its owner has decided, asked for if that was more than `every` ago.
    fn decided(
        self,
        leaf: &Leaf,
        root: BorrowedFd<'_>,
        every: Nanos,
        buffer: &mut Buffer,
    ) -> Asked {
        if self.at.0.saturating_sub(self.owner_at.0) < every.0 {
            return self;
        }
        Asked {
            owner_at: self.at,
            weight: leaf.weight(root, buffer),
            limit: leaf.cpu_max(root, buffer).ok(),
            ..self
        }
    }
}

/// The processes in the root cgroup; nothing new between two times that all are read at once.
pub(crate) fn in_root(how: Ask<'_>, root: BorrowedFd<'_>, buffer: &mut Buffer) -> Option<Vec<u32>> {
    let listed = |buffer: &mut Buffer| {
        let text = buffer.read_list_at(root, "cgroup.procs").ok();
        text.and_then(|text| pids(text).ok()).unwrap_or_default()
    };
    match how {
        Ask::NewOnes => None,
        Ask::Lists => Some(listed(buffer)),
        Ask::Census(census) => {
            let of_it = inode(root).map(|stat| census.of_cgroup(stat.st_ino));
            Some(of_it.unwrap_or_else(|_| listed(buffer)))
        }
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
