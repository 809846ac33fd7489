// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup with processes of its own and cgroups below it, as a workload. The kernel allows it where no
//! controllers are handed down (cgroup-v2.rst, "No Internal Process Constraint"): a container that runs
//! containers. It is never limited: a limit would throttle the cgroups below it too. It is a workload all the
//! same, or the bytes that its processes moved would be charged to other users of the device.
//!
//! Its `cpu.stat` is that of all below it too. So its own CPU time is what that grew by, without what the
//! cgroups right below grew by:
//!
//! ```text
//! own = Σ (Δ usage − Σ Δ usage of each below)
//! ```

use super::tree::Trouble;
use crate::kernel::files::{self, Buffer, open_same};
use crate::kernel::parse::cgroup::{cpu_stat, pids};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_core::{Nanos, WorkloadId};

/// Such a cgroup, whether or not it has processes now.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) id: WorkloadId,
    path: Vec<u8>,
    /// The directory's inode number: the cgroup's id.
    pub(crate) inode: u64,
    /// Names of the cgroups right below.
    below: Vec<Vec<u8>>,
    clocks: Mutex<CgroupClocks>,
}

#[derive(Clone, Debug, Default)]
struct CgroupClocks {
    /// When it was last read: of it with all below, and of each below.
    all_usec: Option<u64>,
    below_usec: BTreeMap<Vec<u8>, u64>,
    own_usec: u64,
}

impl Inner {
    pub(crate) fn new(id: WorkloadId, path: &[u8], inode: u64, below: Vec<Vec<u8>>) -> Self {
        Inner {
            id,
            path: path.to_vec(),
            inode,
            below,
            clocks: Mutex::default(),
        }
    }

    /// Where it is one that was known: its clocks go on.
    pub(crate) fn following(self, old: &Inner) -> Self {
        if self.inode != old.inode {
            return self;
        }
        Inner {
            clocks: Mutex::new(old.lock().clone()),
            ..self
        }
    }

    pub(crate) fn is_like(&self, other: &Inner) -> bool {
        (self.inode, &self.path, &self.below) == (other.inode, &other.path, &other.below)
    }

    /// Its own processes, by its list.
    pub(crate) fn pids(&self, root: BorrowedFd<'_>, buffer: &mut Buffer) -> Vec<u32> {
        let Ok(dir) = self.dir(root) else {
            return Vec::new();
        };
        let list = buffer.read_list_at(&dir, "cgroup.procs").ok();
        list.and_then(|list| pids(list).ok()).unwrap_or_default()
    }

    /// Its directory.
    ///
    /// # Errors
    /// [`Errno::NODEV`] if another cgroup has that path by now.
    pub(crate) fn dir(&self, root: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        if self.path == b"/" {
            return files::open_path_dir(root, ".");
        }
        open_same(root, &self.path, self.inode)
    }

    /// Its `cpu.stat`, for people.
    pub(crate) fn file(&self) -> String {
        format!("{}/cpu.stat", self.id.as_str().trim_end_matches('/'))
    }

    /// What its own processes have used since it was first read.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub(crate) fn cpu(&self, root: BorrowedFd<'_>, buffer: &mut Buffer) -> Result<Nanos, Trouble> {
        let file = || self.file();
        let dir = self
            .dir(root)
            .map_err(|e| Trouble::from_errno(e, &file()))?;
        let all_usec = usage_usec(&dir, &file(), buffer)?;
        let mut below_usec = BTreeMap::new();
        for name in &self.below {
            let read = files::open_dir(&dir, name).ok();
            let read = read.and_then(|dir| usage_usec(&dir, "cpu.stat", buffer).ok());
            // One that cannot be read now is read again: it has used no less.
            let usec = read.or_else(|| self.lock().below_usec.get(name).copied());
            below_usec.extend(usec.map(|usec| (name.clone(), usec)));
        }
        let mut clocks = self.lock();
        if let Some(before) = clocks.all_usec {
            let grown = |(name, now): (&Vec<u8>, &u64)| {
                now.saturating_sub(clocks.below_usec.get(name).copied().unwrap_or(0))
            };
            let below: u64 = below_usec.iter().map(grown).fold(0, u64::saturating_add);
            let own = all_usec.saturating_sub(before).saturating_sub(below);
            clocks.own_usec = clocks.own_usec.saturating_add(own);
        }
        clocks.all_usec = Some(all_usec);
        clocks.below_usec = below_usec;
        Ok(Nanos(clocks.own_usec.saturating_mul(1000)))
    }

    fn lock(&self) -> MutexGuard<'_, CgroupClocks> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn usage_usec(dir: &OwnedFd, what: &str, buffer: &mut Buffer) -> Result<u64, Trouble> {
    let text = buffer.read_once_at(dir, "cpu.stat");
    let text = text.map_err(|e| Trouble::from_errno(e, what))?;
    let stat = cpu_stat(text).map_err(|e| Trouble::malformed(e, what))?;
    Ok(stat.usage_usec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::kernel::files::{inode, open_beneath, open_root};
    use rustix::fd::AsFd;

    const POD: &str = "/system.slice/pod.scope";

    fn use_cpu(fake: &Fake, path: &str, ms: u64) {
        let usec = ms * 1000;
        fake.write(
            format!("sys/fs/cgroup{path}/cpu.stat"),
            format!("usage_usec {usec}\nuser_usec {usec}\nsystem_usec 0\n"),
        );
    }

    fn pod(fake: &Fake, root: &OwnedFd, below: &[&str]) -> Inner {
        let below: Vec<Vec<u8>> = below.iter().map(|name| name.as_bytes().to_vec()).collect();
        for name in &below {
            let name = String::from_utf8_lossy(name);
            fake.cgroup(&format!("{}/{name}", &POD[1..]), &[]);
        }
        let dir = open_beneath(root, POD.as_bytes()).unwrap();
        let number = inode(&dir).unwrap().st_ino;
        Inner::new(WorkloadId::new(POD), POD.as_bytes(), number, below)
    }

    #[test]
    fn its_own_cpu_time_is_without_that_below() {
        let fake = Fake::new();
        fake.cgroup(&POD[1..], &[70, 71]);
        let root = open_root(&fake.roots().cgroup).unwrap();
        let mut buffer = Buffer::new();
        let one = pod(&fake, &root, &["nested"]);
        let nested = format!("{POD}/nested");
        let mut read = |inner: &Inner, all: u64, below: u64| {
            use_cpu(&fake, POD, all);
            use_cpu(&fake, &nested, below);
            inner.cpu(root.as_fd(), &mut buffer).unwrap()
        };
        assert_eq!(read(&one, 1000, 300), Nanos(0), "what it had used before");
        assert_eq!(read(&one, 1500, 400), Nanos::from_millis(400));
        // Another one below, which began since.
        let two = pod(&fake, &root, &["nested", "new"]).following(&one);
        assert!(!two.is_like(&one));
        use_cpu(&fake, &format!("{POD}/new"), 100);
        assert_eq!(read(&two, 1800, 500), Nanos::from_millis(500));
        fake.remove(format!("sys/fs/cgroup{POD}/new"));
        assert_eq!(read(&two, 1900, 500), Nanos::from_millis(600));
        assert_eq!(two.pids(root.as_fd(), &mut buffer), [70, 71]);
    }

    #[test]
    fn that_of_the_root_is_the_machines_without_all_below() {
        let fake = Fake::new();
        let root = open_root(&fake.roots().cgroup).unwrap();
        let number = inode(&root).unwrap().st_ino;
        let below = vec![b"system.slice".to_vec()];
        let inner = Inner::new(WorkloadId::new("/"), b"/", number, below);
        let mut buffer = Buffer::new();
        let mut read = |all: u64, below: u64| {
            use_cpu(&fake, "", all);
            use_cpu(&fake, "/system.slice", below);
            inner.cpu(root.as_fd(), &mut buffer).unwrap()
        };
        assert_eq!(read(1000, 300), Nanos(0));
        assert_eq!(read(1900, 500), Nanos::from_millis(700));
        assert_eq!(inner.file(), "/cpu.stat");
    }
}
