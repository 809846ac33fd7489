// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many changes a step requests, over a thousand workloads that keep to their limits.

use weir_core::controller::WRITES_PER_STEP;
use weir_core::seam::observation::{Excluded, GroupReading, Use, WorkloadKind, WorkloadReading};
use weir_core::seam::plan::{ActionKind, OutcomeKind};
use weir_core::seam::topology::{Actuator, Device, Group};
use weir_core::{
    Bytes, BytesPerSec, Config, Description, DeviceId, GroupId, Nanos, Observation, Outcome, Plan,
    Reading, State, WorkloadId, step,
};

const WORKLOADS: usize = 1000;
const TICK: u64 = 50_000_000;
/// Bytes per CPU-second of each.
const KAPPA: f64 = 1e8;
const GROUP: GroupId = GroupId {
    device: DeviceId(0),
    index: 0,
};

struct One {
    id: WorkloadId,
    wants: f64,
    limit: Option<f64>,
    cpu_ns: u64,
    excluded: bool,
    away: bool,
}

struct World {
    machine: Description,
    config: Config,
    state: State,
    each: Vec<One>,
    at: u64,
    bytes: f64,
}

impl World {
    /// Each needs a little more than the one before; together they need twice the set-point.
    fn new() -> Self {
        let one = |i: usize| One {
            id: WorkloadId::new(format!("/w{i:04}")),
            wants: 0.6 + i as f64 / WORKLOADS as f64,
            limit: None,
            cpu_ns: 0,
            excluded: false,
            away: false,
        };
        let each: Vec<One> = (0..WORKLOADS).map(one).collect();
        let wanted: f64 = each.iter().map(|one| one.wants).sum();
        let machine = Description {
            cpu_count: 4096,
            devices: vec![Device {
                id: DeviceId(0),
                name: "weir_cxl0".into(),
                capacity_bytes_per_sec: None,
                counter_mask_bytes: u64::MAX,
                counted_by: weir_core::seam::topology::CountedBy::Model,
            }],
            groups: vec![Group {
                id: GROUP,
                node: None,
                size_bytes: Bytes(1 << 30),
            }],
            actuator: Some(Actuator {
                name: "none".into(),
                levers: vec![weir_core::seam::topology::Lever::CpuTime],
                min_cpus: 0.001,
                grain_ns: Nanos(0),
                refill_on_write_ratio: 0.0,
                period_ns: Nanos(20_000_000),
                min_quota_ns: Nanos(0),
                is_exact: false,
            }),
            ..Description::default()
        };
        World {
            machine,
            config: Config {
                set_point_bytes_per_sec: Some(BytesPerSec::new(wanted * KAPPA / 2.0)),
                limit: true,
                ..Config::default()
            },
            state: State::default(),
            each,
            at: 0,
            bytes: 0.0,
        }
    }

    fn see(&mut self) -> Observation {
        self.at += TICK;
        let secs = TICK as f64 / 1e9;
        for one in &mut self.each {
            let used = one.wants.min(one.limit.unwrap_or(f64::INFINITY)) * secs;
            one.cpu_ns += (used * 1e9) as u64;
            self.bytes += used * KAPPA;
        }
        let at = Nanos(self.at);
        let workload = |one: &One| WorkloadReading {
            id: one.id.clone(),
            kind: WorkloadKind::Cgroup,
            cpu_ns: Reading::new(at, Nanos(one.cpu_ns)),
            throttled_ns: Reading::new(at, Nanos(0)),
            uses: [Use {
                group: GROUP,
                resident_bytes: Reading::new(at, Bytes(1 << 20)),
                sampled_read_bytes: None,
                sampled_write_bytes: None,
            }]
            .into(),
            resident_bytes: None,
            weight: 100.0,
            their_limit_cpus: None,
            limited_weight: None,
            excluded: one.excluded.then_some(Excluded::Kernel),
        };
        Observation {
            seq: self.at / TICK,
            at,
            groups: vec![GroupReading {
                id: GROUP,
                read_bytes: Reading::new(at, Bytes(self.bytes as u64)),
                write_bytes: Reading::new(at, Bytes(0)),
            }],
            workloads: self.each.iter().filter(|o| !o.away).map(workload).collect(),
            ..Observation::default()
        }
    }

    /// One step; all its changes are made. It never requests more than its budget.
    fn tick(&mut self) -> Plan {
        let seen = self.see();
        let plan = step(&mut self.state, &self.config, &self.machine, &seen);
        assert!(
            plan.actions.len() <= WRITES_PER_STEP,
            "{} changes",
            plan.actions.len()
        );
        for action in &plan.actions {
            let one = self.each.iter_mut().find(|o| o.id == action.workload);
            one.expect("a workload of this world").limit = match action.kind {
                ActionKind::Limit(limit) => Some(limit.cpus().get()),
                ActionKind::Release => None,
            };
        }
        let done = |a: &weir_core::Action| Outcome {
            workload: a.workload.clone(),
            result: OutcomeKind::Applied,
        };
        let outcomes: Vec<Outcome> = plan.actions.iter().map(done).collect();
        self.state.note(&outcomes);
        plan
    }

    fn limited(&self) -> usize {
        self.each.iter().filter(|one| one.limit.is_some()).count()
    }

    /// Ticks until so many are limited; the largest number of changes in one of them.
    fn until_limited(&mut self, wanted: usize, most_ticks: usize) -> usize {
        let mut most = 0;
        for _ in 0..most_ticks {
            most = most.max(self.tick().actions.len());
            if self.limited() == wanted {
                return most;
            }
        }
        panic!("{} are limited, and not {wanted}", self.limited());
    }

    fn settled() -> Self {
        let mut world = World::new();
        for _ in 0..60 {
            world.tick();
        }
        world
    }
}

const STEPS: usize = WORKLOADS.div_ceil(WRITES_PER_STEP);

#[test]
fn first_limits_come_by_turns_and_all_of_them_come() {
    let mut world = World::new();
    let limited = WORKLOADS;
    // Three observations until the intensity is known; each step changes the water line a little.
    let most = world.until_limited(limited, 3 + 2 * STEPS);
    assert_eq!(most, WRITES_PER_STEP, "the budget is used up");
}

#[test]
fn the_largest_overshoot_is_limited_first() {
    let mut world = World::new();
    while world.limited() == 0 {
        world.tick();
    }
    assert_eq!(world.limited(), WRITES_PER_STEP);
    let chosen = world.each.iter().filter(|one| one.limit.is_some());
    let least = chosen.map(|one| one.wants).fold(f64::INFINITY, f64::min);
    let left = world.each.iter().filter(|one| one.limit.is_none());
    let most = left.map(|one| one.wants).fold(0.0, f64::max);
    assert!(least > most, "{least} and {most}");
}

#[test]
fn the_device_is_held_though_limits_come_by_turns() {
    let mut world = World::settled();
    let (before, from) = (world.bytes, world.at);
    for _ in 0..100 {
        world.tick();
    }
    let held = (world.bytes - before) / (Nanos(world.at - from).secs_f64());
    let wanted = world.config.set_point_bytes_per_sec.expect("set").get();
    assert!((held / wanted - 1.0).abs() < 0.02, "{}", held / wanted);
}

#[test]
fn releases_come_while_as_many_limits_are_lowered() {
    let mut world = World::settled();
    assert_eq!(world.limited(), WORKLOADS);
    for one in world.each.iter_mut().step_by(2) {
        one.excluded = true;
    }
    let set_point = world.config.set_point_bytes_per_sec.expect("set");
    world.config.set_point_bytes_per_sec = Some(set_point.scale(0.9));
    let released = WORKLOADS / 2;
    let of_budget = WRITES_PER_STEP / 4;
    world.until_limited(WORKLOADS - released, released.div_ceil(of_budget));
    assert!(world.each.iter().step_by(2).all(|one| one.limit.is_none()));
}

#[test]
fn all_limits_end_by_turns_where_limiting_ends() {
    let mut world = World::settled();
    world.config.limit = false;
    let most = world.until_limited(0, STEPS);
    assert_eq!(most, WRITES_PER_STEP);
    assert_eq!(world.tick().actions, []);
}

#[test]
fn limits_of_all_that_began_anew_are_taken_off_by_turns() {
    let mut world = World::settled();
    for one in &mut world.each {
        (one.cpu_ns, one.wants) = (0, 0.0);
    }
    let most = world.until_limited(0, STEPS);
    assert_eq!(most, WRITES_PER_STEP);
}

#[test]
fn limits_of_all_that_went_away_are_given_up_by_turns() {
    let mut world = World::settled();
    for one in &mut world.each {
        one.away = true;
    }
    let most = world.until_limited(0, 30 + STEPS);
    assert_eq!(most, WRITES_PER_STEP);
    assert_eq!(world.tick().actions, []);
}
