// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What part of each resource every workload had in the measured time.

use super::variant::capacities;
use crate::engine::accounting::{self, Counts};
use crate::engine::machine::Machine;
use crate::from_scenario::Label;
use std::collections::BTreeMap;
use weir_scenario::figures::WorkloadShares;
use weir_scenario::simulated::{DeviceKind, Role, Scenario};

/// A memory that gave this part of its capacity was saturated: what it gave is what there was to share.
const FULL: f64 = 0.8;

/// Shares of all workloads but the machine's own. Nothing before the measured time has begun.
pub(crate) fn shares(
    m: &Machine,
    scenario: &Scenario,
    labels: &[Label],
) -> BTreeMap<String, WorkloadShares> {
    let after = accounting::counts(m);
    let Some(first) = m.before.first().zip(after.first()) else {
        return BTreeMap::new();
    };
    let secs = (first.1.at_ns - first.0.at_ns) as f64 / 1e9;
    if secs <= 0.0 {
        return BTreeMap::new();
    }
    let devices = device_of_groups(scenario);
    let used: Vec<Used> = m
        .before
        .iter()
        .zip(&after)
        .map(|c| Used::of(c, secs, &devices))
        .collect();
    let capacity = capacities(scenario);
    let shared = |device: usize| {
        let served: f64 = used.iter().map(|u| u.devices[device]).sum();
        let known = capacity.get(device + 1).map_or(0.0, |c| *c as f64);
        if served >= FULL * known {
            served
        } else {
            known
        }
    };
    let shared: Vec<f64> = (0..scenario.devices.len()).map(shared).collect();
    let cpus = m.cpus.len() as f64;
    let all = labels
        .iter()
        .zip(&used)
        .filter(|(l, _)| l.role != Role::System);
    all.map(|(label, used)| {
        (
            label.name.clone(),
            used.shares(label, scenario, &shared, cpus),
        )
    })
    .collect()
}

/// Device of each monitoring group.
pub(crate) fn device_of_groups(scenario: &Scenario) -> Vec<usize> {
    let groups = scenario.devices.iter().enumerate();
    groups
        .flat_map(|(index, device)| (0..device.groups).map(move |_| index))
        .collect()
}

/// Use per second.
struct Used {
    cpus: f64,
    devices: Vec<f64>,
    dma: f64,
}

impl Used {
    fn of((before, after): (&Counts, &Counts), secs: f64, device_of: &[usize]) -> Used {
        let mut devices = vec![0.0; device_of.iter().max().map_or(0, |d| d + 1)];
        for (group, device) in device_of.iter().enumerate() {
            devices[*device] += (after.bytes[group] - before.bytes[group]) / secs;
        }
        Used {
            cpus: (after.cpu_ns - before.cpu_ns) as f64 / 1e9 / secs,
            devices,
            dma: (after.dma_bytes - before.dma_bytes) / secs,
        }
    }

    fn shares(
        &self,
        label: &Label,
        scenario: &Scenario,
        shared: &[f64],
        cpus: f64,
    ) -> WorkloadShares {
        let ratio = |device: usize| self.devices[device] / shared[device].max(1.0);
        let most = |kind: DeviceKind| {
            let of_kind = (0..shared.len()).filter(|d| scenario.devices[*d].kind == kind);
            of_kind.map(ratio).fold(0.0, f64::max)
        };
        let (cpu, dram, cxl) = (
            self.cpus / cpus,
            most(DeviceKind::Dram),
            most(DeviceKind::Cxl),
        );
        let (dominant, dominant_ratio) = match () {
            () if cpu >= dram && cpu >= cxl => ("cpu", cpu),
            () if dram >= cxl => ("dram", dram),
            () => ("cxl", cxl),
        };
        let all: f64 = shared.iter().copied().fold(0.0, f64::max);
        WorkloadShares {
            weight: label.weight,
            cpu_ratio: cpu,
            dram_ratio: dram,
            cxl_ratio: cxl,
            dma_ratio: if all > 0.0 { self.dma / all } else { 0.0 },
            dominant: dominant.into(),
            dominant_ratio,
        }
    }
}
