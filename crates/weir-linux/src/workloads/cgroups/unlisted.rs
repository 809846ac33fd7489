// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that are in no cgroup of the tree as weir sees it: in a cgroup namespace all but its own, and
//! everywhere those in cgroups outside the bounds of a walk. Where they have memory on a device they are a
//! workload too, `(unlisted)`, which is never limited: a list of users that lacks some gives their bytes to
//! the others.
//!
//! ```text
//! all processes − lists of cgroups ─► /proc/PID/cgroup ─┬─► listed: it is newer than the list
//!                                                       ├─► below a delegated cgroup: it is that one's
//!                                                       ├─► below our root, not seen by the walk: when found twice
//!                                                       └─► outside of our root
//! ```

use super::cgroup_type::domain_of;
use super::tree::CgroupTree;
use crate::kernel::escape::escape;
use crate::kernel::files::{Buffer, for_each_dir, open_beneath};
use crate::kernel::parse::decimal;
use crate::kernel::parse::process::cgroup_path;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::{BTreeMap, BTreeSet};

/// Most entries of `/proc`.
const ENTRIES_MAX: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Unlisted {
    pub(crate) pids: Vec<u32>,
    /// Those in cgroups below delegated ones, by the id of the delegated one.
    pub(crate) delegated: BTreeMap<u64, Vec<u32>>,
    /// Found once below our root.
    suspects: BTreeSet<u32>,
    /// The cgroup of one of them, as `/proc` reports it.
    example: String,
}

enum Place {
    Listed,
    /// In a delegated cgroup, with the id of that.
    Delegated(u64),
    /// It lies below our root, at this path.
    NotWalked(Vec<u8>),
    /// It lies outside, at this path as `/proc` reports it.
    Outside(Vec<u8>),
}

impl Unlisted {
    /// Finds where these are, which no list has.
    pub(crate) fn find(
        &mut self,
        candidates: impl Iterator<Item = u32>,
        tree: &CgroupTree,
        proc: &OwnedFd,
        buffer: &mut Buffer,
    ) {
        self.pids.clear();
        self.delegated.clear();
        let before = std::mem::take(&mut self.suspects);
        for pid in candidates {
            let path = match place(pid, tree, proc, buffer) {
                Place::Listed => None,
                Place::Delegated(id) => {
                    self.delegated.entry(id).or_default().push(pid);
                    None
                }
                Place::Outside(path) => Some(path),
                Place::NotWalked(path) => {
                    self.suspects.insert(pid);
                    before.contains(&pid).then_some(path)
                }
            };
            if let Some(path) = path {
                self.example = escape(&path);
                self.pids.push(pid);
            }
        }
    }

    pub(crate) fn note(&self) -> String {
        let next = if self.example.starts_with("/..") {
            ": weir is in a cgroup namespace; run it in the host's (docker run --cgroupns=host)"
        } else {
            ""
        };
        format!(
            "processes in cgroups that weir does not see, such as {}, use watched memory and cannot be limited{next}",
            self.example
        )
    }
}

/// Where the cgroup of this process is. A process counts as listed if its file cannot be read.
fn place(pid: u32, tree: &CgroupTree, proc: &OwnedFd, buffer: &mut Buffer) -> Place {
    let Ok(text) = buffer.read_once_at(proc, &format!("{pid}/cgroup")) else {
        return Place::Listed;
    };
    // Without such a line it is not known.
    let Ok(path) = cgroup_path(text).map(<[u8]>::to_vec) else {
        return Place::Listed;
    };
    // This includes one that came from below since the list of the delegated cgroup itself was read.
    if let Some(leaf) = tree.delegated_at(&path) {
        return Place::Delegated(leaf.inode);
    }
    if path == b"/" || tree.knows(&path) {
        return Place::Listed;
    }
    let root = tree.root();
    let domain = domain_of(root.as_fd(), &path, buffer);
    if domain == b"/" || tree.knows(domain) {
        return Place::Listed;
    }
    match open_beneath(&root, &path) {
        Ok(_) => Place::NotWalked(path),
        Err(_) => Place::Outside(path),
    }
}

/// Ids in `/proc` that are not among these.
pub(crate) fn beside(proc: &OwnedFd, listed: &BTreeSet<u32>) -> Vec<u32> {
    let mut pids = Vec::new();
    // What cannot be listed now is listed the next time.
    let _ = for_each_dir(proc, ENTRIES_MAX, |name| {
        let number = decimal(name).ok().and_then(|n| u32::try_from(n).ok());
        pids.extend(number.filter(|pid| !listed.contains(pid)));
    });
    pids
}
