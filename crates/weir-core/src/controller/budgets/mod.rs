// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fifth stage: each device's budget is split over those that use it.
//!
//! The budget is the set-point times the correction ([`super::devices`]). What weir may not limit is taken
//! off first: excluded workloads, traffic of no workload, and what is too small to matter. It is taken off
//! the goal, and not off the small ([`fair_parts`]). The rest is split by the policy ([`crate::policy`]): of
//! several devices one by one, or with policy drf all of them and CPU time together ([`super::dominant`]).

pub(super) mod fair_parts;

use super::demands::{Demands, DeviceDemand};
use super::devices::{self, DeviceTrack};
use super::dominant;
use super::findings::{StepContext, StepRates};
use super::parts::Parts;
use super::signals::Signals;
use super::state::{State, WorkloadState};
use crate::ids::DeviceId;
use crate::policy::{Demand, NORMAL_WEIGHT, Policy, split};
use crate::seam::plan::FairShare;
use crate::units::BytesPerSec;
use fair_parts::{KeptParts, Users};

/// A workload with a demand below this part of the set-point is left alone by every policy: a limit on
/// it would change nothing.
const NEGLIGIBLE: f64 = 0.001;

/// All that is left alone in this way may add up to this part of the set-point: many small users
/// can overwhelm a device too (thesis 4.3.3.2).
const NEGLIGIBLE_TOGETHER: f64 = 0.1;

/// A part that is below the demand by less than this is no reason for a limit: a limit could not be that
/// exact.
const SHORTFALL_RATIO: f64 = 0.01;

pub(super) struct Budgets {
    /// One entry for each device, in ascending order of id.
    pub devices: Vec<DeviceBudget>,
    /// One for each workload of [`State`], in the same order.
    pub workloads: Vec<WorkloadBudget>,
    /// Their dominant shares, in the same order; empty but for policy drf.
    pub fair: Vec<Option<FairShare>>,
    /// What a workload may have of a device, in bytes per second: one for each demand, in the same order.
    /// Nothing where it claims no part.
    pub allowed: Vec<Option<f64>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceBudget {
    /// What no workload moved, in bytes per second; nothing when its counters are not known.
    pub of_no_workload: Option<f64>,
    /// The sum of all demands fits into the set-point.
    pub fits: bool,
    /// Demand of all its users, in bytes per second.
    pub demanded: f64,
    /// What they are to move together, where CPU time keeps some below their part of the device.
    pub planned: Option<f64>,
    /// What of it the kernel is known to have moved by migrating pages.
    pub migrated: f64,
    /// The set-point cannot be held, because of what is not limited.
    pub unenforceable: Option<Unlimited>,
}

/// What moves on a device and is not limited, in bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unlimited {
    pub sum: f64,
    /// The part of it that no workload moves.
    pub of_no_workload: f64,
    /// The workload of [`State`] that moves most of it, by position.
    pub largest: Option<(usize, f64)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WorkloadBudget {
    /// The device on which its part is smaller than its demand, with the limit that follows in CPUs. Of
    /// several devices the tightest.
    pub short_on: Option<(DeviceId, f64)>,
    /// It is short of CPU time and not of the device's bandwidth.
    pub lacks_cpu: bool,
    /// Its part of the floors that all users of a device have together, in CPUs; of several devices
    /// the smallest. Nothing for a workload that claims no part of a device.
    pub floor_part: Option<f64>,
}

pub(super) struct DeviceClaim {
    /// Position of the workload in [`State`].
    pub position: usize,
    /// Position of its demand among all demands.
    pub demand: usize,
}

/// What the users of one device want of its budget.
pub(super) struct DeviceClaims {
    pub device: DeviceId,
    /// What there is for them, in bytes per second.
    pub budget: f64,
    pub claims: Vec<DeviceClaim>,
    /// One for each claim, in the same order.
    pub demands: Vec<Demand>,
    /// What each was seen to move without a limit, in the same order.
    pub seen: Vec<f64>,
    /// What each claim keeps of the set-point, in the same order.
    pub kept: KeptParts,
    pub whole: f64,
    /// What was taken off the goal before the division.
    taken: Unlimited,
    /// What those move that their limits do not hold.
    evading: Unlimited,
    fits: bool,
    asked: f64,
}

/// Moves each device's correction and splits its budget.
///
/// The order matters. Traffic of no workload comes first, because it is taken off the goal. The correction of
/// a device follows from the counters alone, and what the claims may have is measured against it. The claims
/// of all devices are gathered before any is divided, because policy drf divides all of them together. Only
/// then is it known which workload lacks CPU time, and so what a back end that counts bytes may let all users
/// move.
pub(super) fn split_devices(
    state: &mut State,
    context: &StepContext<'_>,
    rates: &StepRates,
    parts: &Parts,
    signals: &Signals,
    demands: &Demands,
) -> Budgets {
    let of_no_workload = devices::follow(state, context, rates, parts);
    devices::regulate(state, context, &rates.devices);
    let State {
        workloads, devices, ..
    } = state;
    let mut budgets = Budgets {
        devices: Vec::with_capacity(devices.len()),
        workloads: vec![WorkloadBudget::default(); workloads.len()],
        fair: Vec::new(),
        allowed: vec![None; demands.all.len()],
    };
    let mut claimed = Vec::with_capacity(devices.len());
    for (device, of_no_workload) in devices.iter_mut().zip(of_no_workload) {
        let claims = device.setpoint.target.map(|set_point| {
            let all = (workloads.as_slice(), signals, demands);
            claims_on(device, set_point, context, all)
        });
        budgets.devices.push(DeviceBudget {
            of_no_workload,
            migrated: migrated_on(device.id, rates, &signals.migrated),
            fits: claims.as_ref().is_none_or(|claims| claims.fits),
            demanded: claims.as_ref().map_or(0.0, |claims| claims.asked),
            planned: None,
            unenforceable: claims.as_ref().and_then(DeviceClaims::unenforceable),
        });
        claimed.extend(claims);
    }
    let is_drf = context.config.policy == Policy::Drf;
    let divided: Vec<Vec<BytesPerSec>> = if is_drf {
        let division = dominant::divide(workloads, context, signals, demands, &claimed);
        budgets.fair = division.shares;
        division.parts
    } else {
        let each = claimed.iter();
        each.map(DeviceClaims::split).collect()
    };
    for (of_device, parts) in claimed.iter().zip(divided) {
        grant(of_device, parts, context, signals, demands, &mut budgets);
    }
    if is_drf {
        let each = workloads.iter_mut().zip(&signals.workloads);
        let given = budgets.workloads.iter_mut().zip(&budgets.fair);
        for (of, given) in each.zip(given) {
            dominant::name_the_shortage(given, of, context);
        }
    }
    let ids = devices.iter().map(|device| device.id);
    let each = ids.zip(&mut budgets.devices);
    let held = each.filter_map(|(id, of)| Some((claimed.iter().find(|c| c.device == id)?, of)));
    for (claims, of) in held {
        of.planned = claims.planned(&budgets.workloads, &budgets.allowed);
    }
    budgets
}

impl DeviceClaims {
    /// The set-point cannot be held, because of what is not limited.
    fn is_unenforceable(&self) -> bool {
        self.kept.excess > 0.0 || self.evading.sum > 0.0
    }

    fn unenforceable(&self) -> Option<Unlimited> {
        let (taken, evading) = (self.taken, self.evading);
        self.is_unenforceable().then(|| Unlimited {
            sum: taken.sum + evading.sum,
            largest: match (taken.largest, evading.largest) {
                (Some(taken), Some(evading)) if taken.1 > evading.1 => Some(taken),
                (taken, evading) => evading.or(taken),
            },
            ..taken
        })
    }

    /// What each claim may have of this device alone.
    fn split(&self) -> Vec<BytesPerSec> {
        let mut parts = split(&self.demands, BytesPerSec::new(self.budget));
        fair_parts::raise(&mut parts, &self.kept.each);
        fair_parts::give_back(&mut parts, &self.seen, self.kept.excess, |_| true);
        parts
    }

    /// What all users of the device are to move, if any of them lacks CPU time, or if they cannot be held to
    /// the set-point: a back end that counts the device's bytes must not act harder than that.
    fn planned(&self, workloads: &[WorkloadBudget], allowed: &[Option<f64>]) -> Option<f64> {
        let lacks =
            |claim: &DeviceClaim| workloads.get(claim.position).is_some_and(|w| w.lacks_cpu);
        let part = |claim: &DeviceClaim| allowed.get(claim.demand).copied().flatten();
        let parts: f64 = self.claims.iter().filter_map(part).sum();
        let is_other = self.is_unenforceable() || self.claims.iter().any(lacks);
        is_other.then_some(self.taken.sum + parts)
    }
}

/// What the kernel is known to have moved on a device by migrating pages, in bytes per second.
fn migrated_on(device: DeviceId, rates: &StepRates, migrated: &[f64]) -> f64 {
    let each = rates.groups.iter().zip(migrated);
    let of_it = each.filter(|(group, _)| group.id.device == device);
    of_it.map(|(_, bytes)| bytes).sum()
}

/// What the workloads want of the device, and what there is for them.
///
/// A workload whose demand is negligible is left alone. One with a limit in force claims in any case: that it
/// moves so little may be the limit's doing.
///
/// A workload that does not keep to its limit claims as the others do. What it takes beyond its part is taken
/// from none of them, and the set-point is not held meanwhile. Taken from the others, as before ADR 25, a
/// user could leave its limit at its neighbours' expense.
fn claims_on(
    device: &mut DeviceTrack,
    set_point: f64,
    context: &StepContext<'_>,
    (workloads, signals, demands): (&[WorkloadState], &Signals, &Demands),
) -> DeviceClaims {
    let gains = &context.gains;
    let of_device = |all: &[DeviceDemand]| all.binary_search_by_key(&device.id, |d| d.device).ok();
    let users = demands.workloads().filter_map(of_device).count();
    let negligible = NEGLIGIBLE.min(NEGLIGIBLE_TOGETHER / users.max(1) as f64) * set_point;
    let mut taken = Unlimited::of_no_workload(device.unowned);
    let mut evading = Unlimited::default();
    let mut unlimited = vec![Demand {
        bytes_per_sec: BytesPerSec::new(device.unowned),
        weight: NORMAL_WEIGHT,
    }];
    let mut claimed = Vec::with_capacity(users);
    let mut claims = Vec::with_capacity(users);
    let mut seen_free = Vec::with_capacity(users);
    let each = workloads.iter().zip(&signals.workloads);
    for (position, ((tracked, seen), range)) in each.zip(&demands.ranges).enumerate() {
        let all = demands.all.get(range.clone()).unwrap_or_default();
        let Some((place, demand)) = of_device(all).and_then(|i| Some((i, all.get(i)?))) else {
            continue;
        };
        let is_claim = demand.bytes_per_sec >= negligible || tracked.hold.in_force.is_some();
        let wanted = Demand {
            bytes_per_sec: BytesPerSec::new(demand.bytes_per_sec),
            weight: seen.weight,
        };
        if seen.is_limitable && is_claim {
            if tracked.hold.is_unbound() {
                evading.add(position, demand.bandwidth.bytes_per_sec.get());
            }
            claimed.push(wanted);
            seen_free.push(demand.seen);
            let demand = range.start + place;
            claims.push(DeviceClaim { position, demand });
        } else if seen.index.is_some() {
            unlimited.push(wanted);
            taken.add(position, demand.bytes_per_sec);
        }
    }
    let demanded: f64 = taken.sum + claimed.iter().map(|d| d.bytes_per_sec.get()).sum::<f64>();
    let has_headroom = demanded <= set_point * (1.0 - gains.headroom);
    device.count_headroom(has_headroom);
    device.is_evaded = evading.sum > 0.0;
    let correction = device.correction_in_use();
    let users = Users {
        claims: &claimed,
        unlimited: &unlimited,
    };
    let kept = fair_parts::keep(&users, set_point, correction);
    device.is_unenforceable = kept.excess > 0.0 || device.is_evaded;
    DeviceClaims {
        device: device.id,
        budget: (set_point * correction - taken.sum).max(0.0),
        claims,
        demands: claimed,
        asked: taken.sum + seen_free.iter().sum::<f64>(),
        seen: seen_free,
        kept,
        whole: set_point * correction,
        taken,
        evading,
        fits: demanded <= set_point,
    }
}

impl Unlimited {
    fn of_no_workload(bytes_per_sec: f64) -> Self {
        Unlimited {
            sum: bytes_per_sec,
            of_no_workload: bytes_per_sec,
            largest: None,
        }
    }

    fn add(&mut self, position: usize, bytes_per_sec: f64) {
        self.sum += bytes_per_sec;
        if self.largest.is_none_or(|(_, most)| bytes_per_sec > most) {
            self.largest = Some((position, bytes_per_sec));
        }
    }
}

/// Sets what each claim on the device may have.
fn grant(
    of_device: &DeviceClaims,
    parts: Vec<BytesPerSec>,
    context: &StepContext<'_>,
    signals: &Signals,
    demands: &Demands,
    budgets: &mut Budgets,
) {
    let floor_part = context.gains.floor_sum / of_device.claims.len().max(1) as f64;
    for (claim, part) in of_device.claims.iter().zip(parts) {
        let seen = signals.workloads.get(claim.position);
        let demand = demands.all.get(claim.demand);
        let budget = budgets.workloads.get_mut(claim.position);
        if let (Some(seen), Some(demand), Some(budget)) = (seen, demand, budget) {
            if let Some(allowed) = budgets.allowed.get_mut(claim.demand) {
                *allowed = Some(part.get());
            }
            shorten(budget, demand, part.get(), seen.cap);
            let before = budget.floor_part.unwrap_or(f64::INFINITY);
            budget.floor_part = Some(before.min(floor_part));
        }
    }
}

/// A part smaller than the demand is a limit, where κ is known.
fn shorten(budget: &mut WorkloadBudget, demand: &DeviceDemand, part: f64, cap: f64) {
    if part >= demand.bytes_per_sec * (1.0 - SHORTFALL_RATIO) {
        return;
    }
    let Some(kappa) = demand.intensity else {
        return;
    };
    let limit = part / kappa;
    // The tightest device decides.
    let is_tightest = budget.short_on.is_none_or(|(_, least)| limit < least);
    if limit < cap && is_tightest {
        budget.short_on = Some((demand.device, limit));
    }
}
