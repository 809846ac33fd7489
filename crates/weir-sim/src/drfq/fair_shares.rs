// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What part of each resource every workload had in the measured time, and what was its part by
//! dominant-resource fairness.

use super::variant::capacities;
use crate::engine::accounting::{self, UseCounts};
use crate::engine::machine::Machine;
use crate::from_scenario::Label;
use std::collections::BTreeMap;
use weir_core::policy::drf::{Flow, Level, Need, Resource, ResourceKind, fill};
use weir_scenario::figures::WorkloadShares;
use weir_scenario::simulated::{DeviceKind, Role, Scenario};

/// A memory that gave this part of its capacity was saturated: what it gave is what there was to share.
const FULL: f64 = 0.8;
/// CPUs of which less is used are not full.
const CPUS_FULL: f64 = 0.97;
/// One that has this part of what it has alone is not held back.
const UNHELD: f64 = 0.98;

/// What a workload used per second of the measured time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsePerSec {
    pub name: String,
    /// Its weight, all threads together; 100 is normal.
    pub weight: f64,
    pub cpus: f64,
    /// Bytes of each device, disks included.
    pub bytes: Vec<f64>,
    /// What of them disks moved.
    pub dma_bytes: f64,
}

impl UsePerSec {
    pub fn all_bytes(&self) -> f64 {
        self.bytes.iter().sum()
    }
}

pub(crate) fn device_of_groups(scenario: &Scenario) -> Vec<usize> {
    let groups = scenario.devices.iter().enumerate();
    groups
        .flat_map(|(index, device)| (0..device.groups).map(move |_| index))
        .collect()
}

/// Uses of all workloads, in the order of `labels`; none before the measured time has begun.
pub(crate) fn uses(m: &Machine, scenario: &Scenario, labels: &[Label]) -> Vec<UsePerSec> {
    let after = accounting::counts(m);
    let devices = device_of_groups(scenario);
    let both = m.before.iter().zip(&after).enumerate();
    let of = |(index, (before, after)): (usize, (&UseCounts, &UseCounts))| {
        let secs = (after.at_ns - before.at_ns) as f64 / 1e9;
        let mut bytes = vec![0.0; scenario.devices.len()];
        for (group, device) in devices.iter().enumerate() {
            bytes[*device] += (after.bytes[group] - before.bytes[group]) / secs;
        }
        let threads = m.workloads[index].tasks.len() as f64;
        (secs > 0.0).then(|| UsePerSec {
            name: labels[index].name.clone(),
            weight: labels[index].weight * threads,
            cpus: (after.cpu_ns - before.cpu_ns) as f64 / 1e9 / secs,
            bytes,
            dma_bytes: (after.dma_bytes - before.dma_bytes) / secs,
        })
    };
    both.filter_map(of).collect()
}

/// What there was to share: CPUs, then bytes per second of each device. With what each workload has alone,
/// a memory that holds one back is known; else one is known that gave most of its capacity.
fn shared(
    scenario: &Scenario,
    uses: &[&UsePerSec],
    alone: Option<&BTreeMap<String, UsePerSec>>,
) -> Vec<f64> {
    let known = capacities(scenario);
    let cpus = f64::from(scenario.cpu_count());
    let used: f64 = uses.iter().map(|u| u.cpus).sum();
    let is_held = |device: usize| {
        let is_held = |own: &&UsePerSec| {
            let alone = alone.and_then(|all| all.get(&own.name));
            alone.is_some_and(|alone| own.bytes[device] < alone.bytes[device] * UNHELD)
        };
        used < cpus * CPUS_FULL && uses.iter().any(is_held)
    };
    let memory = |device: usize| {
        let served: f64 = uses.iter().map(|u| u.bytes[device]).sum();
        let capacity = known.get(device + 1).map_or(0.0, |c| *c as f64);
        if served >= FULL * capacity || is_held(device) {
            served
        } else {
            capacity
        }
    };
    let memories = (0..scenario.devices.len()).map(memory);
    std::iter::once(cpus).chain(memories).collect()
}

/// Shares of all workloads but the machine's own. With what each has alone also its target.
pub(crate) fn shares(
    scenario: &Scenario,
    uses: &[UsePerSec],
    alone: Option<&BTreeMap<String, UsePerSec>>,
) -> BTreeMap<String, WorkloadShares> {
    let shown = scenario.workloads.iter();
    let shown = shown.flat_map(|w| std::iter::repeat_n(w.role, w.count as usize));
    let shown = uses
        .iter()
        .zip(shown)
        .filter(|(_, role)| *role != Role::System);
    let uses: Vec<&UsePerSec> = shown.map(|(used, _)| used).collect();
    let shared = shared(scenario, &uses, alone);
    let levels = alone.map(|alone| targets(scenario, &shared, &uses, alone));
    let one = |(index, used): (usize, &&UsePerSec)| {
        let mut shares = shares_of(scenario, used, &shared);
        let level = levels
            .as_ref()
            .and_then(|levels: &Vec<Level>| levels.get(index));
        if let Some(level) = level.filter(|l| l.dominant_ratio > 0.0) {
            shares.target_ratio = Some(level.dominant_ratio);
            let had = shares.dominant_ratio;
            shares.error_ratio = had.map(|had| had / level.dominant_ratio - 1.0);
        }
        (used.name.clone(), shares)
    };
    uses.iter().enumerate().map(one).collect()
}

/// The filling: what each wants is what it has alone, and what it takes of each resource is what it took.
fn targets(
    scenario: &Scenario,
    shared: &[f64],
    uses: &[&UsePerSec],
    alone: &BTreeMap<String, UsePerSec>,
) -> Vec<Level> {
    let kind = |place: usize| match place.checked_sub(1).map(|d| scenario.devices[d].kind) {
        None => ResourceKind::Cpu,
        Some(DeviceKind::Dram) => ResourceKind::Dram,
        Some(DeviceKind::Cxl) => ResourceKind::Cxl,
    };
    let resource = |(place, capacity): (usize, &f64)| Resource {
        kind: kind(place),
        capacity: *capacity,
    };
    let resources: Vec<Resource> = shared.iter().enumerate().map(resource).collect();
    let all = |u: &UsePerSec| -> Vec<f64> {
        let memories = u.bytes.iter().copied();
        std::iter::once(u.cpus).chain(memories).collect()
    };
    let needs: Vec<Vec<Need>> = uses
        .iter()
        .map(|u| all(u).into_iter().map(Need::own).collect())
        .collect();
    let flow = |(used, needs): (&&UsePerSec, &'_ Vec<Need>)| {
        let own = all(used);
        let ratio = |place: usize| own[place] / shared[place].max(f64::MIN_POSITIVE);
        let dominant = (0..own.len()).max_by(|a, b| ratio(*a).total_cmp(&ratio(*b)));
        let wanted = dominant.and_then(|d| Some(all(alone.get(&used.name)?)[d] / own[d]));
        (used.weight, wanted.unwrap_or(f64::INFINITY), needs.clone())
    };
    let flows: Vec<(f64, f64, Vec<Need>)> = uses.iter().zip(&needs).map(flow).collect();
    let flows: Vec<Flow<'_>> = flows
        .iter()
        .map(|(weight, demand, needs)| Flow {
            weight: *weight,
            demand: *demand,
            threads: f64::INFINITY,
            needs,
        })
        .collect();
    fill(&resources, &flows)
}

fn shares_of(scenario: &Scenario, used: &UsePerSec, shared: &[f64]) -> WorkloadShares {
    let ratio = |device: usize| used.bytes[device] / shared[device + 1].max(1.0);
    let cpu = used.cpus / shared[0];
    let dram = most(scenario, DeviceKind::Dram, ratio);
    let cxl = most(scenario, DeviceKind::Cxl, ratio);
    let (dominant, dominant_ratio) = match () {
        () if cpu >= dram.1 && cpu >= cxl.1 => ("cpu".to_owned(), cpu),
        () if dram.1 >= cxl.1 => (format!("dram{}", dram.0), dram.1),
        () => (format!("cxl{}", cxl.0), cxl.1),
    };
    let largest = shared[1..].iter().copied().fold(1.0, f64::max);
    WorkloadShares {
        weight: used.weight,
        cpu_ratio: Some(cpu),
        dram_ratio: Some(dram.1),
        cxl_ratio: Some(cxl.1),
        dma_ratio: Some(used.dma_bytes / largest),
        dominant: Some(dominant),
        dominant_ratio: Some(dominant_ratio),
        target_ratio: None,
        error_ratio: None,
    }
}

/// The largest share of a device of this kind, after its number among them.
fn most(scenario: &Scenario, kind: DeviceKind, ratio: impl Fn(usize) -> f64) -> (usize, f64) {
    let devices = scenario.devices.iter().enumerate();
    let of_kind = devices.filter(|(_, device)| device.kind == kind);
    let ratios = of_kind
        .enumerate()
        .map(|(number, (index, _))| (number, ratio(index)));
    ratios.fold(
        (0, 0.0),
        |most, one| if one.1 > most.1 { one } else { most },
    )
}
