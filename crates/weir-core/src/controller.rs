// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop's one step, as a function: an observation goes in, a plan comes out.
//!
//! ```text
//!  Observation                                                                            Plan
//!   counters ─► rates ─► attribution ─► demand ──► regulate ─► split budgets ─► limits ─► actions
//!              eq. 1     eq. 3          κ, wanted   PI on B     policy           slew,      + why
//!                                       CPU time    per device  per device       dead band
//! ```
//!
//! *Words.* T: the set-point of a device. B: its bandwidth, counted by itself. κ: *intensity*,
//! device bytes per CPU-second of one workload. *Demand*: what a workload would move without a
//! limit. *Correction* c: factor on the set-point that takes away what the split gets wrong.
//! *Pinned*: running into its limit. *Short*: its part is smaller than its demand, so that it gets a limit.
//!
//! *One step.*
//!
//! 1. Rates of groups and devices ([`crate::rates::bandwidth`]); CPU use and signs of access of every
//!    workload; group rates shared out to workloads ([`crate::rates::attribution`]).
//! 2. `demand`: κ, wanted CPU and demand. A missing reading changes none of them.
//! 3. `devices`: the PI term on (T − B)/T moves the correction; what weir may not limit (excluded
//!    workloads, traffic without an owner, what is too small to matter) is taken off the budget
//!    T·c first; the rest is split by the policy. Several devices are treated one by one.
//! 4. A workload's limit is allowed ÷ κ, in CPUs; of several devices the tightest counts.
//! 5. `limits`: slew, floor, dead band, spacing of writes, release; `writes`: how many at once, and which
//!    first.
//! 6. `weights`: the part of its weight with which a limited workload competes.
//! 7. `explain`: a state per device and a verdict per workload, with the reason.
//!
//! *Feed-forward and feedback.* A new load is answered by steps 2 to 4 within two or three
//! intervals, without waiting for an integral to move. The first limit is too mild: κ was measured on
//! stalled CPUs and rises as the stalls go (the thesis saw +3…7 %, 6.3). κ is measured again within
//! a few steps, and the slow integral takes away what then remains: the leak of rewrites, the
//! ticks, the error of κ.
//!
//! *Failing open.* No reading of the device, or of a workload, leads to a limit that stays for
//! ever: see `limits`. A limit counts as in force only after the platform said so
//! ([`State::note`]).

mod breakdown;
mod config;
mod demand;
mod devices;
mod explain;
mod limits;
mod probe_traffic;
mod setpoint;
mod state;
mod weights;
mod writes;

pub use config::{Config, ConfigError};
pub use setpoint::Goal;
pub use state::State;
pub use writes::WRITES_PER_STEP;

use crate::rates::attribution::{Provenance, attribute};
use crate::rates::bandwidth::device_rates;
use crate::seam::observation::Observation;
use crate::seam::plan::Plan;
use crate::seam::topology::Description;
use demand::StepContext;

/// One step. Pure: the same state, config, machine and observation give the same plan, byte for
/// byte. Never panics; values of `config` that make no sense are replaced by their defaults
/// (see [`Config::validate`]). Time: O(n log n) in the number of workloads.
pub fn step(state: &mut State, config: &Config, machine: &Description, seen: &Observation) -> Plan {
    let gains = config.gains().with(machine.actuator.as_ref());
    let dt = state
        .last_at
        .and_then(|before| seen.at.since(before))
        .map_or(0.0, |d| d.secs_f64());
    let context = StepContext {
        gains: &gains,
        at: seen.at,
        dt,
    };
    state.last_at = Some(seen.at);

    let groups = state
        .meter
        .update(machine, &seen.groups, gains.bandwidth_alpha);
    let rates = device_rates(machine, &groups);
    let mut actions = state::follow(&mut state.workloads, &seen.workloads);
    let (shares, reborn) = demand::signals(state, machine, seen, &groups);
    // Traffic of weir's own probe is in the device's total and is no workload's.
    let others = state.probe.subtract_from(&groups, &seen.probe_traffic);
    let mut found = attribute(&others, &shares);
    probe_traffic::leave_unattributed(&mut found, &groups, &others);
    apply_weights(state, config);
    demand::estimate(state, &context, &found);
    breakdown::fill(state, seen, &others, &shares, &found);
    count_blind(state);
    devices::follow(state, &context, &rates, &groups, &found);
    devices::regulate(state, &context, &rates, &seen.latencies);
    devices::split_budgets(state, &gains, config.policy);

    release_reborn(state, &reborn);
    match &machine.actuator {
        Some(actuator) if config.limit && gains.is_holding() => {
            limits::propose(state, &context, actuator, &mut actions);
        }
        _ => limits::release_all(state, seen.at, &mut actions),
    }
    actions.sort_by(|a, b| a.workload.cmp(&b.workload));
    let weights = weights::propose(state, &context, machine, seen);

    let case = explain::PlanContext {
        config,
        is_holding: gains.is_holding(),
        floor_cpus: gains.floor,
        machine,
        devices: &state.devices,
        rates: &rates,
    };
    Plan {
        seq: seen.seq,
        at: seen.at,
        devices: explain::devices(state, &rates),
        workloads: explain::verdicts(&case, &state.workloads, seen),
        actions,
        weights,
    }
}

/// Weights from the configuration go before those found on the system.
fn apply_weights(state: &mut State, config: &Config) {
    if config.weights.is_empty() {
        return;
    }
    for tracked in &mut state.workloads {
        if let Some(weight) = config.weights.get(tracked.id.as_str()) {
            tracked.now.weight = *weight;
        }
    }
}

/// A workload is blind while its CPU time or any part of its traffic is not known.
fn count_blind(state: &mut State) {
    for tracked in state
        .workloads
        .iter_mut()
        .filter(|t| t.now.index.is_some() && !t.now.fresh)
    {
        let unknown = tracked
            .loads
            .iter()
            .any(|l| l.now.provenance == Provenance::Unknown);
        let blind = unknown || tracked.now.cpu.is_none();
        let steps = &mut tracked.hold.blind_steps;
        *steps = if blind { steps.saturating_add(1) } else { 0 };
    }
}

/// What was known of the old workload does not hold for the new one under its name; a release
/// brings the world to a state that is known.
fn release_reborn(state: &mut State, reborn: &[usize]) {
    for position in reborn {
        if let Some(tracked) = state.workloads.get_mut(*position) {
            tracked.hold.is_reborn = true;
        }
    }
}
