// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The step's findings as people and screens get them: one state per device, one verdict per
//! workload that uses a device or is limited, each with its reason.

use super::config::Config;
use super::devices::DeviceTrack;
use super::state::{LimitState, State, WorkloadState};
use crate::ids::DeviceId;
use crate::rates::attribution::{Estimate, Provenance};
use crate::rates::bandwidth::DeviceRate;
use crate::seam::observation::{Observation, WorkloadReading};
use crate::seam::plan::{ActionKind, Decision, DeviceState, Why};
use crate::seam::topology::Description;
use crate::units::{BytesPerSec, CpuShare};

/// The devices' states, by id.
pub(super) fn devices(state: &State, rates: &[DeviceRate]) -> Vec<DeviceState> {
    let describe = |(track, rate): (&DeviceTrack, &DeviceRate)| DeviceState {
        id: track.id,
        read_bytes_per_sec: rate.read.as_ref().ok().copied(),
        write_bytes_per_sec: rate.write.as_ref().ok().copied(),
        unattributed_bytes_per_sec: track.unowned_now.map(BytesPerSec::new),
        set_point_bytes_per_sec: track.setpoint.target.map(BytesPerSec::new),
        correction_ratio: track.correction_in_use(),
    };
    state.devices.iter().zip(rates).map(describe).collect()
}

/// What every reason is drawn from.
pub(super) struct PlanContext<'a> {
    pub config: &'a Config,
    /// There is something to hold.
    pub is_holding: bool,
    /// What each workload keeps as long as there are few, in CPUs.
    pub floor_cpus: f64,
    pub machine: &'a Description,
    pub devices: &'a [DeviceTrack],
    pub rates: &'a [DeviceRate],
}

/// The verdicts, by workload id.
pub(super) fn verdicts(
    case: &PlanContext<'_>,
    workloads: &[WorkloadState],
    seen: &Observation,
) -> Vec<Decision> {
    let decide = |tracked: &WorkloadState| {
        let found = seen.workloads.get(tracked.now.index?)?;
        let involved = !tracked.uses.is_empty() || tracked.hold.in_force.is_some();
        involved.then(|| verdict(case, tracked, found))
    };
    let mut verdicts = Vec::with_capacity(workloads.len());
    verdicts.extend(workloads.iter().filter_map(decide));
    verdicts
}

fn verdict(case: &PlanContext<'_>, tracked: &WorkloadState, found: &WorkloadReading) -> Decision {
    let nothing = Estimate {
        provenance: Provenance::Counted,
        ..Estimate::UNKNOWN
    };
    let bandwidth = tracked
        .loads
        .iter()
        .fold(nothing, |sum, load| sum.plus(load.now));
    let kappas = || tracked.loads.iter().filter_map(|l| l.intensity());
    let allowed = || tracked.loads.iter().filter_map(|l| l.allowed);
    Decision {
        id: tracked.id.clone(),
        bandwidth,
        traffic: tracked.now.figure,
        cpu_cpus: tracked.now.cpu.map(CpuShare::new),
        intensity_bytes_per_cpu_sec: kappas().next().map(|_| kappas().sum()),
        allowed_bytes_per_sec: allowed().next().map(|_| BytesPerSec::new(allowed().sum())),
        limit_cpus: tracked.hold.in_force.map(CpuShare::new),
        limited_weight: found.limited_weight.clone(),
        throttled_ns: found.throttled_ns.ok().copied(),
        why: why(case, tracked, found),
    }
}

fn why(case: &PlanContext<'_>, tracked: &WorkloadState, found: &WorkloadReading) -> Why {
    if let Some(by) = &found.excluded {
        return Why::Excluded { by: by.clone() };
    }
    if !case.config.limit || !case.is_holding {
        return Why::ObserveOnly;
    }
    if tracked.now.fresh {
        return Why::Learning;
    }
    if tracked.hold.blind_steps > 0 {
        return Why::NoData {
            detail: missing(case, tracked, found),
        };
    }
    if let Some((device, _)) = tracked.now.short_on {
        return limited(case, tracked, device);
    }
    let short = |load: &super::state::DeviceUse| {
        load.intensity().is_none() && load.allowed.is_some_and(|a| a < load.demand)
    };
    if tracked.loads.iter().any(short) {
        return Why::Learning;
    }
    let full = |load: &super::state::DeviceUse| {
        let found = case
            .devices
            .binary_search_by_key(&load.device, |d| d.id)
            .ok();
        found
            .and_then(|i| case.devices.get(i))
            .is_some_and(|d| !d.fits)
    };
    if tracked.loads.iter().any(full) {
        Why::BelowFairShare
    } else {
        Why::Headroom
    }
}

fn limited(case: &PlanContext<'_>, tracked: &WorkloadState, device: DeviceId) -> Why {
    let LimitState {
        in_force,
        requested,
        target,
        refused,
        ..
    } = &tracked.hold;
    if case.machine.actuator.is_none() {
        let detail = "nothing on this machine can limit: see `weir doctor`".to_owned();
        return Why::NotEnforced { detail };
    }
    if let Some(detail) = refused.as_ref().filter(|_| requested.is_none()) {
        return Why::NotEnforced {
            detail: detail.clone(),
        };
    }
    let limit = match requested {
        Some(ActionKind::Limit { cpus }) => Some(cpus.get()),
        _ => in_force.or(*target),
    };
    let least = case.machine.actuator.as_ref().map_or(0.0, |a| a.min_cpus);
    let floor = tracked.floor(case.floor_cpus, least);
    if limit.is_some_and(|l| l <= floor) {
        return Why::AtFloor;
    }
    let load = tracked.loads.iter().find(|l| l.device == device);
    let rate = case
        .rates
        .iter()
        .find(|r| r.id == device)
        .and_then(|r| r.total().ok());
    let track = case.devices.iter().find(|track| track.id == device);
    Why::Limited {
        policy: case.config.policy.name().to_owned(),
        demand_bytes_per_sec: BytesPerSec::new(load.map_or(0.0, |l| l.demand)),
        device_bytes_per_sec: rate.unwrap_or(BytesPerSec::ZERO),
        asked_bytes_per_sec: track.map(|track| BytesPerSec::new(track.demanded)),
    }
}

/// The first thing that keeps its traffic from being known.
fn missing(case: &PlanContext<'_>, tracked: &WorkloadState, found: &WorkloadReading) -> String {
    if let Err(why) = &found.cpu_ns.value {
        return format!("CPU time: {why}");
    }
    let uses = |rate: &&DeviceRate| tracked.loads.iter().any(|l| l.device == rate.id);
    for rate in case.rates.iter().filter(uses) {
        if let Err(why) = rate.total() {
            return format!("counters of {}: {why}", rate.id);
        }
    }
    let unread = found
        .uses
        .iter()
        .find_map(|u| Some((u.group, u.resident_bytes.value.as_ref().err()?)));
    match unread {
        Some((group, why)) => format!("memory in group {group}: {why}"),
        None => "no source distinguishes its traffic from that of other workloads".to_owned(),
    }
}
