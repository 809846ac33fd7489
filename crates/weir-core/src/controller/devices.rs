// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One device: its error, and the correction that removes it.
//!
//! The split of its budget ([`super::budgets`]) alone would hold the set-point if κ were exact and limits
//! were enforced to the microsecond. Neither is so, hence a PI term on the relative error `e = (T − B)/T` of
//! the device's own counters, acting on one number, the *correction* c: the budget is `T·c`.
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
//! * Where the back end holds the mean by itself, the integral rises by the part of the limited workloads
//!   that run into their limits. The others wait for a CPU, and no higher limit brings what they lack. With
//!   `cpu.max` it does not: what is lost in a wait must come back there (docs/evidence/scenarios.md).
//! * An error is counted at most as [`ERROR_MAX`]: overload of ten times is no reason to wind up
//!   ten times faster, because the split already answers it.

mod saturation;

use super::findings::{StepContext, StepRates};
use super::parts::Parts;
use super::setpoint::{DeviceSample, Setpoint};
use super::state::State;
use crate::ids::DeviceId;
use crate::rates::bandwidth::{DeviceRate, Ewma};
use crate::units::{BytesPerSec, Nanos};
use saturation::{CorrectionReach, SaturationTrack};

/// Largest relative error that is taken as it is. The split answers an overload by itself; an integral that
/// rose with ten times the error would only have to be brought back afterwards.
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

/// A rise by this part of the set-point, of the device and of a workload that moves twice as much as it did,
/// is a new load and not noise.
pub(super) const JUMP_OF_SET_POINT: f64 = 0.05;

/// Time in which an unused correction is forgotten, in seconds.
const FORGET_SECS: f64 = 5.0;

#[derive(Clone, Debug)]
pub(super) struct DeviceTrack {
    pub id: DeviceId,
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
    /// Traffic of no workload, smoothed, in bytes per second.
    pub unowned: f64,
    /// Steps for which there was headroom.
    pub headroom_steps: u32,
    /// What it moved in the interval before the newest counters, if that is known. The demands of the next
    /// step are estimated with this.
    pub moved: Option<f64>,
    /// What it moved before the newest counters, smoothed.
    pub smooth: f64,
    /// It moves clearly more by the newest counters: a load has begun. What a workload alone seems to move
    /// more may be noise of the source that shares out.
    pub has_jumped: bool,
    /// The set-point cannot be held, because of what is not limited; as of the last step.
    pub is_unenforceable: bool,
    /// A workload on it uses more than its limit.
    pub is_evaded: bool,
    /// Workloads that this device's budget limits, counted at the end of the last step.
    pub bound: LimitCounts,
    pub saturation: SaturationTrack,
}

/// Workloads limited because of one device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LimitCounts {
    pub limited: u32,
    pub at_floor: u32,
    pub pinned: u32,
}

impl LimitCounts {
    /// The part of the limited workloads that run into their limits, from 0 to 1.
    fn pinned_ratio(self) -> f64 {
        f64::from(self.pinned.min(self.limited)) / f64::from(self.limited.max(1))
    }
}

impl DeviceTrack {
    pub(super) fn new(id: DeviceId) -> Self {
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
            headroom_steps: 0,
            moved: None,
            smooth: 0.0,
            has_jumped: false,
            is_unenforceable: false,
            is_evaded: false,
            bound: LimitCounts::default(),
            saturation: SaturationTrack::default(),
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
            && self.moved.zip(self.setpoint.target).is_some_and(is_above)
    }

    /// The part of the set-point that the split works with.
    pub(super) fn correction_in_use(&self) -> f64 {
        match (self.is_evaded, self.bound.limited) {
            // What a workload takes beyond its limit is not taken from those that keep to theirs.
            (true, _) => 1.0,
            // While nothing is limited there is nothing to correct upwards.
            (false, 0) => self.correction.min(1.0),
            (false, _) => self.correction,
        }
    }

    pub(super) fn count_headroom(&mut self, has_headroom: bool) {
        self.headroom_steps = if has_headroom {
            self.headroom_steps.saturating_add(1)
        } else {
            0
        };
    }

    /// Takes in what it moves by the newest counters, with this weight.
    pub(super) fn watch_jumps(&mut self, rates: &[DeviceRate], alpha: f64) {
        let rate = rates.iter().find(|rate| rate.id == self.id);
        let moved = rate
            .and_then(|rate| rate.total().ok())
            .map(BytesPerSec::get);
        let rise = moved.map_or(0.0, |moved| moved - self.smooth);
        self.has_jumped = self
            .setpoint
            .target
            .is_some_and(|target| rise > JUMP_OF_SET_POINT * target);
        self.smooth += if self.has_jumped { rise } else { alpha * rise };
    }

    fn correct(&mut self, context: &StepContext<'_>, set_point: f64, rate: f64, span_secs: f64) {
        let gains = &context.gains;
        let (low, high) = gains.correction;
        let error = ((set_point - rate) / set_point).clamp(-ERROR_MAX, ERROR_MAX);
        // What is not limited makes an error that no harder limit removes.
        let is_in_vain = self.is_unenforceable && error < 0.0;
        if self.bound.limited == 0 || is_in_vain {
            self.integral *= 1.0 - (context.dt / FORGET_SECS).min(1.0);
            self.correction = (1.0 + self.integral).max(low).min(high);
            self.error = Ewma::default();
            self.saturation = SaturationTrack::default();
            return;
        }
        let all_at_floor = self.bound.at_floor == self.bound.limited;
        let frozen = self.settling(context.at)
            || (error < 0.0 && all_at_floor)
            || (error > 0.0 && self.bound.pinned == 0);
        let weight = 1.0 - (-span_secs / SMOOTH_SECS).exp();
        let smooth = self.error.push(weight, error);
        let gain = (smooth.abs() / NOISE_ERROR).clamp(NOISE_GAIN, 1.0);
        let part = if gains.is_exact && error > 0.0 {
            self.bound.pinned_ratio()
        } else {
            1.0
        };
        if !frozen {
            self.integral += part * gain * gains.ki * error * span_secs.min(1.0);
        }
        // Bounds on the integral itself are the back-calculation: what is above them has no effect
        // and would only have to be unwound later.
        self.integral = self.integral.max(low - 1.0).min(high - 1.0);
        let proportional = gain * gains.kp * smooth;
        self.correction = (1.0 + self.integral + proportional).max(low).min(high);
        if !self.settling(context.at) {
            let reach = CorrectionReach {
                is_lowest: self.integral <= low - 1.0,
                is_highest: self.integral >= high - 1.0,
            };
            self.saturation
                .follow(context.dt.min(1.0), error, self.bound, reach);
        }
    }
}

/// Makes the list of devices follow the machine and takes in their rates. Gives for each what no workload
/// moved, in bytes per second; nothing where its counters are not known.
pub(super) fn follow(
    state: &mut State,
    context: &StepContext<'_>,
    rates: &StepRates,
    parts: &Parts,
) -> Vec<Option<f64>> {
    let old = std::mem::take(&mut state.devices);
    let mut old = old.into_iter().peekable();
    let mut of_no_workload = Vec::with_capacity(rates.devices.len());
    for rate in &rates.devices {
        while old.next_if(|d| d.id < rate.id).is_some() {}
        let known = old.next_if(|d| d.id == rate.id);
        let mut device = known.unwrap_or_else(|| DeviceTrack::new(rate.id));
        device.moved = rate.total().ok().map(BytesPerSec::get);
        let mut unowned = device.moved.map(|_| 0.0);
        let mut is_passing = false;
        let groups = rates.groups.iter().zip(&parts.of_no_workload);
        for ((group, of_group), is_passing_there) in groups.zip(&parts.is_passing) {
            if group.id.device == rate.id {
                let of_group = of_group.map(BytesPerSec::get);
                unowned = unowned.zip(of_group).map(|(a, b)| a + b);
                is_passing |= is_passing_there;
            }
        }
        // Limits stand meanwhile: nothing is taken off their goal that may be theirs.
        if let Some(unowned) = unowned.filter(|_| !is_passing) {
            device.unowned += context.gains.alpha * (unowned - device.unowned);
        }
        of_no_workload.push(unowned);
        state.devices.push(device);
    }
    of_no_workload
}

/// Moves what each device is held at, and the correction towards it.
pub(super) fn regulate(state: &mut State, context: &StepContext<'_>, rates: &[DeviceRate]) {
    let latencies = &context.seen.latencies;
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
        // A part of the traffic says nothing of the whole.
        match context.machine.partly_counted_on(device.id) {
            Some(_) => device.setpoint = Setpoint::default(),
            None => device
                .setpoint
                .follow(context.gains.goal, &context.gains, &seen),
        }
        if let (Some(target), Some(total)) = (device.setpoint.target, total) {
            // After a large move the old error says nothing about the new target.
            if before.is_none_or(|b| (target / b - 1.0).abs() > ERROR_MAX / 10.0) {
                device.error = Ewma::default();
            }
            device.correct(context, target, total, rate.span.secs_f64());
        }
    }
}

#[cfg(test)]
mod margins_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Config;
    use crate::controller::config::Gains;
    use crate::seam::observation::Observation;
    use crate::seam::topology::Description;
    use proptest::prelude::*;

    /// The integral after a step in which a device with so many limits moves this part of its target.
    fn integral_after(is_exact: bool, limited: u32, pinned: u32, moved_ratio: f64) -> f64 {
        let config = Config::default();
        let (machine, seen) = (Description::default(), Observation::default());
        let mut context = StepContext::begin(&mut State::default(), &config, &machine, &seen);
        (context.dt, context.at) = (0.05, Nanos::from_millis(10_000));
        context.gains = Gains {
            is_exact,
            ..context.gains
        };
        let mut device = DeviceTrack::new(DeviceId(0));
        device.bound = LimitCounts {
            limited,
            at_floor: 0,
            pinned,
        };
        device.correct(&context, 4e9, 4e9 * moved_ratio, 0.05);
        device.integral
    }

    #[test]
    fn where_the_back_end_is_exact_a_wait_for_cpus_is_made_up_for_by_those_that_run() {
        let all = integral_after(true, 5, 5, 0.5);
        assert!(all > 0.0, "{all}");
        for pinned in 0..=5 {
            let risen = integral_after(true, 5, pinned, 0.5);
            assert!(
                (risen - all * f64::from(pinned) / 5.0).abs() < 1e-12,
                "{pinned}: {risen}"
            );
        }
        assert_eq!(
            integral_after(false, 5, 1, 0.5),
            integral_after(false, 5, 5, 0.5)
        );
    }

    proptest! {
        /// Above the target all limits help, whether workloads run into them or not. Below it fewer that run
        /// into limits never raise the integral more.
        #[test]
        fn fewer_pinned_workloads_never_raise_the_integral_more(
            limited in 1u32..2000, pinned in 0u32..2000, moved_ratio in 0.0..2.0f64,
        ) {
            let of = |pinned: u32| integral_after(true, limited, pinned.min(limited), moved_ratio);
            let (fewer, all) = (of(pinned), of(limited));
            if moved_ratio > 1.0 {
                prop_assert_eq!(fewer, all);
            } else {
                prop_assert!((0.0..=all).contains(&fewer), "{fewer} and {all}");
            }
        }
    }
}
