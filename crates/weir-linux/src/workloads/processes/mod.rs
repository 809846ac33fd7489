// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes and the memory they can reach on the nodes weir watches.
//!
//! *Why not `memory.numa_stat`.* A page of a shared file (tmpfs, a mapped file) is charged to the cgroup that
//! touched it first, often the one that created the file and not the one that reads it. `/proc/PID/numa_maps`
//! shows what each process has mapped, so `memory.numa_stat` is only used where no `numa_maps` can be read.
//!
//! *Counting.* In a workload of several processes, private memory adds up, and a file that several of them
//! map counts once, with the most that one of them has of it. Which file it is, its device and inode say:
//! many files have one name ([`numa_maps`]). Two workloads that map the same file both have it: both *can*
//! reach the memory. Where a process has no page mapped (read(2) on a file on the node), see [`numa_stat`].
//!
//! *Cost.* `numa_maps` walks the page tables of a process, milliseconds for each gigabyte in small pages,
//! under its `mmap_lock`. So a process is read again only when its memory can have changed ([`rescan`]),
//! within a time budget for each round. First reads have a budget of their own: before its first, a process's
//! workload cannot be limited.

pub(crate) mod namesakes;
pub(crate) mod node_balance;
pub(crate) mod numa_maps;
pub(crate) mod numa_stat;
pub(crate) mod proc_pid;
pub(crate) mod process_set;
pub(crate) mod rescan;
pub(crate) mod resident;
pub(crate) mod sched_policy;

use crate::kernel::clock::{now, thread_cpu};
use crate::kernel::fd_budget::{Budget, Kept, Rank};
use crate::kernel::files::Buffer;
use crate::kernel::parse::process::Stat;
use crate::workloads::cpu_time::rate::Spent;
use crate::workloads::nice_boost::{NiceBoost, is_crowded};
use crate::workloads::task_iter::process_table::{ProcessTable, Task};
use namesakes::Namesakes;
use numa_maps::{MappedFile, NodePages, add};
use proc_pid::{Unread, cpu_of, is_real_time, open_stat, read_kept_stat, read_stat, signs_of};
use rescan::{Due, moved};
pub(crate) use resident::Resident;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_core::{Missing, Nanos, NodeId};

/// Time for first scans in one round, in addition to the round's budget.
const FIRST_SCANS: Nanos = Nanos::from_millis(500);
/// Time between two reads of the policy of a process's threads.
const POLICY_EVERY: Nanos = Nanos::from_millis(10_000);

/// Why it is not known what such a process has.
pub(crate) const HIDDEN: &str = "processes in another PID namespace are not seen";

#[derive(Debug)]
pub(crate) struct CachedProcess {
    pub(crate) start_ticks: u64,
    pub(crate) comm: String,
    pub(crate) nice: i64,
    pub(crate) is_kernel: bool,
    /// Whether one of its threads is.
    pub(crate) real_time: bool,
    pub(crate) spent: Spent,
    memory: ReachableMemory,
    /// Hashes of the names of its files that have pages on watched nodes.
    names: Vec<u64>,
    /// Another process has had a file of such a name.
    has_namesake: bool,
    due: Due,
    policy_at: Nanos,
    /// In which it was last there, and in which something of it was read.
    round: u64,
    read_in: u64,
    /// Its `stat`, kept open.
    stat: Option<Kept>,
}

#[derive(Clone, Debug)]
enum ReachableMemory {
    NotYetRead,
    Read { at: Nanos, usage: NodePages },
    Missing(Missing),
}

pub(crate) struct ProcessCache {
    proc: Arc<OwnedFd>,
    nodes: Vec<NodeId>,
    by_pid: BTreeMap<u32, CachedProcess>,
    namesakes: Namesakes,
    /// A process has gone, and the names of its files with it.
    is_any_gone: bool,
    round: u64,
    chunk: Box<[u8]>,
    /// A process was not read after the last round.
    has_unread: bool,
    /// It must not wait for a CPU for long while it reads.
    pub(crate) hurries: bool,
    /// The next scan also reads the processes that have grown.
    is_searching: bool,
}

impl ProcessCache {
    pub(crate) fn new(proc: Arc<OwnedFd>, nodes: Vec<NodeId>) -> Self {
        let chunk = vec![0; 64 * 1024].into_boxed_slice();
        ProcessCache {
            proc,
            nodes,
            by_pid: BTreeMap::new(),
            namesakes: Namesakes::default(),
            is_any_gone: false,
            round: 0,
            chunk,
            has_unread: false,
            hurries: false,
            is_searching: false,
        }
    }

    /// The nodes that count. A change makes all earlier reads void.
    pub(crate) fn watch(&mut self, nodes: Vec<NodeId>) {
        if self.nodes != nodes {
            self.nodes = nodes;
            self.has_unread = !self.by_pid.is_empty();
            for member in self.by_pid.values_mut() {
                member.memory = ReachableMemory::NotYetRead;
                member.due.renew();
            }
        }
    }

    /// In the next scan those that have grown are due, as soon as the cost of their last one lets them. They
    /// are met before it: only then is it known which have.
    pub(crate) fn search(&mut self) {
        self.is_searching = true;
    }

    pub(crate) fn proc(&self) -> &OwnedFd {
        &self.proc
    }

    pub(crate) fn get(&self, pid: u32) -> Option<&CachedProcess> {
        self.by_pid.get(&pid)
    }

    /// Whether there is a process that the last round did not come to read.
    pub(crate) fn has_unread(&self) -> bool {
        self.has_unread
    }

    /// Whether something of one of these was read in this round, or nothing is known of it.
    pub(crate) fn is_any_fresh(&self, pids: &[u32]) -> bool {
        pids.iter().any(|pid| {
            let member = self.by_pid.get(pid);
            member.is_none_or(|member| member.read_in == self.round)
        })
    }

    /// Whether nothing showed a change of it when it was last met.
    pub(crate) fn is_calm(&self, pid: u32) -> bool {
        self.by_pid
            .get(&pid)
            .is_some_and(|member| member.is_kernel || member.due.is_calm())
    }

    /// Starts a round: a process that is not met in it is forgotten at its end.
    pub(crate) fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Notes that a process is there. False if it is not.
    pub(crate) fn meet(&mut self, pid: u32, at: Nanos, buffer: &mut Buffer) -> bool {
        // Kernel threads, mostly more than all others, stay what they are.
        if let Some(kernel) = self.by_pid.get_mut(&pid).filter(|m| m.is_kernel)
            && at < kernel.policy_at
        {
            kernel.round = self.round;
            return true;
        }
        let stat = match self.stat(pid, buffer) {
            Ok(stat) => stat,
            Err(Unread::Gone(_)) => return false,
            Err(Unread::Want(_)) => return self.still_known(pid),
        };
        let known = self
            .by_pid
            .get_mut(&pid)
            .filter(|m| m.start_ticks == stat.start_ticks);
        match known {
            Some(member) => {
                (member.round, member.read_in) = (self.round, self.round);
                if member.comm.as_bytes() != stat.comm {
                    member.comm = String::from_utf8_lossy(&stat.comm).into_owned();
                }
                member.nice = stat.nice;
                member.spent.note(at, cpu_of(&stat));
                member.due.note(Some(signs_of(&stat)), at);
                member.real_time |= stat.is_real_time();
                if at >= member.policy_at
                    && let Ok(real_time) = is_real_time(&self.proc, pid, &stat, buffer)
                {
                    member.policy_at = Nanos(at.0.saturating_add(POLICY_EVERY.0));
                    member.real_time = real_time;
                }
            }
            None => {
                let Ok(real_time) = is_real_time(&self.proc, pid, &stat, buffer) else {
                    return false;
                };
                let member = CachedProcess {
                    real_time,
                    ..new_member(&stat, self.round, at)
                };
                self.is_any_gone |= self.by_pid.insert(pid, member).is_some();
            }
        }
        true
    }

    /// Its `stat`, by the file that is kept open as long as that is its own.
    fn stat(&mut self, pid: u32, buffer: &mut Buffer) -> Result<Stat, Unread> {
        if let Some(member) = self.by_pid.get_mut(&pid)
            && let Some(kept) = &member.stat
        {
            if let Some(stat) = read_kept_stat(kept, buffer) {
                return Ok(stat);
            }
            // It has ended, and its number may be another's by now.
            member.stat = None;
        }
        read_stat(&self.proc, pid, buffer)
    }

    /// Keeps the `stat` of one that was met open from now on, while there is room.
    pub(crate) fn keep_stat(&mut self, pid: u32, budget: &Arc<Budget>) {
        if let Some(member) = self.by_pid.get_mut(&pid)
            && member.stat.is_none()
            && !member.is_kernel
            && budget.has_room(Rank::EachTick)
            && let Ok(stat) = open_stat(&self.proc, pid)
        {
            member.stat = budget.keep(stat, Rank::EachTick);
        }
    }

    /// Notes that a process is there, by the table where that has it. False if it is not.
    pub(crate) fn meet_by(
        &mut self,
        table: Option<&ProcessTable>,
        pid: u32,
        at: Nanos,
        buffer: &mut Buffer,
    ) -> bool {
        let Some(task) = table.and_then(|table| table.get(pid)) else {
            return self.meet(pid, at, buffer);
        };
        let fresh = CachedProcess::of_task(task, self.round, at);
        match self.by_pid.get_mut(&pid) {
            Some(member) if member.start_ticks == task.start_ticks => {
                member.spent.note(at, task.cpu);
                member.due.note(task.signs, at);
                member.renew(fresh);
            }
            _ => self.is_any_gone |= self.by_pid.insert(pid, fresh).is_some(),
        }
        true
    }

    /// Keeps what is known of a process that was not or could not be read. False if nothing is known.
    pub(crate) fn still_known(&mut self, pid: u32) -> bool {
        let known = self.by_pid.get_mut(&pid);
        known.map(|member| member.round = self.round).is_some()
    }

    /// Reads the memory of processes that are due, new ones first, then the longest waiting, until `until`,
    /// or a little longer for new ones: one at least. One that shows no change keeps its last figure.
    pub(crate) fn scan(&mut self, at: Nanos, until: Nanos, buffer: &mut Buffer) {
        let round = self.round;
        let mut scanned = false;
        let mut unread = self.forget_absent();
        if std::mem::take(&mut self.is_searching) {
            let members = self.by_pid.values_mut();
            members.for_each(|member| member.due.search());
        }
        let moved = moved(&self.proc, buffer);
        let first = Nanos(until.0.saturating_add(FIRST_SCANS.0));
        let hurries = self.hurries && is_crowded(&self.proc, buffer);
        for (due_at, pid) in self.turn(at, moved) {
            let until = if due_at == Nanos(0) { first } else { until };
            if scanned && now() >= until {
                break;
            }
            scanned = true;
            let before = thread_cpu();
            let boost = hurries.then(NiceBoost::begin);
            let usage = self.read_maps(pid);
            drop(boost);
            // The thread's CPU time: a scan that waited for a CPU cost no more, and must not delay the next.
            let cost = Nanos(thread_cpu().0.saturating_sub(before.0));
            let ended = now();
            if let Some(member) = self.by_pid.get_mut(&pid) {
                member.read_in = round;
                unread -= usize::from(member.is_unread());
                let same = matches!((&member.memory, &usage),
                    (ReachableMemory::Read { usage: old, .. }, Ok(new)) if old.is_much_like(new));
                member.due.scanned(at, cost, same, moved);
                member.memory = match usage {
                    Ok(usage) => ReachableMemory::Read { at: ended, usage },
                    Err(why) => ReachableMemory::Missing(why),
                };
            }
        }
        self.has_unread = unread > 0;
    }

    /// Forgets processes that were not met in this round. Returns how many others were never read.
    fn forget_absent(&mut self) -> usize {
        let round = self.round;
        let mut unread = 0;
        self.by_pid.retain(|_, member| {
            let is_there = member.round == round;
            unread += usize::from(is_there && member.is_unread());
            self.is_any_gone |= !is_there;
            is_there
        });
        if std::mem::take(&mut self.is_any_gone) {
            let all = self.by_pid.iter();
            self.namesakes
                .renew(all.map(|(pid, member)| (*pid, &member.names[..])));
        }
        unread
    }

    /// The processes that are due, in their order.
    fn turn(&mut self, at: Nanos, moved: Option<u64>) -> Vec<(Nanos, u32)> {
        let mut turn = Vec::new();
        for (pid, member) in &mut self.by_pid {
            if member.is_kernel || member.due.at() > at {
                continue;
            }
            match &mut member.memory {
                ReachableMemory::Read { at: then, .. } if member.due.is_as_it_was(at, moved) => {
                    let good_as_of = member.due.passed(at).max(*then);
                    if good_as_of != *then {
                        *then = good_as_of;
                        member.read_in = self.round;
                    }
                }
                _ => turn.push((member.due.at(), *pid)),
            }
        }
        turn.sort_unstable();
        turn
    }

    /// The memory that these processes have together. Private pages add up. A file's pages are counted once,
    /// by the mapping that shows the most of them on a node, since processes that map the same file may show
    /// the same pages. It is as old as the oldest scan that went into it.
    pub(crate) fn resident(&self, pids: &[u32]) -> Resident {
        let mut sum = Resident::default();
        let mut files: BTreeMap<(NodeId, MappedFile), u64> = BTreeMap::new();
        for member in pids
            .iter()
            .filter_map(|pid| self.by_pid.get(pid))
            .filter(|m| !m.is_kernel)
        {
            match &member.memory {
                ReachableMemory::NotYetRead => sum.unread += 1,
                ReachableMemory::Missing(why) => sum.missing = Some(why.clone()),
                ReachableMemory::Read { at, usage } => {
                    sum.at = Some(sum.at.map_or(*at, |old: Nanos| old.min(*at)));
                    for (node, bytes) in &usage.private {
                        add(&mut sum.bytes, *node, *bytes);
                    }
                    for (node, bytes) in &usage.private_huge {
                        add(&mut sum.huge, *node, *bytes);
                    }
                    for (key, bytes) in &usage.files {
                        let most = files.entry(*key).or_default();
                        *most = (*most).max(*bytes);
                    }
                }
            }
        }
        for ((node, file), bytes) in files {
            add(&mut sum.bytes, node, bytes);
            if file.is_huge {
                add(&mut sum.huge, node, bytes);
            }
        }
        sum
    }
}

impl CachedProcess {
    fn of_task(task: &Task, round: u64, at: Nanos) -> CachedProcess {
        CachedProcess {
            start_ticks: task.start_ticks,
            comm: String::from_utf8_lossy(task.comm()).into_owned(),
            nice: task.nice,
            is_kernel: task.is_kernel,
            real_time: task.real_time,
            spent: Spent::new(at, task.cpu),
            memory: ReachableMemory::NotYetRead,
            names: Vec::new(),
            has_namesake: false,
            due: Due::new(task.signs, at),
            policy_at: Nanos(at.0.saturating_add(POLICY_EVERY.0)),
            round,
            read_in: round,
            stat: None,
        }
    }

    /// Whether its memory was never scanned, and is to be.
    fn is_unread(&self) -> bool {
        !self.is_kernel && matches!(self.memory, ReachableMemory::NotYetRead)
    }

    /// The same process, seen anew; what its memory is stays.
    fn renew(&mut self, fresh: CachedProcess) {
        self.comm = fresh.comm;
        self.nice = fresh.nice;
        self.real_time = fresh.real_time;
        self.policy_at = fresh.policy_at;
        (self.round, self.read_in) = (fresh.round, fresh.read_in);
        // The file is not needed while all are read at once.
        self.stat = None;
    }
}

fn new_member(stat: &Stat, round: u64, at: Nanos) -> CachedProcess {
    CachedProcess {
        start_ticks: stat.start_ticks,
        comm: String::from_utf8_lossy(&stat.comm).into_owned(),
        nice: stat.nice,
        is_kernel: stat.is_kernel,
        real_time: stat.is_real_time(),
        spent: Spent::new(at, cpu_of(stat)),
        memory: ReachableMemory::NotYetRead,
        names: Vec::new(),
        has_namesake: false,
        due: Due::new(Some(signs_of(stat)), at),
        policy_at: Nanos(at.0.saturating_add(POLICY_EVERY.0)),
        round,
        read_in: round,
        stat: None,
    }
}

/// A process as it is now, without its memory: for a check just before acting.
pub(crate) fn fresh(
    proc: &OwnedFd,
    pid: u32,
    buffer: &mut Buffer,
) -> Result<CachedProcess, Unread> {
    let stat = read_stat(proc, pid, buffer)?;
    let real_time = is_real_time(proc, pid, &stat, buffer)?;
    Ok(CachedProcess {
        real_time,
        ..new_member(&stat, 0, Nanos(0))
    })
}

/// The same by its first thread alone, where the policies of all threads are read in another way.
pub(crate) fn fresh_leader(
    proc: &OwnedFd,
    pid: u32,
    buffer: &mut Buffer,
) -> Result<CachedProcess, Unread> {
    let stat = read_stat(proc, pid, buffer)?;
    Ok(new_member(&stat, 0, Nanos(0)))
}

#[cfg(test)]
mod tests;
