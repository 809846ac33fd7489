// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a program on the machine can know of the accesses of each workload to a device:
//!
//! - *Counts.* Reads that the CPU counts for each task, also those that a store needs first. Each workload
//!   has an error of its own. They show which workload writes only where stores are counted apart.
//! - *Samples.* A sampler that sees far too little (thesis 6.2.2: 200 times), each workload with an error of
//!   its own, with the noise of few samples.
//! - *CPU time.* Neither: memory and CPU time have to do.

use crate::engine::machine::Machine;
use crate::engine::rng::Rng;
use crate::from_scenario::Label;
use weir_core::Bytes;
use weir_core::seam::observation::{EventCount, EventCounts};
use weir_core::seam::topology::TaskEvent;
use weir_scenario::Attribution;
use weir_scenario::simulated::Sensors;

/// What is known of a workload's accesses, in the fields of an observation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accesses {
    pub counts: Option<EventCounts>,
    /// Cumulative bytes of a group that were loaded and stored.
    pub sampled: Option<[Bytes; 2]>,
}

/// What weir has for sharing out the traffic of a group.
pub(crate) enum AccessSource {
    Counts(Counts),
    Samples(Samplers),
    CpuTime,
}

impl AccessSource {
    /// Those of the scenario, or others that were configured.
    pub(crate) fn new(
        settings: &Sensors,
        configured: Option<Attribution>,
        labels: &[Label],
        seed: u64,
    ) -> Self {
        match configured.unwrap_or(settings.attribution) {
            Attribution::TaskCounts => AccessSource::Counts(Counts::new(settings, labels, seed)),
            Attribution::Sampling => AccessSource::Samples(Samplers::new(settings, labels, seed)),
            Attribution::CpuTime => AccessSource::CpuTime,
        }
    }

    pub(crate) fn events(&self) -> Vec<TaskEvent> {
        let AccessSource::Counts(counts) = self else {
            return Vec::new();
        };
        let event = |counts_stores| TaskEvent {
            bytes_per_count: 1,
            counts_stores,
        };
        let stores = counts.tells_stores.then(|| event(true));
        std::iter::once(event(false)).chain(stores).collect()
    }

    /// What is known of a workload's accesses to a group. Call `settle_all` before.
    pub(crate) fn read(&mut self, machine: &Machine, workload: usize, group: u32) -> Accesses {
        match self {
            AccessSource::CpuTime => Accesses::default(),
            AccessSource::Samples(samplers) => Accesses {
                sampled: Some(samplers.read(machine, workload, group).map(whole)),
                counts: None,
            },
            AccessSource::Counts(counts) => Accesses {
                counts: Some(counts.read(machine, workload, group)),
                sampled: None,
            },
        }
    }
}

/// Never negative: a sum of such.
fn whole(bytes: f64) -> Bytes {
    Bytes(bytes as u64)
}

/// No workload's error is above so many standard deviations: what an event misses of one program (prefetches,
/// lines from another core's cache) is a part of its accesses, and has an end.
const COUNTS_WORST: f64 = 2.0;

/// Accesses that the CPU counts for each task.
pub(crate) struct Counts {
    /// For each workload, the errors of its reads and of its stores as factors.
    biases: Vec<[f64; 2]>,
    tells_stores: bool,
    /// Cumulative bytes so far, by workload and group: truth, and what was counted of it.
    seen: Vec<Vec<Row>>,
}

impl Counts {
    fn new(settings: &Sensors, labels: &[Label], seed: u64) -> Self {
        let bias = |i: usize| {
            let mut rng = Rng::new(seed, 3_000_000 + i as u64);
            let part = |()| rng.normal().clamp(-COUNTS_WORST, COUNTS_WORST);
            [(); 2]
                .map(part)
                .map(|z| (settings.counts_bias_stddev * z).exp())
        };
        Counts {
            biases: (0..labels.len()).map(bias).collect(),
            tells_stores: settings.counts_stores,
            seen: vec![Vec::new(); labels.len()],
        }
    }

    /// Bytes read, and of them those that stores fetched where these are counted apart. The errors of both
    /// differ, but no workload has more of its reads counted as fetched by stores than it has reads.
    fn read(&mut self, machine: &Machine, workload: usize, group: u32) -> EventCounts {
        // These events share no counter: they count all the time.
        let count = |bytes: Bytes| EventCount {
            count: bytes.0,
            enabled_ns: machine.now,
            running_ns: machine.now,
        };
        let truth = moved(machine, workload, group);
        let (_, before, sums) = row(&mut self.seen[workload], group);
        let [of_read, of_stored] = self.biases[workload];
        let [read, written] = [truth[0] - before[0], truth[1] - before[1]];
        *before = truth;
        if !self.tells_stores {
            sums[0] += read * of_read;
            return EventCounts::of(&[count(whole(sums[0]))]);
        }
        // A store that passes the caches fetches nothing, and no event of fetches sees it.
        let stored = written.min(read) * of_stored;
        sums[0] += (read * of_read - stored).max(0.0);
        sums[1] += stored;
        let [loads, stores] = sums.map(whole);
        EventCounts::of(&[count(Bytes(loads.0 + stores.0)), count(stores)])
    }
}

/// The row of a group, which is new where there was none.
fn row(rows: &mut Vec<Row>, group: u32) -> &mut Row {
    let known = rows.iter().position(|(g, ..)| *g == group);
    let at = known.unwrap_or_else(|| {
        rows.push((group, [0.0; 2], [0.0; 2]));
        rows.len() - 1
    });
    &mut rows[at]
}

/// Cumulative bytes that a workload moved of a group: read, written.
fn moved(machine: &Machine, workload: usize, group: u32) -> [f64; 2] {
    let moved = &machine.workloads[workload].tally.moved;
    let of_group = moved.iter().find(|(g, _)| *g == group);
    of_group.map_or([0.0; 2], |(_, bytes)| *bytes)
}

/// A group; cumulative bytes read and written; what was counted or sampled of them.
type Row = (u32, [f64; 2], [f64; 2]);

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
        let truth = moved(machine, workload, group);
        let (_, before, sampled) = row(&mut self.seen[workload], group);
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
