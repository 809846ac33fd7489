// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every cgroup of a tree once; of a threaded domain ([`crate::workloads::cgroups::cgroup_type`]) itself and
//! none below, or those right below it where these are the workloads; of a delegated cgroup ([`delegation`])
//! itself and none below. The tree may be hostile: how deep, how long and how many is bounded. What a user
//! makes in a delegated cgroup is not walked, and costs nothing.

mod delegation;

pub(crate) use delegation::{Delegated, Delegation, delegated_at, is_at_or_below};

use super::cgroup_type::{Domain, is_threaded, is_threaded_domain};
use crate::kernel::escape::escape;
use crate::kernel::fd_budget::is_want;
use crate::kernel::files::{Buffer, for_each_dir, inode, open_dir};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::rc::Rc;
use weir_core::Missing;
use weir_core::seam::observation::Skipped;

/// Deeper cgroups are not read. systemd and Kubernetes stay below ten.
pub(crate) const DEPTH_MAX: usize = 64;
/// Longer paths are not read.
const PATH_MAX: usize = 4096;
/// More directories are not read: a user may make cgroups in a delegated subtree.
const DIRS_MAX: usize = 200_000;
/// Most entries of one directory.
const ENTRIES_MAX: usize = 100_000;

/// A directory that waits to be walked: as its parent and its name, not as a descriptor of its own,
/// since one level may have thousands.
struct Waiting {
    parent: Option<Rc<OwnedFd>>,
    path: Vec<u8>,
    depth: usize,
}

enum Below {
    /// It counts with all below it, so that this does not matter.
    IsDelegated,
    Names(Vec<Vec<u8>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafKind {
    /// It has no others below it, or is a threaded domain with all that is below it: it lists its processes,
    /// and may be limited.
    Whole,
    /// One that is delegated, with all that is below it.
    Delegated,
    /// A threaded domain in which a limit would hold back containers of others
    /// ([`super::shared_domain`]).
    SharedDomain,
    /// A threaded cgroup that holds whole processes, right below their domain, which lists them.
    Container,
}

pub(crate) enum Visited {
    Leaf(OwnedFd, LeafKind),
    /// A threaded domain that is no workload: each cgroup right below it is one.
    DomainOfContainers {
        inode: u64,
    },
    /// An inner cgroup, with the names of those right below it.
    Inner {
        inode: u64,
        below: Vec<Vec<u8>>,
    },
}

/// Calls `each` with the path of every cgroup but the root, and with that of every directory that could not
/// be opened or listed for want of something of ours ([`is_want`]); returns what else could not be read.
pub(crate) fn for_each_cgroup(
    root: &OwnedFd,
    proc: &OwnedFd,
    delegation: &Delegation,
    buffer: &mut Buffer,
    mut each: impl FnMut(&[u8], Result<Visited, Errno>),
) -> Vec<Skipped> {
    let mut skipped = Vec::new();
    let mut skip = |path: &[u8], why: String| skipped.push(lost(path, why));
    let names = children(root).unwrap_or_else(|e| {
        if is_want(e) {
            each(b"", Err(e))
        } else {
            skip(b"", e.to_string())
        }
        Vec::new()
    });
    let first = names.iter().map(|name| waiting_in(None, b"", name, 0));
    let mut waiting: Vec<Waiting> = first.collect();
    let mut dirs = 0;
    while let Some(next) = waiting.pop() {
        let (parent, path, depth) = (next.parent, next.path, next.depth);
        dirs += 1;
        if dirs > DIRS_MAX {
            skip(&path, too_many());
            break;
        }
        if depth > DEPTH_MAX || path.len() > PATH_MAX {
            skip(&path, too_deep());
            continue;
        }
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
        let opened = open_dir(parent.as_deref().unwrap_or(root), name);
        match opened.and_then(|dir| Ok((below(&dir, &path, depth, delegation)?, dir))) {
            // Its threads' processes are those of the root cgroup. Deeper ones are below a domain.
            Ok((_, dir)) if depth == 1 && is_threaded(&dir, buffer) => {}
            Ok((Below::IsDelegated, dir)) => {
                each(&path, Ok(Visited::Leaf(dir, LeafKind::Delegated)));
            }
            Ok((Below::Names(names), dir)) if names.is_empty() => {
                each(&path, Ok(Visited::Leaf(dir, LeafKind::Whole)));
            }
            Ok((Below::Names(names), dir)) if is_threaded_domain(&dir, buffer) => {
                match Domain::of(&dir, &names, proc, buffer) {
                    Domain::Single => each(&path, Ok(Visited::Leaf(dir, LeafKind::Whole))),
                    Domain::Shared => each(&path, Ok(Visited::Leaf(dir, LeafKind::SharedDomain))),
                    Domain::OfContainers => containers(&dir, &path, &names, &mut each),
                }
            }
            Ok((Below::Names(names), dir)) => {
                let dir = Rc::new(dir);
                let next = |name: &Vec<u8>| waiting_in(Some(&dir), &path, name, depth);
                waiting.extend(names.iter().map(next));
                if let Ok(inode) = inode(&dir).map(|stat| stat.st_ino) {
                    let below = names;
                    each(&path, Ok(Visited::Inner { inode, below }));
                }
            }
            // Removed while we walked: as if it had never been there.
            Err(Errno::NOENT | Errno::NODEV) => {}
            Err(e) if is_want(e) => each(&path, Err(e)),
            Err(e) => skip(&path, e.to_string()),
        }
    }
    skipped
}

/// What is right below a cgroup, so many levels below the root.
fn below(
    dir: &OwnedFd,
    path: &[u8],
    level: usize,
    delegation: &Delegation,
) -> Result<Below, Errno> {
    if delegation.counts_whole(dir, path, level) {
        return Ok(Below::IsDelegated);
    }
    let names = children(dir)?;
    Ok(if delegation.holds_one(dir, path, &names, level) {
        Below::IsDelegated
    } else {
        Below::Names(names)
    })
}

/// The cgroups right below a threaded domain.
fn containers(
    dir: &OwnedFd,
    path: &[u8],
    names: &[Vec<u8>],
    each: &mut impl FnMut(&[u8], Result<Visited, Errno>),
) {
    if let Ok(stat) = inode(dir) {
        let inode = stat.st_ino;
        each(path, Ok(Visited::DomainOfContainers { inode }));
    }
    for name in names {
        // One that cannot be opened was removed meanwhile.
        if let Ok(child) = open_dir(dir, name) {
            let path = [path, name.as_slice()].join(&b'/');
            each(&path, Ok(Visited::Leaf(child, LeafKind::Container)));
        }
    }
}

fn lost(path: &[u8], why: String) -> Skipped {
    let what = match path {
        b"" => "/".into(),
        path => escape(path),
    };
    let why = Missing::Lost(why);
    Skipped { what, why }
}

fn too_many() -> String {
    format!("more than {DIRS_MAX} cgroups: the rest is not read")
}

fn too_deep() -> String {
    format!("below {DEPTH_MAX} levels or {PATH_MAX} bytes: not read")
}

fn waiting_in(parent: Option<&Rc<OwnedFd>>, path: &[u8], name: &[u8], depth: usize) -> Waiting {
    Waiting {
        parent: parent.cloned(),
        path: [path, b"/", name].concat(),
        depth: depth + 1,
    }
}

/// Names of the directories in `dir`. A directory with two links has none (its own `.` and the entry
/// in its parent), which saves listing the forty files of a leaf; file systems that do not count
/// links this way show one link.
fn children(dir: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    if inode(dir)?.st_nlink != 2 {
        for_each_dir(dir, ENTRIES_MAX, |name| names.push(name.to_vec()))?;
    }
    Ok(names)
}
