// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics of weir's scheduler: its actions, the workloads they concern, and their cost. Counts are
//! cumulative: of the scheduler since it was loaded, of a workload since it was given a budget. Names are
//! those of `bpf/sched/intf.h`.

use crate::ids::{DeviceId, WorkloadId};
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The tasks that the scheduler has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Tasks of limited workloads only.
    Partial,
    /// All ordinary tasks.
    Full,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchedStats {
    pub mode: Mode,
    /// Ticks, each a check of all budgets.
    pub ticks: u64,
    /// Time that all ticks took together.
    pub tick_cost_ns: Nanos,
    /// Times it lost weir's heartbeat and suspended all limits.
    pub suspensions: u64,
    /// Tasks that waited in a run queue for seconds, and were dispatched by the starvation guard.
    pub stalled_dispatches: u64,
    /// Longest time from one tick to the next while a workload was limited.
    pub longest_gap_ns: Nanos,
    /// What it costs to queue a task.
    pub enqueue: EnqueueCost,
    /// One entry for each device, in ascending order of id.
    pub devices: Vec<DeviceStats>,
    /// Workloads that have a budget, or that the overload cap applies to.
    pub workloads: BTreeMap<WorkloadId, WorkloadStats>,
}

/// What queueing costs: one in many is timed, over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnqueueCost {
    /// Tasks that were queued or parked.
    pub count: u64,
    pub timed: u64,
    /// Time that the timed ones took together.
    pub timed_ns: Nanos,
    /// The longest of them.
    pub worst_ns: Nanos,
}

impl EnqueueCost {
    pub fn mean_ns(&self) -> Option<Nanos> {
        self.timed_ns.0.checked_div(self.timed).map(Nanos)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceStats {
    pub id: DeviceId,
    /// What the estimates of the last interval were multiplied by: 1 is a good guess.
    pub scale_ratio: f64,
    /// Intervals in which its counters could not be read.
    pub lost_intervals: u64,
    /// Times this was tried: less often the longer it fails.
    pub failed_reads: u64,
    /// Times weir gave the scheduler the device's count, where it cannot read the counters itself; else 0.
    pub ext_updates: u64,
    /// Ticks at which it was so far above its set-point that capped workloads were throttled.
    pub capped_ticks: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadStats {
    /// It keeps to a budget; otherwise only the overload cap applies to it.
    pub is_limited: bool,
    /// What it may still move; below 0: its debt.
    pub budget_bytes: i64,
    /// Bytes that were charged to it so far.
    pub charged_bytes: Bytes,
    /// Times one of its tasks ran.
    pub runs: u64,
    /// How often one of its tasks was parked.
    pub parks: u64,
    /// Time its tasks were parked, summed over tasks.
    pub parked_ns: Nanos,
    /// The longest time one task was parked.
    pub worst_wait_ns: Nanos,
    /// Parked tasks that ran to avoid starvation, in spite of debt.
    pub starvation_runs: u64,
    /// Ticks at which a running task was told to end its run because its budget was used up.
    pub preempts: u64,
    /// Tasks that are parked now.
    pub waiting: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_timed_has_no_mean() {
        let mut queueing = EnqueueCost::default();
        assert_eq!(queueing.mean_ns(), None);
        (queueing.timed, queueing.timed_ns) = (4, Nanos(10));
        assert_eq!(queueing.mean_ns(), Some(Nanos(2)));
    }
}
