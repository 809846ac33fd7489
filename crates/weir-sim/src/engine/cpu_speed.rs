// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The speed of all CPUs together: the simulator's one source of noise that is not in the workloads.
//!
//! A processor's frequency follows its power and temperature budget, and what the cores execute decides how
//! much of that they take. Here all cores have one speed. It is 1 in the mean, uniformly distributed within 1
//! ± `speed_spread_ratio`, in [`SPEED_LEVELS`] steps, and a new one is drawn after an exponentially
//! distributed time with the mean `speed_hold_ms`. A speed divides the CPU time of computing and of a
//! reader's own work for a line; the device's latency stays.

use crate::engine::event_queue::Event;
use crate::engine::machine::Machine;
use crate::engine::memory::fluid::SPEED_LEVELS;
use crate::engine::rng::Rng;
use weir_scenario::simulated::MachineConfig;

/// Stream of random numbers of its own: the workloads meet the same ones with and without it.
const STREAM: u64 = 996;

pub(crate) struct SpeedChanges {
    rng: Rng,
    hold_ns: f64,
}

impl SpeedChanges {
    pub(crate) fn new(machine: &MachineConfig, seed: u64) -> Self {
        SpeedChanges {
            rng: Rng::new(seed, STREAM),
            hold_ns: machine.speed_hold_ms * 1e6,
        }
    }
}

/// A new speed of all CPUs, and the time of the next.
pub(crate) fn change_speed(m: &mut Machine) {
    let Some(changes) = &mut m.speed_changes else {
        return;
    };
    let level = changes.rng.below(SPEED_LEVELS);
    let held_ns = changes.rng.exponential(changes.hold_ns).max(1.0) as u64;
    m.fluid.set_speed(level);
    m.queue.push(m.now + held_ns, Event::Speed);
}
