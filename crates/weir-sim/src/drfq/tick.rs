// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tick of the scheduler of shares: use becomes clocks, clocks become levels, levels shut and open gates.

use super::flow_table::DrfqSched;
use super::{charge, rates, set_aside, state, thesis_rules, wake_idle_cpus};
use crate::engine::accounting;
use crate::engine::event_queue::Event;
use crate::engine::machine::Machine;
use weir_sched::{
    FLOW_BOUND_NS, FLOW_CREDIT_NS, FLOW_DELTA_NS, FLOW_RESOURCES, PerResource, gate_shut,
    memory_saturated,
};

/// Part of a new value in means over some milliseconds.
const SMOOTH: f64 = 0.125;
/// What the highest use of a tick keeps with each tick: half of it after 44 ms. A flow that cannot use more
/// is given what it takes in its busiest tick of late. It was given its mean and a quarter more, although it
/// needs all of a memory while it is there; the error of a workload on two memories was −18.3 % and is −14.7
/// % (docs/evidence/fairness-sim.md).
const BUSY_KEEPS: f64 = 1.0 - 1.0 / 64.0;
/// A memory stays saturated for this long after it was last full.
const HOLD_NS: u64 = 100_000_000;
/// Rates of controllers are set once in this many ticks.
const RATES_EACH: u64 = 10;

pub(crate) fn tick(m: &mut Machine) {
    if state(m).halves.has_source {
        (0..m.cpus.len() as u32).for_each(|cpu| charge(m, cpu));
    }
    m.settle_all();
    let used: Vec<PerResource> = (0..m.workloads.len()).map(|w| use_of(m, w)).collect();
    let next = m.now + state(m).tick_ns;
    m.queue.push(next, Event::Flows);
    if state(m).thesis.is_some() {
        return thesis_rules::tick(m);
    }
    let now = m.now;
    let sched = state(m);
    let elapsed = now - std::mem::replace(&mut sched.ticked_at, now);
    sched.ticks += 1;
    sched.charge_flows(&used, elapsed);
    sched.find_saturated(now, elapsed);
    sched.find_levels();
    sched.bound_lags();
    let has_target = sched.halves.has_target && sched.ticks.is_multiple_of(RATES_EACH);
    let has_source = sched.halves.has_source;
    if has_source && sched.shut_gates() {
        set_gated_aside(m);
    }
    if has_target {
        rates::arbitrate(m);
    }
    if has_source {
        wake_idle_cpus(m);
    }
}

/// Use of each resource by a workload since the start: nanoseconds of CPUs, bytes of memories.
pub(crate) fn use_of(m: &Machine, workload: usize) -> PerResource {
    let mut used = [0; FLOW_RESOURCES];
    used[0] = accounting::exact_cpu_ns(m, workload as u32);
    let Some(sched) = m.drfq.as_deref() else {
        return used;
    };
    let mut bytes = [0.0; FLOW_RESOURCES];
    for (group, split) in &m.workloads[workload].tally.moved {
        bytes[sched.devices[*group as usize] + 1] += split.iter().sum::<f64>();
    }
    for (used, bytes) in used.iter_mut().zip(bytes).skip(1) {
        *used = bytes as u64;
    }
    used
}

fn set_gated_aside(m: &mut Machine) {
    for cpu in 0..m.cpus.len() as u32 {
        let Some(task) = m.ordinary_on(cpu) else {
            continue;
        };
        let workload = m.tasks[task as usize].workload as usize;
        if state(m).flows[workload].is_gated {
            set_aside(m, cpu);
            m.pick(cpu);
        }
    }
}

impl DrfqSched {
    fn charge_flows(&mut self, used: &[PerResource], elapsed: u64) {
        let per_sec = 1e9 / elapsed.max(1) as f64;
        let has_source = self.halves.has_source;
        for (state, used) in self.flows.iter_mut().zip(used) {
            let before = std::mem::replace(&mut state.used, *used);
            let mut new = [0; FLOW_RESOURCES];
            for (resource, new) in new.iter_mut().enumerate() {
                *new = used[resource].saturating_sub(before[resource]);
                let (now, rate) = (*new as f64 * per_sec, &mut state.rate[resource]);
                *rate += SMOOTH * (now - *rate);
                let busy = &mut state.busy_rate[resource];
                *busy = now.max(*busy * BUSY_KEEPS);
            }
            if !has_source {
                // It does not see tasks wake: what uses something wants it.
                state.wanting = u32::from(new.iter().any(|n| *n > 0));
            }
            if !state.is_gated {
                state.free_rate = state.rate;
            }
            state.flow.tick(&new, &self.capacity, FLOW_DELTA_NS);
            state.has_waited = !state_is_served(state.wanting, new[0], elapsed);
        }
    }

    fn find_saturated(&mut self, now: u64, elapsed: u64) {
        for index in 0..self.memories.len() {
            let all = self.flows.iter();
            let served: f64 = all.map(|f| f.rate[index + 1]).sum();
            let gated = self.flows.iter().filter(|f| f.is_gated);
            let held: f64 = gated
                .map(|f| (f.free_rate[index + 1] - f.rate[index + 1]).max(0.0))
                .sum();
            let bytes = |rate: f64| (rate * elapsed as f64 / 1e9) as u64;
            let memory = &mut self.memories[index];
            memory.served = served;
            if memory_saturated(bytes(served), bytes(held), memory.set_point, elapsed) {
                memory.full_at = now;
                memory.is_saturated = true;
            } else if now - memory.full_at > HOLD_NS {
                memory.is_saturated = false;
            }
        }
    }

    /// Mean dominant time by weight, of the flows that are chosen; none of none.
    fn mean_key(&self, is_chosen: impl Fn(usize) -> bool) -> Option<u64> {
        let chosen: Vec<usize> = (0..self.flows.len()).filter(|f| is_chosen(*f)).collect();
        let base = self.flows[*chosen.first()?].flow.key_ns();
        let (mut sum, mut weights) = (0i128, 0i128);
        for flow in chosen {
            let flow = &self.flows[flow].flow;
            let ahead = flow.key_ns().wrapping_sub(base) as i64;
            sum += i128::from(ahead) * i128::from(flow.weight);
            weights += i128::from(flow.weight);
        }
        Some(base.wrapping_add((sum / weights) as u64))
    }

    fn find_levels(&mut self) {
        let is_stopped = |flow: usize| {
            let full = |m: usize| self.memories[m].is_saturated && self.uses(flow, m);
            (0..self.memories.len()).any(full)
        };
        let wants = |flow: usize| self.flows[flow].wanting > 0;
        let cpus = self
            .mean_key(|f| wants(f) && !is_stopped(f))
            .or_else(|| self.mean_key(wants));
        if let Some(key) = cpus {
            raise(&mut self.level[0], key);
        }
        for memory in 0..self.memories.len() {
            let users = self.mean_key(|f| self.uses(f, memory));
            match users {
                Some(key) if self.memories[memory].is_saturated => self.level[memory + 1] = key,
                _ => self.level[memory + 1] = self.level[0],
            }
        }
    }

    /// A flow that waited for nothing and fell behind all the same keeps a lag of C.
    fn bound_lags(&mut self) {
        for index in 0..self.flows.len() {
            let level = self.level_of(index);
            let state = &mut self.flows[index];
            let lag = level.wrapping_sub(state.flow.key_ns()) as i64;
            let most = state.lag_ns.max(FLOW_CREDIT_NS as i64);
            state.is_satisfied = !state.has_waited && !state.is_gated && lag > most;
            if state.is_satisfied {
                state.flow.resume(&[level; FLOW_RESOURCES], most as u64);
            }
            state.lag_ns = lag.min(most);
        }
    }

    /// True if a flow has to stop.
    fn shut_gates(&mut self) -> bool {
        let mut has_stopped = false;
        for index in 0..self.flows.len() {
            let is_gated = self.leads_a_full_memory(index);
            let was_gated = std::mem::replace(&mut self.flows[index].is_gated, is_gated);
            self.parks += u64::from(is_gated && !was_gated);
            has_stopped |= is_gated && !was_gated;
        }
        has_stopped
    }

    fn leads_a_full_memory(&self, index: usize) -> bool {
        let state = &self.flows[index];
        let is_led = |memory: usize| {
            let lead = state
                .flow
                .lead_ns(&[self.level[memory + 1]; FLOW_RESOURCES]);
            // One that waits uses nothing.
            let uses =
                state.is_gated && state.free_rate[memory + 1] > 0.0 || self.uses(index, memory);
            let is_full = self.memories[memory].is_saturated;
            is_full && uses && gate_shut(lead, FLOW_BOUND_NS, state.is_gated)
        };
        (0..self.memories.len()).any(is_led)
    }
}

/// Whether a flow's tasks ran all the time that they wanted to.
fn state_is_served(wanting: u32, run_ns: u64, elapsed: u64) -> bool {
    run_ns + elapsed / 64 >= u64::from(wanting) * elapsed
}

fn raise(level: &mut u64, key: u64) {
    if (key.wrapping_sub(*level) as i64) > 0 {
        *level = key;
    }
}
