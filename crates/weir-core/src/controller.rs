// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop's one step, as a function: an observation goes in, a plan comes out.
//!
//! ```text
//! Observation                                                                              Plan
//!   │ counters of   counters of      each owner's    κ, wanted CPU,  PI term,   slew, dead   ▲
//!   │ devices       workloads        part            demand          policy     band, pace   │
//!   └─► rates ─────► signals ───────► parts ────────► demands ──────► budgets ──► limits ──► explain
//!       eq. 1                         eq. 3                           per device  weights
//! ```
//!
//! Each stage is one module of this name (the first is [`crate::rates`]) and gives its findings as a value.
//! What must live to the next step is in [`State`], and only that.
//!
//! *Words.* T: the set-point of a device. B: its bandwidth, counted by itself. κ: *intensity*,
//! device bytes per CPU-second of one workload. *Demand*: what a workload would move without a
//! limit. *Correction* c: factor on the set-point that takes away what the split gets wrong.
//! *Pinned*: running into its limit. *Short*: its part is smaller than its demand, so that it gets a limit.
//!
//! *One step.*
//!
//! 1. `rates`: of groups and devices ([`crate::rates::bandwidth`]).
//! 2. `signals`: CPU use of every workload, and signs of its access to groups.
//! 3. `parts`: group rates shared out to workloads and weir's own probe ([`crate::rates::attribution`]).
//! 4. `demands`: κ, wanted CPU and demand. A missing reading changes none of them.
//! 5. `budgets`: the PI term on (T − B)/T moves the correction; what weir may not limit (excluded
//!    workloads, traffic of no workload, what is too small to matter) is taken off the budget
//!    T·c first; the rest is split by the policy: several devices one by one, or with policy drf all of them
//!    and CPU time together (`dominant`).
//! 6. `limits`: a workload's limit is allowed ÷ κ, in CPUs; of several devices the tightest counts. Slew,
//!    floor, dead band, spacing of writes, release; `writes`: how many at once, and which first.
//!    `device_bytes`: the bytes themselves, for a back end that limits them. `weights`: the part of its
//!    weight with which a limited workload competes.
//! 7. `explain`: a state per device and a verdict per workload, with the reason.
//!
//! *Feed-forward and feedback.* A new load is answered by stages 2 to 6 within two or three
//! intervals, without waiting for an integral to move. The first limit is too mild: κ was measured on
//! stalled CPUs and rises as the stalls go (the thesis saw +3…7 %, 6.3). κ is measured again within
//! a few steps, and the slow integral takes away what then remains: the leak of rewrites, the
//! ticks, the error of κ.
//!
//! *Failing open.* No reading of the device, or of a workload, leads to a limit that stays for
//! ever: see `limits`. A limit counts as in force only after the platform said so
//! ([`State::note`]).

mod breakdown;
mod budgets;
mod config;
mod demands;
mod device_bytes;
mod devices;
mod dominant;
mod explain;
mod findings;
mod limits;
mod own_traffic;
mod parts;
mod setpoint;
mod signals;
mod state;
mod weights;
mod writes;

pub use config::{Config, ConfigError};
pub use setpoint::Goal;
pub use state::State;
pub use writes::WRITES_PER_STEP;

use crate::seam::observation::Observation;
use crate::seam::plan::Plan;
use crate::seam::topology::Description;
use explain::Explanation;
use findings::{StepContext, StepFindings, StepRates};

/// One step. Pure: the same state, config, machine and observation give the same plan, byte for
/// byte. Never panics; values of `config` that make no sense are replaced by their defaults
/// (see [`Config::validate`]). Time: O(n log n) in the number of workloads.
pub fn step(state: &mut State, config: &Config, machine: &Description, seen: &Observation) -> Plan {
    let context = StepContext::begin(state, config, machine, seen);
    let rates = StepRates::measure(state, &context);
    let signals = signals::read(state, &context, &rates);
    let parts = parts::share_out(&rates, &signals);
    let demands = demands::estimate(state, &context, &rates, &signals, &parts);
    let budgets = budgets::split_devices(state, &context, &rates, &parts, &signals, &demands);
    let found = StepFindings {
        rates,
        signals,
        parts,
        demands,
        budgets,
    };
    let actions = limits::propose(state, &context, &found);
    let budgets = device_bytes::propose(state, &context, &found);
    let weights = weights::propose(state, &context, &found);
    let running_ratio = found.signals.running_ratio;
    let explanation = Explanation {
        context: &context,
        found: &found,
        state,
    };
    Plan {
        seq: seen.seq,
        at: seen.at,
        devices: explanation.devices(),
        workloads: explanation.verdicts(),
        actions,
        budgets,
        weights,
        task_events_running_ratio: (running_ratio < 1.0).then_some(running_ratio),
    }
}
