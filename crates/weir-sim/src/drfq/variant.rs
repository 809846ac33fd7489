// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scheduler of shares that a run has.

use super::fair_shares::device_of_groups;
use super::flow_table::{DrfqSched, FlowHalves};
use super::thesis_rules::{self, ThesisClocks};
use crate::engine::machine::Machine;
use crate::from_scenario::Label;
use weir_core::enforcement::byte_budget::whole;
use weir_scenario::simulated::{DeviceKind, Scenario};
use weir_sched::{FLOW_RESOURCES, PerResource};

/// Variants: which of its halves are at work, and by which rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharesVariant {
    /// The scheduler, and rates in the memory controllers.
    Both,
    /// The scheduler alone: controllers stay as the scenario has them.
    Source,
    /// Rates alone: CPUs are the fair class's.
    Target,
    /// The DRFQS thesis's scheduler and its FR-LVTF controller.
    Thesis,
}

impl SharesVariant {
    pub const ALL: [(&'static str, SharesVariant); 4] = [
        ("drfq", SharesVariant::Both),
        ("drfq-source", SharesVariant::Source),
        ("drfq-target", SharesVariant::Target),
        ("thesis-drfqs", SharesVariant::Thesis),
    ];

    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, variant)| *variant == self);
        found.map_or("", |(name, _)| name)
    }

    fn halves(self) -> FlowHalves {
        FlowHalves {
            has_source: self != SharesVariant::Target,
            has_target: self != SharesVariant::Source,
        }
    }
}

/// Memories that a flow's clocks have room for.
pub(crate) const MEMORIES_MAX: usize = FLOW_RESOURCES - 1;

/// What each resource gives a second: CPUs in nanoseconds, then devices in bytes.
pub(crate) fn capacities(scenario: &Scenario) -> PerResource {
    let mut capacity = [0; FLOW_RESOURCES];
    capacity[0] = u64::from(scenario.cpu_count()) * 1_000_000_000;
    let set_point = scenario.control.set_point_bytes_per_sec;
    for (slot, device) in capacity.iter_mut().skip(1).zip(&scenario.devices) {
        *slot = whole(device.capacity_bytes_per_sec.unwrap_or(set_point));
    }
    capacity
}

pub(crate) fn load(m: &mut Machine, variant: SharesVariant, scenario: &Scenario, labels: &[Label]) {
    // A scenario's weight is a thread's; a flow has that of its threads together.
    let weight = |(index, label): (usize, &Label)| {
        let threads = m.workloads[index].tasks.len() as f64;
        whole(label.weight * threads).clamp(1, 10_000)
    };
    let weights: Vec<u64> = labels.iter().enumerate().map(weight).collect();
    let capacity = capacities(scenario);
    let devices = device_of_groups(scenario);
    let mut sched = DrfqSched::new(&weights, capacity, devices, variant.halves());
    let set_point = scenario.control.set_point_bytes_per_sec;
    for (memory, device) in sched.memories.iter_mut().zip(&scenario.devices) {
        memory.is_dram = device.kind == DeviceKind::Dram;
        memory.set_point = whole(set_point);
    }
    if variant == SharesVariant::Thesis {
        sched.thesis = Some(ThesisClocks::new(&weights, &capacity));
        sched.tick_ns = thesis_rules::SLICE_NS;
    }
    super::load(m, sched);
}
