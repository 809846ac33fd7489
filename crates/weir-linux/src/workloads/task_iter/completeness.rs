// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A table that leaves no process out. A host may hide processes from programs in its kernel (seen of
//! process 1), and would not say so. So what a sweep shows is compared with `/proc`, at first and every half
//! a minute:
//!
//! ```text
//! ids in /proc ─► sweep ─► ids in /proc        in both lists, and not in the sweep: hidden
//! ```
//!
//! Where weir only observes, the files of those few are read each time. Where it limits, the sweep is not
//! used at all: a process that comes hidden would not be known for that long, and one that is never to be
//! limited must be known.

use super::TaskRows;
use super::process_table::{ProcessTable, Task};
use crate::kernel::clock::now;
use crate::kernel::files::{Buffer, for_each_dir, inode, open_beneath, open_root};
use crate::kernel::parse::decimal;
use crate::kernel::parse::process::cgroup_path;
use crate::options::{By, Roots};
use crate::workloads::cgroups::cgroup_type::domain_of;
use crate::workloads::processes::proc_pid::{is_real_time, read_stat};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use weir_core::{Missing, Nanos};

/// How often the two are compared.
const COMPARE_EVERY: Nanos = Nanos::from_millis(30_000);
/// With more than this many hidden processes all are asked by their files. A host that hides a few from
/// programs had made weir walk through all files before; now the files are read of the hidden ones alone.
const HIDDEN_MAX: usize = 16;
const ENTRIES_MAX: usize = 1 << 20;

/// What tells of most processes at once, and files of the others.
pub(super) struct Whole<S> {
    most: S,
    proc: OwnedFd,
    /// Nothing where cgroups are not needed.
    cgroups: Option<OwnedFd>,
    is_for_limits: bool,
    hidden: Vec<u32>,
    compare_at: Nanos,
    buffer: Buffer,
}

impl<S: TaskRows> Whole<S> {
    /// # Errors
    /// The roots cannot be opened.
    pub(super) fn new(
        most: S,
        roots: &Roots,
        by: By,
        is_for_limits: bool,
    ) -> Result<Self, Missing> {
        let lost = |e: Errno| Missing::Lost(e.to_string());
        let cgroups = match by {
            By::Cgroup => Some(open_root(&roots.cgroup).map_err(lost)?),
            By::Process => None,
        };
        Ok(Whole {
            most,
            proc: open_root(&roots.proc).map_err(lost)?,
            cgroups,
            is_for_limits,
            hidden: Vec::new(),
            compare_at: Nanos(0),
            buffer: Buffer::new(),
        })
    }

    /// Finds processes that were there before a sweep and after it, and are not in it.
    fn compare(&mut self, before: &[u32], table: &ProcessTable) -> Result<(), Missing> {
        let Ok(mut after) = listed(&self.proc) else {
            return Ok(());
        };
        after.retain(|pid| before.binary_search(pid).is_ok() && table.get(*pid).is_none());
        self.hidden = after;
        self.compare_at = Nanos(now().0.saturating_add(COMPARE_EVERY.0));
        let most = if self.is_for_limits { 0 } else { HIDDEN_MAX };
        match self.hidden.first() {
            Some(first) if self.hidden.len() > most => {
                let count = self.hidden.len() - 1;
                let why = format!("it leaves out process {first} and {count} others");
                Err(Missing::NotSupported(why))
            }
            _ => Ok(()),
        }
    }

    /// A process by its files; nothing if it has ended.
    fn by_files(&mut self, pid: u32) -> Option<Task> {
        let stat = read_stat(&self.proc, pid, &mut self.buffer).ok()?;
        // A process with an unknown policy is not to be limited.
        let is_real_time = is_real_time(&self.proc, pid, &stat, &mut self.buffer).unwrap_or(true);
        let cgroup = self.cgroup_of(pid).unwrap_or(0);
        Some(Task::of_files(pid, &stat, is_real_time, cgroup))
    }

    /// The inode number of the cgroup that lists it; nothing of one outside what is mounted here.
    fn cgroup_of(&mut self, pid: u32) -> Option<u64> {
        let root = self.cgroups.as_ref()?;
        let name = format!("{pid}/cgroup");
        let text = self.buffer.read_at(&self.proc, &name).ok()?.to_vec();
        let found = match domain_of(root.as_fd(), cgroup_path(&text).ok()?, &mut self.buffer) {
            b"/" => inode(root),
            path => open_beneath(root, path).and_then(inode),
        };
        found.ok().map(|stat| stat.st_ino)
    }
}

impl<S: TaskRows> TaskRows for Whole<S> {
    fn sweep(&mut self, between: &mut dyn FnMut()) -> Result<ProcessTable, Missing> {
        // A list that cannot be had is had the next time.
        let before = (now() >= self.compare_at).then(|| listed(&self.proc).ok());
        let mut table = self.most.sweep(between)?;
        if let Some(before) = before.flatten() {
            self.compare(&before, &table)?;
        }
        for pid in self.hidden.clone() {
            if table.get(pid).is_none()
                && let Some(task) = self.by_files(pid)
            {
                table.add(task);
            }
        }
        Ok(table)
    }

    fn hidden(&self) -> usize {
        self.hidden.len()
    }
}

/// Ids in `/proc`, in their order.
fn listed(proc: &OwnedFd) -> Result<Vec<u32>, Errno> {
    let mut pids = Vec::new();
    for_each_dir(proc, ENTRIES_MAX, |name| {
        let number = decimal(name).ok();
        pids.extend(number.and_then(|n| u32::try_from(n).ok()));
    })?;
    pids.sort_unstable();
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::super::process_table::tests as rows;
    use super::*;
    use crate::fake::{Fake, stat_line};

    /// Shows these, with nothing in their rows but id and cgroup.
    struct Shows(Vec<u32>);

    impl TaskRows for Shows {
        fn sweep(&mut self, _: &mut dyn FnMut()) -> Result<ProcessTable, Missing> {
            let row = |pid: &u32| rows::row((*pid).into(), (*pid).into(), 7);
            let rows: Vec<_> = self.0.iter().map(row).collect();
            Ok(rows::table(&[&rows::bytes(&rows)]).unwrap())
        }
    }

    fn whole(fake: &Fake, shown: &[u32], is_for_limits: bool) -> Whole<Shows> {
        let shown = Shows(shown.to_vec());
        Whole::new(shown, &fake.roots(), By::Cgroup, is_for_limits).unwrap()
    }

    #[test]
    fn who_is_hidden_is_asked_by_his_files() {
        let fake = Fake::new();
        let me = std::process::id();
        fake.write("proc/100/stat", stat_line(100, "fio", 2, 4000, 1));
        let mut source = whole(&fake, &[2, 101, me], false);
        let table = source.sweep(&mut || ()).unwrap();
        assert_eq!(source.hidden(), 2);
        let all: Vec<u32> = table.pids().collect();
        assert!(all.is_sorted() && [1, 2, 100, 101, me].iter().all(|p| all.contains(p)));
        let fio = table.get(100).unwrap();
        assert_eq!((fio.start_ticks, fio.comm()), (4000, &b"fio"[..]));
        assert!(fio.real_time && !fio.is_kernel);
        let cgroup = fake.roots().cgroup.join("system.slice/fio.service");
        let id = inode(open_root(&cgroup).unwrap()).unwrap().st_ino;
        assert_eq!(table.of_cgroup(id), [100]);
        assert_eq!(table.of_cgroup(7), {
            let mut shown = vec![2, 101, me];
            shown.sort_unstable();
            shown
        });
        // Between two comparisons: one ends, and its number is that of another process, which is shown.
        fake.remove("proc/100");
        source.most.0 = vec![1, 2, 101, me];
        let table = source.sweep(&mut || ()).unwrap();
        assert!(table.get(100).is_none());
        assert_eq!(table.get(1).unwrap().cgroup, 7);
        source.compare_at = Nanos(0);
        source.sweep(&mut || ()).unwrap();
        assert_eq!(source.hidden(), 0);
    }

    #[test]
    fn one_that_hides_somebody_from_a_weir_that_limits_is_not_used() {
        let fake = Fake::new();
        let me = std::process::id();
        let all = [1, 2, 100, 101, me];
        assert!(whole(&fake, &all, true).sweep(&mut || ()).is_ok());
        let why = whole(&fake, &all[1..], true).sweep(&mut || ()).unwrap_err();
        let said = "it leaves out process 1 and 0 others".to_owned();
        assert_eq!(why, Missing::NotSupported(said));
        let most = u32::try_from(HIDDEN_MAX).unwrap();
        for pid in 200..200 + most {
            fake.process(pid, "many", "/system.slice/fio.service", 1);
        }
        assert!(whole(&fake, &all, false).sweep(&mut || ()).is_ok());
        let too_many = whole(&fake, &all[1..], false).sweep(&mut || ());
        assert!(matches!(too_many, Err(Missing::NotSupported(_))));
    }
}
