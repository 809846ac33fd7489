// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Same observations, same plans, byte for byte; and no observation whatever makes a step panic.

use crate::parts::GROUP;
use crate::plant::{CAPACITY, Dice, Plant};
use proptest::prelude::*;
use weir_core::policy::Policy;
use weir_core::seam::observation::{
    EventCount, EventCounts, Excluded, GroupReading, LimitedWeight, Missing, ProbeReading,
    TaskCountsReading, Use, WorkloadKind, WorkloadReading,
};
use weir_core::seam::plan::{ActionKind, OutcomeKind};
use weir_core::seam::topology::TaskEvent;
use weir_core::{
    Bytes, BytesPerSec, Config, CpuShare, DeviceId, GroupId, Nanos, Observation, Outcome, Platform,
    Reading, State, WorkloadId, step,
};

fn config(policy: Policy) -> Config {
    Config {
        set_point_bytes_per_sec: Some(BytesPerSec::new(0.4 * CAPACITY)),
        policy,
        limit: true,
        ..Config::default()
    }
}

#[test]
fn a_recording_gives_the_same_plans_byte_for_byte() {
    for policy in Policy::ALL {
        let mut plant = Plant::new(21, 5);
        plant.add("/light", 0.04);
        let machine = plant.describe().clone();
        let (mut state, mut recording, mut plans) = (State::default(), Vec::new(), Vec::new());
        for tick in 0..200 {
            plant.counters_lost = (90..100).contains(&tick);
            let seen = plant.observe().expect("the plant does not break");
            let plan = step(&mut state, &config(policy), &machine, &seen);
            let outcomes = plant.apply(&plan);
            state.note(&outcomes);
            plans.push(serde_json::to_string(&plan).expect("a plan is plain data"));
            // Through text, as a recording goes.
            let text = serde_json::to_string(&(seen, outcomes)).expect("plain data");
            recording.push(text);
        }
        assert!(
            plans.iter().any(|p| p.contains("limit")),
            "the run did something"
        );
        let mut again = State::default();
        for (text, before) in recording.iter().zip(&plans) {
            let (seen, outcomes): (Observation, Vec<Outcome>) =
                serde_json::from_str(text).expect("what was written");
            let plan = step(&mut again, &config(policy), &machine, &seen);
            assert_eq!(serde_json::to_string(&plan).expect("plain data"), *before);
            again.note(&outcomes);
        }
    }
}

/// Counts and times that hurt: near both ends, and anything between.
fn wild(dice: &mut Dice) -> u64 {
    match dice.next() % 4 {
        0 => dice.next() % 1000,
        1 => u64::MAX - dice.next() % 1000,
        2 => dice.next() % 100_000_000_000,
        _ => dice.next(),
    }
}

fn wild_reading<T>(dice: &mut Dice, make: impl Fn(u64) -> T) -> Reading<T> {
    let at = Nanos(wild(dice));
    match dice.next() % 5 {
        0 => Reading::missing(at, Missing::Lost("x".into())),
        _ => Reading::new(at, make(wild(dice))),
    }
}

fn wild_float(dice: &mut Dice) -> f64 {
    match dice.next() % 6 {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => 0.0,
        3 => -1.0,
        _ => f64::from_bits(dice.next()),
    }
}

fn wild_group(dice: &mut Dice) -> GroupId {
    match dice.next() % 3 {
        0 => GROUP,
        _ => GroupId {
            device: DeviceId((dice.next() % 3) as u32),
            index: (dice.next() % 3) as u32,
        },
    }
}

fn wild_counts(dice: &mut Dice) -> Reading<EventCounts> {
    let count = |_| EventCount {
        count: wild(dice),
        enabled_ns: wild(dice),
        running_ns: wild(dice),
    };
    let counts: Vec<EventCount> = (0..3).map(count).collect();
    let len = (dice.next() % 3) as usize;
    wild_reading(dice, |_| EventCounts::of(&counts[..len]))
}

fn wild_observation(dice: &mut Dice) -> Observation {
    let mut seen = Observation {
        seq: dice.next(),
        at: Nanos(wild(dice)),
        ..Default::default()
    };
    for _ in 0..dice.next() % 4 {
        seen.groups.push(GroupReading {
            id: wild_group(dice),
            read_bytes: wild_reading(dice, Bytes),
            write_bytes: wild_reading(dice, Bytes),
        });
    }
    for _ in 0..dice.next() % 3 {
        seen.probe_traffic.push(ProbeReading {
            id: wild_group(dice),
            read_bytes: wild_reading(dice, Bytes),
        });
    }
    for _ in 0..dice.next() % 8 {
        let uses = (0..dice.next() % 4)
            .map(|_| Use {
                group: wild_group(dice),
                resident_bytes: wild_reading(dice, Bytes),
                sampled_read_bytes: (dice.next().is_multiple_of(2))
                    .then(|| wild_reading(dice, Bytes)),
                sampled_write_bytes: (dice.next().is_multiple_of(2))
                    .then(|| wild_reading(dice, Bytes)),
            })
            .collect();
        seen.workloads.push(WorkloadReading {
            id: WorkloadId::new(format!("/w{}", dice.next() % 6)),
            kind: WorkloadKind::Cgroup,
            cpu_ns: wild_reading(dice, Nanos),
            throttled_ns: wild_reading(dice, Nanos),
            uses,
            resident_bytes: (dice.next().is_multiple_of(2)).then(|| Bytes(dice.next())),
            weight: wild_float(dice),
            their_limit_cpus: (dice.next().is_multiple_of(2))
                .then(|| CpuShare::new(wild_float(dice))),
            limited_weight: (dice.next().is_multiple_of(2)).then(|| LimitedWeight::Lowered {
                ratio: wild_float(dice),
            }),
            excluded: (dice.next().is_multiple_of(5)).then_some(Excluded::Kernel),
        });
    }
    for _ in 0..dice.next() % 8 {
        seen.task_counts.push(TaskCountsReading {
            id: WorkloadId::new(format!("/w{}", dice.next() % 6)),
            counts: wild_counts(dice),
        });
    }
    if !dice.next().is_multiple_of(4) {
        seen.workloads.sort_by(|a, b| a.id.cmp(&b.id));
        seen.task_counts.sort_by(|a, b| a.id.cmp(&b.id));
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_sequence_of_observations_makes_a_step_panic(seed: u64, wild_config: bool) {
        let mut dice = Dice::new(seed);
        let mut machine = Plant::new(seed, 0).describe().clone();
        let mut config = config(Policy::ALL[(seed % 2) as usize]);
        if wild_config {
            config.headroom_ratio = wild_float(&mut dice);
            config.correction_min = wild_float(&mut dice);
            config.correction_max = wild_float(&mut dice);
            config.floor_cpus = wild_float(&mut dice);
            config.slew_up_per_sec = wild_float(&mut dice);
            config.intensity_alpha = wild_float(&mut dice);
            config.bandwidth_alpha = Some(wild_float(&mut dice));
            config.min_write_interval_ms = dice.next();
            config.limited_weight_ratio = wild_float(&mut dice);
            config.weights.insert("/w1".into(), wild_float(&mut dice));
            if let Some(actuator) = &mut machine.actuator {
                actuator.levers.push(weir_core::seam::topology::Lever::Weight);
                actuator.min_cpus = wild_float(&mut dice);
                actuator.refill_on_write_ratio = wild_float(&mut dice);
                actuator.period_ns = Nanos(wild(&mut dice));
            }
        }
        let mut state = State::default();
        for _ in 0..60 {
            let seen = wild_observation(&mut dice);
            machine.cpu_count = (wild(&mut dice) % 1000) as u32;
            if dice.next().is_multiple_of(8) {
                let event = |_| TaskEvent {
                    bytes_per_count: wild(&mut dice),
                    counts_stores: dice.next().is_multiple_of(2),
                };
                machine.task_events = (0..3).map(event).collect();
                machine.task_events.truncate((dice.next() % 4) as usize);
            }
            let plan = step(&mut state, &config, &machine, &seen);
            for action in &plan.actions {
                if let ActionKind::Limit(limit) = action.kind {
                    let cpus = limit.cpus();
                    prop_assert!(cpus.get() > 0.0, "{:?}", action);
                    let most = f64::from(machine.cpu_count.max(1));
                    prop_assert!(cpus.get() <= most, "{:?} of {} CPUs", action, most);
                }
            }
            prop_assert!(plan.actions.is_sorted_by(|a, b| a.workload < b.workload));
            prop_assert!(plan.workloads.is_sorted_by(|a, b| a.id < b.id));
            prop_assert!(plan.weights.is_sorted_by(|a, b| a.workload < b.workload));
            for change in &plan.weights {
                prop_assert!((0.1..=1.0).contains(&change.ratio), "{:?}", change);
            }
            let outcomes: Vec<Outcome> = plan.actions.iter().map(|a| Outcome {
                workload: a.workload.clone(),
                result: match dice.next() % 5 {
                    0 => OutcomeKind::Refused("no".into()),
                    1 => OutcomeKind::Vanished,
                    2 => OutcomeKind::Unchanged,
                    _ => OutcomeKind::Applied,
                },
            }).collect();
            state.note(&outcomes);
        }
    }
}

/// A true observation with some faults in it, as a bad day would give.
fn damage(dice: &mut Dice, seen: &mut Observation) {
    if dice.next().is_multiple_of(10) {
        seen.groups
            .iter_mut()
            .for_each(|g| g.read_bytes = wild_reading(dice, Bytes));
    }
    if dice.next().is_multiple_of(20) {
        seen.workloads.reverse();
    }
    for workload in &mut seen.workloads {
        match dice.next() % 60 {
            0 => workload.cpu_ns = wild_reading(dice, Nanos),
            1 => workload.throttled_ns = wild_reading(dice, Nanos),
            2 => workload.uses = [].into(),
            3 => workload.weight = wild_float(dice),
            4 => workload.their_limit_cpus = Some(CpuShare::new(wild_float(dice))),
            5 => workload.excluded = Some(Excluded::RealTime),
            _ => {}
        }
    }
    if dice.next().is_multiple_of(10) {
        let _ = seen.workloads.pop();
    }
}

#[test]
fn bad_days_do_not_lead_to_nonsense() {
    let mut actions = 0;
    for seed in 1..=60 {
        let mut dice = Dice::new(seed);
        let mut plant = Plant::new(seed, 6);
        let machine = plant.describe().clone();
        let mut state = State::default();
        let config = config(Policy::ALL[(seed % 2) as usize]);
        for _ in 0..200 {
            let mut seen = plant.observe().expect("the plant does not break");
            damage(&mut dice, &mut seen);
            plant.refuse = dice.next().is_multiple_of(10);
            let plan = step(&mut state, &config, &machine, &seen);
            for action in &plan.actions {
                let ActionKind::Limit(limit) = action.kind else {
                    continue;
                };
                let cpus = limit.cpus();
                actions += 1;
                let subject = seen.workloads.iter().find(|w| w.id == action.workload);
                let subject = subject.expect("only what was seen is limited");
                assert!(subject.excluded.is_none(), "{action:?}");
                let most = subject.their_limit_cpus.map_or(8.0, |t| t.get().min(8.0));
                assert!(
                    cpus.get() > 0.0 && cpus.get() <= most,
                    "{action:?} of {most}"
                );
                assert!(
                    cpus.get() >= config.floor_cpus.min(most),
                    "{action:?} below the floor"
                );
            }
            let text = serde_json::to_string(&plan).expect("plain data");
            let back: Result<weir_core::Plan, _> = serde_json::from_str(&text);
            assert!(back.is_ok(), "a number that is none: {text}");
            let outcomes = plant.apply(&plan);
            state.note(&outcomes);
        }
    }
    assert!(
        actions > 1000,
        "only {actions} limits were set: this tests nothing"
    );
}
