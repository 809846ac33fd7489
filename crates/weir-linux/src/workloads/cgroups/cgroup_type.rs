// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cgroup.type` (kernel, cgroup-v2.rst, "Threads"). Threads of one process may be spread over *threaded*
//! cgroups; libvirt has one for each virtual CPU. Above them is the *threaded domain*: its `cgroup.procs`
//! lists all these processes, and their memory is charged to it. Threaded cgroups have no list of processes.
//! The root cgroup may be such a domain too, and has no file that says so.
//!
//! The workload is the smallest cgroup that holds whole processes and can have a limit. Of a virtual machine
//! that is the domain. Docker without systemd makes one domain of all containers: there each container is a
//! threaded cgroup with all threads of its processes, and `cpu` is a threaded controller ([`Domain`]).

use crate::kernel::files::{
    Buffer, for_each_dir, inode, open_beneath, open_dir, open_path_dir, read_long,
};
use crate::kernel::parse::cgroup::pids;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};

const FILE: &str = "cgroup.type";
/// Longest list of threads that is read.
const LIST_MAX: usize = 4 << 20;
/// Most cgroups of one threaded domain: 4096 virtual CPUs, and as many other threads.
const BELOW_MAX: usize = 8192;
const THREADS_MAX: usize = 100_000;

/// Whether the cgroups below `dir` are threaded, so that all their threads count for `dir`.
pub(crate) fn is_threaded_domain(dir: impl AsFd, buffer: &mut Buffer) -> bool {
    is(dir, b"domain threaded", buffer)
}

/// Whether threads in `dir` count for a cgroup above.
pub(crate) fn is_threaded(dir: impl AsFd, buffer: &mut Buffer) -> bool {
    is(dir, b"threaded", buffer)
}

fn is(dir: impl AsFd, wanted: &[u8], buffer: &mut Buffer) -> bool {
    let text = buffer.read_once_at(dir, FILE);
    text.is_ok_and(|text| text.trim_ascii() == wanted)
}

/// The cgroup that lists a process with a thread in `path`: itself, or the first above that is not threaded.
pub(crate) fn domain_of<'a>(
    root: BorrowedFd<'_>,
    mut path: &'a [u8],
    buffer: &mut Buffer,
) -> &'a [u8] {
    while path.len() > 1 && open_beneath(root, path).is_ok_and(|dir| is_threaded(dir, buffer)) {
        let end = path.iter().rposition(|b| *b == b'/').unwrap_or(0);
        path = path.get(..end.max(1)).unwrap_or(b"/");
    }
    path
}

/// What the cgroups right below a threaded domain hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// Each process of the domain is whole in one of them, and they can have a limit: they are the workloads.
    OfContainers,
    /// Only the domain can be limited. Some process is whole in a cgroup below, and others are not in it: a
    /// limit would hold both back.
    Shared,
    /// Only the domain can be limited, and it is one workload.
    Single,
}

impl Domain {
    /// Reads the domain `dir`, which has cgroups of these names right below it. What cannot be read is not
    /// known to be whole.
    pub(crate) fn of(
        dir: &OwnedFd,
        names: &[Vec<u8>],
        proc: &OwnedFd,
        buffer: &mut Buffer,
    ) -> Domain {
        Domain::read(dir, names, proc, buffer).unwrap_or(Domain::Single)
    }

    fn read(
        dir: &OwnedFd,
        names: &[Vec<u8>],
        proc: &OwnedFd,
        buffer: &mut Buffer,
    ) -> Result<Domain, Errno> {
        let own = list(dir.as_fd())?;
        let mut below_of: BTreeMap<u32, usize> = BTreeMap::new();
        let mut can_limit = true;
        for (place, name) in names.iter().enumerate() {
            let child = open_dir(dir, name)?;
            can_limit &= buffer.read_once_at(&child, "cpu.max").is_ok();
            below_of.extend(threads(&child, buffer)?.into_iter().map(|tid| (tid, place)));
        }
        let text = buffer.read_list_at(dir, "cgroup.procs")?;
        let processes = pids(text).map_err(|_| Errno::INVAL)?;
        let mut whole = 0;
        for pid in &processes {
            let home = below_of.get(pid);
            let is_home = |tid: u32| below_of.get(&tid).is_none_or(|place| Some(place) == home);
            let is_whole = home.is_some()
                && !own.contains(pid)
                && threads_of(proc, *pid)?
                    .into_iter()
                    .all(|tid| is_home(tid) && !own.contains(&tid));
            whole += usize::from(is_whole);
        }
        Ok(match whole {
            0 => Domain::Single,
            all if all == processes.len() && can_limit && own.is_empty() => Domain::OfContainers,
            _ if processes.len() == 1 => Domain::Single,
            _ => Domain::Shared,
        })
    }
}

/// Threads of a process; itself alone where the list of them is not there.
fn threads_of(proc: &OwnedFd, pid: u32) -> Result<Vec<u32>, Errno> {
    let mut found = Vec::new();
    let tasks = match open_path_dir(proc, &format!("{pid}/task")) {
        Ok(tasks) => tasks,
        Err(Errno::NOENT) => return Ok(vec![pid]),
        Err(e) => return Err(e),
    };
    for_each_dir(&tasks, THREADS_MAX, |name| {
        found.extend(pids(name).unwrap_or_default());
    })?;
    Ok(found)
}

/// Processes with their first thread in the threaded cgroup `dir` or below it, of those that the domain above
/// lists.
///
/// # Errors
/// As [`threads`], and a list of the domain that cannot be read.
pub(crate) fn processes(
    dir: impl AsFd,
    domain: impl AsFd,
    buffer: &mut Buffer,
) -> Result<Vec<u32>, Errno> {
    let threads: BTreeSet<u32> = threads(dir, buffer)?.into_iter().collect();
    let text = buffer.read_list_at(domain, "cgroup.procs")?;
    let mut all = pids(text).map_err(|_| Errno::INVAL)?;
    all.retain(|pid| threads.contains(pid));
    Ok(all)
}

/// Ids of all threads of a cgroup; of a threaded domain or cgroup those below it too. 0 is one of another PID
/// namespace.
///
/// # Errors
/// A list that cannot be read or is none, or [`Errno::TOOBIG`] for more cgroups than a domain may have.
pub(crate) fn threads(dir: impl AsFd, buffer: &mut Buffer) -> Result<Vec<u32>, Errno> {
    let dir = dir.as_fd();
    if is_threaded_domain(dir, buffer) || is_threaded(dir, buffer) {
        threads_within(dir)
    } else {
        list(dir)
    }
}

/// Ids of all threads of a cgroup and of all cgroups below it: of a workload that counts with these.
///
/// # Errors
/// As [`threads`].
pub(crate) fn threads_within(dir: impl AsFd) -> Result<Vec<u32>, Errno> {
    let dir = dir.as_fd();
    let mut found = list(dir)?;
    let mut waiting: Vec<OwnedFd> = below(dir)?;
    let mut count = 0;
    while let Some(dir) = waiting.pop() {
        count += 1;
        if count > BELOW_MAX {
            return Err(Errno::TOOBIG);
        }
        match list(dir.as_fd()) {
            Ok(more) => found.extend(more),
            // Removed meanwhile, or a cgroup that is no valid part of the domain and so has no threads.
            Err(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP) => continue,
            Err(e) => return Err(e),
        }
        waiting.extend(below(dir.as_fd())?);
    }
    Ok(found)
}

fn list(dir: BorrowedFd<'_>) -> Result<Vec<u32>, Errno> {
    let text = read_long(dir, "cgroup.threads", LIST_MAX)?;
    pids(&text).map_err(|_| Errno::INVAL)
}

fn below(dir: BorrowedFd<'_>) -> Result<Vec<OwnedFd>, Errno> {
    let mut names = Vec::new();
    // Its own `.` and the entry in its parent: there are none.
    if inode(dir)?.st_nlink == 2 {
        return Ok(Vec::new());
    }
    for_each_dir(dir, BELOW_MAX, |name| names.push(name.to_vec()))?;
    // One that cannot be opened was removed meanwhile.
    Ok(names
        .iter()
        .filter_map(|name| open_dir(dir, name).ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::kernel::files::open_root;

    #[test]
    fn threads_of_a_domain_are_those_below_it_too() {
        let fake = Fake::new();
        let lists = [
            ("vm", "domain threaded", "10\n"),
            ("vm/vcpu0", "threaded", "11\n12\n"),
            ("vm/emulator", "threaded", ""),
            ("vm/emulator/deep", "threaded", "13\n"),
            ("plain", "domain", "20\n"),
            ("plain/below", "domain", "21\n"),
        ];
        for (path, kind, threads) in lists {
            fake.cgroup(path, &[]);
            let file = |name| format!("sys/fs/cgroup/{path}/{name}");
            fake.write(file("cgroup.type"), format!("{kind}\n"));
            fake.write(file("cgroup.threads"), threads);
        }
        let root = open_root(&fake.roots().cgroup).unwrap();
        let of = |path: &str| {
            let dir = open_beneath(&root, path.as_bytes()).unwrap();
            let mut found = threads(&dir, &mut Buffer::new()).unwrap();
            found.sort_unstable();
            found
        };
        assert_eq!(of("/vm"), [10, 11, 12, 13]);
        assert_eq!(of("/plain"), [20]);
        let plain = open_beneath(&root, b"/plain").unwrap();
        assert_eq!(threads_within(&plain).unwrap(), [20, 21]);
    }

    #[test]
    fn a_thread_counts_for_the_first_cgroup_above_that_is_not_threaded() {
        let fake = Fake::new();
        for (path, kind) in [
            ("vm.scope", "domain"),
            ("vm.scope/libvirt", "domain threaded"),
            ("vm.scope/libvirt/emulator", "threaded"),
            ("vm.scope/libvirt/emulator/deep", "threaded"),
            ("loose", "threaded"),
        ] {
            fake.cgroup(path, &[]);
            fake.write(
                format!("sys/fs/cgroup/{path}/cgroup.type"),
                format!("{kind}\n"),
            );
        }
        let root = open_root(&fake.roots().cgroup).unwrap();
        let mut buffer = Buffer::new();
        for (path, domain) in [
            ("/vm.scope/libvirt/emulator/deep", "/vm.scope/libvirt"),
            ("/vm.scope/libvirt/emulator", "/vm.scope/libvirt"),
            ("/vm.scope/libvirt", "/vm.scope/libvirt"),
            ("/vm.scope", "/vm.scope"),
            ("/loose", "/"),
            ("/", "/"),
            ("/init.scope", "/init.scope"),
            ("/../outside", "/../outside"),
        ] {
            let found = domain_of(root.as_fd(), path.as_bytes(), &mut buffer);
            assert_eq!(found, domain.as_bytes(), "{path}");
        }
    }
}
