// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which cgroups are delegated (cgroup-v2.rst, "Delegation"): their directory belongs to a user, and this
//! user makes cgroups in it, moves processes between them and sets their limits at will. Only the settings of
//! the delegated cgroup itself stay with root. So this one is the workload that weir limits, with all that is
//! below it: else one `mkdir` would end a limit, and what runs in a cgroup that is too deep, too new or one
//! of too many would be charged to others.
//!
//! ```text
//! user.slice                    root
//! └─ user-1000.slice            root
//!    └─ user@1000.service       user 1000; its cpu.max is root's    ◄─ one workload
//!       └─ app.slice/…          user 1000, cpu.max too
//! ```
//!
//! Where the user may set `cpu.max` of the delegated cgroup too, or it has none, the workload is the cgroup
//! above it, if all that is in there is the same user's.

use super::LeafKind;
use crate::kernel::escape::{escape, glob_matches};
use crate::kernel::files::{inode, stat_at};
use crate::workloads::cgroups::tree::Leaf;
use rustix::fd::OwnedFd;
use rustix::process::geteuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Levels below which a delegated cgroup is no workload of its own: programs in the kernel look no deeper
/// (`bpf/include/ancestors.bpf.h`).
const LEVEL_MAX: usize = 16;

/// The users whose cgroups are not delegated, and which delegated ones are split all the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delegation {
    trusted: Vec<u32>,
    own_cgroup: Option<Vec<u8>>,
    split: Vec<String>,
}

impl Delegation {
    /// In the tree with this root: what belongs to the root's owner, or to the user that weir runs as, is not
    /// delegated.
    pub(crate) fn below(root: &OwnedFd) -> Delegation {
        let owner = inode(root).map_or(0, |stat| stat.st_uid);
        Delegation {
            trusted: vec![owner, geteuid().as_raw()],
            ..Delegation::default()
        }
    }

    /// What belongs to the operator is split into leaves: the delegated cgroup that weir itself runs in (its
    /// owner could stop weir too), and those with ids that match one of these patterns.
    pub(crate) fn splitting(self, own_cgroup: Option<Vec<u8>>, patterns: &[String]) -> Delegation {
        Delegation {
            own_cgroup,
            split: patterns.to_vec(),
            ..self
        }
    }

    /// The user that the cgroup at `path` is delegated to, whose directory belongs to `owner`.
    fn tenant(&self, path: &[u8], owner: u32) -> Option<u32> {
        let is_own = |own: &Vec<u8>| is_at_or_below(own, path);
        let is_split = |glob: &String| glob_matches(glob, &escape(path));
        let is_operators = self.trusted.contains(&owner)
            || self.own_cgroup.as_ref().is_some_and(is_own)
            || self.split.iter().any(is_split);
        (!is_operators).then_some(owner)
    }

    /// Whether the cgroup `dir`, so many levels below the root, is delegated: then it counts with all below.
    pub(super) fn counts_whole(&self, dir: &OwnedFd, path: &[u8], level: usize) -> bool {
        let tenant = inode(dir)
            .ok()
            .and_then(|stat| self.tenant(path, stat.st_uid));
        level <= LEVEL_MAX && tenant.is_some()
    }

    /// Whether all cgroups right below belong to one user, and a limit of one of them would not bind. Then it
    /// counts with them.
    pub(super) fn holds_one(
        &self,
        dir: &OwnedFd,
        path: &[u8],
        names: &[Vec<u8>],
        level: usize,
    ) -> bool {
        let of = |name: &[u8], file: &str| {
            let name = [name, file.as_bytes()].concat();
            stat_at(dir, &name).ok().map(|stat| stat.st_uid)
        };
        let tenant = |name: &Vec<u8>| {
            let path = [path, b"/", name.as_slice()].concat();
            of(name, "").and_then(|owner| self.tenant(&path, owner))
        };
        let tenants: Vec<Option<u32>> = names.iter().map(tenant).collect();
        let Some(user) = tenants.iter().flatten().next().copied() else {
            return false;
        };
        // systemd keeps the sessions of a user beside what is delegated to him.
        let slice = format!("/user-{user}.slice");
        let is_his = path.ends_with(slice.as_bytes()) || tenants.iter().all(|t| *t == Some(user));
        let binds =
            |name: &Vec<u8>| of(name, "/cpu.max").is_some_and(|o| self.trusted.contains(&o));
        let mut delegated = names.iter().zip(&tenants).filter(|(_, t)| t.is_some());
        level <= LEVEL_MAX
            && is_his
            && of(b"cpu.max", "").is_some()
            && delegated.any(|(name, _)| !binds(name))
    }
}

/// The delegated cgroup that the cgroup with this path lies in, or is.
pub(crate) fn delegated_at<'a>(
    leaves: &'a BTreeMap<Vec<u8>, Arc<Leaf>>,
    path: &[u8],
) -> Option<&'a Arc<Leaf>> {
    let ends = path.iter().enumerate().skip(1);
    let ends = ends.filter(|(_, b)| **b == b'/').map(|(end, _)| end);
    let above = ends.chain([path.len()]).filter_map(|end| path.get(..end));
    let mut found = above.filter_map(|above| leaves.get(above));
    found.find(|leaf| leaf.kind == LeafKind::Delegated)
}

/// Delegated cgroups that are workloads: what runs below them counts for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delegated {
    pub(crate) ids: BTreeSet<u64>,
    /// How many levels below the root the deepest of them lies; 0 where there are none.
    pub(crate) level: u64,
}

impl Delegated {
    pub(crate) fn among<'a>(leaves: impl Iterator<Item = &'a Arc<Leaf>> + Clone) -> Delegated {
        let all = leaves.filter(|leaf| leaf.kind == LeafKind::Delegated);
        let level = |leaf: &Arc<Leaf>| leaf.path.iter().filter(|b| **b == b'/').count();
        Delegated {
            level: all.clone().map(level).max().unwrap_or(0) as u64,
            ids: all.map(|leaf| leaf.inode).collect(),
        }
    }
}

/// Whether the cgroup at `path` is that at `above` or below it. A workload that is no cgroup has no path.
pub(crate) fn is_at_or_below(path: &[u8], above: &[u8]) -> bool {
    let rest = path.strip_prefix(above).filter(|_| !above.is_empty());
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}

#[cfg(test)]
#[path = "delegation_tests.rs"]
mod tests;
