// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules of the DRFQS thesis (Gao, Waterloo 2022, 4.1 to 4.5), with their faults: they are its result.
//!
//! - *Memory-less*: a piece of a run costs max(run ÷ CPUs, bytes ÷ capacity) ÷ weight. Pieces end at ticks
//!   and at switches.
//! - A task that is blocked keeps its virtual time while its DMA goes on. At its wake-up the bytes are
//!   charged (algorithm 3, with the sign of equation 4.7).
//! - *Cap*: a task that runs leads by ten slices at most (algorithm 2): what is beyond is forgiven.
//! - *Delayed wake-up* (4.5.1): a task that wakes and leads by more waits, unless all CPUs idle.
//! - The memory controller gets ranks: virtual times shifted right by 22 bits (the text says left), once in a
//!   slice.
//!
//! Weights are those of cgroups instead of the thesis's inverted nice.

use super::{state, wake_idle_cpus};
use crate::engine::machine::Machine;
use crate::engine::memory::dma;
use crate::engine::memory::dram_mix::Arbitration;
use weir_sched::PerResource;

/// Its slice, and the time between two ticks of its kernel.
pub(crate) const SLICE_NS: u64 = 4_000_000;
/// Ten slices: the credit C, the cap, and the bound of delayed wake-up.
const TEN_SLICES_NS: f64 = 10.0 * SLICE_NS as f64;
const RANK_BITS: u32 = 22;

#[derive(Clone, Debug)]
pub(crate) struct ThesisClocks {
    clocks: Vec<ThesisClock>,
    now_ns: f64,
    cpus: f64,
    bytes_per_ns: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ThesisClock {
    virtual_ns: f64,
    weight: f64,
    bytes: f64,
    is_known: bool,
    /// It has woken while it led.
    is_delayed: bool,
}

impl ThesisClocks {
    /// For workloads of these weights; 100 is one.
    pub(crate) fn new(weights: &[u64], capacity: &PerResource) -> ThesisClocks {
        let clock = |weight: &u64| ThesisClock {
            weight: *weight as f64 / 100.0,
            ..ThesisClock::default()
        };
        ThesisClocks {
            clocks: weights.iter().map(clock).collect(),
            now_ns: 0.0,
            cpus: capacity[0] as f64 / 1e9,
            bytes_per_ns: capacity[1] as f64 / 1e9,
        }
    }

    pub(crate) fn virtual_ns(&self, workload: usize) -> i64 {
        self.clocks[workload].virtual_ns as i64
    }

    pub(crate) fn is_delayed(&self, workload: usize) -> bool {
        let clock = &self.clocks[workload];
        clock.is_delayed && clock.virtual_ns > self.now_ns + TEN_SLICES_NS
    }

    /// Bytes since the last charge, as time of the memory.
    fn memory_ns(&mut self, workload: usize, bytes: f64) -> f64 {
        let clock = &mut self.clocks[workload];
        let new = bytes - std::mem::replace(&mut clock.bytes, bytes);
        if self.bytes_per_ns > 0.0 {
            new / self.bytes_per_ns
        } else {
            0.0
        }
    }
}

fn clocks(m: &mut Machine) -> &mut ThesisClocks {
    let sched = state(m);
    sched
        .thesis
        .as_mut()
        .expect("the thesis's rules are loaded")
}

pub(crate) fn charge_run(m: &mut Machine, workload: usize, run_ns: u64) {
    let bytes = m.workloads[workload].tally.bytes();
    let all = clocks(m);
    let memory = all.memory_ns(workload, bytes);
    let (now_ns, cpu) = (all.now_ns, run_ns as f64 / all.cpus);
    let clock = &mut all.clocks[workload];
    clock.is_delayed = false;
    let charged = clock.virtual_ns + cpu.max(memory) / clock.weight;
    clock.virtual_ns = charged.min(clock.virtual_ns.max(now_ns + TEN_SLICES_NS));
}

/// A task wakes: what its DMA moved while it was blocked is charged now.
pub(crate) fn wake(m: &mut Machine, workload: usize) {
    dma::settle_disks(m);
    let bytes = m.workloads[workload].tally.bytes();
    let all = clocks(m);
    let memory = all.memory_ns(workload, bytes);
    let now_ns = all.now_ns;
    let clock = &mut all.clocks[workload];
    if !std::mem::replace(&mut clock.is_known, true) {
        clock.virtual_ns = now_ns;
        return;
    }
    clock.virtual_ns += memory / clock.weight;
    clock.virtual_ns = clock.virtual_ns.max(now_ns - TEN_SLICES_NS);
    clock.is_delayed = true;
}

/// The tick: running tasks are charged already; virtual time goes on to the least of them.
pub(crate) fn tick(m: &mut Machine) {
    let running = m.cpus.iter().filter_map(|c| c.current);
    let running: Vec<usize> = running
        .map(|t| m.tasks[t as usize].workload as usize)
        .collect();
    let has_target = state(m).halves.has_target;
    let all = clocks(m);
    let least = running.iter().map(|w| all.clocks[*w].virtual_ns);
    let least = least.fold(f64::INFINITY, f64::min);
    if least.is_finite() {
        all.now_ns = all.now_ns.max(least);
    }
    if has_target {
        let rank = |clock: &ThesisClock| clock.virtual_ns.max(0.0) as u64 >> RANK_BITS;
        let ranks: Vec<u64> = all.clocks.iter().map(rank).collect();
        for memory in 0..state(m).memories.len() {
            m.fluid.arbitrate(memory, Arbitration::Ranks(ranks.clone()));
        }
    }
    wake_idle_cpus(m);
}
