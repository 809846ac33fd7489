// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of its weight with which a limited workload competes for a CPU.
//!
//! A limit by `cpu.max` takes a workload off its CPU and brings it back at the next refill. A task that woke
//! on that CPU meanwhile then waits behind it for a slice. With a lower weight the limited workload gets its
//! next slice later, and waits instead: it has less to lose, for its limit stops it anyway.
//!
//! - The weight follows the limit: a workload that may use a third of the CPU time that it would use has a
//!   third of its weight, times [`super::Config::limited_weight_ratio`]. So the weight of a limit that is
//!   being raised comes back with it, before the limit goes, and the workload still gets what its limit
//!   allows.
//! - What it *would use* is what it gets while it is not held back: CPU time used ÷ the part of the time in
//!   which it competes. Time held back is not all time that it would have run, where others want the CPUs
//!   too. With a weight w it then gets at least w times what it would get with its own; that part settles at
//!   √(limit × would use), which is never below the limit: the weight does not take what the limit gives.
//! - It is learned over [`RISE_SECS`], so that the device's correction can follow, and forgotten over
//!   [`MEMORY_SECS`], so that a workload that slept wakes with the weight that it went to sleep with. One
//!   that runs and does not reach its limit gets weight back within [`WAITING_SECS`].
//! - A weight changes when it is off by more than [`DEAD_BAND`]; at most [`CHANGES_PER_STEP`] in a step,
//!   round-robin. Each is a line in the journal and a write of `cpu.weight`, which takes the lock of every
//!   CPU's run queue.
//! - What became of a change is seen in the next observation. Where the weight is not what it should be, it
//!   is requested again after [`AGAIN_AFTER`]; where the platform leaves it alone, it is not.

use super::findings::{StepContext, StepFindings, WorkloadFindings};
use super::state::{LimitRequest, State, WorkloadState};
use crate::seam::observation::LimitedWeight;
use crate::seam::plan::WeightChange;
use crate::seam::topology::Lever;
use crate::units::Nanos;

/// No workload has less of its weight than this part, however small its limit is.
const LEAST: f64 = 0.1;

/// A weight that is off by no more than this part stays as it is, because each change is a line in the
/// journal and a write that takes the lock of every CPU's run queue.
const DEAD_BAND: f64 = 0.2;

/// Time in which it is forgotten what a workload would use, in seconds.
const MEMORY_SECS: f64 = 20.0;

/// Time in which it is learned that a workload would use more than it does, in seconds. A weight that fell at
/// once took the device 4 to 6 % below its set-point in some scenarios, and settling took two seconds.
/// Learned over this time it does neither, and light users wait no longer than without control in `phases`,
/// `small-among-big` and `neighbour-busy`.
const RISE_SECS: f64 = 5.0;

/// The same as [`MEMORY_SECS`] where it runs and does not reach its limit: then its weight is what keeps it
/// back.
const WAITING_SECS: f64 = 4.0;

/// CPU use below which it is taken as asleep.
const IDLE_CPUS: f64 = 0.01;

/// CPU time of an interval is off by as much, relative to one CPU.
const CPUS_TOLERANCE: f64 = 0.05;

/// Most weights that change in one step: each is a line in the journal and a write under the lock of every
/// CPU's run queue.
const CHANGES_PER_STEP: usize = 16;

/// Time after which a change that does not show in observations is requested again.
const AGAIN_AFTER: Nanos = Nanos::from_millis(1000);

/// The weights that are to change, by workload id.
///
/// A weight is compared with what it is seen to be and with what was requested last, and only a difference to
/// both makes a change: what was requested a step ago does not show yet. A weight of 1 is near to no other
/// one, so that a workload gets all of its weight back, and not all but the dead band.
pub(super) fn propose(
    state: &mut State,
    context: &StepContext<'_>,
    found: &StepFindings,
) -> Vec<WeightChange> {
    let actuator = context.machine.actuator.as_ref();
    if !actuator.is_some_and(|actuator| actuator.has(Lever::Weight)) {
        return Vec::new();
    }
    let part = context.gains.limited_weight;
    let gains = LearningGains::of(context.dt);
    let mut due: Vec<(usize, f64)> = Vec::new();
    let each = state.workloads.iter_mut().zip(found.workloads());
    for (position, (tracked, found)) in each.enumerate() {
        let seen = found.signals.index;
        let seen = seen.and_then(|i| context.seen.workloads.get(i));
        let Some((seen, limit)) = seen.zip(limit(tracked)) else {
            tracked.hold.weight_requested = None;
            continue;
        };
        let would_use = would_use(tracked, &found, &gains);
        let has = match &seen.limited_weight {
            None => 1.0,
            Some(LimitedWeight::Lowered { ratio }) => *ratio,
            Some(LimitedWeight::LeftAlone { .. }) => continue,
        };
        let wants = if part > 0.0 && part * limit < would_use {
            (part * limit / would_use).max(LEAST)
        } else {
            1.0
        };
        let is_near =
            |ratio: f64| (wants / ratio - 1.0).abs() <= DEAD_BAND && (wants < 1.0 || ratio >= 1.0);
        let is_requested = tracked.hold.weight_requested.is_some_and(|(ratio, then)| {
            is_near(ratio) && context.at.0.saturating_sub(then.0) < AGAIN_AFTER.0
        });
        if !is_near(has) && !is_requested {
            due.push((position, wants));
        }
    }
    by_turns(state, due, context.at)
}

/// How much of what is new is taken in at a step.
struct LearningGains {
    rise: f64,
    waiting: f64,
    memory: f64,
}

impl LearningGains {
    fn of(dt_secs: f64) -> Self {
        let gain = |memory_secs: f64| 1.0 - (-dt_secs / memory_secs).exp();
        LearningGains {
            rise: gain(RISE_SECS),
            waiting: gain(WAITING_SECS),
            memory: gain(MEMORY_SECS),
        }
    }
}

/// The CPUs that it would use without a limit.
fn would_use(
    tracked: &mut WorkloadState,
    found: &WorkloadFindings<'_>,
    gains: &LearningGains,
) -> f64 {
    let hold = &mut tracked.hold;
    // A missing reading is no use of 0.
    let Some(cpus) = found.signals.cpu else {
        return hold.would_use;
    };
    let now = competing(cpus, found.signals.throttled_ratio);
    let waits = !hold.pinned && cpus > IDLE_CPUS;
    let gain = match (now > hold.would_use, waits) {
        (true, _) => gains.rise,
        (false, true) => gains.waiting,
        (false, false) => gains.memory,
    };
    hold.would_use += (now - hold.would_use) * gain;
    hold.would_use
}

/// What it gets on the CPUs that its tasks are on, in the time in which no limit holds them back, in CPUs.
/// They are on at least as many CPUs as they used and were held back on together.
fn competing(used: f64, held: f64) -> f64 {
    let on = (used + held - CPUS_TOLERANCE).ceil().max(1.0);
    (used * on / (on - held).max(CPUS_TOLERANCE)).min(used + held)
}

/// The limit that it has or gets, and keeps.
fn limit(tracked: &WorkloadState) -> Option<f64> {
    match tracked.hold.requested {
        Some(LimitRequest::Limit { cpus }) => Some(cpus),
        Some(LimitRequest::Release) => None,
        None => tracked.hold.in_force.filter(|_| !tracked.hold.is_reborn),
    }
}

/// The changes that one step may make: at most [`CHANGES_PER_STEP`], beginning behind the workload that the
/// step before changed last. So each workload has its turn, however many are due at each step.
fn by_turns(state: &mut State, mut due: Vec<(usize, f64)>, at: Nanos) -> Vec<WeightChange> {
    let last = state.weighed_last.take();
    if due.len() > CHANGES_PER_STEP {
        let id = |position: usize| state.workloads.get(position).map(|t| &t.id);
        let first = due.iter().position(|(p, _)| id(*p) > last.as_ref());
        due.rotate_left(first.unwrap_or(0));
        due.truncate(CHANGES_PER_STEP);
        let last = due.last().and_then(|(position, _)| id(*position)).cloned();
        state.weighed_last = last;
    }
    let mut changes = Vec::with_capacity(due.len());
    for (position, ratio) in due {
        let Some(tracked) = state.workloads.get_mut(position) else {
            continue;
        };
        tracked.hold.weight_requested = Some((ratio, at));
        changes.push(WeightChange {
            workload: tracked.id.clone(),
            ratio,
        });
    }
    changes.sort_by(|a, b| a.workload.cmp(&b.workload));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_competes_is_not_all_of_the_time_that_a_limit_holds_back() {
        let cases = [
            // Alone on its CPU: all of it.
            ((0.3, 0.7), 1.0),
            // Beside another task: of 0.6 of the time it has half.
            ((0.3, 0.4), 0.5),
            // It is not held back.
            ((0.5, 0.0), 0.5),
            // Three threads and a part of a fourth.
            ((1.5, 2.0), 3.0),
            ((0.0, 1.0), 0.0),
        ];
        for ((used, held), wanted) in cases {
            let got = competing(used, held);
            assert!(
                (got - wanted).abs() < 1e-9,
                "{used}, {held}: {got}, {wanted}"
            );
        }
    }

    /// With the weight that follows, what it gets settles above its limit, whatever weight others have
    /// together.
    #[test]
    fn a_lowered_weight_never_takes_what_the_limit_gives() {
        for others in [0.1, 0.5, 1.0, 3.0, 20.0] {
            for limit_ratio in [0.05, 0.2, 0.5, 0.8, 0.97] {
                let gets = |weight: f64| weight / (weight + others);
                let limit = limit_ratio * gets(1.0);
                let mut weight: f64 = 1.0;
                for _ in 0..2000 {
                    // Once it has its limit it is held back for the rest of the time.
                    let competes = (limit / gets(weight)).min(1.0);
                    let used = gets(weight) * competes;
                    let would_use = competing(used, 1.0 - competes);
                    weight += 0.05 * ((limit / would_use).clamp(LEAST, 1.0) - weight);
                }
                assert!(
                    gets(weight) >= limit * 0.999,
                    "{others}, {limit_ratio}: {weight}"
                );
            }
        }
    }
}
