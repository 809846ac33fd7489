// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flows of the scheduler of shares, and which of them goes next.

use super::thesis_rules::ThesisClocks;
use std::collections::VecDeque;
use weir_sched::{FLOW_CREDIT_NS, FLOW_RESOURCES, Flow, PerResource};

/// A task that waits longer than this is late: it gets a short turn at the next choice of any CPU, whatever
/// the lead of its flow.
///
/// With half of the tasks at weight 1 and half at 10 000, on four CPUs, the longest wait is 2.0 to 2.1 s;
/// with the simulator's EEVDF it is 22 s, the whole run (docs/evidence/fairness-sim.md, "Starvation").
const LATE_NS: u64 = 2_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct FlowState {
    pub flow: Flow,
    /// Its tasks that wait for a CPU, and since when.
    queue: VecDeque<(u32, u64)>,
    /// Tasks that run or wait.
    pub wanting: u32,
    /// It waits at a gate.
    pub is_gated: bool,
    /// A task of it has waited for a CPU since the last tick.
    pub has_waited: bool,
    /// How far it was behind at the last tick, virtual nanoseconds.
    pub lag_ns: i64,
    /// It fell behind without waiting: it cannot use more.
    pub is_satisfied: bool,
    /// Use of each resource up to the last tick.
    pub used: PerResource,
    /// Mean use per second of the last milliseconds, and the last one while no gate held it.
    pub rate: [f64; FLOW_RESOURCES],
    pub free_rate: [f64; FLOW_RESOURCES],
    /// The most that it used per second in a tick of late: what it takes while it is at a memory.
    pub busy_rate: [f64; FLOW_RESOURCES],
    /// Part of each memory that its controller last had for it, bytes per second.
    pub given: [f64; FLOW_RESOURCES],
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryState {
    pub is_dram: bool,
    /// What is full, bytes per second.
    pub set_point: u64,
    /// Mean bytes per second of the last milliseconds.
    pub served: f64,
    pub is_saturated: bool,
    /// When it was last seen at its set-point.
    pub full_at: u64,
}

/// What of the scheduler is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowHalves {
    /// The order of flows and gates.
    pub has_source: bool,
    pub has_target: bool,
}

pub(crate) struct DrfqSched {
    pub tick_ns: u64,
    pub halves: FlowHalves,
    pub flows: Vec<FlowState>,
    /// What each resource gives a second.
    pub capacity: PerResource,
    pub level: PerResource,
    /// One entry for each device of the scenario.
    pub memories: Vec<MemoryState>,
    /// Device of each monitoring group.
    pub devices: Vec<usize>,
    pub ticked_at: u64,
    pub ticks: u64,
    /// The thesis's rules instead.
    pub thesis: Option<ThesisClocks>,
    /// Times that a flow was stopped at a gate.
    pub parks: u64,
}

impl DrfqSched {
    /// Flows of these weights, on resources of these capacities: CPUs in nanoseconds a second, then memories.
    pub(crate) fn new(
        weights: &[u64],
        capacity: PerResource,
        devices: Vec<usize>,
        halves: FlowHalves,
    ) -> DrfqSched {
        let cpus = capacity[0] / 1_000_000_000;
        let flow = |weight: &u64| FlowState {
            flow: Flow::new(*weight, cpus, &[0; FLOW_RESOURCES]),
            queue: VecDeque::new(),
            wanting: 0,
            is_gated: false,
            has_waited: false,
            lag_ns: 0,
            is_satisfied: false,
            used: [0; FLOW_RESOURCES],
            rate: [0.0; FLOW_RESOURCES],
            free_rate: [0.0; FLOW_RESOURCES],
            busy_rate: [0.0; FLOW_RESOURCES],
            given: [0.0; FLOW_RESOURCES],
        };
        let count = devices.iter().max().map_or(0, |most| most + 1);
        DrfqSched {
            tick_ns: 1_000_000,
            halves,
            flows: weights.iter().map(flow).collect(),
            memories: vec![MemoryState::default(); count],
            capacity,
            level: [0; FLOW_RESOURCES],
            devices,
            ticked_at: 0,
            ticks: 0,
            thesis: None,
            parks: 0,
        }
    }

    /// Whether a flow uses a memory, more than a thousandth of it.
    pub(crate) fn uses(&self, flow: usize, memory: usize) -> bool {
        self.flows[flow].rate[memory + 1] > self.memories[memory].set_point as f64 / 1000.0
    }

    /// The level that a flow is measured by: of the saturated memory that it uses where that is least, else
    /// of the CPUs.
    pub(crate) fn level_of(&self, flow: usize) -> u64 {
        let full = (0..self.memories.len())
            .filter(|m| self.memories[*m].is_saturated && self.uses(flow, *m));
        let levels = full.map(|m| self.level[m + 1]);
        // Levels are compared by difference: they wrap around.
        levels.fold(self.level[0], |least, level| {
            if (level.wrapping_sub(least) as i64) < 0 {
                level
            } else {
                least
            }
        })
    }

    /// How far a flow leads the level of the CPUs: the order.
    pub(crate) fn lead(&self, flow: usize) -> i64 {
        match &self.thesis {
            Some(thesis) => thesis.virtual_ns(flow),
            None => self.flows[flow]
                .flow
                .lead_ns(&[self.level[0]; FLOW_RESOURCES]),
        }
    }

    pub(crate) fn begin_to_want(&mut self, flow: usize) {
        let level = self.level_of(flow);
        let state = &mut self.flows[flow];
        state.wanting += 1;
        if state.wanting == 1 {
            state.flow.resume(&[level; FLOW_RESOURCES], FLOW_CREDIT_NS);
        }
    }

    pub(crate) fn end_to_want(&mut self, flow: usize) {
        self.flows[flow].wanting = self.flows[flow].wanting.saturating_sub(1);
    }

    pub(crate) fn queue_up(&mut self, flow: usize, task: u32, now: u64) {
        self.flows[flow].queue.push_back((task, now));
    }

    pub(crate) fn forget(&mut self, flow: usize, task: u32) {
        let before = self.flows[flow].queue.len();
        self.flows[flow].queue.retain(|(t, _)| *t != task);
        if self.flows[flow].queue.len() < before {
            self.end_to_want(flow);
        }
    }

    /// Whether its tasks may not run now.
    pub(crate) fn is_held(&self, flow: usize) -> bool {
        let is_delayed = |thesis: &ThesisClocks| thesis.is_delayed(flow);
        self.flows[flow].is_gated || self.thesis.as_ref().is_some_and(is_delayed)
    }

    pub(crate) fn has_queue(&self, flow: usize) -> bool {
        !self.flows[flow].queue.is_empty()
    }

    /// The flow with the smallest lead of those that may run.
    fn best(&self) -> Option<(usize, i64)> {
        let ready = (0..self.flows.len()).filter(|f| self.has_queue(*f) && !self.is_held(*f));
        ready.map(|f| (f, self.lead(f))).min_by_key(|(_, l)| *l)
    }

    /// The flow of the task that has waited longest, if that is too long.
    fn late(&self, now: u64) -> Option<usize> {
        let first = |f: usize| self.flows[f].queue.front().map(|(_, since)| (*since, f));
        let oldest = (0..self.flows.len()).filter_map(first).min();
        let late = oldest.filter(|(since, _)| now - since >= LATE_NS && self.thesis.is_none());
        late.map(|(_, flow)| flow)
    }

    /// Whether another flow goes before this one, which runs.
    pub(crate) fn has_better(&self, flow: usize, now: u64) -> bool {
        let own = self.lead(flow);
        self.late(now).is_some() || self.best().is_some_and(|(_, lead)| lead <= own)
    }

    /// The next task, and whether it is late. The thesis's delayed tasks run where all CPUs idle.
    pub(crate) fn take_next(&mut self, now: u64, is_idle: bool) -> Option<(u32, bool)> {
        let late = self.late(now);
        let delayed = || {
            let waits = |f: &usize| is_idle && self.thesis.is_some() && self.has_queue(*f);
            let waiting = (0..self.flows.len()).filter(waits);
            waiting.min_by_key(|f| self.lead(*f))
        };
        let best = late.or_else(|| self.best().map(|(f, _)| f));
        let flow = best.or_else(delayed)?;
        let (task, _) = self.flows[flow].queue.pop_front()?;
        Some((task, late.is_some()))
    }
}
