// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Weights that go with a limit. One device at four times its set-point and readers that use a CPU each, so
//! that the limits are known: a quarter of a CPU for one reader. Nothing reacts.

use crate::parts::{GROUP, MS, applied, limit_of, machine, read, workload};
use weir_core::seam::observation::{LimitedWeight, Missing, WorkloadReading};
use weir_core::seam::plan::WeightChange;
use weir_core::seam::topology::Lever;
use weir_core::{
    BytesPerSec, Config, Description, Nanos, Observation, Plan, Reading, State, WorkloadId, step,
};

struct World {
    machine: Description,
    config: Config,
    state: State,
    tick_count: u64,
    /// CPU time used and held back so far, in nanoseconds, and what is made of the weight.
    readers: Vec<(f64, f64, Option<LimitedWeight>)>,
    limits: Vec<Option<f64>>,
    /// Bytes per CPU-second.
    intensity: f64,
    moved: f64,
    /// Changes of weights are carried out.
    obeys: bool,
    /// Limited readers use this part of their limit, and are not held back where it is below 1.
    reach: f64,
    /// Their CPU time cannot be read.
    is_lost: bool,
}

fn id(reader: usize) -> WorkloadId {
    WorkloadId::new(format!("/r{reader:03}"))
}

impl World {
    fn new(readers: usize) -> Self {
        World {
            machine: machine(1024, &[GROUP], &[Lever::CpuTime, Lever::Weight]),
            config: Config {
                set_point_bytes_per_sec: Some(BytesPerSec::new(1e9)),
                limit: true,
                ..Config::default()
            },
            state: State::default(),
            tick_count: 0,
            readers: vec![(0.0, 0.0, None); readers],
            limits: vec![None; readers],
            intensity: 4e9 / readers as f64,
            moved: 0.0,
            obeys: true,
            reach: 1.0,
            is_lost: false,
        }
    }

    fn see(&mut self) -> Observation {
        self.tick_count += 1;
        let at = Nanos(self.tick_count * 50 * MS);
        for (reader, limit) in self.readers.iter_mut().zip(&self.limits) {
            let (used, held) = match limit {
                Some(limit) if self.reach < 1.0 => (limit * self.reach, 0.0),
                Some(limit) => (limit.min(1.0), (1.0 - limit).max(0.0)),
                None => (1.0, 0.0),
            };
            reader.0 += used * 50e6;
            reader.1 += held * 50e6;
            self.moved += used * 0.05 * self.intensity;
        }
        let reading = |(i, (used, held, weight)): (usize, &(f64, f64, Option<LimitedWeight>))| {
            let whole = workload(id(i), at, *used, &[GROUP]);
            let lost = Reading::missing(at, Missing::Lost("cpu.stat".into()));
            WorkloadReading {
                cpu_ns: if self.is_lost { lost } else { whole.cpu_ns },
                throttled_ns: Reading::new(at, Nanos(*held as u64)),
                limited_weight: weight.clone(),
                ..whole
            }
        };
        Observation {
            seq: self.tick_count,
            at,
            groups: vec![read(GROUP, at, self.moved)],
            workloads: self.readers.iter().enumerate().map(reading).collect(),
            ..Observation::default()
        }
    }

    fn tick(&mut self) -> Plan {
        let seen = self.see();
        let plan = step(&mut self.state, &self.config, &self.machine, &seen);
        let place = |of: &WorkloadId| (0..).find(|i| id(*i) == *of).expect("a reader");
        for action in &plan.actions {
            self.limits[place(&action.workload)] = limit_of(action.kind);
        }
        self.state.note(&applied(&plan));
        for change in plan.weights.iter().filter(|_| self.obeys) {
            let lowered = LimitedWeight::Lowered {
                ratio: change.ratio,
            };
            self.readers[place(&change.workload)].2 = (change.ratio < 1.0).then_some(lowered);
        }
        plan
    }

    /// All changes of weights in so many ticks.
    fn ticks(&mut self, count: usize) -> Vec<WeightChange> {
        (0..count).flat_map(|_| self.tick().weights).collect()
    }

    fn ratio(&self, reader: usize) -> f64 {
        match &self.readers[reader].2 {
            Some(LimitedWeight::Lowered { ratio }) => *ratio,
            _ => 1.0,
        }
    }
}

/// Time for a weight to come to its place: four times that in which it is learned what a workload would use.
const LEARNED: usize = 1200;

#[test]
fn the_weight_is_a_part_of_what_the_limit_is_of_the_time_it_would_use() {
    for part in [0.6, 1.0] {
        let mut world = World::new(1);
        world.config.limited_weight_ratio = part;
        let changes = world.ticks(LEARNED);
        assert!((3..20).contains(&changes.len()), "{changes:?}");
        let limit = world.limits[0].expect("limited");
        let wanted = part * limit;
        let got = world.ratio(0);
        assert!(
            (got / wanted - 1.0).abs() <= 0.25,
            "{got} instead of {wanted}"
        );
    }
}

/// A weight that falls at once takes the device off its set-point before the correction can follow.
#[test]
fn a_weight_falls_step_by_step_after_its_limit_began() {
    let mut world = World::new(1);
    assert_eq!(world.ticks(20), [], "in the first second");
    assert!(world.limits[0].is_some());
    let mut before = 1.0;
    for change in world.ticks(LEARNED) {
        assert!(
            change.ratio < before && change.ratio > 0.6 * before,
            "{} after {before}",
            change.ratio
        );
        before = change.ratio;
    }
    assert!(before < 0.4, "{before}");
}

#[test]
fn no_weight_is_changed_where_that_is_off_or_cannot_be() {
    let mut off = World::new(2);
    off.config.limited_weight_ratio = 0.0;
    assert_eq!(off.ticks(60), []);
    assert!(off.limits[0].is_some());
    let mut cannot = World::new(2);
    cannot
        .machine
        .actuator
        .as_mut()
        .expect("there")
        .levers
        .retain(|lever| *lever != Lever::Weight);
    assert_eq!(cannot.ticks(60), []);
    let mut observing = World::new(2);
    observing.config.limit = false;
    assert_eq!(observing.ticks(60), []);
}

#[test]
fn a_weight_follows_a_limit_that_is_raised_and_goes_with_it() {
    let mut world = World::new(1);
    world.ticks(LEARNED);
    assert!(world.ratio(0) < 0.35, "{}", world.ratio(0));
    world.config.set_point_bytes_per_sec = Some(BytesPerSec::new(2.4e9));
    world.ticks(LEARNED);
    let limit = world.limits[0].expect("limited");
    let (wanted, got) = (limit, world.ratio(0));
    assert!(
        limit > 0.4 && (got / wanted - 1.0).abs() <= 0.25,
        "{got} for {limit}"
    );
    // No change is requested for a workload that loses its limit: with the limit goes the weight.
    world.config.limit = false;
    assert_eq!(world.ticks(5), []);
    assert_eq!(world.limits[0], None);
}

#[test]
fn a_workload_below_its_limit_gets_weight_back() {
    let mut world = World::new(1);
    world.ticks(LEARNED);
    let before = world.ratio(0);
    world.reach = 0.9;
    world.ticks(800);
    let (limit, after) = (world.limits[0], world.ratio(0));
    assert!(
        after > 1.5 * before,
        "{after} and {before}, limit {limit:?}"
    );
}

/// A limit is raised step by step while its workload is not seen. What it would use is not known anew
/// meanwhile, and surely not less: its weight rises by as much as the limit, and no more.
#[test]
fn a_weight_rises_as_its_limit_does_while_cpu_time_is_not_known() {
    let mut world = World::new(1);
    world.ticks(LEARNED);
    world.is_lost = true;
    let mut parts = Vec::new();
    for _ in 0..100 {
        let changes = world.tick().weights;
        let rising = changes.iter().filter(|change| change.ratio < 1.0);
        parts.extend(rising.map(|change| change.ratio / world.limits[0].expect("limited")));
    }
    assert!(parts.len() >= 5, "{parts:?}");
    let range = parts
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), part| {
            (least.min(*part), most.max(*part))
        });
    assert!(range.1 / range.0 < 1.001, "{parts:?}");
}

#[test]
fn a_change_that_is_not_carried_out_is_requested_again_each_second() {
    let mut world = World::new(1);
    world.obeys = false;
    world.ticks(LEARNED);
    let count = world.ticks(20 * 10).len();
    assert!((6..=14).contains(&count), "{count} in ten seconds");
    world.readers[0].2 = Some(LimitedWeight::LeftAlone {
        why: "cpu.idle is 1".into(),
    });
    assert_eq!(world.ticks(100), [], "it is left alone");
    let plan = world.tick();
    assert_eq!(plan.workloads[0].limited_weight, world.readers[0].2);
}

#[test]
fn many_weights_change_by_turns() {
    let mut world = World::new(100);
    let mut changed = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let plan = world.tick();
        assert!(plan.weights.len() <= 16, "{}", plan.weights.len());
        assert!(plan.weights.is_sorted_by(|a, b| a.workload < b.workload));
        changed.extend(plan.weights.into_iter().map(|change| change.workload));
    }
    assert_eq!(changed.len(), 100);
    // Those that cannot be changed do not keep others from theirs.
    let mut world = World::new(100);
    world.obeys = false;
    let requested = world.ticks(200).into_iter().map(|change| change.workload);
    assert_eq!(
        requested.collect::<std::collections::BTreeSet<_>>().len(),
        100
    );
}

#[test]
fn plans_of_before_are_read_and_written_as_they_were() {
    let plan = World::new(1).tick();
    let text = serde_json::to_string(&plan).expect("a plan");
    assert!(!text.contains("weight"), "{text}");
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("a plan"), plan);
}
