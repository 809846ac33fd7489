// SPDX-License-Identifier: Apache-2.0 OR MIT
//! UseCounts of a run: the truth that estimates and controllers are compared with.

use crate::engine::histogram::Histogram;
use crate::engine::machine::{At, Machine, Task};
use crate::metrics::BlockWindow;
use weir_core::units::LINE_BYTES;

#[derive(Clone, Debug, Default)]
pub(crate) struct Accounting {
    /// Operations of work that is no access.
    pub ops: f64,
    /// Device bytes by monitoring group: read, written.
    pub moved: Vec<(u32, [f64; 2])>,
    /// What of these bytes disks moved for it.
    pub dma_bytes: f64,
    /// Blocks that were done, and how long each took.
    pub blocks: Histogram,
    /// Those that were done since the last window ended.
    pub block_window: BlockWindow,
    /// How long its tasks were runnable without a CPU, each time, for whatever reason.
    pub waits: Histogram,
    pub longest_wait_ns: u64,
}

impl Accounting {
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

    pub(crate) fn bytes(&self) -> f64 {
        self.moved.iter().flat_map(|(_, split)| split).sum()
    }
}

impl Machine {
    /// A workload moved lines of a class; returns their bytes.
    pub(crate) fn account_lines(&mut self, workload: usize, class: u32, lines: f64) -> f64 {
        let class = self.fluid.class(class);
        let bytes = lines * LINE_BYTES as f64;
        let split = [bytes * (1.0 - class.write_ratio), bytes * class.write_ratio];
        for (sum, part) in self.groups[class.group as usize].iter_mut().zip(split) {
            *sum += part;
        }
        self.workloads[workload]
            .tally
            .move_bytes(class.group, split);
        bytes
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

pub(crate) fn note_window(m: &mut Machine) {
    m.settle_all();
    let devices = 0..m.fluid.device_count();
    let written = devices.clone().map(|d| m.fluid.totals(d).write_bytes);
    let written_bytes = written.collect();
    let tallies = m.workloads.iter_mut().map(|w| &mut w.tally);
    let blocks = tallies.map(|t| std::mem::take(&mut t.block_window));
    let blocks = blocks.collect();
    let total = |d: usize| m.fluid.totals(d).read_bytes + m.fluid.totals(d).write_bytes;
    let window = Window {
        device_bytes: devices.map(total).collect(),
        written_bytes,
        blocks,
        bytes: m.workloads.iter().map(|w| w.tally.bytes()).collect(),
        ops: m.workloads.iter().map(|w| w.tally.ops).collect(),
        cpu_ns: (0..m.workloads.len() as u32)
            .map(|w| exact_cpu_ns(m, w))
            .collect(),
        limits: (0..m.workloads.len()).map(|w| limit_of(m, w)).collect(),
    };
    m.windows.push(window);
}

#[derive(Clone, Debug, Default)]
pub(crate) struct UseCounts {
    pub cpu_ns: u64,
    /// Bytes by monitoring group, over all devices.
    pub bytes: Vec<f64>,
    pub dma_bytes: f64,
    pub at_ns: u64,
}

pub(crate) fn counts(m: &Machine) -> Vec<UseCounts> {
    let of = |workload: usize| {
        let tally = &m.workloads[workload].tally;
        let mut bytes = vec![0.0; m.groups.len()];
        for (group, split) in &tally.moved {
            bytes[*group as usize] += split.iter().sum::<f64>();
        }
        UseCounts {
            cpu_ns: exact_cpu_ns(m, workload as u32),
            bytes,
            dma_bytes: tally.dma_bytes,
            at_ns: m.now,
        }
    };
    (0..m.workloads.len()).map(of).collect()
}

/// Forgets latencies seen so far; sums are taken as differences of windows.
pub(crate) fn begin_measuring(m: &mut Machine) {
    m.settle_all();
    m.before = counts(m);
    m.fluid.forget_latencies();
    for tally in m.workloads.iter_mut().map(|w| &mut w.tally) {
        tally.blocks.clear();
        tally.waits.clear();
        tally.longest_wait_ns = 0;
    }
}

/// The longest time that a task of a workload was runnable without a CPU, or is until now.
pub(crate) fn longest_wait_ns(m: &Machine, workload: usize) -> u64 {
    let w = &m.workloads[workload];
    let tasks = w.tasks.clone().map(|t| &m.tasks[t as usize]);
    let waits = |t: &&Task| matches!(t.at, At::Queued(_) | At::Throttled(_) | At::Dispatchable);
    let until_now = tasks.filter(waits).map(|t| m.now - t.wants_since);
    until_now.max().unwrap_or(0).max(w.tally.longest_wait_ns)
}

/// CPU time of a workload: exact up to the last tick of each CPU, as cgroups count it.
pub(crate) fn cpu_ns(m: &Machine, workload: u32) -> u64 {
    let tasks = m.workloads[workload as usize].tasks.clone();
    let tick = m.shape.tick_ns;
    let of = |task: u32| {
        let t = &m.tasks[task as usize];
        let At::Running(cpu) = t.at else {
            return t.exec_ns;
        };
        let last_tick = m.now / tick * tick;
        t.exec_ns + last_tick.saturating_sub(m.cpus[cpu as usize].charged_at)
    };
    tasks.map(of).sum()
}

/// CPU time to the nanosecond.
pub(crate) fn exact_cpu_ns(m: &Machine, workload: u32) -> u64 {
    let of = |task: u32| {
        let t = &m.tasks[task as usize];
        let running = match t.at {
            At::Running(cpu) => m.now - m.cpus[cpu as usize].charged_at,
            _ => 0,
        };
        t.exec_ns + running
    };
    m.workloads[workload as usize].tasks.clone().map(of).sum()
}

fn limit_of(m: &Machine, workload: usize) -> f64 {
    let held = m.ext.as_deref();
    if let Some(account) = held.and_then(|e| e.stats.accounts[workload]) {
        return account.rate.cpus;
    }
    m.ordinary.limit_cpus(m, workload)
}

/// Cumulative bytes of a monitoring group, in whole lines as a counter counts them.
pub(crate) fn counter(m: &mut Machine, group: usize) -> [u64; 2] {
    m.groups[group].map(|bytes| bytes as u64 / LINE_BYTES * LINE_BYTES)
}
