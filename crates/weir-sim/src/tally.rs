// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of a run: the truth that estimates and controllers are compared with.

use crate::histogram::Histogram;
use crate::machine::{At, Machine, Scheduler, Task};
use crate::measures::BlockWindow;
use weir_core::units::LINE_BYTES;

/// Counts of one workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Operations of work that is no access.
    pub ops: f64,
    /// Device bytes by monitoring group: read, written.
    pub moved: Vec<(u32, [f64; 2])>,
    /// Blocks that were done, and how long each took.
    pub blocks: Histogram,
    /// Those that were done since the last window ended.
    pub block_window: BlockWindow,
    /// How long its tasks were runnable without a CPU, each time, for whatever reason.
    pub waits: Histogram,
    pub longest_wait_ns: u64,
}

impl Tally {
    pub(crate) fn move_bytes(&mut self, group: u32, split: [f64; 2]) {
        let at = self
            .moved
            .iter()
            .position(|(g, _)| *g == group)
            .unwrap_or_else(|| {
                self.moved.push((group, [0.0; 2]));
                self.moved.len() - 1
            });
        let [read, write] = &mut self.moved[at].1;
        *read += split[0];
        *write += split[1];
    }

    pub(crate) fn end_block(&mut self, latency_ns: u64) {
        self.blocks.add(latency_ns as f64, 1.0);
        self.block_window.count += 1;
        self.block_window.sum_ns += latency_ns as f64;
        self.block_window.longest_ns = self.block_window.longest_ns.max(latency_ns);
    }

    pub(crate) fn end_wait(&mut self, ns: u64) {
        self.waits.add(ns as f64, 1.0);
        self.longest_wait_ns = self.longest_wait_ns.max(ns);
    }

    /// All device bytes.
    pub(crate) fn bytes(&self) -> f64 {
        self.moved.iter().flat_map(|(_, split)| split).sum()
    }
}

/// State of the machine at the end of a window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// Cumulative device bytes, read and written together, by device.
    pub device_bytes: Vec<f64>,
    /// What of them was written.
    pub written_bytes: Vec<f64>,
    /// Blocks of each workload that were done in this window alone.
    pub blocks: Vec<BlockWindow>,
    /// Cumulative device bytes by workload.
    pub bytes: Vec<f64>,
    /// Cumulative CPU time by workload.
    pub cpu_ns: Vec<u64>,
    /// Cumulative operations by workload.
    pub ops: Vec<f64>,
    /// Limit in CPUs by workload; infinite where there is none.
    pub limits: Vec<f64>,
}

impl Machine {
    pub(crate) fn note_window(&mut self) {
        self.settle_all();
        let devices = 0..self.fluid.device_count();
        let written = devices.clone().map(|d| self.fluid.totals(d).write_bytes);
        let written_bytes = written.collect();
        let tallies = self.workloads.iter_mut().map(|w| &mut w.tally);
        let blocks = tallies.map(|t| std::mem::take(&mut t.block_window));
        let blocks = blocks.collect();
        let total = |d: usize| self.fluid.totals(d).read_bytes + self.fluid.totals(d).write_bytes;
        let window = Window {
            device_bytes: devices.map(total).collect(),
            written_bytes,
            blocks,
            bytes: self.workloads.iter().map(|w| w.tally.bytes()).collect(),
            ops: self.workloads.iter().map(|w| w.tally.ops).collect(),
            cpu_ns: (0..self.workloads.len() as u32)
                .map(|w| self.exact_cpu_ns(w))
                .collect(),
            limits: (0..self.workloads.len())
                .map(|w| self.limit_of(w))
                .collect(),
        };
        self.windows.push(window);
    }

    /// Forgets latencies seen so far; sums are taken as differences of windows.
    pub(crate) fn begin_measuring(&mut self) {
        self.fluid.forget_latencies();
        for tally in self.workloads.iter_mut().map(|w| &mut w.tally) {
            tally.blocks.clear();
            tally.waits.clear();
            tally.longest_wait_ns = 0;
        }
    }

    /// The longest time that a task of a workload was runnable without a CPU, or is until now.
    pub(crate) fn longest_wait_ns(&self, workload: usize) -> u64 {
        let w = &self.workloads[workload];
        let tasks = w.tasks.clone().map(|t| &self.tasks[t as usize]);
        let waits = |t: &&Task| matches!(t.at, At::Queued(_) | At::Throttled(_) | At::Dispatchable);
        let until_now = tasks.filter(waits).map(|t| self.now - t.wants_since);
        until_now.max().unwrap_or(0).max(w.tally.longest_wait_ns)
    }

    /// CPU time of a workload: exact up to the last tick of each CPU, as cgroups count it.
    pub(crate) fn cpu_ns(&self, workload: u32) -> u64 {
        let tasks = self.workloads[workload as usize].tasks.clone();
        let tick = self.shape.tick_ns;
        let of = |task: u32| {
            let t = &self.tasks[task as usize];
            let At::Running(cpu) = t.at else {
                return t.exec_ns;
            };
            let last_tick = self.now / tick * tick;
            t.exec_ns + last_tick.saturating_sub(self.cpus[cpu as usize].charged_at)
        };
        tasks.map(of).sum()
    }

    /// CPU time to the nanosecond.
    pub(crate) fn exact_cpu_ns(&self, workload: u32) -> u64 {
        let of = |task: u32| {
            let t = &self.tasks[task as usize];
            let running = match t.at {
                At::Running(cpu) => self.now - self.cpus[cpu as usize].charged_at,
                _ => 0,
            };
            t.exec_ns + running
        };
        self.workloads[workload as usize]
            .tasks
            .clone()
            .map(of)
            .sum()
    }

    fn limit_of(&self, workload: usize) -> f64 {
        let w = &self.workloads[workload];
        let held = self.ext.as_deref();
        if let Some(account) = held.and_then(|e| e.stats.accounts[workload]) {
            return account.rate.cpus;
        }
        match &self.scheduler {
            Scheduler::Scx(scx) => w.tasks.clone().map(|t| scx.limits[t as usize]).sum(),
            Scheduler::Eevdf(_) => w.quota.limit().map_or(f64::INFINITY, |l| l.cpus()),
        }
    }

    /// Cumulative bytes of a monitoring group, in whole lines as a counter counts them.
    pub(crate) fn counter(&mut self, group: usize) -> [u64; 2] {
        self.groups[group].map(|bytes| bytes as u64 / LINE_BYTES * LINE_BYTES)
    }
}
