// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether ordinary tasks leave the CPUs that limited tasks need, which rank below them in partial mode. A
//! program on the machine can see it: at each observation it counts the tasks that run or wait.

use crate::engine::machine::{At, Machine};
use weir_core::enforcement::class_rank::CpuShortage;
use weir_core::rates::bandwidth::Ewma;

/// Time constant of the count, and how long limits are in force before they are checked: intensities are
/// measured on stalled CPUs at first, and the first limits are too high.
const SMOOTH_NS: f64 = 1e9;
const SETTLE_NS: u64 = 2_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuRoom {
    /// Ordinary tasks of others that run or wait for a CPU.
    others: Ewma,
    observed_at: u64,
    /// Since when there are limits.
    held_since: Option<u64>,
    shortage: Option<CpuShortage>,
}

impl CpuRoom {
    /// Counts once. `daemon` is weir's own task.
    pub(crate) fn observe(&mut self, machine: &Machine, daemon: u32) {
        let Some(ext) = machine.ext.as_deref() else {
            return;
        };
        let limit = |workload: u32| ext.stats.accounts[workload as usize].map(|a| a.rate.cpus);
        let is_counted = |index: usize| {
            let task = &machine.tasks[index];
            let is_there = matches!(task.at, At::Running(_) | At::Queued(_));
            is_there && index as u32 != daemon && limit(task.workload).is_none()
        };
        let count = (0..machine.tasks.len()).filter(|i| is_counted(*i)).count();
        let weight = 1.0 - (-((machine.now - self.observed_at) as f64) / SMOOTH_NS).exp();
        let others = self.others.push(weight, count as f64);
        self.observed_at = machine.now;
        let limits = (0..machine.workloads.len() as u32).filter_map(limit);
        let (held, allowed) = limits.fold((0, 0.0), |(n, sum), cpus| (n + 1, sum + cpus));
        if held == 0 {
            self.held_since = None;
            return;
        }
        let since = *self.held_since.get_or_insert(machine.now);
        if machine.now - since >= SETTLE_NS {
            let cpus = machine.cpus.len() as f64;
            self.shortage = self.shortage.or(CpuShortage::of(cpus, others, allowed));
        }
    }

    /// The first that was seen.
    pub(crate) fn shortage(&self) -> Option<CpuShortage> {
        self.shortage
    }
}
