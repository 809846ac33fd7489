// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small machine in numbers, under weir's control: something to record.

use std::path::Path;
use weir_core::seam::observation::{
    GroupReading, LatencyReading, LatencySource, Missing, Skipped, Use, WorkloadKind,
    WorkloadReading,
};
use weir_core::seam::plan::{ActionKind, Outcome, OutcomeKind};
use weir_core::seam::snapshot::SelfCost;
use weir_core::seam::topology::{Actuator, CountedBy, Device, Fact, Group};
use weir_core::{
    Bytes, BytesPerSec, Config, CpuShare, Description, DeviceId, GroupId, Nanos, NodeId,
    Observation, Reading, State, WorkloadId, step,
};
use weir_store::{Recorder, Start, Tick};

pub const INTERVAL_MS: u64 = 100;
pub const BEGAN_UNIX_MS: u64 = 1_767_225_600_000;
const GROUP: GroupId = GroupId {
    device: DeviceId(0),
    index: 0,
};
/// Device bytes per CPU-second.
const INTENSITY: f64 = 4e8;

pub fn machine() -> Description {
    Description {
        kernel: "7.2.0-made".into(),
        cpu_count: 16,
        devices: vec![Device {
            id: DeviceId(0),
            name: "weir_cxl0".into(),
            capacity_bytes_per_sec: Some(BytesPerSec::new(2e10)),
            counter_mask_bytes: u64::MAX,
            counted_by: CountedBy::default(),
        }],
        groups: vec![Group {
            id: GROUP,
            node: Some(NodeId(1)),
            size_bytes: Bytes(1 << 29),
        }],
        actuator: Some(Actuator {
            name: "cpu-max".into(),
            levers: vec![weir_core::seam::topology::Lever::CpuTime],
            min_cpus: 0.001,
            grain_ns: Nanos::from_millis(4),
            refill_on_write_ratio: 1.0,
            period_ns: Nanos::from_millis(20),
            min_quota_ns: Nanos::from_millis(1),
            is_exact: false,
        }),
        task_events: Vec::new(),
        partly_counted: Vec::new(),
        facts: vec![Fact {
            name: "resctrl.smba".into(),
            value: Err(Missing::NotSupported("no such CPU".into())),
            next_move: None,
        }],
    }
}

pub fn start() -> Start {
    Start {
        started_unix_ms: BEGAN_UNIX_MS,
        writer_version: "0.1.0".into(),
        writer_pid: 4711,
        interval_ms: INTERVAL_MS,
        policy: "max-min".into(),
        config: Config {
            set_point_bytes_per_sec: Some(BytesPerSec::new(1e9)),
            limit: true,
            ..Config::default()
        },
        description: machine(),
    }
}

/// A machine of which as much is known as of a real one: its description is longer than a page.
pub fn real_start() -> Start {
    let mut start = start();
    let fact = |number: usize| Fact {
        name: format!("fact.{number}"),
        value: Err(Missing::NotSupported(format!(
            "{number}: {}",
            "as it was probed. ".repeat(4)
        ))),
        next_move: None,
    };
    start.description.facts.extend((0..40).map(fact));
    start
}

/// Workloads that use CPU as far as their limits let them.
pub struct Plant {
    state: State,
    names: Vec<String>,
    limits: Vec<f64>,
    cpu_ns: Vec<u64>,
    throttled_ns: Vec<u64>,
    bytes: u64,
    seq: u64,
}

impl Plant {
    pub fn new(names: &[&str]) -> Plant {
        let mut names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        names.sort();
        let count = names.len();
        Plant {
            state: State::default(),
            names,
            limits: vec![f64::INFINITY; count],
            cpu_ns: vec![0; count],
            throttled_ns: vec![0; count],
            bytes: 0,
            seq: 0,
        }
    }

    /// The next tick, with what weir decides on it.
    pub fn tick(&mut self) -> Tick {
        self.run();
        let observation = self.observe();
        let start = start();
        let plan = step(
            &mut self.state,
            &start.config,
            &start.description,
            &observation,
        );
        let mut outcomes = Vec::new();
        for action in &plan.actions {
            let place = self
                .names
                .iter()
                .position(|n| n == action.workload.as_str())
                .unwrap();
            self.limits[place] = match action.kind {
                ActionKind::Limit(limit) => limit.cpus().get(),
                ActionKind::Release => f64::INFINITY,
            };
            let result = if place == 1 && self.seq.is_multiple_of(2) {
                OutcomeKind::Failed("a disk quota\nexceeded".into())
            } else {
                OutcomeKind::Applied
            };
            outcomes.push(Outcome {
                workload: action.workload.clone(),
                result,
            });
        }
        self.state.note(&outcomes);
        self.seq += 1;
        Tick {
            wall_unix_ms: BEGAN_UNIX_MS + observation.at.0 / 1_000_000,
            lost_before: 0,
            observation,
            plan,
            outcomes,
            self_cost: Some(SelfCost {
                loop_cpu_ns: Nanos(100_000 + self.seq * 13 % 1000),
                loop_cpu_ns_max: Nanos(200_000),
                process_cpus: CpuShare::new(0.002),
                late_ticks_total: 0,
            }),
        }
    }

    fn run(&mut self) {
        for (place, limit) in self.limits.iter().enumerate() {
            let unlimited = 1.0 + 0.1 * ((self.seq as f64 * 0.7 + place as f64).sin());
            let used = unlimited.min(*limit);
            self.cpu_ns[place] += (used * INTERVAL_MS as f64 * 1e6) as u64;
            self.throttled_ns[place] += ((unlimited - used) * INTERVAL_MS as f64 * 1e6) as u64;
            self.bytes += (used * INTERVAL_MS as f64 / 1e3 * INTENSITY) as u64;
        }
    }

    fn observe(&self) -> Observation {
        let at = Nanos((self.seq + 1) * INTERVAL_MS * 1_000_000 + self.seq * 7919 % 50_000);
        let seen = |place: usize| WorkloadReading {
            id: WorkloadId::new(self.names[place].as_str()),
            kind: WorkloadKind::Cgroup,
            cpu_ns: Reading::new(at, Nanos(self.cpu_ns[place])),
            throttled_ns: Reading::new(at, Nanos(self.throttled_ns[place])),
            uses: [Use {
                group: GROUP,
                resident_bytes: Reading::new(at, Bytes(1 << 30)),
                sampled_read_bytes: None,
                sampled_write_bytes: None,
            }]
            .into(),
            resident_bytes: None,
            weight: 100.0,
            their_limit_cpus: None,
            limited_weight: None,
            excluded: None,
        };
        let skipped = (self.seq % 5 == 3).then(|| Skipped {
            what: "/gone.service/cpu.stat".into(),
            why: Missing::Lost("it went away".into()),
        });
        Observation {
            seq: self.seq,
            at,
            groups: vec![GroupReading {
                id: GROUP,
                read_bytes: Reading::new(at, Bytes(self.bytes / 4 * 3)),
                write_bytes: Reading::new(at, Bytes(self.bytes / 4)),
            }],
            latencies: vec![LatencyReading {
                id: DeviceId(0),
                mean_ns: Reading::missing(at, Missing::NotSupported("no source".into())),
                source: LatencySource::Unknown,
            }],
            devload: Vec::new(),
            running: Vec::new(),
            page_migration: None,
            unowned_memory: Vec::new(),
            probe_traffic: Vec::new(),
            workloads: (0..self.names.len()).map(seen).collect(),
            task_counts: Vec::new(),
            skipped: skipped.into_iter().collect(),
        }
    }
}

pub const NAMES: [&str; 4] = [
    "/system.slice/a.service",
    "/b\nc\u{1b}[2J",
    "/not\\377utf8\\",
    "pid:12@345",
];

/// How many cases a property is tried with: as many as the environment says, for long runs by hand.
pub fn cases(default: u32) -> proptest::test_runner::Config {
    let configured = std::env::var("WEIR_HARM_CASES").ok();
    let configured = configured.and_then(|text| text.parse().ok());
    proptest::test_runner::Config::with_cases(configured.unwrap_or(default))
}

/// In memory where that can be had: each of hundreds of cases would wait for the disk.
pub fn desk() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// One session more, of so many ticks; finished or not.
pub fn add_session(path: &Path, count: usize, is_finished: bool) -> Vec<Tick> {
    add_session_of(path, &start(), count, is_finished)
}

/// The same on another machine.
pub fn add_session_of(path: &Path, start: &Start, count: usize, is_finished: bool) -> Vec<Tick> {
    let mut plant = Plant::new(&NAMES);
    let mut recorder = Recorder::open(path, start).unwrap();
    let ticks: Vec<Tick> = (0..count).map(|_| plant.tick()).collect();
    for tick in &ticks {
        recorder.add(tick).unwrap();
    }
    if is_finished {
        recorder
            .finish(ticks.last().map_or(BEGAN_UNIX_MS, |tick| tick.wall_unix_ms))
            .unwrap();
    }
    ticks
}

/// A finished recording of so many ticks, and these.
pub fn recorded(path: &Path, count: usize) -> Vec<Tick> {
    add_session(path, count, true)
}
