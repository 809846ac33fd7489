// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a simulated host says of itself.

use super::{PERIOD_MAX_NS, QUOTA_MIN_NS, Refills};
use crate::engine::machine::Machine;
use weir_core::seam::topology::{Actuator, CountedBy, Description, Device, Fact, Group, Lever};
use weir_core::{Bytes, DeviceId, GroupId, Nanos, NodeId};
use weir_scenario::simulated::{self, Scenario, WorkloadConfig};

/// Devices and groups of a scenario, and limits by `cpu.max`.
pub(super) fn describe(
    machine: &Machine,
    scenario: &Scenario,
    groups: &[(u32, u32)],
    refills: &Refills,
    period_ns: u64,
) -> Description {
    let device = |(i, d): (usize, &simulated::Device)| Device {
        id: DeviceId(i as u32),
        name: format!("{} (simulated)", d.profile),
        capacity_bytes_per_sec: None,
        counter_mask_bytes: u64::MAX,
        counted_by: CountedBy::Model,
    };
    let resident = |device: u32, index: u32| {
        let of = |w: &&WorkloadConfig| (w.device, w.group) == (device, index);
        let each = scenario.workloads.iter().filter(of);
        each.map(|w| u64::from(w.count) * w.resident_mib)
            .sum::<u64>()
            << 20
    };
    let group = |(i, (device, index)): (usize, &(u32, u32))| Group {
        id: GroupId {
            device: DeviceId(*device),
            index: *index,
        },
        node: Some(NodeId(i as u32 + 1)),
        size_bytes: Bytes(resident(*device, *index)),
    };
    Description {
        kernel: format!("weir-sim, HZ={}", scenario.machine.hz),
        cpu_count: machine.cpus.len() as u32,
        devices: scenario.devices.iter().enumerate().map(device).collect(),
        groups: groups.iter().enumerate().map(group).collect(),
        actuator: Some(Actuator {
            name: "sim".into(),
            levers: vec![Lever::CpuTime, Lever::Weight],
            min_cpus: QUOTA_MIN_NS / PERIOD_MAX_NS,
            grain_ns: Nanos(machine.shape.tick_ns),
            refill_on_write_ratio: refills.leak_ratio(),
            period_ns: Nanos(period_ns),
            min_quota_ns: Nanos(QUOTA_MIN_NS as u64),
            is_exact: false,
        }),
        task_events: Vec::new(),
        partly_counted: Vec::new(),
        facts: vec![Fact {
            name: "scenario".into(),
            value: Ok(scenario.name.clone()),
            next_move: None,
        }],
    }
}
