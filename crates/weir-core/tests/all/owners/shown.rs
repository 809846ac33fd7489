// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is shown of a made-up machine, and what the controller says of it.

use super::made_up::{CPUS, Kernel, Machine, Place, TICK_NS, TICK_SECS, Tick, User};
use crate::parts::workload;
use std::sync::Arc;
use weir_core::seam::observation::{
    Excluded, GroupReading, Missing, PageMigrationReading, ProbeReading, UnownedMemory, Use,
    WorkloadKind, WorkloadReading,
};
use weir_core::seam::topology::Lever;
use weir_core::{
    Bytes, BytesPerSec, Config, Description, GroupId, Nanos, Observation, Plan, Reading, State,
    WorkloadId, step,
};

/// Samples are on a scale of their own.
const SAMPLE_SCALE: f64 = 3.0;

pub struct Run<'a> {
    machine: &'a Machine,
    description: Description,
    config: Config,
    state: State,
    ticks: u64,
    /// All that was counted so far.
    counted: Vec<[u64; 2]>,
    probes: Vec<u64>,
    samples: Vec<Vec<f64>>,
    pages: [u64; 3],
    kernel: Kernel,
    left_mean: Option<Vec<f64>>,
}

impl<'a> Run<'a> {
    pub fn new(machine: &'a Machine) -> Self {
        let groups: Vec<GroupId> = machine.places.iter().map(|place| place.id).collect();
        let count = groups.len();
        Run {
            machine,
            description: crate::parts::machine(CPUS as u32, &groups, &[Lever::CpuTime]),
            config: Config {
                set_point_bytes_per_sec: Some(BytesPerSec::new(1e9)),
                ..Config::default()
            },
            state: State::default(),
            ticks: 0,
            counted: vec![[0; 2]; count],
            probes: vec![0; count],
            samples: vec![vec![0.0; count]; machine.users.len()],
            pages: [0; 3],
            kernel: Kernel::default(),
            left_mean: None,
        }
    }

    /// A tick in which so large a part of what can be moved is moved, and the plan after it.
    pub fn tick(&mut self, part: f64) -> (Tick, Plan) {
        self.ticks += 1;
        let mut tick = Tick::of(self.machine, part);
        for (sum, more) in self.counted.iter_mut().zip(&tick.counted) {
            *sum = [sum[0] + more[0], sum[1] + more[1]];
        }
        for (sum, more) in self.probes.iter_mut().zip(&tick.probes) {
            *sum += more;
        }
        for (sums, (_, truth)) in self.samples.iter_mut().zip(&tick.truth) {
            sums.iter_mut()
                .zip(truth)
                .for_each(|(sum, more)| *sum += more);
        }
        for (sum, more) in self.pages.iter_mut().zip(tick.pages) {
            *sum += more;
        }
        // The first count is what the next one is compared with.
        if self.ticks > 1 && self.machine.pages.is_some() {
            tick.migrate(self.machine, &mut self.kernel);
        } else {
            tick.kernel = vec![[0.0; 2]; self.counted.len()];
            tick.known = vec![0.0; self.counted.len()];
        }
        if self.ticks > 1 {
            let weight = 1.0 - (-TICK_SECS).exp();
            let left: Vec<f64> = (0..self.counted.len()).map(|g| tick.left(g)).collect();
            let mean = self.left_mean.get_or_insert_with(|| left.clone());
            let each = mean.iter_mut().zip(&left);
            each.for_each(|(mean, left)| *mean += weight * (left - *mean));
            tick.left_mean.clone_from(mean);
        }
        let seen = self.observe();
        let plan = step(&mut self.state, &self.config, &self.description, &seen);
        (tick, plan)
    }

    fn observe(&self) -> Observation {
        let at = Nanos(self.ticks * TICK_NS);
        let reading = |bytes: u64| Reading::new(at, Bytes(bytes));
        let group = |(place, [read, write]): (&Place, &[u64; 2])| {
            if place.is_lost {
                GroupReading {
                    id: place.id,
                    read_bytes: lost(at),
                    write_bytes: lost(at),
                }
            } else {
                GroupReading {
                    id: place.id,
                    read_bytes: reading(*read),
                    write_bytes: reading(*write),
                }
            }
        };
        let places = || self.machine.places.iter();
        let probe = |(place, sum): (&Place, &u64)| ProbeReading {
            id: place.id,
            read_bytes: reading(*sum),
        };
        let unowned = |place: &Place| UnownedMemory {
            group: place.id,
            bytes: Bytes(place.unowned),
            is_new: false,
        };
        let [demoted, promoted, other] = self.pages.map(reading);
        let users = self.machine.users.iter().zip(&self.samples);
        Observation {
            seq: self.ticks,
            at,
            groups: places().zip(&self.counted).map(group).collect(),
            probe_traffic: places()
                .zip(&self.probes)
                .filter(|(place, _)| place.probe > 0)
                .map(probe)
                .collect(),
            page_migration: self.machine.pages.map(|_| PageMigrationReading {
                demoted_bytes: demoted,
                promoted_bytes: promoted,
                other_bytes: other,
            }),
            unowned_memory: places().filter(|p| p.unowned > 0).map(unowned).collect(),
            workloads: users
                .map(|(user, samples)| self.reading(user, samples, at))
                .collect(),
            ..Observation::default()
        }
    }

    fn reading(&self, user: &User, samples: &[f64], at: Nanos) -> WorkloadReading {
        let use_ = |((place, bytes), g): ((&Place, &u64), usize)| {
            let sampled = || {
                if user.hides_samples {
                    lost(at)
                } else {
                    Reading::new(at, Bytes((samples[g] * SAMPLE_SCALE) as u64))
                }
            };
            (*bytes > 0 || user.shows_zero).then(|| Use {
                group: place.id,
                resident_bytes: if user.hides_here {
                    lost(at)
                } else {
                    Reading::new(at, Bytes(*bytes))
                },
                sampled_read_bytes: self.machine.has_samples.then(sampled),
                sampled_write_bytes: None,
            })
        };
        let all = user.here.iter().sum::<u64>() + user.elsewhere;
        let is_all_known = !user.hides_all && !user.hides_here;
        let before = workload(
            WorkloadId::new(user.id),
            at,
            (user.cpu_ns * self.ticks) as f64,
            &[],
        );
        WorkloadReading {
            kind: if user.is_process {
                WorkloadKind::Process
            } else {
                WorkloadKind::Cgroup
            },
            cpu_ns: if user.hides_cpu {
                lost(at)
            } else {
                before.cpu_ns
            },
            uses: self
                .machine
                .places
                .iter()
                .zip(&user.here)
                .zip(0..)
                .filter_map(use_)
                .collect::<Arc<[Use]>>(),
            resident_bytes: is_all_known.then_some(Bytes(all)),
            excluded: user.is_excluded.then_some(Excluded::Kernel),
            ..before
        }
    }
}

fn lost<T>(at: Nanos) -> Reading<T> {
    Reading::missing(at, Missing::Lost("it is not shown".into()))
}
