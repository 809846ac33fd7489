// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The leaves of the cgroup v2 tree. A leaf has no child directories; apart from the root, processes live in
//! leaves only where controllers are handed down (kernel, cgroup-v2.rst, "No Internal Process Constraint").
//! Elsewhere they may live in inner ones too ([`crate::workloads::cgroups::inner`]). A threaded domain counts
//! as a leaf, and has all that is below it; or the cgroups right below it count, where each process is whole
//! in one of them ([`crate::workloads::cgroups::cgroup_type`]). A delegated cgroup counts as a leaf too
//! ([`super::walk::Delegation`]).
//!
//! *Kept.* Each leaf keeps two descriptors: `cpu.stat`, which every tick reads, and, while there are
//! plenty, its directory, so that its other files are opened without a path. When descriptors run
//! short, further leaves are *cold*: opened by path for each read, slower and otherwise the same, and
//! reported (see [`crate::kernel::fd_budget`]).
//!
//! *Walking.* A walk opens every directory, so it happens when something changed: the root's count of
//! descendants, or a leaf that answered "gone". A removed leaf always does the latter, a new one the former.
//! For what slips through all the same there is a walk every half a minute, and at each refresh where the
//! count cannot be read.
//!
//! *Not seen is not gone.* What a walk could not open for want of descriptors or memory stays as it
//! was last seen, with all that was known below it, and the next refresh walks again.

use super::cgroup_type;
use super::inner::Inner;
pub(crate) use super::walk::LeafKind;
use super::walk::{Delegated, Delegation, Visited, delegated_at, for_each_cgroup};
use crate::kernel::escape::escape;
use crate::kernel::fd_budget::{Budget, Kept, Rank, is_want};
use crate::kernel::files::{
    self, Buffer, gone_if_absent, inode, open_beneath, open_root, open_same,
};
use crate::kernel::parse::cgroup::{CpuMax, CpuStat, cpu_max, cpu_stat, descendants, pids};
use crate::kernel::parse::{Malformed, decimal};
use crate::workloads::exclude::Rules;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_core::seam::observation::Skipped;
use weir_core::{Missing, Nanos, WorkloadId};

const WALK_EVERY: Nanos = Nanos::from_millis(30_000);
/// The file that lists a cgroup's processes.
const LIST: &str = "cgroup.procs";

/// Why a file of a cgroup or a process could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The cgroup or process is not there any more.
    Gone,
    /// This one file is not there.
    NoFile,
    /// A want of ours ([`is_want`]), with the path: it says nothing about the file.
    Want(Missing),
    /// Something else, with the path.
    Other(Missing),
}

impl Trouble {
    pub(crate) fn from_errno(error: Errno, what: &str) -> Self {
        match error {
            Errno::NODEV | Errno::SRCH => Trouble::Gone,
            Errno::NOENT => Trouble::NoFile,
            e if is_want(e) => Trouble::Want(Missing::Lost(format!("{what}: {error}"))),
            Errno::PERM | Errno::ACCESS => {
                Trouble::Other(Missing::NotPermitted(format!("{what}: {error}")))
            }
            _ => Trouble::Other(Missing::Lost(format!("{what}: {error}"))),
        }
    }

    pub(crate) fn malformed(error: Malformed, what: &str) -> Self {
        Trouble::Other(Missing::Lost(format!("{what}: {error}")))
    }

    /// The reason why a value of `what` is missing.
    pub(crate) fn into_missing(self, what: &str) -> Missing {
        match self {
            Trouble::Gone => Missing::Lost(format!("{what}: went away")),
            Trouble::NoFile => Missing::NotSupported(format!("{what}: no such file")),
            Trouble::Want(why) | Trouble::Other(why) => why,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) id: WorkloadId,
    /// Path below the cgroup root, with its slash.
    pub(crate) path: Vec<u8>,
    /// Inode number of the directory: the cgroup's id.
    pub(crate) inode: u64,
    pub(crate) kind: LeafKind,
    dir: Option<Kept>,
    stat: Option<Kept>,
    gone: AtomicBool,
}

impl Leaf {
    /// Marks it as gone; returns whether that is news.
    pub(crate) fn mark_gone(&self) -> bool {
        !self.gone.swap(true, Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Whether nothing of it is kept open.
    fn is_cold(&self) -> bool {
        self.stat.is_none() && self.dir.is_none()
    }

    /// Calls `use_it` with the directory.
    ///
    /// # Errors
    /// [`Errno::NODEV`] if another cgroup has that path by now.
    pub(crate) fn with_dir<T>(
        &self,
        root: BorrowedFd<'_>,
        use_it: impl FnOnce(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if let Some(dir) = &self.dir {
            return use_it(dir.as_fd());
        }
        use_it(open_same(root, &self.path, self.inode)?.as_fd())
    }

    pub(crate) fn cpu_stat(
        &self,
        root: BorrowedFd<'_>,
        buffer: &mut Buffer,
    ) -> Result<CpuStat, Trouble> {
        let read = match &self.stat {
            Some(fd) => buffer.read(fd),
            None => {
                let fd = self.with_dir(root, |dir| {
                    files::open_file(dir, "cpu.stat").map_err(gone_if_absent)
                });
                fd.and_then(|fd| buffer.read(fd))
            }
        };
        let text = read.map_err(|e| Trouble::from_errno(e, &self.file("cpu.stat")))?;
        cpu_stat(text).map_err(|e| Trouble::malformed(e, &self.file("cpu.stat")))
    }

    /// A file of it with one record, parsed.
    pub(crate) fn read<T>(
        &self,
        root: BorrowedFd<'_>,
        buffer: &mut Buffer,
        name: &str,
        parse: impl FnOnce(&[u8]) -> Result<T, Malformed>,
    ) -> Result<T, Trouble> {
        let read = self.with_dir(root, |dir| buffer.read_once_at(dir, name));
        let text = read.map_err(|e| Trouble::from_errno(e, &self.file(name)))?;
        parse(text).map_err(|e| Trouble::malformed(e, &self.file(name)))
    }

    /// The processes in it, by its list, which the caller may keep open.
    pub(crate) fn pids(
        &self,
        list: Option<&Kept>,
        root: BorrowedFd<'_>,
        buffer: &mut Buffer,
    ) -> Result<Vec<u32>, Trouble> {
        if self.kind == LeafKind::Container {
            let read = self.with_dir(root, |dir| {
                let domain = open_beneath(root, self.domain())?;
                cgroup_type::processes(dir, &domain, buffer)
            });
            return read.map_err(|e| Trouble::from_errno(e, &self.file("cgroup.threads")));
        }
        let read = match list {
            Some(list) => buffer.read_list(list),
            None => self.with_dir(root, |dir| buffer.read_list_at(dir, LIST)),
        };
        let text = read.map_err(|e| Trouble::from_errno(e, &self.file(LIST)))?;
        pids(text).map_err(|e| Trouble::malformed(e, &self.file(LIST)))
    }

    /// Whether a table of processes by their cgroup has those in it: the table knows their domain.
    pub(crate) fn is_in_tables(&self) -> bool {
        self.kind != LeafKind::Container
    }

    fn domain(&self) -> &[u8] {
        let end = self.path.iter().rposition(|b| *b == b'/').unwrap_or(0);
        self.path.get(..end).unwrap_or_default()
    }

    /// Its list, to be kept open.
    ///
    /// # Errors
    /// It cannot be opened, or there is none.
    pub(crate) fn list(&self, root: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        if self.kind == LeafKind::Container {
            return Err(Errno::OPNOTSUPP);
        }
        self.with_dir(root, |dir| files::open_file(dir, LIST))
    }

    pub(crate) fn cpu_max(
        &self,
        root: BorrowedFd<'_>,
        buffer: &mut Buffer,
    ) -> Result<CpuMax, Trouble> {
        self.read(root, buffer, "cpu.max", cpu_max)
    }

    /// Its weight: 100 is normal; 1 for an idle cgroup, which reads as 0.
    pub(crate) fn weight(&self, root: BorrowedFd<'_>, buffer: &mut Buffer) -> f64 {
        let weight = self.read(root, buffer, "cpu.weight", decimal);
        weight.map_or(100.0, |w| w.clamp(1, 10_000) as f64)
    }

    /// The path of a file of it, for messages.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.id)
    }
}

/// The leaves, refreshed when something changed.
pub(crate) struct CgroupTree {
    root: Arc<OwnedFd>,
    leaves: BTreeMap<Vec<u8>, Arc<Leaf>>,
    inner: BTreeMap<Vec<u8>, Arc<Inner>>,
    /// Threaded domains that are no workloads, with their inode numbers.
    domains: BTreeMap<Vec<u8>, u64>,
    proc: Arc<OwnedFd>,
    delegation: Box<Delegation>,
    budget: Arc<Budget>,
    descendants: Option<u64>,
    walked_at: Option<Nanos>,
    skipped: Vec<Skipped>,
}

impl CgroupTree {
    /// Opens the tree, of the processes in `proc`. Leaves keep descriptors out of `budget`.
    pub(crate) fn open(
        path: &Path,
        proc: Arc<OwnedFd>,
        budget: Arc<Budget>,
    ) -> Result<Self, Errno> {
        let root = open_root(path)?;
        Ok(CgroupTree {
            delegation: Box::new(Delegation::below(&root)),
            root: Arc::new(root),
            leaves: BTreeMap::new(),
            inner: BTreeMap::new(),
            domains: BTreeMap::new(),
            proc,
            budget,
            descendants: None,
            walked_at: None,
            skipped: Vec::new(),
        })
    }

    /// The tree with the rules by which delegated cgroups are split.
    pub(crate) fn by_rules(mut self, rules: &Rules) -> Self {
        self.delegation = Box::new(rules.delegation(&self.root));
        self
    }

    pub(crate) fn root(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.root)
    }

    /// The leaves, in the order of their paths.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Arc<Leaf>> {
        self.leaves.values()
    }

    /// Those that have others below them, but for the root, in the order of their paths.
    pub(crate) fn inner(&self) -> impl Iterator<Item = &Arc<Inner>> {
        self.inner.values()
    }

    /// Whether the processes of the cgroup with this path are listed.
    pub(crate) fn knows(&self, path: &[u8]) -> bool {
        let lists = [
            self.leaves.contains_key(path),
            self.inner.contains_key(path),
        ];
        lists.contains(&true) || self.domains.contains_key(path)
    }

    /// The delegated cgroup that the cgroup with this path lies in, or is.
    pub(crate) fn delegated_at(&self, path: &[u8]) -> Option<&Arc<Leaf>> {
        delegated_at(&self.leaves, path)
    }

    pub(crate) fn delegated(&self) -> Delegated {
        Delegated::among(self.leaves.values())
    }

    /// The ids of all cgroups with a list of processes.
    pub(crate) fn ids(&self) -> BTreeSet<u64> {
        let leaves = self.leaves.values().map(|leaf| leaf.inode);
        let inner = self.inner.values().map(|inner| inner.inode);
        let root = inode(&*self.root).map(|stat| stat.st_ino);
        let domains = self.domains.values().copied();
        leaves.chain(inner).chain(domains).chain(root).collect()
    }

    pub(crate) fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Walks the tree if something changed.
    ///
    /// A tree that is not cgroup v2 has no leaves: directories below a v1 mount are something else.
    pub(crate) fn refresh(&mut self, now: Nanos, buffer: &mut Buffer) {
        match buffer.read_at(&*self.root, "cgroup.controllers") {
            Ok(_) => {}
            Err(e) if is_want(e) => {
                self.skipped = vec![unseen(e, self.leaves.len())];
                return;
            }
            Err(e) => {
                let why =
                    format!("cgroup.controllers: {e}: not a cgroup v2 tree (see `weir doctor`)");
                let (what, why) = ("/".into(), Missing::NotSupported(why));
                self.skipped = vec![Skipped { what, why }];
                self.leaves.clear();
                self.inner.clear();
                self.domains.clear();
                self.walked_at = None;
                return;
            }
        }
        let count = buffer
            .read_at(&*self.root, "cgroup.stat")
            .ok()
            .and_then(descendants);
        let overdue = self
            .walked_at
            .is_none_or(|at| now.0.saturating_sub(at.0) >= WALK_EVERY.0);
        let changed = count.is_none() || count != self.descendants;
        if overdue || changed || self.leaves.values().any(|leaf| leaf.is_gone()) {
            self.descendants = count;
            self.walked_at = Some(now);
            self.walk(buffer);
        }
    }

    /// Walks through the tree and makes the list of leaves anew.
    ///
    /// A leaf that is still the same cgroup, by its inode, stays the same value, with its open files: others
    /// hold it. What could not be opened for want of descriptors or memory says nothing about the cgroup;
    /// what was known there stays known, and the walk is made again. Dropped instead, as at first, its limits
    /// were released as if the cgroups were gone.
    fn walk(&mut self, buffer: &mut Buffer) {
        let old = std::mem::take(&mut self.leaves);
        let mut leaves = BTreeMap::new();
        let old_inner = std::mem::take(&mut self.inner);
        let old_domains = std::mem::take(&mut self.domains);
        let mut wants = Vec::new();
        let budget = &self.budget;
        self.skipped = for_each_cgroup(
            &self.root,
            &self.proc,
            &self.delegation,
            buffer,
            |path, found| {
                let found = match found {
                    Ok(Visited::Inner { inode, below }) => {
                        let inner = inner_at(path, inode, below, old_inner.get(path));
                        self.inner.insert(path.to_vec(), inner);
                        return;
                    }
                    Ok(Visited::DomainOfContainers { inode }) => {
                        self.domains.insert(path.to_vec(), inode);
                        return;
                    }
                    Ok(Visited::Leaf(dir, kind)) => {
                        inode(&dir).map(|stat| (stat.st_ino, dir, kind))
                    }
                    Err(e) => Err(e),
                };
                let (inode, dir, kind) = match found {
                    Ok(found) => found,
                    Err(e) => return wants.push((path.to_vec(), e)),
                };
                let known = old
                    .get(path)
                    .filter(|leaf| leaf.inode == inode && leaf.kind == kind && !leaf.is_gone())
                    .filter(|leaf| !leaf.is_cold() || !budget.has_room(Rank::EachTick));
                let leaf = match known {
                    Some(leaf) => Arc::clone(leaf),
                    None => Arc::new(new_leaf(path, inode, kind, dir, budget)),
                };
                leaves.insert(path.to_vec(), leaf);
            },
        );
        if let Some((_, error)) = wants.first() {
            let error = *error;
            let before = leaves.len();
            for (path, _) in &wants {
                keep_below(path, &old, &mut leaves);
                self.inner.extend(known_below(path, &old_inner));
                self.domains.extend(known_below(path, &old_domains));
            }
            self.skipped.push(unseen(error, leaves.len() - before));
            self.descendants = None;
        }
        self.leaves = leaves;
        let cold = self.leaves.values().filter(|leaf| leaf.is_cold()).count();
        if cold > 0 {
            let text = format!("{cold} cgroups are opened anew at each tick: raise LimitNOFILE");
            let why = Missing::NotSupported(text);
            self.skipped.push(Skipped {
                what: "file descriptors".into(),
                why,
            });
        }
    }
}

/// Whether `known`, which begins with `path`, is that cgroup or lies below it, and is no sibling with a
/// longer name.
fn is_below(path: &[u8], known: &[u8]) -> bool {
    matches!(known.get(path.len()), None | Some(b'/'))
}

/// What was known at `path` and below.
fn known_below<T: Clone>(
    path: &[u8],
    old: &BTreeMap<Vec<u8>, T>,
) -> impl Iterator<Item = (Vec<u8>, T)> {
    let known = old.range(path.to_vec()..);
    let known = known.take_while(move |(known, _)| known.starts_with(path));
    let known = known.filter(move |(known, _)| is_below(path, known));
    known.map(|(known, of_it)| (known.clone(), of_it.clone()))
}

/// What was known at `path` and below stays known.
fn keep_below(
    path: &[u8],
    old: &BTreeMap<Vec<u8>, Arc<Leaf>>,
    leaves: &mut BTreeMap<Vec<u8>, Arc<Leaf>>,
) {
    for (known, leaf) in known_below(path, old).filter(|(_, leaf)| !leaf.is_gone()) {
        leaves.entry(known).or_insert(leaf);
    }
}

/// The one that was known there, if it is the same still.
pub(crate) fn inner_at(
    path: &[u8],
    inode: u64,
    below: Vec<Vec<u8>>,
    old: Option<&Arc<Inner>>,
) -> Arc<Inner> {
    let id = WorkloadId::new(escape(path));
    let new = Inner::new(id, path, inode, below);
    match old {
        Some(old) if new.is_like(old) => Arc::clone(old),
        Some(old) => Arc::new(new.following(old)),
        None => Arc::new(new),
    }
}

fn unseen(error: Errno, kept: usize) -> Skipped {
    let text = format!(
        "cgroups could not be opened: {error}: {kept} known ones are kept as last seen, new ones are \
         not seen; raise LimitNOFILE"
    );
    Skipped {
        what: "cgroup tree".into(),
        why: Missing::Lost(text),
    }
}

fn new_leaf(path: &[u8], inode: u64, kind: LeafKind, dir: OwnedFd, budget: &Arc<Budget>) -> Leaf {
    let mut stat = None;
    if budget.has_room(Rank::EachTick)
        && let Ok(fd) = files::open_file(&dir, "cpu.stat")
    {
        stat = budget.keep(fd, Rank::EachTick);
    }
    Leaf {
        id: WorkloadId::new(escape(path)),
        path: path.to_vec(),
        inode,
        kind,
        stat,
        dir: budget.keep(dir, Rank::Seldom),
        gone: AtomicBool::new(false),
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
