// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of memory controllers: each user's part of what the memory gives, by weight. A flow that wants less
//! leaves the rest to others. One that leads gets a little less, so that clocks, and with them DMA and what
//! was lost meanwhile, are put right.
//!
//! A flow that is behind and needs something else most is held back nowhere: it has all of the memory while
//! it uses it. What it takes in the mean is bounded by its dominant resource. With its mean as its rate, one
//! that goes from memory to memory would wait in each.

use super::flow_table::DrfqSched;
use super::state;
use crate::engine::machine::Machine;
use crate::engine::memory::dram_mix::Arbitration;
use weir_core::BytesPerSec;
use weir_core::policy::{Demand, split};

/// A lead of this changes a rate by the factor e, virtual nanoseconds.
const LEAD_NS: f64 = 20e6;
/// Most by which a lead changes a rate.
const CHANGE_MAX: f64 = 4.0;
/// What a flow that is limited by something else is given, as a multiple of what it uses: so much it can grow
/// until rates are set again.
const ROOM: f64 = 1.25;
/// A flow that uses this part of what it was given may be held back by that. A disk never waits for a CPU,
/// and was taken for a flow that cannot use more: its rate grew by a quarter each 10 ms. Since it counts as
/// held back it has its share within 50 ms.
const USED_UP: f64 = 0.9;
/// Rate of a flow that was not seen to use the memory, part of its capacity.
const UNSEEN: f64 = 0.01;

pub(crate) fn arbitrate(m: &mut Machine) {
    for memory in 0..state(m).memories.len() {
        let rates = state(m).rates_of(memory);
        m.fluid.arbitrate(memory, Arbitration::Rates(rates));
    }
}

impl DrfqSched {
    /// Whether a flow is to wait for nothing here: it lags, and has more of something else.
    fn is_free(&self, index: usize, memory: usize) -> bool {
        let flow = &self.flows[index];
        let share = |r: usize| flow.rate[r] / self.capacity[r].max(1) as f64;
        let most = (0..self.capacity.len()).map(share).fold(0.0, f64::max);
        flow.is_satisfied && share(memory + 1) < most
    }

    /// The rates of all flows at one memory: first a fair split of what the memory gives, with demands where
    /// a flow is known to take less, then a change of each part by how far the flow leads or lags.
    ///
    /// What a flow wants is not seen while it is held back. So one that is limited by something else counts
    /// with what it took in its busiest tick and some room, and all others count as wanting everything: the
    /// split gives them their fair parts in either case.
    fn rates_of(&mut self, memory: usize) -> Vec<f64> {
        let resource = memory + 1;
        let capacity = self.capacity[resource] as f64;
        let state = &self.memories[memory];
        let gives = if state.is_saturated {
            state.served
        } else {
            capacity
        };
        let demand = |index: usize| {
            let flow = &self.flows[index];
            let share = |r: usize| flow.rate[r] / self.capacity[r].max(1) as f64;
            let own = share(resource);
            let is_used_up = flow.rate[resource] >= USED_UP * flow.given[resource];
            let is_elsewhere = (0..self.capacity.len()).any(|r| share(r) > own);
            let wants = match () {
                () if !self.uses(index, memory) || self.is_free(index, memory) => 0.0,
                () if is_elsewhere || flow.is_satisfied && !is_used_up => {
                    flow.busy_rate[resource] * ROOM
                }
                () => f64::INFINITY,
            };
            Demand {
                bytes_per_sec: BytesPerSec::new(wants),
                weight: flow.flow.weight as f64,
            }
        };
        let demands: Vec<Demand> = (0..self.flows.len()).map(demand).collect();
        let parts = split(&demands, BytesPerSec::new(gives));
        for (flow, part) in self.flows.iter_mut().zip(&parts) {
            flow.given[resource] = part.get().max(capacity * UNSEEN);
        }
        let rate = |(index, part): (usize, &BytesPerSec)| {
            if self.is_free(index, memory) {
                return capacity;
            }
            let level = self.level_of(index);
            let lead = self.flows[index].flow.key_ns().wrapping_sub(level) as i64;
            let change = (-lead as f64 / LEAD_NS).exp();
            let part = part.get().max(capacity * UNSEEN);
            part * change.clamp(1.0 / CHANGE_MAX, CHANGE_MAX)
        };
        parts.iter().enumerate().map(rate).collect()
    }
}
