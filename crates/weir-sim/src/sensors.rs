// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a program on the machine can know: exact counters per group, and per task a sampler that
//! sees far too little (thesis 6.2.2: 200 times), each task with an error of its own, with the noise of
//! few samples.

use crate::build::Label;
use crate::machine::Machine;
use crate::rng::Rng;
use crate::scenario::Sensors;

/// A group; cumulative bytes read and written; what was sampled of them.
type Row = (u32, [f64; 2], [f64; 2]);

/// The samplers of all workloads.
pub(crate) struct Samplers {
    settings: Sensors,
    /// For each workload: calibration error as a factor, random numbers.
    sides: Vec<(f64, Rng)>,
    /// Cumulative bytes so far, by workload and group: truth, and what was sampled of it.
    seen: Vec<Vec<Row>>,
}

impl Samplers {
    pub(crate) fn new(settings: &Sensors, labels: &[Label], seed: u64) -> Self {
        let side = |i: usize| {
            let mut rng = Rng::new(seed, 2_000_000 + i as u64);
            ((settings.bias_stddev * rng.normal()).exp(), rng)
        };
        Samplers {
            settings: settings.clone(),
            sides: (0..labels.len()).map(side).collect(),
            seen: vec![Vec::new(); labels.len()],
        }
    }

    /// Cumulative sampled loads and stores of a workload in a group: what its instructions did, so a
    /// store that also caused a read is one store. Call `settle_all` before.
    pub(crate) fn read(&mut self, machine: &Machine, workload: usize, group: u32) -> [f64; 2] {
        let moved = &machine.workloads[workload].tally.moved;
        let truth = moved
            .iter()
            .find(|(g, _)| *g == group)
            .map_or([0.0; 2], |(_, m)| *m);
        let rows = &mut self.seen[workload];
        let at = rows
            .iter()
            .position(|(g, ..)| *g == group)
            .unwrap_or_else(|| {
                rows.push((group, [0.0; 2], [0.0; 2]));
                rows.len() - 1
            });
        let (_, before, sampled) = &mut rows[at];
        let (bias, rng) = &mut self.sides[workload];
        // Reads at the device that stores caused are no loads.
        let stores = truth[1] - before[1];
        let loads = (truth[0] - before[0] - stores).max(0.0);
        let per_sample = self.settings.bytes_per_sample;
        for (sum, bytes) in sampled.iter_mut().zip([loads, stores]) {
            if bytes > 0.0 {
                let samples = rng.poisson(bytes / per_sample);
                *sum += samples * per_sample * self.settings.sampled_ratio * *bias;
            }
        }
        *before = truth;
        *sampled
    }
}
