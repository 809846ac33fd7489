// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that are in no leaf of the tree: those of the root cgroup, of cgroups that have others below
//! them, and of cgroups that weir does not see. Where they have memory on a device they are workloads too,
//! which are never limited: a list of users that lacks some gives their bytes to the others.

use super::cache::{OWNER_EVERY, PidSource, in_root};
use super::hierarchy;
use super::inner::Inner;
use super::tree::{CgroupTree, inner_at};
use super::unlisted::{Unlisted, beside};
use crate::inventory::group_nodes::GroupOnNode;
use crate::kernel::files::{Buffer, for_each_dir, inode};
use crate::workloads::classify::{Classifier, processes, uses};
use crate::workloads::discovery::{Watched, WorkloadSource};
use crate::workloads::processes::numa_maps::ELSEWHERE;
use crate::workloads::processes::process_set::{ProcessSet, UNLISTED};
use crate::workloads::processes::{CachedProcess, Resident};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use weir_core::seam::observation::{Excluded, Skipped};
use weir_core::{Missing, Nanos, WorkloadId};

/// What is said of processes of the root cgroup with memory on a device.
const IN_ROOT: &str = "processes in the root cgroup use watched memory and cannot be limited: move them into cgroups of their own";

/// Most entries of the top of the tree.
const TOP_MAX: usize = 1 << 16;

/// The id of the workload of processes in cgroups that weir does not see. No path of a cgroup is like it.
const UNLISTED_ID: &str = "(unlisted)";

/// These processes, by cgroup.
#[derive(Default)]
pub(crate) struct Outside {
    in_root: Vec<u32>,
    root: Option<Arc<ProcessSet>>,
    /// The root cgroup with the CPU time of all in it, where some of them are hidden.
    whole_root: Option<Arc<Inner>>,
    in_inner: Vec<(Arc<Inner>, Vec<u32>)>,
    unlisted: Unlisted,
    rest: Option<Arc<ProcessSet>>,
    /// When lists of inner cgroups, and of all processes, were last read.
    read_at: Option<Nanos>,
}

pub(crate) struct Lists<'a, I> {
    pub(crate) tree: &'a CgroupTree,
    pub(crate) proc: &'a OwnedFd,
    pub(crate) how: PidSource<'a>,
    pub(crate) at: Nanos,
    /// Processes of leaves, where the lists of leaves were read.
    pub(crate) in_leaves: I,
    /// The list of a delegated cgroup was read just now: what has left it for one below must be found.
    pub(crate) is_due: bool,
}

impl Outside {
    pub(crate) fn read(
        &mut self,
        lists: Lists<'_, impl Iterator<Item = u32>>,
        buffer: &mut Buffer,
    ) {
        let Lists { tree, how, at, .. } = lists;
        let root = tree.root();
        if let Some(pids) = in_root(how, root.as_fd(), buffer) {
            let old = self.whole_root.take();
            let has_hidden = has_hidden(&pids) || hierarchy::has_hidden(lists.proc);
            self.whole_root = has_hidden.then(|| whole_root(&root, old)).flatten();
            self.in_root = pids;
        }
        // Most have none.
        let is_due = lists.is_due;
        let is_good = |then: Nanos| !is_due && at.0.saturating_sub(then.0) < OWNER_EVERY.0;
        match how {
            PidSource::NewOnes => return,
            PidSource::Lists if self.read_at.is_some_and(is_good) => return,
            PidSource::Lists | PidSource::Table(_) => self.read_at = Some(at),
        }
        let mut of_it = |inner: &Arc<Inner>| match how {
            PidSource::Table(table) => table.of_cgroup(inner.inode),
            PidSource::Lists | PidSource::NewOnes => inner.pids(root.as_fd(), buffer),
        };
        let all = tree.inner().map(|inner| (Arc::clone(inner), of_it(inner)));
        self.in_inner = all.filter(|(_, pids)| !pids.is_empty()).collect();
        let candidates: Vec<u32> = match how {
            PidSource::Table(table) => table.beside(&tree.ids()).collect(),
            PidSource::Lists | PidSource::NewOnes => {
                let inner = self.in_inner.iter().flat_map(|(_, pids)| pids);
                let listed = self.in_root.iter().chain(inner).copied();
                beside(lists.proc, &listed.chain(lists.in_leaves).collect())
            }
        };
        self.unlisted
            .find(candidates.into_iter(), tree, lists.proc, buffer);
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        let in_inner = self.in_inner.iter().flat_map(|(_, pids)| pids);
        let listed = self.in_root.iter().chain(in_inner);
        let delegated = self.unlisted.delegated.values().flatten();
        listed.chain(&self.unlisted.pids).chain(delegated).copied()
    }

    /// Those below the delegated cgroup with this id.
    pub(crate) fn below(&self, id: u64) -> &[u32] {
        self.unlisted.delegated.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Those with memory on a device, as workloads, and what there is to say of them.
    pub(crate) fn classify(&mut self, with: &Classifier<'_>) -> (Vec<Watched>, Vec<Skipped>) {
        let of_inner = |inner: &Arc<Inner>, pids: &[u32], has_hidden, why| {
            let members = users(with, pids);
            let source = WorkloadSource::Inner(Arc::clone(inner));
            watched(with, &members, has_hidden, inner.id.clone(), source, why)
        };
        let below = |(inner, pids): &(Arc<Inner>, Vec<u32>)| {
            of_inner(inner, pids, has_hidden(pids), Excluded::Inner)
        };
        let mut all: Vec<Watched> = self.in_inner.iter().filter_map(below).collect();
        let mut said = Vec::new();
        let mut say = |what: &str, why: String| {
            said.push(Skipped {
                what: what.into(),
                why: Missing::NotSupported(why),
            });
        };
        let number = inode(with.root).map_or(0, |stat| stat.st_ino);
        let in_root = &self.in_root;
        let root = match &self.whole_root {
            Some(root) => of_inner(root, in_root, true, Excluded::Root),
            None => set(with, in_root, &mut self.root, ("/", number, Excluded::Root)),
        };
        if let Some(root) = root {
            if has_some(&root) {
                say("/", IN_ROOT.into());
            }
            all.push(root);
        }
        let unlisted = (UNLISTED_ID, UNLISTED, Excluded::Unlisted);
        if let Some(rest) = set(with, &self.unlisted.pids, &mut self.rest, unlisted) {
            if has_some(&rest) {
                say(UNLISTED_ID, self.unlisted.note());
            }
            all.push(rest);
        }
        (all, said)
    }
}

/// Whether it is known to have memory on a device.
fn has_some(watched: &Watched) -> bool {
    watched
        .uses
        .iter()
        .any(|use_| use_.resident_bytes.value.is_ok())
}

/// Those of them that use a device, as one workload with this id and number.
fn set(
    with: &Classifier<'_>,
    pids: &[u32],
    kept: &mut Option<Arc<ProcessSet>>,
    (id, number, why): (&str, u64, Excluded),
) -> Option<Watched> {
    let members = users(with, pids);
    if members.is_empty() {
        *kept = None;
        return None;
    }
    let set = kept.get_or_insert_with(|| Arc::new(ProcessSet::new(number)));
    let numbered: Vec<_> = members.iter().map(|(p, m)| (*p, m.start_ticks)).collect();
    set.follow(&numbered);
    let source = WorkloadSource::Set(Arc::clone(set));
    watched(with, &members, false, WorkloadId::new(id), source, why)
}

/// Where workloads are processes: those of other PID namespaces, of which nothing is known.
pub(crate) fn hidden(proc: &OwnedFd, groups: &[GroupOnNode], at: Nanos) -> Option<Watched> {
    hierarchy::has_hidden(proc).then(|| Watched {
        id: WorkloadId::new(UNLISTED_ID),
        source: WorkloadSource::Set(Arc::new(ProcessSet::hidden())),
        weight: 100.0,
        limit: None,
        excluded: Some(Excluded::Unlisted),
        uses: uses(groups, &Resident::hidden(), at),
        resident_bytes: None,
        processes: None,
    })
}

/// Whether a list has processes of other PID namespaces: the kernel gives their ids as 0
/// (`pid_namespaces(7)`).
fn has_hidden(pids: &[u32]) -> bool {
    pids.contains(&0)
}

/// The root cgroup. Its CPU time is that of the machine without that of the cgroups below.
fn whole_root(root: &OwnedFd, old: Option<Arc<Inner>>) -> Option<Arc<Inner>> {
    let number = inode(root).ok()?.st_ino;
    let mut below = Vec::new();
    for_each_dir(root, TOP_MAX, |name| below.push(name.to_vec())).ok()?;
    below.sort_unstable();
    Some(inner_at(b"/", number, below, old.as_ref()))
}

/// Those of them that have memory on a device, or of which that is not known.
fn users<'a>(with: &Classifier<'a>, pids: &[u32]) -> Vec<(u32, &'a CachedProcess)> {
    let is_user = |pid: &u32| {
        let resident = with.members.resident(&[*pid]);
        let mut here = resident.bytes.range(..ELSEWHERE);
        here.any(|(_, bytes)| *bytes > 0) || resident.is_unknown()
    };
    let users = pids.iter().filter(|pid| is_user(pid));
    users
        .filter_map(|pid| Some((*pid, with.members.get(*pid)?)))
        .collect()
}

/// They as a workload. What hidden ones have is not known, so it is not known of all together.
fn watched(
    with: &Classifier<'_>,
    members: &[(u32, &CachedProcess)],
    has_hidden: bool,
    id: WorkloadId,
    source: WorkloadSource,
    why: Excluded,
) -> Option<Watched> {
    let pids: Vec<u32> = members.iter().map(|(pid, _)| *pid).collect();
    let resident = if has_hidden {
        Resident::hidden()
    } else {
        with.members.resident(&pids)
    };
    let uses = uses(with.groups, &resident, with.at);
    (!uses.is_empty()).then(|| Watched {
        id,
        source,
        weight: 100.0,
        limit: None,
        excluded: Some(why),
        processes: processes(&uses, with.at, members),
        uses,
        resident_bytes: resident.all_bytes(),
    })
}

#[cfg(test)]
#[path = "non_leaf_tests.rs"]
mod tests;
