// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a cgroup answered, kept for a while: who is in it for two seconds, what its owner decides seldom (weight,
//! limit) and the page cache charged to it for six. A thousand cgroups cost little else than these questions.

use crate::charged::Charged;
use crate::files::Buffer;
use crate::parse::cgroup::CpuMax;
use crate::tree::{Leaf, Trouble};
use rustix::fd::BorrowedFd;
use weir_core::{Missing, Nanos};

/// How often a cgroup is asked for its processes.
const ASK_EVERY: Nanos = Nanos::from_millis(2000);
/// How often for its weight, its limit and its page cache.
const FACTS_EVERY: Nanos = Nanos::from_millis(6000);

/// Answers of a cgroup.
pub(crate) struct Asked {
    inode: u64,
    /// When it was asked for its processes.
    pub(crate) at: Nanos,
    facts_at: Nanos,
    pub(crate) pids: Result<Vec<u32>, Trouble>,
    pub(crate) weight: f64,
    pub(crate) limit: Option<CpuMax>,
    /// `memory.numa_stat`, once it was asked for.
    pub(crate) charged: Option<Result<Charged, Missing>>,
    /// It has to stand in for `numa_maps`.
    pub(crate) stands_in: bool,
}

impl Asked {
    /// What `leaf` answers at `at`, where `old` is not as good.
    pub(crate) fn of(
        leaf: &Leaf,
        old: Option<Asked>,
        root: BorrowedFd<'_>,
        at: Nanos,
        buffer: &mut Buffer,
    ) -> Asked {
        let since = |then: Nanos| at.0.saturating_sub(then.0);
        let old = old.filter(|a| a.inode == leaf.inode);
        let old = match old {
            Some(old) if since(old.at) < ASK_EVERY.0 => return old,
            old => old,
        };
        let pids = leaf.pids(root, buffer);
        match old {
            // A want of ours says nothing about it.
            Some(old) if matches!(pids, Err(Trouble::Want(_))) => old,
            Some(old) if since(old.facts_at) < FACTS_EVERY.0 => Asked {
                pids,
                at,
                // What stands in for what processes have mapped is asked for as often as they.
                charged: old.charged.filter(|_| !old.stands_in),
                ..old
            },
            _ => Asked {
                inode: leaf.inode,
                at,
                facts_at: at,
                pids,
                weight: leaf.weight(root, buffer),
                limit: leaf.cpu_max(root, buffer).ok(),
                charged: None,
                stands_in: false,
            },
        }
    }
}
