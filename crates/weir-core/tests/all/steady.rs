// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host on which nothing reacts: bandwidth and CPU use stay what they are, whatever is decided, so that
//! every figure can be computed by hand.

use crate::parts::{self, MS, applied, machine, workload};
use weir_core::policy::Policy;
use weir_core::seam::observation::{Excluded, GroupReading, Missing, WorkloadReading};
use weir_core::seam::topology::Lever;
use weir_core::{
    BytesPerSec, Config, Description, DeviceId, GroupId, Nanos, Observation, Plan, Reading, State,
    WorkloadId, step,
};

pub const TICK_MS: u64 = 50;
pub const SET_POINT: f64 = 1e6;

/// A workload that uses so many CPUs all the time.
pub struct Steady {
    pub id: &'static str,
    pub cpus: f64,
    pub weight: f64,
    pub groups: Vec<GroupId>,
    pub excluded: bool,
    cpu_ns: f64,
}

pub fn steady(id: &'static str, cpus: f64, groups: &[GroupId]) -> Steady {
    Steady {
        id,
        cpus,
        weight: 100.0,
        groups: groups.to_vec(),
        excluded: false,
        cpu_ns: 0.0,
    }
}

pub struct Bench {
    pub machine: Description,
    /// Groups, their bytes per second, and what they moved so far.
    rates: Vec<(GroupId, f64, f64)>,
    pub workloads: Vec<Steady>,
    pub state: State,
    pub config: Config,
    pub tick: u64,
    /// Counters of this device cannot be read.
    pub lost: Option<DeviceId>,
    /// Part of the time for which every workload is held back.
    pub held: f64,
    held_ns: f64,
}

impl Bench {
    /// Groups with their bytes per second, in order. Eight CPUs.
    pub fn new(rates: &[(GroupId, f64)], workloads: Vec<Steady>) -> Self {
        let groups: Vec<GroupId> = rates.iter().map(|(id, _)| *id).collect();
        Bench {
            machine: machine(8, &groups, &[Lever::CpuTime]),
            rates: rates.iter().map(|&(id, rate)| (id, rate, 0.0)).collect(),
            workloads,
            state: State::default(),
            config: Config {
                set_point_bytes_per_sec: Some(BytesPerSec::new(SET_POINT)),
                limit: true,
                ..Config::default()
            },
            tick: 0,
            lost: None,
            held: 0.0,
            held_ns: 0.0,
        }
    }

    pub fn by(mut self, policy: Policy) -> Self {
        self.config.policy = policy;
        self
    }

    /// Without a correction: nothing reacts here, so that it would only run to its end.
    pub fn uncorrected(mut self) -> Self {
        (self.config.kp, self.config.ki_per_sec) = (0.0, 0.0);
        self
    }

    pub fn set_rate(&mut self, group: GroupId, rate: f64) {
        let found = self.rates.iter_mut().find(|(id, _, _)| *id == group);
        found.expect("a group of this host").1 = rate;
    }

    /// A device goes, with what workloads have there.
    pub fn remove_device(&mut self, device: DeviceId) {
        self.rates.retain(|(id, _, _)| id.device != device);
        for one in &mut self.workloads {
            one.groups.retain(|id| id.device != device);
        }
        self.machine
            .groups
            .retain(|group| group.id.device != device);
        self.machine.devices.retain(|there| there.id != device);
    }

    pub fn see(&mut self) -> Observation {
        self.tick += 1;
        let span = (TICK_MS * MS) as f64;
        let at = Nanos(self.tick * TICK_MS * MS);
        self.held_ns += self.held * span;
        let lost = self.lost;
        let group = |(id, rate, moved): &mut (GroupId, f64, f64)| {
            *moved += *rate * span / 1e9;
            let missing = || Reading::missing(at, Missing::Lost("busy".into()));
            if lost == Some(id.device) {
                GroupReading {
                    id: *id,
                    read_bytes: missing(),
                    write_bytes: missing(),
                }
            } else {
                parts::read(*id, at, *moved)
            }
        };
        let throttled_ns = Nanos(self.held_ns as u64);
        let workload = |one: &mut Steady| {
            one.cpu_ns += one.cpus * span;
            WorkloadReading {
                throttled_ns: Reading::new(at, throttled_ns),
                weight: one.weight,
                excluded: one.excluded.then_some(Excluded::Kernel),
                ..workload(WorkloadId::new(one.id), at, one.cpu_ns, &one.groups)
            }
        };
        Observation {
            seq: self.tick,
            at,
            groups: self.rates.iter_mut().map(group).collect(),
            workloads: self.workloads.iter_mut().map(workload).collect(),
            ..Observation::default()
        }
    }

    pub fn step(&mut self, seen: &Observation) -> Plan {
        let plan = step(&mut self.state, &self.config, &self.machine, seen);
        self.state.note(&applied(&plan));
        plan
    }

    /// So many ticks; the last plan.
    pub fn ticks(&mut self, count: u32) -> Plan {
        let mut plan = Plan::default();
        for _ in 0..count {
            let seen = self.see();
            plan = self.step(&seen);
        }
        plan
    }
}
