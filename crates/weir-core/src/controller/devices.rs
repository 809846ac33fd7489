// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One device: its error, the correction that removes it, and the split of its budget.
//!
//! The split alone would hold the set-point if κ were exact and limits were enforced to the
//! microsecond. Neither is so, hence a PI term on the relative error `e = (T − B)/T` of the
//! device's own counters, acting on one number, the *correction* c: the budget is `T·c`.
//!
//! * The integral is slow (its time constant is 1/ki): over one interval B is noisy by a tick of
//!   CPU time per workload, and only its mean counts. It takes each interval with the length that
//!   the counters really spanned, so that a late tick or a missed reading does not shift the mean.
//! * Both gains shrink while the error is within the noise.
//! * No derivative: it would amplify that noise.
//! * Anti-windup: the integral stands still while nothing is limited by this device, while limits
//!   were just changed a lot and have not yet shown their effect, while all limits are at their
//!   floor and the device is above its target, and while no workload runs into a limit and it is below. What
//!   the bounds on c cut off is taken back out of the integral.
//! * An error is counted at most as [`ERROR_MAX`]: overload of ten times is no reason to wind up
//!   ten times faster, because the split already answers it.

use super::config::Gains;
use super::demand::StepContext;
use super::setpoint::{DeviceSample, Setpoint};
use super::state::{DeviceUse, State, WorkloadState};
use crate::ids::DeviceId;
use crate::policy::{Demand, Policy, split};
use crate::rates::attribution::Attribution;
use crate::rates::bandwidth::{DeviceRate, Ewma, GroupRate};
use crate::seam::observation::LatencyReading;
use crate::units::{BytesPerSec, Nanos};

/// Largest relative error that is taken as it is.
const ERROR_MAX: f64 = 1.0;

/// Time constant of the error that the proportional part sees, in seconds. That of one interval is
/// mostly noise, and following it would cost writes.
const SMOOTH_SECS: f64 = 0.3;

/// A smoothed error below this is mostly noise: bandwidth of bursts of a few milliseconds, counted in
/// windows of some tens. Both gains shrink with it, down to [`NOISE_GAIN`]: what chases noise only
/// adds to it (on the live plant limits moved by 2.7 % where nothing had changed), and each rewrite
/// costs.
const NOISE_ERROR: f64 = 0.08;
const NOISE_GAIN: f64 = 0.25;

/// After a large change the device is *unsettled* while it is above its target by more than this part, but
/// not for longer than [`UNSETTLED`]. What was learned in the overload does not hold after it: bytes for each
/// CPU-second rise as it ends.
const UNSETTLED_ERROR: f64 = 0.1;
const UNSETTLED: Nanos = Nanos::from_millis(1000);

/// Time in which an unused correction is forgotten, in seconds.
const FORGET_SECS: f64 = 5.0;

/// A workload with a demand below this part of the set-point is left alone by every policy: a limit on
/// it would change nothing.
const NEGLIGIBLE: f64 = 0.001;

/// All that is left alone in this way may add up to this part of the set-point: many small users
/// can overwhelm a device too (thesis 4.3.3.2).
const NEGLIGIBLE_TOGETHER: f64 = 0.1;

/// What one device remembers.
#[derive(Clone, Debug)]
pub(super) struct DeviceTrack {
    pub id: DeviceId,
    /// What it is to be held at.
    pub setpoint: Setpoint,
    pub integral: f64,
    pub correction: f64,
    /// Relative error, smoothed, for the proportional part.
    pub error: Ewma,
    /// Until then the effect of a large change is not yet to be seen.
    pub settle_until: Nanos,
    /// When such waits began that followed each other closely.
    pub settle_from: Nanos,
    /// When limits were requested while there were none.
    pub onset_at: Option<Nanos>,
    /// Traffic without an owner, smoothed, in bytes per second.
    pub unowned: f64,
    /// The same at this step; nothing when its counters are not known.
    pub unowned_now: Option<f64>,
    /// Steps for which there was headroom.
    pub headroom_steps: u32,
    /// The sum of all demands fits into the set-point.
    pub fits: bool,
    /// Demand of all its users at this step, in bytes per second.
    pub demanded: f64,
    /// What it moved in the interval before, if that is known.
    pub moved_now: Option<f64>,
    /// Workloads that this device's budget limits, counted at the end of the last step.
    pub bound: LimitCounts,
}

/// Workloads limited because of one device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LimitCounts {
    pub limited: u32,
    pub at_floor: u32,
    pub pinned: u32,
}

impl DeviceTrack {
    fn new(id: DeviceId) -> Self {
        DeviceTrack {
            id,
            setpoint: Setpoint::default(),
            integral: 0.0,
            correction: 1.0,
            error: Ewma::default(),
            settle_until: Nanos(0),
            settle_from: Nanos(0),
            onset_at: None,
            unowned: 0.0,
            unowned_now: None,
            headroom_steps: 0,
            fits: true,
            demanded: 0.0,
            moved_now: None,
            bound: LimitCounts::default(),
        }
    }

    /// A large change of our own has not yet shown its effect.
    pub(super) fn settling(&self, at: Nanos) -> bool {
        at <= self.settle_until
    }

    /// The first limits have not led to the target.
    pub(super) fn unsettled(&self, at: Nanos) -> bool {
        let is_new = |then: Nanos| at.0.saturating_sub(then.0) < UNSETTLED.0;
        let is_above = |(moved, target): (f64, f64)| moved > target * (1.0 + UNSETTLED_ERROR);
        self.onset_at.is_some_and(is_new)
            && self
                .moved_now
                .zip(self.setpoint.target)
                .is_some_and(is_above)
    }

    /// The part of the set-point that the split works with.
    pub(super) fn correction_in_use(&self) -> f64 {
        // While nothing is limited there is nothing to correct upwards.
        if self.bound.limited > 0 {
            self.correction
        } else {
            self.correction.min(1.0)
        }
    }

    fn correct(&mut self, context: &StepContext<'_>, set_point: f64, rate: f64, span_secs: f64) {
        let gains = context.gains;
        let (low, high) = gains.correction;
        let error = ((set_point - rate) / set_point).clamp(-ERROR_MAX, ERROR_MAX);
        if self.bound.limited == 0 {
            self.integral *= 1.0 - (context.dt / FORGET_SECS).min(1.0);
            self.correction = (1.0 + self.integral).max(low).min(high);
            self.error = Ewma::default();
            return;
        }
        let all_at_floor = self.bound.at_floor == self.bound.limited;
        let frozen = self.settling(context.at)
            || (error < 0.0 && all_at_floor)
            || (error > 0.0 && self.bound.pinned == 0);
        let weight = 1.0 - (-span_secs / SMOOTH_SECS).exp();
        let smooth = self.error.push(weight, error);
        let gain = (smooth.abs() / NOISE_ERROR).clamp(NOISE_GAIN, 1.0);
        if !frozen {
            self.integral += gain * gains.ki * error * span_secs.min(1.0);
        }
        // Bounds on the integral itself are the back-calculation: what is above them has no effect
        // and would only have to be unwound later.
        self.integral = self.integral.max(low - 1.0).min(high - 1.0);
        let proportional = gain * gains.kp * smooth;
        self.correction = (1.0 + self.integral + proportional).max(low).min(high);
    }
}

/// Makes the list of devices follow the machine and takes in their rates.
pub(super) fn follow(
    state: &mut State,
    context: &StepContext<'_>,
    rates: &[DeviceRate],
    groups: &[GroupRate],
    found: &Attribution,
) {
    let old = std::mem::take(&mut state.devices);
    let mut old = old.into_iter().peekable();
    for rate in rates {
        while old.next_if(|d| d.id < rate.id).is_some() {}
        let known = old.next_if(|d| d.id == rate.id);
        let mut device = known.unwrap_or_else(|| DeviceTrack::new(rate.id));
        device.moved_now = rate.total().ok().map(BytesPerSec::get);
        device.unowned_now = device.moved_now.map(|_| 0.0);
        for (group, unowned) in groups.iter().zip(&found.unattributed) {
            if group.id.device == rate.id {
                let unowned = unowned.map(BytesPerSec::get);
                device.unowned_now = device.unowned_now.zip(unowned).map(|(a, b)| a + b);
            }
        }
        if let Some(unowned) = device.unowned_now {
            device.unowned += context.gains.alpha * (unowned - device.unowned);
        }
        state.devices.push(device);
    }
}

/// Moves what each device is held at, and the correction towards it.
pub(super) fn regulate(
    state: &mut State,
    context: &StepContext<'_>,
    rates: &[DeviceRate],
    latencies: &[LatencyReading],
) {
    for (device, rate) in state.devices.iter_mut().zip(rates) {
        let latency = latencies.iter().find(|l| l.id == device.id);
        let latency = latency.and_then(|l| l.mean_ns.ok());
        let total = rate.total().ok().map(BytesPerSec::get);
        let seen = DeviceSample {
            at: context.at,
            dt: context.dt,
            bytes_per_sec: total,
            latency_ns: latency.map(|l| l.0 as f64),
            is_binding: device.bound.pinned > 0,
        };
        let before = device.setpoint.target;
        device
            .setpoint
            .follow(context.gains.goal, context.gains, &seen);
        if let (Some(target), Some(total)) = (device.setpoint.target, total) {
            // After a large move the old error says nothing about the new target.
            if before.is_none_or(|b| (target / b - 1.0).abs() > ERROR_MAX / 10.0) {
                device.error = Ewma::default();
            }
            device.correct(context, target, total, rate.span.secs_f64());
        }
    }
}

/// Splits each device's budget: sets what every load may have, and finds the workloads to limit.
pub(super) fn split_budgets(state: &mut State, gains: &Gains, policy: Policy) {
    let State {
        workloads, devices, ..
    } = state;
    for device in devices.iter_mut() {
        let Some(set_point) = device.setpoint.target else {
            device.fits = true;
            continue;
        };
        let users = workloads
            .iter()
            .filter(|t| load_of(t, device.id).is_some())
            .count();
        let negligible = NEGLIGIBLE.min(NEGLIGIBLE_TOGETHER / users.max(1) as f64) * set_point;
        let mut taken = device.unowned;
        let mut demands = Vec::new();
        let mut claimants = Vec::new();
        for (position, tracked) in workloads.iter().enumerate() {
            let Some(load) = load_of(tracked, device.id) else {
                continue;
            };
            let claims = load.demand >= negligible || tracked.hold.in_force.is_some();
            if tracked.now.limitable && claims {
                let bytes_per_sec = BytesPerSec::new(load.demand);
                demands.push(Demand {
                    bytes_per_sec,
                    weight: tracked.now.weight,
                });
                claimants.push(position);
            } else if tracked.now.index.is_some() {
                taken += load.demand;
            }
        }
        let demanded: f64 = taken + demands.iter().map(|d| d.bytes_per_sec.get()).sum::<f64>();
        device.fits = demanded <= set_point;
        device.demanded = demanded;
        let has_headroom = demanded <= set_point * (1.0 - gains.headroom);
        device.headroom_steps = if has_headroom {
            device.headroom_steps.saturating_add(1)
        } else {
            0
        };

        let budget = (set_point * device.correction_in_use() - taken).max(0.0);
        let parts = split(policy, &demands, BytesPerSec::new(budget));
        let floor_part = gains.floor_sum / claimants.len().max(1) as f64;
        for (position, part) in claimants.into_iter().zip(parts) {
            if let Some(tracked) = workloads.get_mut(position) {
                allow(tracked, device.id, part.get());
                let part = tracked.now.floor_part.unwrap_or(f64::INFINITY);
                tracked.now.floor_part = Some(part.min(floor_part));
            }
        }
    }
}

/// A part that is below the demand by less than this is no reason for a limit: a limit could not be that
/// exact.
const SHORTFALL_RATIO: f64 = 0.01;

fn allow(tracked: &mut WorkloadState, device: DeviceId, part: f64) {
    let Ok(i) = tracked.loads.binary_search_by_key(&device, |l| l.device) else {
        return;
    };
    let Some(load) = tracked.loads.get_mut(i) else {
        return;
    };
    load.allowed = Some(part);
    if part >= load.demand * (1.0 - SHORTFALL_RATIO) {
        return;
    }
    let Some(kappa) = load.intensity() else {
        return;
    };
    let limit = part / kappa;
    // The tightest device decides.
    if limit < tracked.now.cap
        && tracked
            .now
            .short_on
            .is_none_or(|(_, tightest)| limit < tightest)
    {
        tracked.now.short_on = Some((device, limit));
    }
}

fn load_of(tracked: &WorkloadState, device: DeviceId) -> Option<&DeviceUse> {
    let i = tracked
        .loads
        .binary_search_by_key(&device, |l| l.device)
        .ok()?;
    tracked.loads.get(i)
}
