// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fourth stage: intensity κ, the CPU that a workload would use, and its demand on each device.
//!
//! * κ = device bytes per CPU-second. It falls when the device is overloaded (stalled CPUs burn
//!   time without moving bytes) and rises again when the overload goes, so it is measured afresh
//!   all the time, and faster just after a large change of our own.
//! * *claim* = what the split takes it to want. Without a limit, or below its limit, this is what it moves.
//!   While it runs into its limit nothing says how much more it would move: it claims κ × all CPUs that it
//!   may use, so that it gets its fair part of what is left, and its limit rises until it does not reach
//!   it, or until the set-point is shared out. No figure of the past decides that, and none can be wrong
//!   for ever.
//! * *seen* = what it moved when no limit held it back: what operators are told, with its age. That, or what
//!   it moves now where that is more, decides nothing but whether limits are worth what they take
//!   ([`super::budgets::fair_parts`]).
//! * *wanted* = the same in CPU time, for limits that are on their way out, and for policy drf.
//!
//! The smoothed bandwidths of all users add up to the device's own. One of them follows a rise at once only
//! where the device shows it too: else each sample of a coarse source would be a new load.

use super::devices::{self, DeviceTrack};
use super::findings::{StepContext, StepRates};
use super::parts::Parts;
use super::signals::{Signals, WorkloadSignals};
use super::state::{DeviceUse, GroupUse, State, WorkloadState, writes_kept};
use crate::ids::DeviceId;
use crate::rates::attribution::{Estimate, Provenance};
use std::ops::Range;

/// CPU time below which an interval says nothing about κ, in CPUs: 25 µs of an interval of 50 ms, where the
/// quotient would be noise.
const IDLE_CPUS: f64 = 0.0005;

/// Weight of the newest interval in κ while things are changing by weir's own doing. κ rises as an overload
/// ends, so what was learned in the overload does not hold after the first limits.
const FAST_ALPHA: f64 = 0.5;

/// A workload that uses this part of its limit is held back by it. Not 1: a limit is enforced in
/// ticks, and the CPU time of one interval is off by one of them.
const PINNED_RATIO: f64 = 0.85;

/// A workload that uses more CPU time than this part of its limit, and so many CPUs more, does not keep to
/// it. Limits are enforced in ticks, and each write gives a quota away.
const UNBOUND_RATIO: f64 = 1.5;
const UNBOUND_CPUS: f64 = 0.05;

/// A workload that was held back for this part of an interval counts as running into its limit.
const THROTTLED_RATIO: f64 = 0.05;

/// A workload that has stayed below its limit for this many steps counts with what it uses: the rest of its
/// part is for others until it runs into the limit again. Else no workload gets what a sleeper does not use,
/// and the correction winds up.
const SEEN_STEPS: u32 = 4;

/// A workload that has not run into its limit for so long moves what it would move without one, in seconds. A
/// shorter time may be a wait for a CPU: limits end too early then, and come back
/// ([`super::state::Relapse`]).
const UNFELT_SECS: f64 = 2.0;

/// Time over which it is taken what a workload was seen to move, in seconds: a sampling source has a single
/// sample in an interval, or none.
const SEEN_SECS: f64 = 1.0;

/// Time in which *wanted* sinks, in seconds.
const FORGET_SECS: f64 = 2.0;

/// Time in which what was stored and not written back is forgotten, in seconds: of a line that is stored to
/// again and again more stores than writes are seen.
const UNWRITTEN_SECS: f64 = 2.0;

/// A line that was stored to is written back when another line takes its place: at some later time, whichever
/// workload that other line belongs to. Bytes that were written for a workload are subtracted from what is
/// still to come.
fn write_back(track: &mut GroupUse, write: Estimate, dt: f64) {
    let left = (track.unwritten - write.bytes_per_sec.get() * dt).max(0.0);
    track.unwritten = left * (1.0 - (dt / UNWRITTEN_SECS).min(1.0));
}

/// Demand of one workload on one device.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceDemand {
    pub device: DeviceId,
    /// What it moved over the last interval.
    pub bandwidth: Estimate,
    /// κ in bytes per CPU-second, once it was measured often enough to be used.
    pub intensity: Option<f64>,
    /// What it claims of the device: what it moves, or while it runs into a limit the most that it could
    /// move. 0 for a workload that is missing from the observation.
    pub bytes_per_sec: f64,
    /// What it was seen to move without a limit, or moves now where that is more.
    pub seen: f64,
}

pub(super) struct Demands {
    /// The demands of all workloads one after the other, those of one workload in the order of its devices.
    pub all: Vec<DeviceDemand>,
    /// For each workload its demands among all of them.
    pub ranges: Vec<Range<usize>>,
}

impl Demands {
    pub fn workloads(&self) -> impl Iterator<Item = &[DeviceDemand]> {
        let each = self.ranges.iter();
        each.map(|range| self.all.get(range.clone()).unwrap_or_default())
    }
}

/// Takes in what was found: bandwidth, κ, wanted and demand of every workload.
pub(super) fn estimate(
    state: &mut State,
    context: &StepContext<'_>,
    rates: &StepRates,
    signals: &Signals,
    parts: &Parts,
) -> Demands {
    let State {
        workloads, devices, ..
    } = state;
    let mut demands = Demands {
        all: Vec::with_capacity(workloads.len()),
        ranges: Vec::with_capacity(workloads.len()),
    };
    let watch = |device: &mut DeviceTrack| {
        device.watch_jumps(&rates.devices, context.gains.alpha);
        LoadWatch::of(device, context)
    };
    let watches: Vec<LoadWatch> = devices.iter_mut().map(watch).collect();
    let kept = writes_kept(context.dt);
    for (tracked, seen) in workloads.iter_mut().zip(&signals.workloads) {
        tracked.hold.age(kept);
        let begin = demands.all.len();
        demands.all.extend(tracked.loads.iter().map(nothing));
        let all = demands.all.get_mut(begin..).unwrap_or_default();
        if seen.index.is_some() {
            add_parts(tracked, all, seen, signals, parts, context.dt);
            want(tracked, seen, context);
            let is_held = tracked.hold.in_force.is_some() && tracked.hold.calm_steps < SEEN_STEPS;
            let is_hidden = is_held || tracked.hold.pinned;
            let is_unfelt = tracked.hold.calm_secs >= UNFELT_SECS;
            let is_free = !is_hidden && (tracked.hold.in_force.is_none() || is_unfelt);
            // Parked by a scheduler without a limit: for how long is known, and it claims no more than that.
            let most = match tracked.hold.in_force {
                Some(_) => seen.cap,
                None => tracked.wanted.min(seen.cap),
            };
            for (load, demand) in tracked.loads.iter_mut().zip(all.iter_mut()) {
                let known = watches.binary_search_by_key(&load.device, |d| d.id).ok();
                let watch = known.and_then(|i| watches.get(i));
                measure(load, demand.bandwidth, seen.cpu, watch, context);
                demand.intensity = load.intensity();
                if is_free {
                    (load.free_mean, load.free_at) = (load.mean, context.at);
                }
                let hidden = demand.intensity.filter(|_| is_hidden);
                demand.bytes_per_sec = hidden.map_or(load.smooth, |k| load.smooth.max(k * most));
                demand.seen = load.free_mean.max(load.mean);
            }
            count_blind(tracked, seen, all);
        }
        demands.ranges.push(begin..demands.all.len());
    }
    demands
}

fn nothing(load: &DeviceUse) -> DeviceDemand {
    DeviceDemand {
        device: load.device,
        bandwidth: Estimate {
            provenance: Provenance::Counted,
            ..Estimate::UNKNOWN
        },
        intensity: None,
        bytes_per_sec: 0.0,
        seen: 0.0,
    }
}

/// The parts of groups that it has, by device.
fn add_parts(
    tracked: &mut WorkloadState,
    demands: &mut [DeviceDemand],
    seen: &WorkloadSignals,
    signals: &Signals,
    parts: &Parts,
    dt: f64,
) {
    let places = signals.places.get(seen.uses.clone()).unwrap_or_default();
    let parts = parts.uses.get(seen.uses.clone()).unwrap_or_default();
    for (place, part) in places.iter().zip(parts) {
        let Some(use_) = tracked.uses.get_mut(*place) else {
            continue;
        };
        write_back(use_, part.write, dt);
        let device = use_.group.device;
        let found = demands.binary_search_by_key(&device, |d| d.device).ok();
        if let Some(demand) = found.and_then(|i| demands.get_mut(i)) {
            demand.bandwidth = demand.bandwidth.plus(part.all);
        }
    }
}

/// A workload is blind while its CPU time or any part of its traffic is not known.
fn count_blind(tracked: &mut WorkloadState, seen: &WorkloadSignals, demands: &[DeviceDemand]) {
    if seen.is_fresh {
        return;
    }
    let is_unknown = |d: &DeviceDemand| d.bandwidth.provenance == Provenance::Unknown;
    let is_blind = seen.cpu.is_none() || demands.iter().any(is_unknown);
    let steps = &mut tracked.hold.blind_steps;
    *steps = if is_blind { steps.saturating_add(1) } else { 0 };
}

/// What a device says of the loads on it, the same for all of them.
struct LoadWatch {
    id: DeviceId,
    /// Things are changing by our own doing.
    is_changing: bool,
    /// A rise above this is a new load; nothing is while the device itself moves no more than before.
    jump: f64,
}

impl LoadWatch {
    fn of(device: &DeviceTrack, context: &StepContext<'_>) -> Self {
        let target = device.setpoint.target.filter(|_| device.has_jumped);
        LoadWatch {
            id: device.id,
            is_changing: device.settling(context.at) || device.unsettled(context.at),
            jump: target.map_or(f64::INFINITY, |t| t * devices::JUMP_OF_SET_POINT),
        }
    }
}

/// Takes one interval into κ and into the smoothed bandwidth.
fn measure(
    load: &mut DeviceUse,
    bandwidth: Estimate,
    cpu: Option<f64>,
    device: Option<&LoadWatch>,
    context: &StepContext<'_>,
) {
    if bandwidth.provenance == Provenance::Unknown {
        return;
    }
    let smooth = context.gains.alpha;
    let alpha = if device.is_some_and(|d| d.is_changing) {
        smooth.max(FAST_ALPHA)
    } else {
        smooth
    };
    let rate = bandwidth.bytes_per_sec.get();
    load.seen_steps = load.seen_steps.saturating_add(1);
    let least = (context.dt / SEEN_SECS).min(1.0);
    let weight = least.max(1.0 / f64::from(load.seen_steps));
    mix(&mut load.mean, weight, rate);
    let jump = device.map_or(f64::INFINITY, |d| d.jump);
    if rate > 2.0 * load.smooth && rate - load.smooth > jump {
        load.smooth = rate;
    } else {
        load.smooth += smooth * (rate - load.smooth);
    }
    let Some(cpu) = cpu else { return };
    // Bytes that arrive in an interval without CPU time belong to CPU time of the one before.
    if cpu > IDLE_CPUS || (rate > 0.0 && load.samples > 0) {
        let alpha = if load.samples == 0 { 1.0 } else { alpha };
        mix(&mut load.bytes, alpha, rate);
        mix(&mut load.cpu, alpha, cpu);
    }
    if cpu > IDLE_CPUS {
        load.samples = load.samples.saturating_add(1);
    }
}

/// Takes a value into a mean, with this weight: 1 for the first.
fn mix(mean: &mut f64, weight: f64, value: f64) {
    *mean = weight * value + (1.0 - weight) * *mean;
}

fn want(tracked: &mut WorkloadState, seen: &WorkloadSignals, context: &StepContext<'_>) {
    let Some(cpu) = seen.cpu else { return };
    let smooth = tracked.cpu_smooth.push(context.gains.alpha, cpu);
    let fade = (context.dt / FORGET_SECS).min(1.0);
    let Some(limit) = tracked.hold.in_force else {
        // A scheduler's overload cap may have held it back: then it would have run all that time.
        let held = seen.throttled_ratio;
        let is_held = held > THROTTLED_RATIO && cpu < seen.cap;
        let wish = if is_held {
            (cpu + held).min(seen.cap)
        } else {
            cpu
        };
        tracked.wanted = wish.max(tracked.wanted + fade * (wish - tracked.wanted));
        tracked.hold.pinned = is_held;
        return;
    };
    let hold = &mut tracked.hold;
    let exceeds = cpu > UNBOUND_RATIO * limit + UNBOUND_CPUS;
    hold.unbound_secs = if exceeds {
        hold.unbound_secs + context.dt.min(1.0)
    } else {
        0.0
    };
    hold.pinned = smooth >= PINNED_RATIO * limit || seen.throttled_ratio > THROTTLED_RATIO;
    if hold.pinned {
        (hold.calm_steps, hold.calm_secs) = (0, 0.0);
        tracked.wanted = seen.cap;
    } else {
        hold.calm_steps = hold.calm_steps.saturating_add(1);
        hold.calm_secs += context.dt.min(1.0);
        tracked.wanted = (tracked.wanted + fade * (smooth - tracked.wanted)).max(smooth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Config;
    use crate::seam::observation::Observation;
    use crate::seam::topology::Description;
    use crate::units::BytesPerSec;

    #[test]
    fn a_rise_counts_at_once_only_where_the_device_shows_it_too() {
        let config = Config::default();
        let (machine, seen) = (Description::default(), Observation::default());
        let context = StepContext::begin(&mut State::default(), &config, &machine, &seen);
        let sample = Estimate {
            bytes_per_sec: BytesPerSec::new(4e8),
            provenance: Provenance::Sampled,
        };
        let smooth_after = |has_jumped| {
            let mut device = DeviceTrack::new(DeviceId(0));
            (device.setpoint.target, device.has_jumped) = (Some(1e9), has_jumped);
            let mut load = DeviceUse::new(DeviceId(0));
            let watch = LoadWatch::of(&device, &context);
            measure(&mut load, sample, Some(0.1), Some(&watch), &context);
            load.smooth
        };
        assert_eq!(smooth_after(true), 4e8);
        assert!(smooth_after(false) < 2e8, "a single sample is no new load");
    }
}
