// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of threads (`struct task_row` of `bpf/probes/task_iter_intf.h`) as they come, in pieces of any
//! length, folded into processes. The last row says how many there were, so that an answer that was cut short
//! is not taken for a machine with few processes.

use crate::kernel::bpf::{BpfValue, bpf_values};
use crate::kernel::parse::process::Stat;
use crate::kernel::skeletons::task_iter::types::task_row;
use crate::kernel::skeletons::task_iter::{
    TASK_ROW_DEAD, TASK_ROW_END, TASK_ROW_KERNEL, TASK_ROW_PAGES_UNKNOWN, TASK_ROW_REAL_TIME,
};
use crate::workloads::processes::proc_pid::{NANOS_PER_TICK, cpu_of, signs_of};
use crate::workloads::processes::rescan::ChangeSigns;
use std::collections::BTreeSet;
use thiserror::Error;
use weir_core::Nanos;

bpf_values!(task_row);

const ROW: usize = size_of::<task_row>();
/// Most rows that are taken in: memory is bounded, and a host with more threads is walked.
const ROWS_MAX: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Torn {
    #[error("{0} bytes are left over, and a row has {ROW}")]
    Short(usize),
    #[error("it ends after {0} rows without saying so")]
    NoEnd(u64),
    #[error("{seen} rows, and by its end there are {said}")]
    Count { seen: u64, said: u64 },
    #[error("rows after its end")]
    AfterEnd,
    #[error("a process id of {0}")]
    Id(u64),
    #[error("more than {ROWS_MAX} threads")]
    TooMany,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) pid: u32,
    /// Id of the cgroup that lists it: the inode number of the directory.
    pub(crate) cgroup: u64,
    /// When it started, in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub(crate) start_ticks: u64,
    /// CPU time of all its threads, ended ones included. For a thread that runs now it ends with the last
    /// tick of its CPU.
    pub(crate) cpu: Nanos,
    /// What changes with its memory, where that could be told.
    pub(crate) signs: Option<ChangeSigns>,
    pub(crate) nice: i64,
    comm: [u8; 16],
    pub(crate) is_kernel: bool,
    /// Whether one of its threads is.
    pub(crate) real_time: bool,
    /// A zombie, with all its threads: `/proc` has it, lists of cgroups do not.
    is_dead: bool,
}

impl Task {
    pub(crate) fn of_files(pid: u32, stat: &Stat, real_time: bool, cgroup: u64) -> Task {
        let mut comm = [0; 16];
        for (place, byte) in comm.iter_mut().zip(&stat.comm) {
            *place = *byte;
        }
        Task {
            pid,
            cgroup,
            start_ticks: stat.start_ticks,
            cpu: cpu_of(stat),
            signs: Some(signs_of(stat)),
            nice: stat.nice,
            comm,
            is_kernel: stat.is_kernel,
            real_time,
            is_dead: false,
        }
    }

    /// Its name, up to 15 bytes. That of a kernel thread lacks what `/proc` adds to it.
    pub(crate) fn comm(&self) -> &[u8] {
        self.comm.split(|b| *b == 0).next().unwrap_or_default()
    }
}

/// All processes at about one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessTable {
    /// The processes, in ascending order of id.
    tasks: Vec<Task>,
    /// Living processes by cgroup.
    by_cgroup: Vec<(u64, u32)>,
}

impl ProcessTable {
    pub(crate) fn get(&self, pid: u32) -> Option<&Task> {
        let at = self.tasks.binary_search_by_key(&pid, |t| t.pid).ok()?;
        self.tasks.get(at)
    }

    /// The table with one more process, which is not in it.
    pub(crate) fn add(&mut self, task: Task) {
        let of_it = (task.cgroup, task.pid);
        let at = self.by_cgroup.partition_point(|one| *one < of_it);
        self.by_cgroup.insert(at, of_it);
        let at = self.tasks.partition_point(|one| one.pid < task.pid);
        self.tasks.insert(at, task);
    }

    /// All, in the order of their ids.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.tasks.iter().map(|task| task.pid)
    }

    /// Living processes in none of these cgroups, but for kernel threads.
    pub(crate) fn beside(&self, cgroups: &BTreeSet<u64>) -> impl Iterator<Item = u32> {
        let living = self.tasks.iter().filter(|t| !t.is_dead && !t.is_kernel);
        living
            .filter(|task| !cgroups.contains(&task.cgroup))
            .map(|task| task.pid)
    }

    /// Those that `cgroup.procs` of this cgroup lists: of a threaded domain, all with threads in it or below.
    pub(crate) fn of_cgroup(&self, id: u64) -> Vec<u32> {
        let from = self.by_cgroup.partition_point(|(cgroup, _)| *cgroup < id);
        let rest = self.by_cgroup.get(from..).unwrap_or_default();
        let of_it = rest.iter().take_while(|(cgroup, _)| *cgroup == id);
        of_it.map(|(_, pid)| *pid).collect()
    }
}

/// A thread that is not the first of its process.
#[derive(Debug)]
struct Thread {
    tgid: u32,
    cpu: Nanos,
    faults: u64,
    real_time: bool,
    is_dead: bool,
}

/// A table while rows come in.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The start of a row without its end.
    held: Vec<u8>,
    rows: u64,
    end: Option<u64>,
    tasks: Vec<Task>,
    threads: Vec<Thread>,
}

impl Sweep {
    /// Takes in what came next.
    ///
    /// # Errors
    /// What no kernel writes.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<(), Torn> {
        if !self.held.is_empty() {
            let (more, rest) = bytes.split_at(bytes.len().min(ROW - self.held.len()));
            self.held.extend_from_slice(more);
            bytes = rest;
            if self.held.len() < ROW {
                return Ok(());
            }
            let row = std::mem::take(&mut self.held);
            self.row(&task_row::from_bytes(&row))?;
        }
        let rows = bytes.chunks_exact(ROW);
        self.held.extend_from_slice(rows.remainder());
        for row in rows {
            self.row(&task_row::from_bytes(row))?;
        }
        Ok(())
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.end.is_some()
    }

    fn row(&mut self, row: &task_row) -> Result<(), Torn> {
        if self.end.is_some() {
            return Err(Torn::AfterEnd);
        }
        if row.flags & TASK_ROW_END != 0 {
            self.end = Some(row.pid);
            return Ok(());
        }
        if self.rows >= ROWS_MAX {
            return Err(Torn::TooMany);
        }
        self.rows += 1;
        let (cpu, real_time) = (Nanos(row.cpu_ns), row.flags & TASK_ROW_REAL_TIME != 0);
        let is_dead = row.flags & TASK_ROW_DEAD != 0;
        let (faults, resident_pages) = (row.faults, row.resident_pages);
        let tgid = id(row.tgid)?;
        if id(row.pid)? != tgid {
            self.threads.push(Thread {
                tgid,
                cpu,
                faults,
                real_time,
                is_dead,
            });
            return Ok(());
        }
        self.tasks.push(Task {
            pid: tgid,
            cgroup: row.cgroup,
            // Rounded down, as there (kernel, `nsec_to_clock_t`).
            start_ticks: row.start_ns / NANOS_PER_TICK,
            cpu,
            signs: (resident_pages != TASK_ROW_PAGES_UNKNOWN).then_some(ChangeSigns {
                faults,
                resident_pages,
            }),
            nice: row.nice,
            comm: row.comm.map(i8::cast_unsigned),
            is_kernel: row.flags & TASK_ROW_KERNEL != 0,
            real_time,
            is_dead,
        });
        Ok(())
    }

    /// Nothing more comes.
    ///
    /// # Errors
    /// Something should have.
    pub(crate) fn done(mut self) -> Result<ProcessTable, Torn> {
        match self.end {
            _ if !self.held.is_empty() => return Err(Torn::Short(self.held.len())),
            None => return Err(Torn::NoEnd(self.rows)),
            Some(said) if said != self.rows => {
                return Err(Torn::Count {
                    seen: self.rows,
                    said,
                });
            }
            Some(_) => {}
        }
        // They come in this order: nothing is moved.
        self.tasks.sort_by_key(|task| task.pid);
        self.tasks.dedup_by_key(|task| task.pid);
        let mut tasks = self.tasks;
        for thread in &self.threads {
            // A thread without its process (not there yet, or not any more) belongs to none.
            if let Ok(at) = tasks.binary_search_by_key(&thread.tgid, |t| t.pid)
                && let Some(task) = tasks.get_mut(at)
            {
                task.cpu = Nanos(task.cpu.0.saturating_add(thread.cpu.0));
                task.real_time |= thread.real_time;
                // Its first thread may have ended before the others: it is listed as long as one lives.
                task.is_dead &= thread.is_dead;
                if let Some(signs) = &mut task.signs {
                    signs.faults = signs.faults.wrapping_add(thread.faults);
                }
            }
        }
        let living = tasks.iter().filter(|task| !task.is_dead);
        let mut by_cgroup: Vec<_> = living.map(|task| (task.cgroup, task.pid)).collect();
        by_cgroup.sort_unstable();
        Ok(ProcessTable { tasks, by_cgroup })
    }
}

/// `pid_t` is positive.
fn id(word: u64) -> Result<u32, Torn> {
    let pid = u32::try_from(word).ok().filter(|pid| *pid > 0);
    pid.filter(|pid| *pid <= i32::MAX.cast_unsigned())
        .ok_or(Torn::Id(word))
}

#[cfg(test)]
#[path = "process_table_tests.rs"]
pub(crate) mod tests;
