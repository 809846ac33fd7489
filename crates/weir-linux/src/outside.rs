// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that are in no leaf of the tree: those of the root cgroup, and of cgroups that have others below them. Where
//! they have memory on a device they are workloads too, which are never limited: a list of users that lacks some
//! gives their bytes to the others.

use crate::asked::{Ask, OWNER_EVERY, in_root};
use crate::files::{Buffer, inode};
use crate::inner::Inner;
use crate::judge::{Judge, processes, uses};
use crate::mapped::ELSEWHERE;
use crate::members::Member;
use crate::root_cgroup::RootCgroup;
use crate::scout::{Source, Watched};
use crate::tree::Tree;
use rustix::fd::AsFd;
use std::sync::Arc;
use weir_core::observation::{Excluded, Skipped};
use weir_core::{Missing, Nanos, WorkloadId};

/// What is said of processes of the root cgroup with memory on a device.
const IN_ROOT: &str = "processes in the root cgroup use watched memory and cannot be limited: move them into cgroups of their own";

/// These processes, by cgroup.
#[derive(Default)]
pub(crate) struct Outside {
    in_root: Vec<u32>,
    root: Option<Arc<RootCgroup>>,
    in_inner: Vec<(Arc<Inner>, Vec<u32>)>,
    /// When lists of inner cgroups were last read.
    inner_at: Option<Nanos>,
}

impl Outside {
    /// Asks who is there.
    pub(crate) fn ask(&mut self, tree: &Tree, how: Ask<'_>, at: Nanos, buffer: &mut Buffer) {
        let root = tree.root();
        if let Some(pids) = in_root(how, root.as_fd(), buffer) {
            self.in_root = pids;
        }
        // Most have nobody.
        let is_good = |then: Nanos| at.0.saturating_sub(then.0) < OWNER_EVERY.0;
        match how {
            Ask::NewOnes => return,
            Ask::Lists if self.inner_at.is_some_and(is_good) => return,
            Ask::Lists | Ask::Census(_) => self.inner_at = Some(at),
        }
        let mut of_it = |inner: &Arc<Inner>| match how {
            Ask::Census(census) => census.of_cgroup(inner.inode).unwrap_or_default(),
            Ask::Lists | Ask::NewOnes => inner.pids(root.as_fd(), buffer),
        };
        let all = tree.inner().map(|inner| (Arc::clone(inner), of_it(inner)));
        self.in_inner = all.filter(|(_, pids)| !pids.is_empty()).collect();
    }

    /// All of them.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        let in_inner = self.in_inner.iter().flat_map(|(_, pids)| pids);
        self.in_root.iter().chain(in_inner).copied()
    }

    /// Those with memory on a device, as workloads, and what there is to say of them.
    pub(crate) fn judge(&mut self, with: &Judge<'_>) -> (Vec<Watched>, Option<Skipped>) {
        let users = |(inner, pids): &(Arc<Inner>, Vec<u32>)| {
            let members = users(with, pids);
            let source = Source::Inner(Arc::clone(inner));
            watched(with, &members, inner.id.clone(), source, Excluded::Inner)
        };
        let mut all: Vec<Watched> = self.in_inner.iter().filter_map(users).collect();
        let in_root = self.in_root(with);
        let said = in_root.is_some().then(|| Skipped {
            what: "/".into(),
            why: Missing::NotSupported(IN_ROOT.into()),
        });
        all.extend(in_root);
        (all, said)
    }

    fn in_root(&mut self, with: &Judge<'_>) -> Option<Watched> {
        let members = users(with, &self.in_root);
        if members.is_empty() {
            self.root = None;
            return None;
        }
        let inode = || inode(with.root).map_or(0, |stat| stat.st_ino);
        let new = || Arc::new(RootCgroup::new(inode()));
        let root = self.root.get_or_insert_with(new);
        let numbered: Vec<_> = members.iter().map(|(p, m)| (*p, m.start_ticks)).collect();
        root.follow(&numbered);
        let source = Source::Root(Arc::clone(root));
        watched(with, &members, WorkloadId::new("/"), source, Excluded::Root)
    }
}

/// Those of them that have memory on a device.
fn users<'a>(with: &Judge<'a>, pids: &[u32]) -> Vec<(u32, &'a Member)> {
    let has_some = |pid: &u32| {
        let bytes = with.members.resident(&[*pid]).bytes;
        bytes.range(..ELSEWHERE).any(|(_, bytes)| *bytes > 0)
    };
    let users = pids.iter().filter(|pid| has_some(pid));
    users
        .filter_map(|pid| Some((*pid, with.members.get(*pid)?)))
        .collect()
}

/// They as a workload.
fn watched(
    with: &Judge<'_>,
    members: &[(u32, &Member)],
    id: WorkloadId,
    source: Source,
    why: Excluded,
) -> Option<Watched> {
    let pids: Vec<u32> = members.iter().map(|(pid, _)| *pid).collect();
    let resident = with.members.resident(&pids);
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
