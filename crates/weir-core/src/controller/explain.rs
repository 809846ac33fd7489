// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The step's findings as people and screens get them: one state per device, one verdict per
//! workload that uses a device or is limited, each with its reason.

use super::breakdown::breakdown;
use super::budgets::{DeviceBudget, Unlimited};
use super::demands::DeviceDemand;
use super::devices::DeviceTrack;
use super::findings::{StepContext, StepFindings, WorkloadFindings};
use super::state::{DeviceUse, LimitRequest, LimitState, State, WorkloadState};
use crate::ids::DeviceId;
use crate::rates::attribution::{Estimate, Provenance};
use crate::rates::bandwidth::DeviceRate;
use crate::seam::observation::WorkloadReading;
use crate::seam::plan::{
    Decision, DeviceState, FairShare, Saturation, Unenforceable, UnlimitedTraffic, Why,
};
use crate::units::{BytesPerSec, CpuShare, Nanos};

/// What every reason is drawn from.
pub(super) struct Explanation<'a> {
    pub context: &'a StepContext<'a>,
    pub found: &'a StepFindings,
    pub state: &'a State,
}

impl Explanation<'_> {
    pub fn devices(&self) -> Vec<DeviceState> {
        let tracks = self.state.devices.iter();
        let budgets = self.found.budgets.devices.iter();
        let describe =
            |((track, budget), rate): ((&DeviceTrack, &DeviceBudget), &DeviceRate)| DeviceState {
                id: track.id,
                read_bytes_per_sec: rate.read.as_ref().ok().copied(),
                write_bytes_per_sec: rate.write.as_ref().ok().copied(),
                unattributed_bytes_per_sec: budget.of_no_workload.map(BytesPerSec::new),
                migrated_bytes_per_sec: (budget.migrated > 0.0)
                    .then(|| BytesPerSec::new(budget.migrated)),
                set_point_bytes_per_sec: track.setpoint.target.map(BytesPerSec::new),
                correction_ratio: track.correction_in_use(),
                planned_bytes_per_sec: budget.planned.map(BytesPerSec::new),
                unenforceable: budget.unenforceable.map(|found| self.unenforceable(found)),
                saturation: track.saturation.bias_ratio().map(|bias_ratio| Saturation {
                    bias_ratio,
                    limited: track.bound.limited,
                    reaching: track.bound.pinned,
                }),
            };
        let rates = &self.found.rates.devices;
        tracks.zip(budgets).zip(rates).map(describe).collect()
    }

    pub fn verdicts(&self) -> Vec<Decision> {
        let mut verdicts = Vec::with_capacity(self.state.workloads.len());
        let each = self.state.workloads.iter().zip(self.found.workloads());
        for (position, (tracked, found)) in each.enumerate() {
            let index = found.signals.index;
            let seen = index.and_then(|i| self.context.seen.workloads.get(i));
            let is_involved = !tracked.uses.is_empty() || tracked.hold.in_force.is_some();
            if let Some(seen) = seen.filter(|_| is_involved) {
                let fair = self.found.budgets.fair.get(position).copied().flatten();
                verdicts.push(verdict(self, tracked, &found, seen, fair));
            }
        }
        verdicts
    }

    /// What keeps a device's set-point from being held, and the largest part of it.
    fn unenforceable(&self, found: Unlimited) -> Unenforceable {
        let largest = found
            .largest
            .filter(|(_, rate)| *rate > found.of_no_workload);
        let reading = |(position, rate): (usize, f64)| {
            let index = self.found.signals.workloads.get(position)?.index?;
            let seen = self.context.seen.workloads.get(index)?;
            Some(UnlimitedTraffic {
                workload: Some(seen.id.clone()),
                excluded: seen.excluded.clone(),
                bytes_per_sec: BytesPerSec::new(rate),
            })
        };
        Unenforceable {
            unlimited_bytes_per_sec: BytesPerSec::new(found.sum),
            largest: largest.and_then(reading).unwrap_or(UnlimitedTraffic {
                workload: None,
                excluded: None,
                bytes_per_sec: BytesPerSec::new(found.of_no_workload),
            }),
        }
    }

    /// Position of a device in the order of [`State`].
    fn position(&self, device: DeviceId) -> Option<usize> {
        let devices = &self.state.devices;
        devices.binary_search_by_key(&device, |d| d.id).ok()
    }

    fn budget(&self, device: DeviceId) -> Option<&DeviceBudget> {
        self.found.budgets.devices.get(self.position(device)?)
    }
}

fn verdict(
    case: &Explanation<'_>,
    tracked: &WorkloadState,
    found: &WorkloadFindings<'_>,
    seen: &WorkloadReading,
    fair: Option<FairShare>,
) -> Decision {
    let nothing = Estimate {
        provenance: Provenance::Counted,
        ..Estimate::UNKNOWN
    };
    let demands = found.demands.iter();
    let bandwidth = demands.fold(nothing, |sum, demand| sum.plus(demand.bandwidth));
    let kappas = || found.demands.iter().filter_map(|d| d.intensity);
    let allowed = || found.allowed.iter().copied().flatten();
    Decision {
        id: tracked.id.clone(),
        bandwidth,
        traffic: breakdown(case.context, case.found, found.signals),
        cpu_cpus: found.signals.cpu.map(CpuShare::new),
        intensity_bytes_per_cpu_sec: kappas().next().map(|_| kappas().sum()),
        allowed_bytes_per_sec: allowed().next().map(|_| BytesPerSec::new(allowed().sum())),
        limit_cpus: tracked.hold.in_force.map(CpuShare::new),
        limited_weight: seen.limited_weight.clone(),
        throttled_ns: seen.throttled_ns.ok().copied(),
        fair,
        why: why(case, tracked, found, seen),
    }
}

fn why(
    case: &Explanation<'_>,
    tracked: &WorkloadState,
    found: &WorkloadFindings<'_>,
    seen: &WorkloadReading,
) -> Why {
    if let Some(by) = &seen.excluded {
        return Why::Excluded { by: by.clone() };
    }
    if !case.context.config.limit || !case.context.gains.is_holding() {
        return Why::ObserveOnly;
    }
    if found.signals.is_fresh {
        return Why::Learning;
    }
    if tracked.hold.blind_steps > 0 {
        return Why::NoData {
            detail: missing(case, found, seen),
        };
    }
    if let Some((device, _)) = found.budget.short_on {
        return limited(case, tracked, found, device);
    }
    let partly = |demand: &DeviceDemand| {
        let machine = case.context.machine;
        machine.partly_counted_on(demand.device)
    };
    if let Some(partly) = found.demands.iter().find_map(partly) {
        let detail = format!("{}: {partly}", partly.node);
        return Why::NotEnforced { detail };
    }
    let short = |(demand, allowed): (&DeviceDemand, &Option<f64>)| {
        demand.intensity.is_none() && allowed.is_some_and(|a| a < demand.bytes_per_sec)
    };
    if found.demands.iter().zip(found.allowed).any(short) {
        return Why::Learning;
    }
    let full = |demand: &DeviceDemand| case.budget(demand.device).is_some_and(|b| !b.fits);
    if found.demands.iter().any(full) {
        Why::BelowFairShare
    } else {
        Why::Headroom
    }
}

/// The reason of a workload that is limited, or should be. What keeps a limit from being in force comes
/// before what the limit is for: tasks that it does not hold, a machine that cannot limit, a request that was
/// refused. A limit at the floor is told as that, because no plan can lower it.
fn limited(
    case: &Explanation<'_>,
    tracked: &WorkloadState,
    found: &WorkloadFindings<'_>,
    device: DeviceId,
) -> Why {
    let LimitState {
        in_force,
        requested,
        target,
        refused,
        ..
    } = &tracked.hold;
    if let Some(limit) = in_force.filter(|_| tracked.hold.is_unbound()) {
        let used = found.signals.cpu.unwrap_or(0.0);
        let detail = format!(
            "its limit of {limit:.2} CPUs does not hold it: it uses {used:.2}. Its tasks are real-time, or \
             another program raises the limit"
        );
        return Why::NotEnforced { detail };
    }
    let Some(actuator) = &case.context.machine.actuator else {
        let detail = "nothing on this machine can limit: see `weir doctor`".to_owned();
        return Why::NotEnforced { detail };
    };
    if let Some(detail) = refused.as_ref().filter(|_| requested.is_none()) {
        return Why::NotEnforced {
            detail: detail.clone(),
        };
    }
    let limit = match requested {
        Some(LimitRequest::Limit { cpus }) => Some(*cpus),
        _ => in_force.or(*target),
    };
    if found.is_at_floor(limit, &case.context.gains, actuator) {
        return Why::AtFloor;
    }
    let load = tracked.loads.iter().find(|l| l.device == device);
    let free = load.and_then(DeviceUse::seen_free);
    let now = load.map_or(0.0, |load| load.mean);
    let rate = case.position(device).and_then(|i| {
        let rate = case.found.rates.devices.get(i)?;
        rate.total().ok()
    });
    let budget = case.budget(device);
    Why::Limited {
        policy: case.context.config.policy.name().into(),
        demand_bytes_per_sec: BytesPerSec::new(free.map_or(now, |(seen, _)| seen)),
        seen_free_ago_ns: free.map(|(_, at)| Nanos(case.context.at.0.saturating_sub(at.0))),
        device_bytes_per_sec: rate.unwrap_or(BytesPerSec::ZERO),
        asked_bytes_per_sec: budget.map(|budget| BytesPerSec::new(budget.demanded)),
    }
}

/// The first thing that keeps its traffic from being known.
fn missing(case: &Explanation<'_>, found: &WorkloadFindings<'_>, seen: &WorkloadReading) -> String {
    if let Err(why) = &seen.cpu_ns.value {
        return format!("CPU time: {why}");
    }
    let uses = |rate: &&DeviceRate| found.demands.iter().any(|d| d.device == rate.id);
    for rate in case.found.rates.devices.iter().filter(uses) {
        if let Err(why) = rate.total() {
            return format!("counters of {}: {why}", rate.id);
        }
    }
    let unread = seen
        .uses
        .iter()
        .find_map(|u| Some((u.group, u.resident_bytes.value.as_ref().err()?)));
    match unread {
        Some((group, why)) => format!("memory in group {group}: {why}"),
        None => "no source distinguishes its traffic from that of other workloads".to_owned(),
    }
}
