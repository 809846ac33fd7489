// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effects that are known, found again in synthetic measurements, and input that says nothing.

mod coverage;
mod greatest;
mod identical;
mod influence;
mod input;

use crate::paired::Pair;
use crate::paired::sweep::index;
use weir_core::random::SplitMix;

/// How measurements of a machine scatter.
#[derive(Clone, Copy, Debug)]
struct Noise {
    /// Relative standard deviation of one measurement.
    white: f64,
    /// Relative standard deviation of the machine's state.
    state: f64,
    /// How much of that state is left at the next measurement.
    memory: f64,
    /// Change of the state over 60 measurements, relative.
    drift: f64,
    /// How often an interrupt takes 5 to 60 % of a measurement.
    outliers: f64,
}

/// A machine that is measured again and again.
struct Machine {
    noise: Noise,
    random: SplitMix,
    state: f64,
    measurements: u32,
}

impl Machine {
    fn new(noise: Noise, seed: u64) -> Machine {
        let mut random = SplitMix::new(seed);
        let state = noise.state * random.normal();
        Machine {
            noise,
            random,
            state,
            measurements: 0,
        }
    }

    /// The logarithm of one measurement's error.
    fn error(&mut self) -> f64 {
        let Noise {
            white,
            state,
            memory,
            drift,
            outliers,
        } = self.noise;
        let fresh = state * (1.0 - memory * memory).sqrt();
        self.state = memory * self.state + fresh * self.random.normal();
        self.measurements += 1;
        let interrupt = if self.random.unit() < outliers {
            (1.0 - 0.05 - 0.55 * self.random.unit()).ln()
        } else {
            0.0
        };
        let slow = drift * f64::from(self.measurements) / 60.0;
        slow + self.state + white * self.random.normal() + interrupt
    }

    /// One repetition: alone, together and the other alone, in random order.
    fn repetition(&mut self, ratio: f64) -> Pair {
        let alone = index(self.random.unit(), 3);
        let together = (alone + 1 + index(self.random.unit(), 2)) % 3;
        let errors = [self.error(), self.error(), self.error()];
        (
            1e9 * errors[alone].exp(),
            1e9 * ratio * errors[together].exp(),
        )
    }

    fn repetitions(&mut self, ratio: f64, count: usize) -> Vec<Pair> {
        (0..count).map(|_| self.repetition(ratio)).collect()
    }
}

/// Noise of a quiet machine, of one with other work, and of a guest that its host interrupts.
const NOISES: [Noise; 4] = [
    Noise {
        white: 0.004,
        state: 0.01,
        memory: 0.9,
        drift: 0.0,
        outliers: 0.0,
    },
    Noise {
        white: 0.01,
        state: 0.03,
        memory: 0.95,
        drift: 0.15,
        outliers: 0.03,
    },
    Noise {
        white: 0.02,
        state: 0.02,
        memory: 0.5,
        drift: -0.3,
        outliers: 0.02,
    },
    Noise {
        white: 0.005,
        state: 0.0,
        memory: 0.0,
        drift: 0.5,
        outliers: 0.05,
    },
];
