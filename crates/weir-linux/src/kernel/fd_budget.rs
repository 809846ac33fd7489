// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many descriptors may be kept open, and for what.
//!
//! Everything that weir keeps open per cgroup comes out of one [`Budget`], so that leaves and limits together
//! stay below the limit of open files, with some to spare for what is opened and closed again. What discovery
//! keeps of settled cgroups has a part of its own, and a bound: for each of these files the kernel keeps a
//! page. No kept descriptor is needed: without one a file is opened by path at each use, which is slower and
//! otherwise the same.
//!
//! A file that could not be opened for want of descriptors or memory ([`is_want`]) says nothing about
//! the thing behind it: what was known of it stays known.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Descriptors left free for everything that is opened and closed again. Without a common budget, leaves and
/// held limits together used up a low limit of open files; a walk then lost what it could not open, and the
/// limits there were released as if the cgroups were gone.
const SPARE: u64 = 128;
/// Most files of settled cgroups and their processes, each with a page of the kernel's: 8 MiB. They are kept
/// because opening and closing them costs as much as reading: both files of a cgroup take 16 µs with it and 8
/// without, measured on a real kernel.
const SETTLED_MAX: usize = 2048;
/// Where there are fewer in all than so many times that, none is for them: the others need theirs more.
const SETTLED_PART: usize = 8;
/// More descriptors than any host uses; a higher limit of open files is not asked for.
const PLENTY: u64 = 1 << 18;

/// How often a descriptor is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// At each tick, or nearly so: may use the whole budget.
    EachTick,
    /// Now and then: only while at most half of the budget is in use.
    Seldom,
}

/// Descriptors that may be kept.
#[derive(Debug)]
pub(crate) struct Budget {
    total: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(total: usize) -> Arc<Self> {
        Arc::new(Budget {
            total,
            used: AtomicUsize::new(0),
        })
    }

    /// The budget of this process ([`descriptors`]). The second is for what is settled.
    pub(crate) fn of_process() -> (Arc<Self>, Arc<Self>) {
        let (others, settled) = split(descriptors());
        (Self::new(others), Self::new(settled))
    }

    /// Whether another one of this rank may be kept.
    pub(crate) fn has_room(&self, rank: Rank) -> bool {
        self.used.load(Ordering::Relaxed) < self.most(rank)
    }

    fn most(&self, rank: Rank) -> usize {
        match rank {
            Rank::EachTick => self.total,
            Rank::Seldom => self.total / 2,
        }
    }

    /// Keeps `fd`, or closes it if there is no room.
    pub(crate) fn keep(self: &Arc<Self>, fd: OwnedFd, rank: Rank) -> Option<Kept> {
        let most = self.most(rank);
        let one_more = |used: usize| (used < most).then_some(used + 1);
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.ok().map(|_| Kept {
            fd,
            budget: Arc::clone(self),
        })
    }
}

/// Raises the soft limit of open files to the hard one (or a quarter million, which is plenty); gives what
/// that leaves beside the spare ones.
pub(crate) fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(PLENTY).min(PLENTY);
    let soft = limit.current.unwrap_or(PLENTY);
    let raised = Rlimit {
        current: Some(hard),
        maximum: limit.maximum,
    };
    let now = if soft < hard && setrlimit(Resource::Nofile, raised).is_ok() {
        hard
    } else {
        soft
    };
    // Half of few descriptors: a walk holds one for each level it is in.
    let spare = SPARE.min(now / 2);
    usize::try_from(now - spare).unwrap_or(usize::MAX)
}

/// So many for all others, and for what is settled.
fn split(all: usize) -> (usize, usize) {
    let settled = match all / SETTLED_PART {
        part if part < SETTLED_MAX => 0,
        _ => SETTLED_MAX,
    };
    (all - settled, settled)
}

/// A descriptor that is kept, and goes back to its budget when it is closed.
#[derive(Debug)]
pub(crate) struct Kept {
    fd: OwnedFd,
    budget: Arc<Budget>,
}

impl AsFd for Kept {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether an error is a want of ours and says nothing about the file.
pub(crate) fn is_want(error: Errno) -> bool {
    matches!(
        error,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR | Errno::AGAIN
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_fd() -> OwnedFd {
        crate::kernel::files::open_root(std::path::Path::new("/")).unwrap()
    }

    #[test]
    fn the_seldom_used_leave_half_to_the_others() {
        let budget = Budget::new(4);
        let mut kept = Vec::new();
        for (rank, fits) in [
            (Rank::Seldom, true),
            (Rank::EachTick, true),
            (Rank::Seldom, false),
            (Rank::EachTick, true),
            (Rank::EachTick, true),
            (Rank::EachTick, false),
        ] {
            assert_eq!(budget.has_room(rank), fits, "{}", kept.len());
            let got = budget.keep(some_fd(), rank);
            assert_eq!(got.is_some(), fits);
            kept.extend(got);
        }
        kept.truncate(1);
        assert!(budget.has_room(Rank::Seldom), "closing gives back");
    }

    #[test]
    fn what_is_settled_takes_nothing_from_others_where_there_are_few() {
        let enough = SETTLED_PART * SETTLED_MAX;
        assert_eq!(split(0), (0, 0));
        assert_eq!(split(enough - 1), (enough - 1, 0));
        assert_eq!(split(enough), (enough - SETTLED_MAX, SETTLED_MAX));
    }
}
