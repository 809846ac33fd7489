// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tasks of a monitoring group. A new task is in the group of its parent, so most need no write. A task
//! that was moved into the cgroup is not in the group, and a task that was moved out is still counted: both
//! are searched. A task that another program has put into a group stays there.

use super::tree::{GroupPlace, ResctrlTree, standing};
use crate::kernel::files::{Buffer, for_each_dir, open_path_dir, read_long, write_at};
use crate::kernel::parse::cgroup::pids;
use crate::workloads::cgroups::cgroup_type::{threads, threads_within};
use crate::workloads::discovery::WorkloadSource as Watches;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::BTreeSet;

/// Longest list of threads that is read.
const LIST_MAX: usize = 4 << 20;
const THREADS_MAX: usize = 100_000;

pub(super) struct Ground<'a> {
    pub(super) cgroup: &'a OwnedFd,
    pub(super) proc: &'a OwnedFd,
    pub(super) tree: &'a ResctrlTree,
}

impl Ground<'_> {
    pub(super) fn threads(
        &self,
        source: &Watches,
        buffer: &mut Buffer,
    ) -> Result<BTreeSet<u32>, Errno> {
        match source {
            Watches::Cgroup(leaf) => {
                let root = self.cgroup.as_fd();
                Ok(known(leaf.with_dir(root, |dir| threads_within(dir))?))
            }
            Watches::Process(process) => self.threads_of(process.pid),
            Watches::Inner(inner) => {
                let dir = inner.dir(self.cgroup.as_fd())?;
                Ok(known(threads(&dir, buffer)?))
            }
            Watches::Set(set) => {
                let mut threads = BTreeSet::new();
                for pid in set.pids() {
                    // Gone is as good.
                    threads.extend(self.threads_of(pid).unwrap_or_default());
                }
                Ok(threads)
            }
        }
    }

    fn threads_of(&self, pid: u32) -> Result<BTreeSet<u32>, Errno> {
        let dir = open_path_dir(self.proc, &format!("{pid}/task"))?;
        let mut threads = BTreeSet::new();
        for_each_dir(&dir, THREADS_MAX, |name| {
            threads.extend(pids(name).unwrap_or_default());
        })?;
        Ok(threads)
    }

    fn standing(&self, thread: u32, buffer: &mut Buffer) -> GroupPlace {
        let read = buffer.read_at(self.proc, &format!("{thread}/cpu_resctrl_groups"));
        read.map_or(GroupPlace::Unknown, standing)
    }

    /// Sends one back to the root's group, if it is in this one.
    fn send_back(&self, thread: u32, group: &str, buffer: &mut Buffer) {
        if self.standing(thread, buffer) == GroupPlace::In(group.to_owned()) {
            // Gone is as good.
            let _ = write_at(&self.tree.root, "tasks", &format!("{thread}\n"));
        }
    }
}

fn parsed(list: &[u8]) -> Result<BTreeSet<u32>, Errno> {
    Ok(known(pids(list).map_err(|_| Errno::INVAL)?))
}

/// Without 0, which stands for one outside our PID namespace.
fn known(threads: Vec<u32>) -> BTreeSet<u32> {
    threads.into_iter().filter(|thread| *thread > 0).collect()
}

#[derive(Debug, Default)]
pub(super) struct GroupTasks {
    known: BTreeSet<u32>,
    /// Those of the threads that another program counts already.
    pub(super) foreign: BTreeSet<u32>,
}

impl GroupTasks {
    /// Brings a group up to date. With `recount` the kernel lists the tasks in it, and goes through all tasks
    /// of the machine for that.
    ///
    /// # Errors
    /// The tasks of the workload cannot be listed, or the group did not take a task for a reason of its own.
    pub(super) fn follow(
        &mut self,
        ground: &Ground<'_>,
        source: &Watches,
        (name, mark, dir): (&str, &str, &OwnedFd),
        recount: bool,
        buffer: &mut Buffer,
    ) -> Result<(), Errno> {
        // Before the threads: a task that is made in between is in both.
        let inside: BTreeSet<u32> = if recount {
            parsed(&read_long(dir, "tasks", LIST_MAX)?)?
        } else {
            BTreeSet::new()
        };
        let threads = ground.threads(source, buffer)?;
        let left = self.known.union(&inside);
        for thread in left.filter(|thread| !threads.contains(thread)) {
            ground.send_back(*thread, name, buffer);
        }
        self.foreign.clear();
        if recount {
            // A number may be used again, by one that came by a move.
            self.known.retain(|thread| inside.contains(thread));
        }
        let mut trouble = None;
        for thread in threads.difference(&self.known) {
            let is_ours = match ground.standing(*thread, buffer) {
                GroupPlace::In(group) if group == name => continue,
                GroupPlace::In(group) => group
                    .strip_prefix(mark)
                    .is_some_and(|rest| rest.starts_with('-')),
                GroupPlace::Free => true,
                GroupPlace::Controlled => false,
                GroupPlace::Unknown => ground.tree.foreign_groups == 0,
            };
            let moved = if is_ours {
                write_at(dir, "tasks", &format!("{thread}\n"))
            } else {
                Err(Errno::INVAL)
            };
            match moved {
                Ok(()) | Err(Errno::SRCH) => {}
                // It is in a group with limits.
                Err(Errno::INVAL) => {
                    self.foreign.insert(*thread);
                }
                Err(e) => trouble = Some(e),
            }
        }
        self.known = threads.difference(&self.foreign).copied().collect();
        match trouble {
            Some(e) => {
                self.known.clear();
                Err(e)
            }
            None => Ok(()),
        }
    }
}
