// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The split of policy drf: all devices and CPU time together ([`crate::policy::drf`]).
//!
//! *Resources* are CPU time and each device that is held, its budget being what there is after what weir
//! may not limit was taken off. Of CPU time the use of excluded workloads is taken off likewise; the kernel
//! keeps [`CPU_LEFT_RATIO`] for ordinary tasks whatever real-time tasks do. *Flows* are all workloads that
//! may be limited, those that use no device too. What a flow wants is 1 unit of progress: the CPU time and
//! the bytes that it would use without a limit. A workload of which no traffic is known counts by its CPU
//! time alone.
//!
//! *What becomes of it.* The parts of devices lead to limits as those of any policy. Two things differ:
//!
//! - A workload that needs a device most, and is held back because the CPUs are full, is limited too, so that
//!   others get the CPU time. That has nothing to do with the device's bandwidth, and moves no correction.
//! - A workload that needs CPU time most gets no limit because CPUs are full: by its weight it has its part
//!   from the kernel already, once the others keep to theirs. So nothing that uses no device is limited.
//!
//! *Reach.* While all CPUs are busy, what a workload uses is not what it would use. Those that have as much
//! CPU time for their weight as any other are the ones that wait. Their demand is taken as larger, by a
//! factor that grows while CPUs are full, up to [`REACH_MAX`], and is forgotten when they are not: too large
//! a factor leaves CPUs idle, and that takes it back.

use super::budgets::fair_parts;
use super::budgets::{DeviceClaim, DeviceClaims, WorkloadBudget};
use super::demands::{Demands, DeviceDemand};
use super::findings::StepContext;
use super::signals::{Signals, WorkloadSignals};
use super::state::WorkloadState;
use crate::policy::Demand;
use crate::policy::drf::{Flow, Level, Need, Resource, ResourceKind, Stop, fill};
use crate::rates::attribution::Provenance;
use crate::seam::plan::{FairShare, SharedResource};
use crate::units::BytesPerSec;

/// Part of the CPUs that ordinary tasks have at least (the kernel's server for them: 50 ms in a second).
const CPU_LEFT_RATIO: f64 = 0.05;

/// CPUs of which this part is used are full: the rest is what a switch and a tick take.
const FULL_RATIO: f64 = 0.95;

/// A workload with this part of the most CPU time for its weight that any has is waiting for more.
const WAITING_RATIO: f64 = 0.7;

/// How far demand is taken as larger than use, how fast that grows, and how soon it is forgotten.
const REACH_MAX: f64 = 2.0;
const REACH_PER_SEC: f64 = 0.5;
const FORGET_SECS: f64 = 2.0;

/// Position of CPU time among the resources.
const CPU: usize = 0;

/// How fast a limit for want of CPU time is corrected, per second and part that it is off, and how far. It is
/// corrected by the CPU time that the workload uses: no counter of a device tells of its error.
const CORRECTION_PER_SEC: f64 = 0.3;
const CORRECTION_MAX: f64 = 1.25;

pub(super) struct Division {
    /// One list for each device that is held, with one entry for each claim on it.
    pub parts: Vec<Vec<BytesPerSec>>,
    /// One entry for each workload; `None` for one that does not take part in the division.
    pub shares: Vec<Option<FairShare>>,
}

/// Divides CPU time and the budgets of all devices.
///
/// All claims are divided in one filling, so that what one device holds back of a workload is left to others
/// on the next device. Then two things are done that the rule of dominant-resource fairness does not ask for:
/// no workload has less than it keeps beside traffic that cannot be limited ([`fair_parts`], ADR 21), and
/// limits that would buy nothing are given back. A flow that CPU time has stopped gets nothing back, because
/// no limit of a device holds it.
pub(super) fn divide(
    workloads: &mut [WorkloadState],
    context: &StepContext<'_>,
    signals: &Signals,
    demands: &Demands,
    claimed: &[DeviceClaims],
) -> Division {
    let cpus = f64::from(context.machine.cpu_count.max(1));
    follow_reach(workloads, signals, cpus, context.dt);
    let resources = resources(workloads, signals, cpus, claimed);
    let needs = needs(workloads, signals, claimed);
    let rows = needs.chunks(resources.len());
    let each = workloads.iter().zip(&signals.workloads).zip(rows);
    let flows: Vec<Flow<'_>> = each
        .map(|((tracked, seen), needs)| Flow {
            weight: seen.weight,
            demand: tracked.reach,
            threads: seen.cap,
            needs,
        })
        .collect();
    let levels = fill(&resources, &flows);
    let least = least_progress(&resources, &flows, claimed, &levels);
    let parts = claimed.iter().map(|of_device| {
        let each = of_device.claims.iter().zip(&of_device.demands);
        let part = |(claim, demand): (&DeviceClaim, &Demand)| {
            let progress = levels.get(claim.position).map_or(0.0, granted);
            let kept = least.get(claim.position).copied().unwrap_or(0.0);
            BytesPerSec::new(demand.bytes_per_sec.get() * progress.max(kept))
        };
        let mut parts: Vec<BytesPerSec> = each.map(part).collect();
        let is_ours = |i: usize| {
            let level = of_device.claims.get(i).and_then(|c| levels.get(c.position));
            level.is_some_and(|level| level.stop != Stop::Full(CPU))
        };
        fair_parts::give_back(&mut parts, &of_device.seen, of_device.kept.excess, is_ours);
        parts
    });
    let case = DividedResources {
        resources: &resources,
        claimed,
    };
    let found = signals.workloads.iter().zip(demands.workloads());
    let shares = found.zip(flows.iter().zip(&levels));
    Division {
        parts: parts.collect(),
        shares: shares
            .map(|((seen, demands), (flow, level))| case.share(seen, demands, flow, level))
            .collect(),
    }
}

/// The part of its demands that each workload keeps on all devices, whatever is not limited beside it
/// ([`fair_parts`]). It is no more than the workload would have if all could be limited, and nothing where
/// CPU time holds the workload back, because a share of a device gives no CPU time.
fn least_progress(
    resources: &[Resource],
    flows: &[Flow<'_>],
    claimed: &[DeviceClaims],
    levels: &[Level],
) -> Vec<f64> {
    let mut kept = vec![f64::INFINITY; flows.len()];
    for of_device in claimed {
        let each = of_device.claims.iter().zip(&of_device.demands);
        for ((claim, demand), least) in each.zip(&of_device.kept.each) {
            let demand = demand.bytes_per_sec.get();
            if let Some(slot) = kept.get_mut(claim.position)
                && demand > 0.0
            {
                *slot = slot.min(least / demand);
            }
        }
    }
    let each = levels.iter().zip(&kept);
    if !each
        .into_iter()
        .any(|(level, kept)| granted(level) < kept.min(1.0))
    {
        return kept;
    }
    let mut whole = resources.to_vec();
    for (resource, of_device) in whole.iter_mut().skip(1).zip(claimed) {
        resource.capacity = of_device.whole;
    }
    let of_whole = fill(&whole, flows);
    let each = kept.iter().zip(levels).zip(&of_whole);
    each.map(|((kept, level), of_whole)| match level.stop {
        Stop::Full(CPU) => 0.0,
        _ => kept.min(granted(of_whole)),
    })
    .collect()
}

/// The part of its demand that a claim is granted: all of it where the kernel alone holds the workload back.
fn granted(level: &Level) -> f64 {
    match (level.dominant, level.stop) {
        (Some(CPU), Stop::Full(CPU)) => 1.0,
        _ => level.progress.min(1.0),
    }
}

/// CPU time, and the devices that are held, in their order.
fn resources(
    workloads: &[WorkloadState],
    signals: &Signals,
    cpus: f64,
    claimed: &[DeviceClaims],
) -> Vec<Resource> {
    let each = workloads.iter().zip(&signals.workloads);
    let excluded = each.filter(|(_, seen)| seen.index.is_some() && !seen.is_limitable);
    let taken: f64 = excluded.filter_map(|(of, _)| of.cpu_smooth.get()).sum();
    let cpu = Resource {
        kind: ResourceKind::Cpu,
        capacity: (cpus - taken).max(cpus * CPU_LEFT_RATIO),
    };
    let device = |of: &DeviceClaims| Resource {
        kind: ResourceKind::Cxl,
        capacity: of.budget,
    };
    std::iter::once(cpu)
        .chain(claimed.iter().map(device))
        .collect()
}

/// One need for each workload and resource.
fn needs(workloads: &[WorkloadState], signals: &Signals, claimed: &[DeviceClaims]) -> Vec<Need> {
    let columns = claimed.len() + 1;
    let mut needs = vec![Need::default(); columns * workloads.len()];
    let rows = needs.chunks_mut(columns);
    for ((tracked, seen), row) in workloads.iter().zip(&signals.workloads).zip(rows) {
        if let Some(cpu) = row.first_mut()
            && seen.index.is_some()
            && seen.is_limitable
        {
            *cpu = Need::own(tracked.wanted);
        }
    }
    for (place, of_device) in (1..).zip(claimed) {
        for (claim, demand) in of_device.claims.iter().zip(&of_device.demands) {
            if let Some(need) = needs.get_mut(claim.position * columns + place) {
                *need = Need::own(demand.bytes_per_sec.get());
            }
        }
    }
    needs
}

fn follow_reach(workloads: &mut [WorkloadState], signals: &Signals, cpus: f64, dt: f64) {
    let used = |tracked: &WorkloadState| tracked.cpu_smooth.get().unwrap_or(0.0);
    let is_free = |tracked: &WorkloadState, seen: &WorkloadSignals| {
        let is_seen = seen.index.is_some() && seen.is_limitable;
        is_seen && tracked.hold.in_force.is_none()
    };
    let (mut busy, mut most) = (0.0, 0.0f64);
    for (tracked, seen) in workloads.iter().zip(&signals.workloads) {
        busy += used(tracked);
        if is_free(tracked, seen) {
            most = most.max(used(tracked) / seen.weight);
        }
    }
    let is_full = busy >= FULL_RATIO * cpus;
    let kept = 1.0 - (dt / FORGET_SECS).min(1.0);
    for (tracked, seen) in workloads.iter_mut().zip(&signals.workloads) {
        let is_waiting = used(tracked) >= WAITING_RATIO * most * seen.weight;
        let waits = is_full && is_waiting && most > 0.0 && is_free(tracked, seen);
        tracked.reach = if waits {
            (tracked.reach + REACH_PER_SEC * dt.min(1.0)).min(REACH_MAX)
        } else {
            1.0 + (tracked.reach - 1.0) * kept
        };
    }
}

struct DividedResources<'a> {
    resources: &'a [Resource],
    claimed: &'a [DeviceClaims],
}

impl DividedResources<'_> {
    fn share(
        &self,
        seen: &WorkloadSignals,
        demands: &[DeviceDemand],
        flow: &Flow<'_>,
        level: &Level,
    ) -> Option<FairShare> {
        let dominant = self.resource(level.dominant?)?;
        let capacity = self.resources.get(level.dominant?)?.capacity;
        let of_device = |device| demands.iter().find(|d| d.device == device);
        let used = match dominant {
            SharedResource::Cpu => seen.cpu.unwrap_or(0.0),
            SharedResource::Device(device) => {
                of_device(device).map_or(0.0, |d| d.bandwidth.bytes_per_sec.get())
            }
        };
        let by_device = flow.needs.iter().skip(1);
        let has_no_count = by_device.map(|need| need.total()).sum::<f64>() == 0.0
            && demands
                .iter()
                .any(|d| d.bandwidth.provenance == Provenance::Unknown);
        Some(FairShare {
            dominant,
            used_ratio: if capacity > 0.0 { used / capacity } else { 0.0 },
            target_ratio: level.dominant_ratio,
            held_back_by: match level.stop {
                Stop::Full(place) => self.resource(place),
                Stop::Satisfied | Stop::Threads => None,
            },
            is_by_cpu_alone: has_no_count,
        })
    }

    fn resource(&self, place: usize) -> Option<SharedResource> {
        match place.checked_sub(1) {
            None => Some(SharedResource::Cpu),
            Some(device) => {
                let device = self.claimed.get(device)?.device;
                Some(SharedResource::Device(device))
            }
        }
    }
}

/// Says what a workload is short of.
pub(super) fn name_the_shortage(
    (budget, fair): (&mut WorkloadBudget, &Option<FairShare>),
    (tracked, seen): (&mut WorkloadState, &WorkloadSignals),
    context: &StepContext<'_>,
) {
    if let (Some((device, limit)), Some(fair)) = (&mut budget.short_on, fair) {
        match (fair.held_back_by, fair.dominant) {
            (Some(SharedResource::Cpu), SharedResource::Device(dominant)) => {
                *device = dominant;
                budget.lacks_cpu = true;
                *limit *= correct(tracked, *limit, seen, context);
            }
            (Some(SharedResource::Device(full)), _) => *device = full,
            _ => {}
        }
    }
    if !budget.lacks_cpu {
        tracked.cpu_correction = 1.0;
    }
}

/// A limit by `cpu.max` takes more than it should where CPUs are full: after a refill the workload waits for
/// a CPU, and what it does not use until the next refill is lost. No device's error tells of it.
fn correct(
    tracked: &mut WorkloadState,
    limit: f64,
    seen: &WorkloadSignals,
    context: &StepContext<'_>,
) -> f64 {
    let is_exact = context
        .machine
        .actuator
        .as_ref()
        .is_some_and(|a| a.is_exact);
    if let Some(used) = seen.cpu
        && tracked.hold.pinned
        && !is_exact
        && limit > 0.0
    {
        let error = (1.0 - used / limit).clamp(-1.0, 1.0);
        let moved = tracked.cpu_correction + CORRECTION_PER_SEC * error * context.dt.min(1.0);
        tracked.cpu_correction = moved.clamp(1.0, CORRECTION_MAX);
    }
    tracked.cpu_correction
}
