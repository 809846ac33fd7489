// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the lines one by one add up to.

use crate::host_path::flow::PathNetwork;
use crate::host_path::outcome::{FlowOutcome, MemoryOutcome, PathOutcome, PoolOutcome};

/// Picoseconds of a nanosecond: times are whole numbers, so that their order is exact.
pub(super) const PS: f64 = 1e3;

#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub done: Vec<u64>,
    pub flow_wait_ps: Vec<u64>,
    pub flow_residence_ps: Vec<u64>,
    pub flow_admitted: Vec<u64>,
    pub pool_wait_ps: Vec<u64>,
    pub pool_residence_ps: Vec<u64>,
    pub pool_admitted: Vec<u64>,
    pub memory_residence_ps: Vec<u64>,
    pub memory_lines: Vec<u64>,
    pub memory_work_ps: Vec<f64>,
}

impl Tally {
    pub fn new(network: &PathNetwork) -> Self {
        let flows = network.flows.len();
        let (pools, memories) = (network.pools.len(), network.memories.len());
        Tally {
            done: vec![0; flows],
            flow_wait_ps: vec![0; flows],
            flow_residence_ps: vec![0; flows],
            flow_admitted: vec![0; flows],
            pool_wait_ps: vec![0; pools],
            pool_residence_ps: vec![0; pools],
            pool_admitted: vec![0; pools],
            memory_residence_ps: vec![0; memories],
            memory_lines: vec![0; memories],
            memory_work_ps: vec![0.0; memories],
        }
    }

    /// What the sums say of a span of time.
    pub fn outcome(&self, network: &PathNetwork, span_ps: f64) -> PathOutcome {
        let mean = |sum: u64, count: u64| sum as f64 / count.max(1) as f64 / PS;
        let flows = (0..self.done.len()).map(|i| FlowOutcome {
            lines_per_ns: self.done[i] as f64 / span_ps * PS,
            wait_ns: mean(self.flow_wait_ps[i], self.flow_admitted[i]),
            residence_ns: mean(self.flow_residence_ps[i], self.flow_admitted[i]),
        });
        let pools = (0..self.pool_admitted.len()).map(|i| PoolOutcome {
            wait_ns: mean(self.pool_wait_ps[i], self.pool_admitted[i]),
            occupancy: self.pool_residence_ps[i] as f64 / span_ps,
            lines_per_ns: self.pool_admitted[i] as f64 / span_ps * PS,
        });
        let memories = network.memories.iter().enumerate();
        let memories = memories.map(|(i, memory)| MemoryOutcome {
            residence_ns: match self.memory_lines[i] {
                0 => memory.residence_ns,
                lines => mean(self.memory_residence_ps[i], lines),
            },
            utilisation: self.memory_work_ps[i] / span_ps,
        });
        PathOutcome {
            flows: flows.collect(),
            pools: pools.collect(),
            memories: memories.collect(),
        }
    }
}
