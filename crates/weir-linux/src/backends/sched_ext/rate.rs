// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the plan to what the scheduler gets for one workload: its rate, its intensity, its device.

use super::intf::{self, WorkloadCfg};
use crate::workloads::discovery::Watched;
use std::collections::BTreeSet;
use weir_core::DeviceId;
use weir_core::enforcement::byte_budget::WholeBudget;
use weir_core::seam::plan::OutcomeKind;

/// A budget is for one device: this back end does not limit workloads that use several.
pub(super) fn only_device(watched: &Watched) -> Result<DeviceId, OutcomeKind> {
    let devices: BTreeSet<DeviceId> = watched.uses.iter().map(|u| u.group.device).collect();
    let mut devices = devices.into_iter();
    match (devices.next(), devices.next()) {
        (Some(device), None) if (device.0 as usize) < intf::MAX_DEVICES => Ok(device),
        (Some(_), _) => Err(OutcomeKind::Refused(format!(
            "it uses several devices, or one after the first {}: use --backend cpu-max",
            intf::MAX_DEVICES
        ))),
        (None, _) => Err(OutcomeKind::Refused("it has no memory on a device".into())),
    }
}

/// What the plan lets a workload move.
pub(super) fn rate_of(budget: WholeBudget, device: u64) -> WorkloadCfg {
    WorkloadCfg {
        active: intf::MODE_LIMITED,
        bytes_per_sec: budget.bytes_per_sec,
        intensity_bytes_per_sec: budget.intensity_bytes_per_cpu_sec,
        device,
    }
}
