// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From readings to knowledge: CPU used, traffic caused, intensity κ, and each workload's demand.
//!
//! * κ = device bytes per CPU-second. It falls when the device is overloaded (stalled CPUs burn
//!   time without moving bytes) and rises again when the overload goes, so it is measured afresh
//!   all the time, and faster just after a large change of our own.
//! * *wanted* = CPU a workload would use without our limit. While we do not limit it, this is the CPU time
//!   that it uses, and the time for which a scheduler's overload cap held it back. While it runs into our
//!   limit it cannot be seen, so the last free figure is kept and allowed to grow slowly up to twice that, in
//!   order to find a workload that has grown. If it does not even use its limit, *wanted* sinks to what it
//!   uses.
//! * *demand* = what it would move: its bandwidth when free or when it stays below its limit, κ × wanted
//!   when it runs into the limit.

use super::config::Gains;
use super::state::{DeviceUse, GroupUse, State, WorkloadState};
use crate::ids::DeviceId;
use crate::rates::attribution::{
    AccessSignal, Attributed, Attribution, Estimate, Provenance, part_share, sampled_share,
};
use crate::rates::bandwidth::GroupRate;
use crate::rates::counters::{Counter, Delta, FULL_MASK, Limits};
use crate::seam::observation::{Missing, Observation, Reading, Use, WorkloadReading};
use crate::seam::topology::Description;
use crate::units::{Bytes, Nanos};

/// Less CPU than this says nothing about κ.
const IDLE_CPUS: f64 = 0.0005;

/// Weight of the newest interval in κ while things are changing by our own doing.
const FAST_ALPHA: f64 = 0.5;

/// A workload that uses this part of its limit is held back by it. Not 1: a limit is enforced in
/// ticks, and the CPU time of one interval is off by one of them.
const PINNED_RATIO: f64 = 0.85;

/// Held back for this part of an interval counts as running into the limit.
const THROTTLED_RATIO: f64 = 0.05;

/// A workload that has stayed below its limit for this many steps counts with what it uses: the rest of its
/// part is for others until it runs into the limit again. Else no workload gets what a sleeper does not use,
/// and the correction winds up.
const SEEN_STEPS: u32 = 4;

/// How fast *wanted* grows while it cannot be seen, per second, and how far.
const PROBE_PER_SEC: f64 = 0.05;
const PROBE_UP_TO: f64 = 2.0;

/// Time in which *wanted* sinks, in seconds.
const FORGET_SECS: f64 = 2.0;

/// Time in which what was stored and not written back is forgotten, in seconds: of a line that is stored to
/// again and again more stores than writes are seen.
const UNWRITTEN_SECS: f64 = 2.0;

/// Bandwidth above twice the smoothed one that also exceeds it by this part of the set-point is a
/// new load and not noise.
const JUMP_OF_SET_POINT: f64 = 0.05;

/// A counter of nanoseconds or bytes of which only the width is known.
const PLAIN: Limits = Limits {
    mask: FULL_MASK,
    per_sec: None,
};

/// Reads the counters of all workloads. Gives the shares for [`crate::rates::attribution::attribute`], in
/// the order of workloads and their active uses, and the workloads that began anew under their old
/// name while a limit of ours was thought to be on them.
pub(super) fn signals(
    state: &mut State,
    machine: &Description,
    seen: &Observation,
    groups: &[GroupRate],
) -> (Vec<AccessSignal>, Vec<usize>) {
    let cpus = f64::from(machine.cpu_count.max(1));
    let cpu_limits = Limits {
        mask: FULL_MASK,
        per_sec: Some(cpus * 1e9),
    };
    let mut shares = Vec::with_capacity(state.workloads.len());
    let mut reborn = Vec::new();
    for (position, tracked) in state.workloads.iter_mut().enumerate() {
        let Some(found) = tracked.now.index.and_then(|i| seen.workloads.get(i)) else {
            continue;
        };
        tracked.follow_uses(found);
        let cpu = tracked.cpu.advance(cpu_limits, &found.cpu_ns);
        if found.cpu_ns.value.is_ok() && matches!(cpu, Err(Missing::Lost(_))) {
            if tracked.hold.in_force.is_some() || tracked.hold.is_reborn {
                reborn.push(position);
            }
            begin_anew(tracked, found);
        }
        tracked.now.cpu = used(&mut tracked.is_still, &found.cpu_ns, cpu);
        // A reason costs an allocation to copy; it is not read here.
        if found.throttled_ns.value.is_ok()
            && let Ok(held) = tracked.throttled.advance(PLAIN, &found.throttled_ns)
        {
            tracked.now.throttled_ratio = held.per_sec() / 1e9;
        }
        let never = tracked.cpu_smooth.get().is_none() && found.cpu_ns.value.is_ok();
        tracked.now.fresh = tracked.now.cpu.is_none() && never;
        tracked.now.limitable = found.excluded.is_none();
        tracked.now.weight = found.weight;
        tracked.now.cap = found.their_limit_cpus.map_or(cpus, |t| t.get().min(cpus));
        for (track, use_) in tracked.uses.iter_mut().zip(&found.uses) {
            let group = groups
                .binary_search_by_key(&use_.group, |g| g.id)
                .unwrap_or(usize::MAX);
            let (sampled, stores) = sampled(track, use_);
            let resident = use_.resident_bytes.ok();
            track.active = resident != Some(&Bytes(0)) || sampled.is_some_and(|s| s > 0.0);
            if track.active {
                let by_memory = by_memory(machine, found, use_, tracked.now.cpu);
                shares.push(AccessSignal {
                    group,
                    sampled,
                    stores,
                    ..by_memory
                });
            }
        }
    }
    (shares, reborn)
}

/// Its signs by CPU time and memory. Where it is not known what it has in the group, all of its memory may be
/// there.
fn by_memory(
    machine: &Description,
    found: &WorkloadReading,
    use_: &Use,
    cpus: Option<f64>,
) -> AccessSignal {
    let in_bytes = |bytes: &Bytes| bytes.0 as f64;
    let known = use_.resident_bytes.ok().map(in_bytes);
    let group = || machine.groups.iter().find(|g| g.id == use_.group);
    let here = known.or_else(|| Some(in_bytes(&group()?.size_bytes)));
    let all = match known {
        Some(_) => found.resident_bytes.as_ref().map(in_bytes),
        None => here,
    };
    let ran = cpus.zip(here);
    AccessSignal {
        part: ran
            .zip(all)
            .map(|((cpus, here), all)| part_share(cpus, here, all)),
        resident: ran.map(|(cpus, here)| cpus * here),
        is_bound: known.is_none(),
        ..AccessSignal::default()
    }
}

/// CPUs used since the reading before. A platform repeats a reading of a workload that had not run when it
/// was read, while nothing moves that it could have moved: it is taken as still. Of any other nothing is
/// known without a new reading.
fn used(
    is_still: &mut bool,
    reading: &Reading<Nanos>,
    more: Result<Delta, Missing>,
) -> Option<f64> {
    match more {
        Ok(more) => {
            *is_still = more.amount == 0;
            Some(more.per_sec() / 1e9)
        }
        Err(Missing::NotYetRead) if *is_still && reading.value.is_ok() => Some(0.0),
        Err(_) => None,
    }
}

/// A CPU counter that went back means a new workload under an old name: what was learned about the
/// old one, and our limit on it, are gone.
fn begin_anew(tracked: &mut WorkloadState, found: &WorkloadReading) {
    let index = tracked.now.index;
    let cpu = tracked.cpu;
    *tracked = WorkloadState::new(tracked.id.clone());
    tracked.cpu = cpu;
    tracked.now.index = index;
    tracked.follow_uses(found);
}

/// What it reads of the group by loads and stores, and what it has stored that may be written back now.
fn sampled(track: &mut GroupUse, use_: &Use) -> (Option<f64>, Option<f64>) {
    let more = |counter: &mut Counter, reading: &Option<Reading<Bytes>>| match reading {
        Some(r) if r.value.is_ok() => Some(counter.advance(PLAIN, r).ok()),
        Some(_) => Some(None),
        None => None,
    };
    let loads = more(&mut track.loads, &use_.sampled_read_bytes);
    let stores = more(&mut track.stores, &use_.sampled_write_bytes);
    let unwritten = stores.flatten().map(|more| {
        track.unwritten += more.amount as f64;
        track.unwritten
    });
    let rate = |more: Option<Option<Delta>>| more.map(|more| more.map(Delta::per_sec));
    let reads = match (rate(loads), rate(stores)) {
        (Some(loads), Some(stores)) => loads.zip(stores).map(|(l, s)| sampled_share(l, s)),
        // A source that does not distinguish them, or sees stores only.
        (one, other) => one.or(other).flatten(),
    };
    (reads, unwritten)
}

/// A line that was stored to is written back when another line takes its place: at some later time, whichever
/// workload that other line belongs to. Bytes that were written for a workload are subtracted from what is
/// still to come.
fn write_back(track: &mut GroupUse, write: Estimate, dt: f64) {
    let left = (track.unwritten - write.bytes_per_sec.get() * dt).max(0.0);
    track.unwritten = left * (1.0 - (dt / UNWRITTEN_SECS).min(1.0));
}

/// Time and surroundings of one step.
pub(super) struct StepContext<'a> {
    pub gains: &'a Gains,
    pub at: Nanos,
    /// Since the last step, in seconds; 0 on the first.
    pub dt: f64,
}

/// Takes in what was found: bandwidth, κ, wanted and demand of every workload.
pub(super) fn estimate(state: &mut State, context: &StepContext<'_>, found: &Attribution) {
    let State {
        workloads, devices, ..
    } = state;
    let mut parts = found.parts.iter().copied();
    let device_of = |device: DeviceId| {
        let known = devices.binary_search_by_key(&device, |d| d.id).ok();
        known.and_then(|i| devices.get(i))
    };
    for tracked in workloads {
        tracked.hold.age(context.dt);
        for load in &mut tracked.loads {
            load.now = Estimate {
                provenance: Provenance::Counted,
                ..Estimate::UNKNOWN
            };
            load.allowed = None;
        }
        if tracked.now.index.is_none() {
            continue;
        }
        for use_ in tracked.uses.iter_mut().filter(|u| u.active) {
            let part = parts.next().unwrap_or(Attributed::UNKNOWN);
            write_back(use_, part.write, context.dt);
            let device = use_.group.device;
            if let Ok(i) = tracked.loads.binary_search_by_key(&device, |l| l.device)
                && let Some(load) = tracked.loads.get_mut(i)
            {
                load.now = load.now.plus(part.all);
            }
        }
        let cpu = tracked.now.cpu;
        for load in &mut tracked.loads {
            let device = device_of(load.device);
            let mut alpha = context.gains.alpha;
            if device.is_some_and(|d| d.settling(context.at) || d.unsettled(context.at)) {
                alpha = alpha.max(FAST_ALPHA);
            }
            let target = device.and_then(|d| d.setpoint.target);
            measure(load, cpu, alpha, context.gains.alpha, target);
        }
        want(tracked, context);
        for load in &mut tracked.loads {
            let is_held = tracked.hold.in_force.is_some() && tracked.hold.calm_steps < SEEN_STEPS;
            let is_hidden = is_held || tracked.hold.pinned;
            let hidden = load.intensity().filter(|_| is_hidden);
            load.demand = hidden.map_or(load.smooth, |k| load.smooth.max(k * tracked.wanted));
        }
    }
}

fn measure(load: &mut DeviceUse, cpu: Option<f64>, alpha: f64, smooth: f64, target: Option<f64>) {
    if load.now.provenance == Provenance::Unknown {
        return;
    }
    let rate = load.now.bytes_per_sec.get();
    let jump = target.map_or(f64::INFINITY, |t| t * JUMP_OF_SET_POINT);
    if rate > 2.0 * load.smooth && rate - load.smooth > jump {
        load.smooth = rate;
    } else {
        load.smooth += smooth * (rate - load.smooth);
    }
    let Some(cpu) = cpu else { return };
    if cpu > IDLE_CPUS {
        load.samples = load.samples.saturating_add(1);
    }
    // Bytes that arrive in an interval without CPU time belong to CPU time of the one before.
    if cpu > IDLE_CPUS || (rate > 0.0 && load.samples > 0) {
        load.bytes.push(alpha, rate);
        load.cpu.push(alpha, cpu);
    }
}

fn want(tracked: &mut WorkloadState, context: &StepContext<'_>) {
    let Some(cpu) = tracked.now.cpu else { return };
    let smooth = tracked.cpu_smooth.push(context.gains.alpha, cpu);
    let fade = (context.dt / FORGET_SECS).min(1.0);
    let Some(limit) = tracked.hold.in_force else {
        // A scheduler's overload cap may have held it back: then it would have run all that time.
        let held = tracked.now.throttled_ratio;
        let is_held = held > THROTTLED_RATIO && cpu < tracked.now.cap;
        let wish = if is_held {
            (cpu + held).min(tracked.now.cap)
        } else {
            cpu
        };
        tracked.wanted = wish.max(tracked.wanted + fade * (wish - tracked.wanted));
        tracked.learned = tracked.wanted;
        tracked.hold.pinned = is_held;
        return;
    };
    let hold = &mut tracked.hold;
    hold.pinned = smooth >= PINNED_RATIO * limit || tracked.now.throttled_ratio > THROTTLED_RATIO;
    if hold.pinned {
        (hold.calm_steps, hold.calm_secs) = (0, 0.0);
        let ceiling = (PROBE_UP_TO * tracked.learned).min(tracked.now.cap);
        let probed = tracked.wanted * (1.0 + PROBE_PER_SEC * context.dt);
        tracked.wanted = tracked.wanted.max(probed.min(ceiling)).max(smooth);
    } else {
        hold.calm_steps = hold.calm_steps.saturating_add(1);
        hold.calm_secs += context.dt.min(1.0);
        tracked.wanted = (tracked.wanted + fade * (smooth - tracked.wanted)).max(smooth);
        tracked.learned = tracked.wanted;
    }
}
