// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sixth stage: from what each may have to limits, and from limits to as few writes as possible.
//!
//! A write is not free: `cpu.max` refills the whole quota at each (rewriting 10 ms/100 ms every
//! 50 ms yields 28 % instead of 10 %), and it restarts the period. So a limit moves in two stages.
//! Its *target* moves at every step, within the slew limits. It is *written* only when
//!
//! 1. there was no limit before, or it is off by more than [`URGENT`]: at once;
//! 2. it is off by more than the dead band, and its last write is long enough ago, or the first limits have
//!    had their time and the device is above its target still;
//! 3. it was off by more than [`EVEN_RATIO`] in the mean of some seconds, so that equal users do not stay
//!    apart by what the dead band allows;
//! 4. it is off by a third of the dead band, the sum over the device is off too, and this write
//!    takes the sum nearer to where it should be.
//!
//! Rule 4 is why many small errors of the same sign do not stay: each lies within the dead band,
//! together they would hold the device beside its set-point, and the integral would push until all
//! of them left the dead band at the same step. Instead the largest deviations are written first,
//! only as many as the sum needs, and at most a quarter of all limits per step; the others follow
//! later. One workload of n moves the sum by 1/n of its step, so the sum is held far more finely
//! than any single limit.
//!
//! At most [`super::WRITES_PER_STEP`] changes are requested in a step, in the order of their effect
//! (see [`super::writes`]).
//!
//! The gift of quota that remains is accounted for: a limit that was rewritten w times a second
//! lately yields more by w times what a write gives away, so its target is lower by that much.
//!
//! Release is slow: once a workload's part covers its demand, its limit is raised until it does not feel
//! it, and loses it only after it was uncut for [`CALM_STEPS`], with headroom to spare. One that had to be
//! limited again soon after that must not feel the next limit for longer ([`super::state::Relapse`]). If its
//! traffic is not known any more, the limit is held for [`BLIND_STEPS`], then raised the same
//! way and taken off: weir fails open.

use super::budgets::WorkloadBudget;
use super::config::Gains;
use super::demands::DeviceDemand;
use super::device_bytes;
use super::devices::{DeviceTrack, LimitCounts};
use super::findings::{StepContext, StepFindings, WorkloadFindings};
use super::state::{LimitRequest, LimitState, State, WorkloadState};
use super::writes::{self, WRITES_PER_STEP};
use crate::ids::DeviceId;
use crate::policy::order::{in_order, positions_by};
use crate::seam::plan::{Action, ActionKind, Limit};
use crate::seam::topology::{Actuator, Lever};
use crate::units::{CpuShare, Nanos};

/// A limit that is off by more than this part is written at once, whatever was written before.
pub(super) const URGENT: f64 = 0.25;

/// The longest time for which the correction of a device pauses in a row, while large changes have not shown
/// their effect. Among hundreds of limits each step has such a change, and without this bound the correction
/// stood still: the scenario `thousand` stayed 4 % above its set-point.
const LONGEST_PAUSE: Nanos = Nanos::from_millis(1000);

/// Stretched periods that a tiny limit stands before it is rewritten: each rewrite gives one of its
/// quotas away, and before that its effect cannot be seen.
const RESTS: f64 = 10.0;

/// A limit that was off by more than this part of it, in the mean over this time, is written at the latest so
/// long after its last write. Else equal users would stay apart by what the dead band allows. Twice as many
/// such writes cost more in the live scene, by the quota that each gives away, than they evened.
const EVEN_RATIO: f64 = 0.015;
const LASTING_SECS: f64 = 3.0;
const EVEN_SECS: f64 = 6.0;

/// Most such writes in one step (ADR 22).
const EVEN_WRITES: usize = 1;

/// Steps in a row in which a workload must not run into its limit before the limit can be released. Use below
/// a limit may be a wait for a CPU, and one step does not tell the two apart.
pub(super) const CALM_STEPS: u32 = 10;

/// Time for which a limit that is not felt is kept while the device has no headroom, in seconds.
const EASY_SECS: f64 = 5.0;

/// Steps for which a limit is held while the traffic of its workload is not known. Then it rises step by step
/// and ends: a reading that is missing must not hold a workload back for ever.
pub(super) const BLIND_STEPS: u32 = 20;

#[derive(Clone, Copy)]
pub(super) struct PendingWrite {
    pub(super) position: usize,
    pub(super) device: Option<DeviceId>,
    pub(super) cpus: f64,
    /// Relative to what is in force; infinite when nothing is.
    pub(super) deviation: f64,
    /// What the change would do to the device, in bytes per second; 0 for a first limit.
    pub(super) effect: f64,
    /// The same without its sign, and for a first limit what it takes off.
    pub(super) moves: f64,
    /// It is a first limit, or tighter than the one in force.
    pub(super) lowers: bool,
    pub(super) due: bool,
    /// What is in force has been off by a little for so long that it is not noise.
    pub(super) is_lasting: bool,
    /// The device is above its target after the first limits: no write of it is put off.
    pub(super) is_unsettled: bool,
}

/// The changes that this step requests, by workload id. Without a back end, or where weir may not limit (any
/// more), these are releases.
pub(super) fn propose(
    state: &mut State,
    context: &StepContext<'_>,
    found: &StepFindings,
) -> Vec<Action> {
    let mut actions = found.signals.given_up.clone();
    let may_limit = context.config.limit && context.gains.is_holding();
    match context.machine.actuator.as_ref().filter(|_| may_limit) {
        Some(actuator) => change(state, context, actuator, found, &mut actions),
        None => release_all(state, context.at, &mut actions),
    }
    actions.sort_by(|a, b| a.workload.cmp(&b.workload));
    actions
}

/// Moves all targets, and requests the changes that are worth a write.
///
/// Targets move at each step, whatever is written: a limit that is not written now is off by more at the next
/// step, and has its turn then. How many workloads are limited, at the floor or run into their limits is
/// counted on the way, for the correction of the next step.
fn change(
    state: &mut State,
    context: &StepContext<'_>,
    actuator: &Actuator,
    all: &StepFindings,
    actions: &mut Vec<Action>,
) {
    let State {
        workloads, devices, ..
    } = state;
    let (mut wishes, mut releases) = (Vec::with_capacity(workloads.len()), Vec::new());
    let mut bound = vec![LimitCounts::default(); devices.len()];
    let each = workloads.iter_mut().zip(all.workloads());
    for (position, (tracked, found)) in each.enumerate() {
        tracked.hold.requested = None;
        if found.signals.index.is_some() && context.at >= tracked.hold.retry_at {
            if tracked.hold.is_reborn || move_target(tracked, &found, devices, context, actuator) {
                releases.push(position);
            } else if let Some(wish) = wish(position, tracked, &found, devices, context, actuator)
                && (tracked.hold.in_force.is_some() || moves(devices, wish.device))
            {
                wishes.push(wish);
            }
        }
        let counts = bound_by(tracked, devices).and_then(|i| bound.get_mut(i));
        if let Some(counts) = counts {
            let floor = found.floor(context.gains.floor, actuator.min_cpus);
            counts.add(tracked, found.budget, floor);
        }
    }
    let wishes = worth_writing(wishes, workloads, devices, &context.gains);
    let budget = WRITES_PER_STEP.saturating_sub(actions.len());
    let chosen = writes::ration(wishes, releases, workloads, budget);
    let mut requests = Vec::with_capacity(budget);
    for wish in chosen.limits {
        requests.push((wish.position, LimitRequest::Limit { cpus: wish.cpus }));
        if wish.deviation.abs() > URGENT {
            settle(devices, wish.device, context, actuator);
        }
    }
    let releases = chosen.releases.into_iter();
    requests.extend(releases.map(|position| (position, LimitRequest::Release)));
    for (position, request) in requests {
        let found = all.workload(position);
        let Some((tracked, found)) = workloads.get_mut(position).zip(found) else {
            continue;
        };
        tracked.hold.requested = Some(request);
        match kind_of(request, tracked, &found, context, actuator) {
            Some(kind) => actions.push(Action {
                workload: tracked.id.clone(),
                kind,
            }),
            None => tracked.hold.requested = None,
        }
    }
    for (device, bound) in devices.iter_mut().zip(bound) {
        device.bound = bound;
    }
}

/// The change in the unit of the resource that the back end limits. Nothing for a limit in device bytes on a
/// workload of which it is not known what it moves in a second of CPU time.
fn kind_of(
    requested: LimitRequest,
    tracked: &WorkloadState,
    found: &WorkloadFindings<'_>,
    context: &StepContext<'_>,
    actuator: &Actuator,
) -> Option<ActionKind> {
    let LimitRequest::Limit { cpus } = requested else {
        return Some(ActionKind::Release);
    };
    if !actuator.has(Lever::DeviceBytes) {
        let cpus = CpuShare::new(cpus);
        return Some(ActionKind::Limit(Limit::CpuTime { cpus }));
    }
    let budget = device_bytes::budget(tracked, found, context)?;
    Some(ActionKind::Limit(Limit::DeviceBytes {
        bytes_per_sec: budget.bytes_per_sec,
        intensity_bytes_per_cpu_sec: budget.intensity_bytes_per_cpu_sec,
        cpus: CpuShare::new(cpus),
    }))
}

/// Takes every limit off. Releases above the budget of writes follow in the next steps.
fn release_all(state: &mut State, at: Nanos, actions: &mut Vec<Action>) {
    for tracked in &mut state.workloads {
        tracked.hold.requested = None;
        let is_held = tracked.hold.in_force.is_some() || tracked.hold.is_reborn;
        if is_held && at >= tracked.hold.retry_at && actions.len() < WRITES_PER_STEP {
            tracked.hold.requested = Some(LimitRequest::Release);
            actions.push(Action {
                workload: tracked.id.clone(),
                kind: ActionKind::Release,
            });
        }
    }
    for device in &mut state.devices {
        device.bound = LimitCounts::default();
    }
}

/// Moves the target of one workload. True if its limit is to be taken off.
///
/// The cases in their order: it may not be limited any more; its traffic is not known, and the limit is held,
/// then raised; its part is short of its demand, and the target moves towards that part within the slew
/// limits; its part covers its demand, and the target rises until the limit is not felt. Only then, after
/// [`CALM_STEPS`], does the limit go.
fn move_target(
    tracked: &mut WorkloadState,
    found: &WorkloadFindings<'_>,
    devices: &[DeviceTrack],
    context: &StepContext<'_>,
    actuator: &Actuator,
) -> bool {
    let gains = &context.gains;
    let cap = found.signals.cap;
    let floor = found.floor(gains.floor, actuator.min_cpus);
    let up = 1.0 + gains.slew.0 * context.dt;
    let down = 1.0 - (gains.slew.1 * context.dt).min(0.9);
    let limited = tracked.hold.in_force.is_some();
    let free = (tracked.wanted * (1.0 + gains.headroom)).max(floor);
    let before = tracked.hold.target.or(tracked.hold.in_force);

    if !found.signals.is_limitable {
        return limited;
    }
    if tracked.hold.blind_steps > 0 {
        let raised = before.filter(|_| limited).map(|old| old * up);
        let held = tracked.hold.blind_steps <= BLIND_STEPS;
        tracked.hold.target = if held { tracked.hold.in_force } else { raised };
        return !held && raised.is_some_and(|r| r >= free.min(cap));
    }
    if let Some((device, limit)) = found.budget.short_on {
        let goal = limit.max(floor).min(cap);
        tracked.hold.covered_steps = 0;
        tracked.hold.last_short_on = (!found.budget.lacks_cpu).then_some(device);
        let next = |old: f64| goal.min(old * up).max(old * down).max(floor);
        tracked.hold.target = Some(before.map_or(goal, next));
        return false;
    }
    tracked.hold.covered_steps = tracked.hold.covered_steps.saturating_add(1);
    let Some(before) = before.filter(|_| limited) else {
        tracked.hold.target = None;
        return false;
    };
    let target = free.min(before * up).max(before);
    tracked.hold.target = Some(target);
    let calm_secs = tracked.hold.calm_secs;
    let unfelt = roomy(found.demands, devices) || easy(tracked, gains);
    let unfelt = unfelt && calm_secs >= tracked.hold.relapse.wait_secs;
    tracked.hold.covered_steps >= CALM_STEPS && (unfelt || target >= cap)
}

/// All its devices have had headroom for a while.
fn roomy(demands: &[DeviceDemand], devices: &[DeviceTrack]) -> bool {
    demands.iter().all(|demand| {
        let found = devices.binary_search_by_key(&demand.device, |d| d.id).ok();
        found
            .and_then(|i| devices.get(i))
            .is_none_or(|d| d.headroom_steps >= CALM_STEPS)
    })
}

/// It has not felt its limit for so long that it will hardly be back. Until then the limit stays: a workload
/// that alternates between reading and sleeping would else begin each burst without one.
fn easy(tracked: &WorkloadState, gains: &Gains) -> bool {
    let (Some(limit), Some(used)) = (tracked.hold.in_force, tracked.cpu_smooth.get()) else {
        return false;
    };
    tracked.hold.calm_secs >= EASY_SECS && used <= limit * (1.0 - gains.headroom)
}

fn wish(
    position: usize,
    tracked: &mut WorkloadState,
    found: &WorkloadFindings<'_>,
    devices: &[DeviceTrack],
    context: &StepContext<'_>,
    actuator: &Actuator,
) -> Option<PendingWrite> {
    let hold = &mut tracked.hold;
    if (1..=BLIND_STEPS).contains(&hold.blind_steps) {
        return None;
    }
    let floor = found.floor(context.gains.floor, actuator.min_cpus);
    let target = hold.target?;
    let leak = actuator.leak_secs_at(target) * hold.write_rate;
    let cpus = (target * target / (target + leak).max(f64::MIN_POSITIVE))
        .max(floor)
        .min(found.signals.cap);
    if cpus <= 0.0 {
        // Others allow it nothing: nothing is left for us to limit.
        return None;
    }
    let device = found.budget.short_on.map(|(device, _)| device);
    let device = device.or_else(|| found.demands.first().map(|d| d.device));
    let demand = found.demands.iter().find(|d| Some(d.device) == device);
    let kappa = demand.and_then(|d| d.intensity).unwrap_or(0.0);
    let Some(old) = hold.in_force else {
        let used = tracked.cpu_smooth.get().unwrap_or(0.0);
        return Some(PendingWrite {
            position,
            device,
            cpus,
            deviation: f64::INFINITY,
            effect: 0.0,
            moves: kappa * (used - cpus).max(0.0),
            lowers: true,
            due: true,
            is_lasting: false,
            is_unsettled: false,
        });
    };
    let since = hold.written_at.map_or(f64::INFINITY, |then| {
        context.at.0.saturating_sub(then.0) as f64 / 1e9
    });
    let track = devices.iter().find(|d| Some(d.id) == device);
    let is_unsettled = track.is_some_and(|d| d.unsettled(context.at) && !d.settling(context.at));
    let stretched = actuator.stretched_secs_at(old).unwrap_or(0.0);
    let rested = since >= (RESTS * stretched).max(context.gains.write_interval.secs_f64());
    let deviation = if old > 0.0 {
        cpus / old - 1.0
    } else {
        f64::INFINITY
    };
    let effect = effect(hold, kappa * (cpus - old));
    Some(PendingWrite {
        position,
        device,
        cpus,
        deviation,
        effect,
        is_lasting: is_lasting(hold, deviation, context.dt) && since >= EVEN_SECS,
        moves: effect.abs(),
        lowers: cpus < old,
        due: rested || ((deviation.abs() > URGENT || is_unsettled) && since >= stretched),
        is_unsettled,
    })
}

/// What a change of a limit does to the traffic, in bytes per second: a workload that does not run into its
/// limit would not follow it.
fn effect(hold: &LimitState, followed: f64) -> f64 {
    if hold.pinned { followed } else { 0.0 }
}

/// Takes a deviation into the mean, and says whether it has lasted.
fn is_lasting(hold: &mut LimitState, deviation: f64, dt: f64) -> bool {
    if deviation.is_finite() {
        let weight = (dt / LASTING_SECS).min(1.0);
        hold.lasting_deviation += weight * (deviation - hold.lasting_deviation);
    }
    hold.lasting_deviation.abs() > EVEN_RATIO && hold.lasting_deviation * deviation > 0.0
}

/// Whether a device moved anything in the interval before. On one that stands still no limit begins: the
/// demands that are known are then of another time.
fn moves(devices: &[DeviceTrack], device: Option<DeviceId>) -> bool {
    let found = devices.iter().find(|track| Some(track.id) == device);
    found.is_none_or(|track| track.moved.is_none_or(|rate| rate > 0.0))
}

/// Chooses, largest deviation first, by the rules at the head of this file.
fn worth_writing(
    mut wishes: Vec<PendingWrite>,
    workloads: &[WorkloadState],
    devices: &[DeviceTrack],
    gains: &Gains,
) -> Vec<PendingWrite> {
    let fine = gains.dead_band / 3.0;
    let place = |wish: &PendingWrite| {
        let device = wish.device?;
        devices.binary_search_by_key(&device, |d| d.id).ok()
    };
    let mut gaps = vec![0.0; devices.len()];
    for wish in &wishes {
        if let Some(gap) = place(wish).and_then(|i| gaps.get_mut(i)) {
            *gap += wish.effect;
        }
    }
    let mut small_writes = (wishes.len() / 4).max(1);
    let mut even_writes = EVEN_WRITES;
    wishes.retain(|w| w.due && (w.is_lasting || w.deviation.abs() > fine));
    // They stand by position, and equal deviations stay so.
    let order = positions_by(wishes.iter().map(|w| !in_order(w.deviation.abs())));
    let mut chosen = Vec::new();
    chosen.extend(
        order
            .iter()
            .filter_map(|i| wishes.get(*i))
            .copied()
            .filter(|wish| {
                let place = place(wish);
                let target = place.and_then(|i| devices.get(i)?.setpoint.target);
                let grain = fine * target.unwrap_or(f64::INFINITY);
                let gap = place.and_then(|i| gaps.get_mut(i));
                let helps = gap
                    .as_ref()
                    .is_some_and(|g| g.abs() > grain && **g * wish.effect > 0.0);
                let size = wish.deviation.abs();
                let blind = workloads
                    .get(wish.position)
                    .is_some_and(|t| t.hold.blind_steps > 0);
                let small = size <= URGENT && !(wish.is_unsettled && size > gains.dead_band);
                let is_worth = helps || blind || size > gains.dead_band;
                let evens = !is_worth && wish.is_lasting && even_writes > 0;
                if small && (small_writes == 0 || !(is_worth || evens)) {
                    return false;
                }
                even_writes -= usize::from(small && evens);
                small_writes -= usize::from(small);
                if let Some(gap) = gap {
                    *gap -= wish.effect;
                }
                true
            }),
    );
    chosen
}

/// Gives a large change time to show: two intervals and two periods of enforcement.
///
/// Where there are hundreds of limits, one is changed a lot at each step. The correction must not stand still
/// for ever: after [`LONGEST_PAUSE`] it works for as long as it paused before the next pause.
fn settle(
    devices: &mut [DeviceTrack],
    device: Option<DeviceId>,
    context: &StepContext<'_>,
    actuator: &Actuator,
) {
    let wait = (context.dt.min(1.0) + actuator.period_ns.secs_f64().min(1.0)) * 2e9;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 4e9"
    )]
    let wait = wait as u64;
    let until = Nanos(context.at.0.saturating_add(wait));
    let longest = LONGEST_PAUSE.0.max(wait);
    for track in devices.iter_mut().filter(|d| Some(d.id) == device) {
        let paused = track.settle_until.0.saturating_sub(track.settle_from.0);
        if track.bound.limited == 0 {
            track.onset_at = Some(context.at);
        }
        if track.bound.limited == 0 || context.at.0 > track.settle_until.0.saturating_add(paused) {
            track.settle_from = context.at;
        }
        let end = Nanos(track.settle_from.0.saturating_add(longest));
        track.settle_until = track.settle_until.max(until.min(end));
    }
}

/// The position of the device because of which it is limited, for the next step's anti-windup. A demand that
/// is covered for a short time only still counts: demand near its part must not switch the PI term on and
/// off.
fn bound_by(tracked: &WorkloadState, devices: &[DeviceTrack]) -> Option<usize> {
    let bound = tracked.hold.in_force.is_some() && tracked.hold.covered_steps < CALM_STEPS;
    let id = tracked.hold.last_short_on.filter(|_| bound)?;
    devices.binary_search_by_key(&id, |d| d.id).ok()
}

impl LimitCounts {
    fn add(&mut self, tracked: &WorkloadState, budget: &WorkloadBudget, floor: f64) {
        let is_at_floor = budget.short_on.is_some_and(|(_, cpus)| cpus <= floor);
        self.limited += 1;
        self.at_floor += u32::from(is_at_floor);
        self.pinned += u32::from(tracked.hold.pinned);
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
