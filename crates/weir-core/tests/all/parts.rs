// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts that made-up machines and observations have in common, and short questions to plans.

use weir_core::seam::observation::{GroupReading, Use, WorkloadKind, WorkloadReading};
use weir_core::seam::plan::{ActionKind, Decision, OutcomeKind};
use weir_core::seam::topology::{Actuator, CountedBy, Device, Group, Lever};
use weir_core::{Bytes, Description, DeviceId, GroupId, Nanos, Outcome, Plan, Reading, WorkloadId};

pub const MS: u64 = 1_000_000;
/// The first group of the first device.
pub const GROUP: GroupId = group(0, 0);

pub const fn group(device: u32, index: u32) -> GroupId {
    GroupId {
        device: DeviceId(device),
        index,
    }
}

/// Periods of 20 ms, and a write gives nothing away.
pub fn actuator(levers: &[Lever]) -> Actuator {
    Actuator {
        name: "none".into(),
        levers: levers.to_vec(),
        min_cpus: 0.001,
        grain_ns: Nanos(4 * MS),
        refill_on_write_ratio: 0.0,
        period_ns: Nanos(20 * MS),
        min_quota_ns: Nanos(0),
        is_exact: false,
    }
}

/// Makes a machine with these groups, in order, their devices, and a back end with these levers.
pub fn machine(cpu_count: u32, groups: &[GroupId], levers: &[Lever]) -> Description {
    let device = |id: DeviceId| Device {
        id,
        name: format!("weir_{id}"),
        capacity_bytes_per_sec: None,
        counter_mask_bytes: u64::MAX,
        counted_by: CountedBy::Model,
    };
    let mut devices: Vec<DeviceId> = groups.iter().map(|group| group.device).collect();
    devices.dedup();
    let group = |id: &GroupId| Group {
        id: *id,
        node: None,
        size_bytes: Bytes(1 << 30),
    };
    Description {
        cpu_count,
        devices: devices.into_iter().map(device).collect(),
        groups: groups.iter().map(group).collect(),
        actuator: Some(actuator(levers)),
        ..Description::default()
    }
}

/// A cgroup with so much CPU time used, and the same memory in each of these groups.
pub fn workload(id: WorkloadId, at: Nanos, cpu_ns: f64, groups: &[GroupId]) -> WorkloadReading {
    let use_ = |group: &GroupId| Use {
        group: *group,
        resident_bytes: Reading::new(at, Bytes(1 << 30)),
        sampled_read_bytes: None,
        sampled_write_bytes: None,
    };
    WorkloadReading {
        id,
        kind: WorkloadKind::Cgroup,
        cpu_ns: Reading::new(at, Nanos(cpu_ns as u64)),
        throttled_ns: Reading::new(at, Nanos(0)),
        uses: groups.iter().map(use_).collect(),
        resident_bytes: None,
        weight: 100.0,
        their_limit_cpus: None,
        limited_weight: None,
        excluded: None,
    }
}

/// A group of which so much was read, and nothing written.
pub fn read(id: GroupId, at: Nanos, bytes: f64) -> GroupReading {
    GroupReading {
        id,
        read_bytes: Reading::new(at, Bytes(bytes as u64)),
        write_bytes: Reading::new(at, Bytes(0)),
    }
}

/// All that a plan requests is carried out.
pub fn applied(plan: &Plan) -> Vec<Outcome> {
    let done = |action: &weir_core::Action| Outcome {
        workload: action.workload.clone(),
        result: OutcomeKind::Applied,
    };
    plan.actions.iter().map(done).collect()
}

/// The limit in CPUs; none for a release.
pub fn limit_of(kind: ActionKind) -> Option<f64> {
    match kind {
        ActionKind::Limit(limit) => Some(limit.cpus().get()),
        ActionKind::Release => None,
    }
}

pub fn decision<'a>(plan: &'a Plan, id: &str) -> &'a Decision {
    let found = plan.workloads.iter().find(|found| found.id.as_str() == id);
    found.unwrap_or_else(|| panic!("no decision on {id}"))
}

/// Within a hundredth.
pub fn near(what: &str, got: f64, want: f64) {
    let error = (got - want).abs();
    assert!(
        error <= 0.01 * want.abs().max(1e-9),
        "{what}: {got}, should be {want}"
    );
}
