// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many changes a step requests, over a thousand workloads that keep to their limits.

use crate::parts::{GROUP, applied, limit_of, machine, read, workload};
use weir_core::controller::WRITES_PER_STEP;
use weir_core::seam::observation::{Excluded, WorkloadReading};
use weir_core::seam::topology::Lever;
use weir_core::{
    BytesPerSec, Config, Description, Nanos, Observation, Plan, State, WorkloadId, step,
};

const WORKLOADS: usize = 1000;
const TICK: u64 = 50_000_000;
/// Bytes per CPU-second of each.
const KAPPA: f64 = 1e8;

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
        World {
            machine: machine(4096, &[GROUP], &[Lever::CpuTime]),
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
        let reading = |one: &One| WorkloadReading {
            excluded: one.excluded.then_some(Excluded::Kernel),
            ..workload(one.id.clone(), at, one.cpu_ns as f64, &[GROUP])
        };
        Observation {
            seq: self.at / TICK,
            at,
            groups: vec![read(GROUP, at, self.bytes)],
            workloads: self.each.iter().filter(|o| !o.away).map(reading).collect(),
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
            one.expect("a workload of this world").limit = limit_of(action.kind);
        }
        self.state.note(&applied(&plan));
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
