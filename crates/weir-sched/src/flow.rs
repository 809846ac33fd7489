// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dove-tailing (`bpf/sched/dove_tail.h`): a virtual time per resource.

use crate::{FACTOR_BITS, RESOURCES_MAX};

/// Resources of a flow: the CPUs, and up to seven memories.
pub const FLOW_RESOURCES: usize = RESOURCES_MAX as usize;

/// A figure of each resource: first the CPUs, then memories.
pub type PerResource = [u64; FLOW_RESOURCES];

/// Virtual time of a flow on one resource (`struct weir_clock`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowClock {
    /// Nanoseconds of the whole resource, of a flow of weight 100. Wraps around.
    pub ns: u64,
    /// Hundredths of a nanosecond of the resource that are not yet in `ns`.
    pub rest: u64,
    /// Parts of such a hundredth, in 1 ÷ capacity.
    pub part: u64,
}

/// What a workload had of each resource (`struct weir_flow`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// One clock for each resource.
    pub clock: [FlowClock; FLOW_RESOURCES],
    /// Growth of its dominant time by runs since the last tick, 2^-[`FACTOR_BITS`] ns.
    pub pending: u64,
    /// Growth per nanosecond of a run, in the same unit.
    pub factor: u64,
    /// These runs, nanoseconds.
    pub run_ns: u64,
    /// The weight, from 1 to 10 000.
    pub weight: u64,
}

unsafe extern "C" {
    fn weir_host_clock_advance(clock: *mut FlowClock, amount: u64, capacity: u64, weight: u64);
    fn weir_host_flow_dominant(flow: *const Flow) -> u64;
    fn weir_host_flow_run(flow: *mut Flow, run_ns: u64);
    fn weir_host_flow_lead(flow: *const Flow, level: *const u64) -> i64;
    fn weir_host_flow_resume(flow: *mut Flow, level: *const u64, credit_ns: u64);
    fn weir_host_flow_tick(flow: *mut Flow, used: *const u64, capacity: *const u64, delta_ns: u64);
    safe fn weir_host_factor_of_cpus(cpus: u64, weight: u64) -> u64;
    safe fn weir_host_memory_saturated(
        served: u64,
        held: u64,
        set_point_bytes_per_sec: u64,
        ns: u64,
    ) -> i32;
    safe fn weir_host_gate_shut(lead: i64, bound_ns: u64, is_waiting: i32) -> i32;
}

impl FlowClock {
    /// A flow of this weight used so much of a resource that gives `capacity` a second: bytes, or nanoseconds
    /// of CPUs. A capacity of 0 is not charged.
    pub fn advance(&mut self, amount: u64, capacity: u64, weight: u64) {
        // SAFETY: `self` lives and has the layout of `struct weir_clock`.
        unsafe { weir_host_clock_advance(self, amount, capacity, weight) }
    }
}

impl Flow {
    /// A flow that had nothing yet, on so many CPUs, at these levels.
    #[must_use]
    pub fn new(weight: u64, cpus: u64, level: &PerResource) -> Flow {
        let clock = |ns: u64| FlowClock {
            ns,
            ..FlowClock::default()
        };
        Flow {
            clock: level.map(clock),
            pending: 0,
            factor: factor_of_cpus(cpus, weight),
            run_ns: 0,
            weight,
        }
    }

    /// The largest of its clocks at the last tick, nanoseconds.
    #[must_use]
    pub fn dominant_ns(&self) -> u64 {
        // SAFETY: `self` lives, has the layout of `struct weir_flow`, and is only read.
        unsafe { weir_host_flow_dominant(self) }
    }

    #[must_use]
    pub fn key_ns(&self) -> u64 {
        self.dominant_ns().wrapping_add(self.pending >> FACTOR_BITS)
    }

    pub fn run(&mut self, run_ns: u64) {
        // SAFETY: `self` lives and has the layout of `struct weir_flow`.
        unsafe { weir_host_flow_run(self, run_ns) }
    }

    /// How far it leads these levels, nanoseconds: what flows are ordered by.
    #[must_use]
    pub fn lead_ns(&self, level: &PerResource) -> i64 {
        // SAFETY: as above; `level` has as many figures as the header reads.
        unsafe { weir_host_flow_lead(self, level.as_ptr()) }
    }

    /// It wakes: it is at most this credit behind the levels.
    pub fn resume(&mut self, level: &PerResource, credit_ns: u64) {
        // SAFETY: as above.
        unsafe { weir_host_flow_resume(self, level.as_ptr(), credit_ns) }
    }

    /// A tick: what it used of each resource since the last one, and what each gives a second.
    pub fn tick(&mut self, used: &PerResource, capacity: &PerResource, delta_ns: u64) {
        // SAFETY: as above.
        unsafe { weir_host_flow_tick(self, used.as_ptr(), capacity.as_ptr(), delta_ns) }
    }
}

/// Growth per nanosecond of a run of a flow that uses CPUs alone.
#[must_use]
pub fn factor_of_cpus(cpus: u64, weight: u64) -> u64 {
    weir_host_factor_of_cpus(cpus, weight)
}

/// Whether a memory is at its set-point, with what the flows at its gate would take.
#[must_use]
pub fn memory_saturated(served: u64, held: u64, set_point_bytes_per_sec: u64, ns: u64) -> bool {
    weir_host_memory_saturated(served, held, set_point_bytes_per_sec, ns) != 0
}

/// Whether a flow with this lead waits at the gate of a saturated memory.
#[must_use]
pub fn gate_shut(lead_ns: i64, bound_ns: u64, is_waiting: bool) -> bool {
    weir_host_gate_shut(lead_ns, bound_ns, i32::from(is_waiting)) != 0
}

#[cfg(test)]
mod dove_tail_tests;
#[cfg(test)]
mod flow_tests;
