// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of a workload on one node.
//!
//! A command that weir starts inherits a memory policy from weir. The policy of a running process cannot be
//! set from outside (`migrate_pages` moves what is there and binds nothing). So the `cpuset.mems` of its leaf
//! cgroup is written: the kernel moves the pages and keeps later ones there (kernel,
//! `Documentation/admin-guide/cgroup-v2.rst`, Cpuset).

use super::handed_down::{Controller, without};
use crate::error::LinuxError;
use crate::kernel::escape::escape;
use crate::kernel::files::{Buffer, open_beneath, open_root, write_at};
use crate::kernel::parse::cgroup::{lists, pids};
use crate::kernel::parse::process::cgroup_path;
use crate::options::Roots;
use rustix::fd::AsFd;
use std::io;

const WORD_BITS: usize = 64;
/// Above every `CONFIG_NODES_SHIFT` in use.
const NODE_MAX: usize = 1024;

/// Binds all memory that this process, and what it starts from now on, will allocate.
///
/// # Errors
/// The kernel's: the node has no memory, or is outside the cgroup's `cpuset.mems`.
pub fn bind_self(node: u32) -> Result<(), LinuxError> {
    let place = usize::try_from(node).ok().filter(|n| *n < NODE_MAX);
    let place =
        place.ok_or_else(|| LinuxError::NotBound(format!("node {node} is above all nodes")))?;
    let mut mask = [0_u64; NODE_MAX / WORD_BITS];
    mask[place / WORD_BITS] = 1 << (place % WORD_BITS);
    // The kernel reads one bit less than this number.
    let bits = NODE_MAX + 1;
    // SAFETY: the mask outlives the call, and holds the bits that are read of it.
    let done = unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            libc::MPOL_BIND,
            mask.as_ptr(),
            bits,
        )
    };
    if done == 0 {
        return Ok(());
    }
    Err(LinuxError::NotBound(format!(
        "memory cannot be bound to node {node}: {}; is it in cpuset.mems.effective of this cgroup?",
        io::Error::last_os_error()
    )))
}

/// What was bound, and what was there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub cgroup: String,
    pub processes: usize,
    /// What `cpuset.mems` was; empty is "whatever is above".
    pub before: String,
}

/// Binds the leaf cgroup of a process to a node, and moves what memory it has.
///
/// # Errors
/// The process is gone, its cgroup is the root, is shared (unless `whole`), or has no cpuset.
pub fn bind_cgroup_of(
    roots: &Roots,
    pid: u32,
    node: u32,
    whole: bool,
) -> Result<Bound, LinuxError> {
    let refused = |why: String| LinuxError::NotBound(why);
    let mut buffer = Buffer::new();
    let proc = open_root(&roots.proc).map_err(|e| LinuxError::io("open", &roots.proc, e))?;
    let text = buffer.read_at(&proc, &format!("{pid}/cgroup"));
    let text = text.map_err(|e| refused(format!("process {pid}: {e}")))?;
    let path = cgroup_path(text)
        .map_err(|e| refused(format!("process {pid} is in no cgroup v2: {e}")))?
        .to_vec();
    let name = escape(&path);
    if path == b"/" {
        return Err(refused(format!(
            "process {pid} is in the root cgroup, which has no limits; start it with \
             `weir groups bind {node} -- COMMAND`"
        )));
    }
    let root = open_root(&roots.cgroup).map_err(|e| LinuxError::io("open", &roots.cgroup, e))?;
    let dir = open_beneath(&root, &path).map_err(|e| refused(format!("cgroup {name}: {e}")))?;
    let inside = buffer
        .read_at(&dir, "cgroup.procs")
        .ok()
        .and_then(|t| pids(t).ok());
    let inside =
        inside.ok_or_else(|| refused(format!("the processes of {name} cannot be listed")))?;
    if !inside.contains(&pid) {
        return Err(refused(format!(
            "process {pid} has just left {name}; try again"
        )));
    }
    if inside.len() > 1 && !whole {
        return Err(refused(format!(
            "{} processes are in {name}, and cpuset.mems is for all of them; --whole-cgroup if that is \
             meant",
            inside.len()
        )));
    }
    let controllers = buffer
        .read_at(&dir, "cgroup.controllers")
        .map(|t| lists(t, b"cpuset"));
    if controllers != Ok(true) {
        let setting = format!("AllowedMemoryNodes={node}");
        let cpuset = Controller {
            name: "cpuset",
            setting: &setting,
        };
        let handed_down = || "although it is handed down to it";
        let why = without(root.as_fd(), &path, cpuset, handed_down, &mut buffer);
        return Err(refused(format!("{name} has no cpuset controller: {why}")));
    }
    let before = buffer
        .read_at(&dir, "cpuset.mems")
        .map(|t| t.trim_ascii().to_vec());
    let before = before.map_err(|e| refused(format!("cpuset.mems of {name}: {e}")))?;
    write_at(&dir, "cpuset.mems", &node.to_string()).map_err(|e| {
        refused(format!(
            "cpuset.mems of {name} does not take node {node}: {e}"
        ))
    })?;
    Ok(Bound {
        cgroup: name,
        processes: inside.len(),
        before: escape(&before),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const MEMS: &str = "sys/fs/cgroup/system.slice/fio.service/cpuset.mems";

    fn machine() -> Fake {
        let fake = Fake::new();
        fake.write(MEMS, "0\n");
        let dir = "sys/fs/cgroup/system.slice/fio.service";
        fake.write(format!("{dir}/cgroup.controllers"), "cpuset cpu\n");
        fake
    }

    #[test]
    fn a_cgroup_is_bound_and_its_earlier_value_is_reported() {
        let fake = machine();
        let bound = bind_cgroup_of(&fake.roots(), 100, 1, false).unwrap();
        let wanted = ("/system.slice/fio.service", 1, "0");
        assert_eq!(
            (&bound.cgroup[..], bound.processes, &bound.before[..]),
            wanted
        );
        assert_eq!(std::fs::read_to_string(fake.path(MEMS)).unwrap(), "1");
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let fake = machine();
        let dir = "sys/fs/cgroup/system.slice/fio.service";
        let said = |pid, part: &str| {
            let error = bind_cgroup_of(&fake.roots(), pid, 1, false)
                .unwrap_err()
                .to_string();
            assert!(error.contains(part), "{error}");
            assert_eq!(std::fs::read_to_string(fake.path(MEMS)).unwrap(), "0\n");
        };
        said(2, "root cgroup");
        said(4242, "process 4242");
        fake.write(format!("{dir}/cgroup.procs"), "100\n101\n");
        said(100, "--whole-cgroup");
        fake.write(format!("{dir}/cgroup.procs"), "101\n");
        said(100, "has just left");
        fake.write(format!("{dir}/cgroup.procs"), "100\n");
        fake.write(format!("{dir}/cgroup.controllers"), "cpu\n");
        let handed_down = |levels: [&str; 2]| {
            for (dir, controllers) in ["", "/system.slice"].into_iter().zip(levels) {
                let file = format!("sys/fs/cgroup{dir}/cgroup.subtree_control");
                fake.write(file, controllers);
            }
        };
        handed_down(["cpuset cpu\n", "cpu\n"]);
        said(100, "the cpuset controller ends at /system.slice, ");
        said(
            100,
            "systemctl set-property fio.service AllowedMemoryNodes=1",
        );
        handed_down(["cpuset cpu\n", "cpuset cpu\n"]);
        said(100, "no cpuset controller: although");
    }

    #[test]
    fn a_node_that_cannot_be_is_refused() {
        assert!(bind_self(1 << 20).is_err());
    }
}
