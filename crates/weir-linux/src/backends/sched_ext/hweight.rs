// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Full mode: which part of the CPUs each cgroup has (its hweight). The scheduler knows tasks and their
//! weights only. The tree of `cpu.weight` is flattened here, over the cgroups that ran lately.
//!
//! ```text
//!   /system.slice 100 ─┬─ a.service 100  (runs)    ─► 100 · 100/400 = 25
//!                      ├─ b.service 300  (runs)    ─► 100 · 300/400 = 75
//!                      └─ c.service 100  (sleeps)  ─► 100 · 100/500 = 20, when it wakes
//!   /user.slice   200 ─── d.scope    100  (runs)   ─► 200 · 100/100 = 200
//! ```
//!
//! The unit is that of a task's weight: 100 is a task of niceness 0 that is for itself. Children of the root
//! compete with each other as they are, as with the kernel's own scheduler.

use super::intf::MAX_HWEIGHTS;
use super::slots::Slots;
use crate::kernel::clock::now;
use crate::kernel::files::{Buffer, open_beneath};
use crate::kernel::parse::decimal;
use crate::kernel::skeletons::sched::WEIR_WEIGHT_DEFAULT;
use crate::workloads::discovery::{View, WorkloadSource};
use rustix::fd::BorrowedFd;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_core::{Nanos, Plan, WorkloadId};

/// How long the weight of an inner cgroup is believed.
const KEPT: Nanos = Nanos::from_millis(2000);
const USUAL: u64 = WEIR_WEIGHT_DEFAULT;

/// A leaf of the tree: the cgroup's id, its path below the root, its own weight.
#[derive(Clone, Debug)]
pub(super) struct WeightedLeaf {
    inode: u64,
    path: Vec<u8>,
    weight: u64,
    is_active: bool,
}

/// What changes in the scheduler's maps.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WeightChanges {
    /// The shares that have changed, by index.
    pub(super) weights: Vec<(u32, u64)>,
    /// Cgroups that have an index from now on, or (0) none any more.
    pub(super) indices: Vec<(u64, u32)>,
}

/// The shares that are in the scheduler's maps.
#[derive(Debug)]
pub(super) struct Hweights {
    slots: Slots,
    told: BTreeMap<u64, (u32, u64)>,
    inner: BTreeMap<Vec<u8>, (Nanos, u64)>,
}

impl Hweights {
    pub(super) fn new() -> Self {
        Hweights {
            slots: Slots::below(MAX_HWEIGHTS),
            told: BTreeMap::new(),
            inner: BTreeMap::new(),
        }
    }

    /// What has changed since the last time.
    pub(super) fn update(
        &mut self,
        view: &View,
        plan: &Plan,
        root: BorrowedFd<'_>,
        buffer: &mut Buffer,
    ) -> WeightChanges {
        let leaves = leaves(view, plan);
        let at = now();
        let paths: BTreeSet<&[u8]> = leaves
            .iter()
            .flat_map(|l| ancestors(&l.path).filter(|p| p.len() < l.path.len()))
            .collect();
        self.inner.retain(|path, _| paths.contains(path.as_slice()));
        for path in paths {
            let is_known = |(read, _): &(Nanos, u64)| at.0.saturating_sub(read.0) < KEPT.0;
            if !self.inner.get(path).is_some_and(is_known) {
                let weight = weight_at(root, path, buffer);
                self.inner.insert(path.to_vec(), (at, weight));
            }
        }
        let inner = |path: &[u8]| self.inner.get(path).map_or(USUAL, |(_, weight)| *weight);
        let parts = parts(&leaves, inner);
        self.changes(&parts)
    }

    fn changes(&mut self, parts: &BTreeMap<u64, u64>) -> WeightChanges {
        let mut news = WeightChanges::default();
        let gone: Vec<u64> = self
            .told
            .keys()
            .filter(|i| !parts.contains_key(i))
            .copied()
            .collect();
        for inode in gone {
            if let Some((index, _)) = self.told.remove(&inode) {
                self.slots.give(index);
                news.indices.push((inode, 0));
            }
        }
        for (&inode, &weight) in parts {
            match self.told.get_mut(&inode) {
                Some((_, told)) if *told == weight => {}
                Some((index, told)) => {
                    *told = weight;
                    news.weights.push((*index, weight));
                }
                // There are no more shares: its tasks count each for itself.
                None => {
                    let Some(index) = self.slots.take() else {
                        continue;
                    };
                    self.told.insert(inode, (index, weight));
                    news.weights.push((index, weight));
                    news.indices.push((inode, index));
                }
            }
        }
        news
    }
}

fn leaves(view: &View, plan: &Plan) -> Vec<WeightedLeaf> {
    let idle: BTreeSet<&WorkloadId> = plan
        .workloads
        .iter()
        .filter(|v| v.cpu_cpus.is_some_and(|cpus| cpus.get() <= 0.0))
        .map(|v| &v.id)
        .collect();
    let leaf = |w: &Arc<crate::workloads::discovery::Watched>| match &w.source {
        WorkloadSource::Cgroup(leaf) if !leaf.is_gone() => Some(WeightedLeaf {
            inode: leaf.inode,
            path: leaf.path.clone(),
            weight: whole(w.weight),
            is_active: !idle.contains(&w.id),
        }),
        _ => None,
    };
    view.workloads.iter().filter_map(leaf).collect()
}

fn whole(weight: f64) -> u64 {
    weir_core::enforcement::byte_budget::whole(weight).clamp(1, 10_000)
}

fn weight_at(root: BorrowedFd<'_>, path: &[u8], buffer: &mut Buffer) -> u64 {
    let mut read = || {
        let dir = open_beneath(root, path).ok()?;
        decimal(buffer.read_at(dir, "cpu.weight").ok()?).ok()
    };
    read().map_or(USUAL, |weight| weight.clamp(1, 10_000))
}

/// `/a`, `/a/b`, `/a/b/c` of `/a/b/c`; nothing of the root.
fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = (1..=path.len()).filter(|&i| i == path.len() || path[i] == b'/');
    ends.map(|end| &path[..end]).filter(|p| p.len() > 1)
}

fn parent(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|b| *b == b'/').unwrap_or(0);
    &path[..slash]
}

/// The part of each leaf, by its id. `inner` knows the weights of the cgroups above.
///
/// A cgroup shares its parent's part with those of its siblings that are active, as the kernel's flat
/// hierarchies do (scx_flatcg, blk-iocost). The part of a leaf that is not active is what it would get if it
/// woke now, beside those that are.
fn parts(leaves: &[WeightedLeaf], inner: impl Fn(&[u8]) -> u64) -> BTreeMap<u64, u64> {
    let own: BTreeMap<&[u8], u64> = leaves
        .iter()
        .map(|l| (l.path.as_slice(), l.weight))
        .collect();
    let weight = |path: &[u8]| own.get(path).copied().unwrap_or_else(|| inner(path));
    let active: BTreeSet<&[u8]> = leaves
        .iter()
        .filter(|l| l.is_active)
        .flat_map(|l| ancestors(&l.path))
        .collect();
    let mut sums: BTreeMap<&[u8], u64> = BTreeMap::new();
    for path in &active {
        *sums.entry(parent(path)).or_default() += weight(path);
    }
    let part = |leaf: &WeightedLeaf| {
        let mut part = 0.0;
        for path in ancestors(&leaf.path) {
            let mine = weight(path);
            if parent(path).is_empty() {
                part = mine as f64;
                continue;
            }
            let others = sums.get(parent(path)).copied().unwrap_or(0);
            let all = if active.contains(path) {
                others
            } else {
                others + mine
            };
            part *= mine as f64 / all.max(1) as f64;
        }
        weir_core::enforcement::byte_budget::whole(part).max(1)
    };
    leaves.iter().map(|l| (l.inode, part(l))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(inode: u64, path: &str, weight: u64, is_active: bool) -> WeightedLeaf {
        WeightedLeaf {
            inode,
            path: path.into(),
            weight,
            is_active,
        }
    }

    fn inner(path: &[u8]) -> u64 {
        if path == b"/user.slice" { 200 } else { 100 }
    }

    #[test]
    fn a_tree_is_flattened_as_drawn_above() {
        let leaves = [
            leaf(1, "/system.slice/a.service", 100, true),
            leaf(2, "/system.slice/b.service", 300, true),
            leaf(3, "/system.slice/c.service", 100, false),
            leaf(4, "/user.slice/d.scope", 100, true),
            leaf(5, "/e", 50, true),
        ];
        let parts = parts(&leaves, inner);
        assert_eq!(
            parts.into_values().collect::<Vec<_>>(),
            [25, 75, 20, 200, 50]
        );
    }

    #[test]
    fn nobody_is_worth_nothing_and_a_lone_leaf_has_all_its_parent_has() {
        let deep = leaf(1, "/a/b/c/d", 1, true);
        assert_eq!(parts(std::slice::from_ref(&deep), inner)[&1], 100);
        let many: Vec<WeightedLeaf> = (0..1000)
            .map(|i| leaf(i, &format!("/a/{i}"), 1, true))
            .collect();
        assert!(parts(&many, inner).into_values().all(|p| p == 1));
        assert!(parts(&[], inner).is_empty());
    }

    #[test]
    fn only_changes_are_told_and_an_index_is_used_again() {
        let mut shares = Hweights::new();
        let news = shares.changes(&BTreeMap::from([(7, 100), (8, 50)]));
        assert_eq!(news.weights, [(1, 100), (2, 50)]);
        assert_eq!(news.indices, [(7, 1), (8, 2)]);
        assert_eq!(
            shares.changes(&BTreeMap::from([(7, 100), (8, 60)])),
            WeightChanges {
                weights: vec![(2, 60)],
                indices: vec![]
            }
        );
        let news = shares.changes(&BTreeMap::from([(8, 60), (9, 1)]));
        assert_eq!(news.indices, [(7, 0), (9, 1)]);
    }
}
