// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is what was recorded what is read, to the last bit, and do the columns say what the ticks say?

use crate::made::{INTERVAL_MS, NAMES, Plant, desk, recorded, start};
use proptest::prelude::*;
use weir_core::seam::observation::{
    EventCount, EventCounts, Excluded, LimitedWeight, Missing, Multiplexing, ProbeReading, Skipped,
    TASK_EVENTS_MAX, TaskCountsReading, Use, WorkloadKind, WorkloadReading,
};
use weir_core::{
    Bytes, CpuShare, DeviceId, GroupId, Nanos, Observation, Plan, Platform, Reading, State,
    WorkloadId, step,
};
use weir_store::{Recorder, Recording, Replayed, Tick};

#[test]
fn what_was_recorded_is_read() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    let ticks = recorded(&path, 400);
    let recording = Recording::open(&path).unwrap();
    let [session] = recording.sessions() else {
        panic!("{:?}", recording.sessions())
    };
    assert_eq!(session.start, start());
    assert_eq!(session.ended_unix_ms, Some(ticks[399].wall_unix_ms));
    let read: Vec<Tick> = recording.ticks(session.id).map(Result::unwrap).collect();
    assert!(read == ticks);
    assert_eq!(recording.counts(session.id).unwrap(), [400, 40, 0]);
}

/// The machine has changed: the run goes on in a session of its own.
#[test]
fn a_run_goes_on_in_another_session() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    let mut plant = Plant::new(&NAMES);
    let ticks: Vec<Tick> = (0..300).map(|_| plant.tick()).collect();
    let mut recorder = Recorder::open(&path, &start()).unwrap();
    let (before, after) = ticks.split_at(100);
    before.iter().for_each(|tick| recorder.add(tick).unwrap());
    let mut other = start();
    other.started_unix_ms = after[0].wall_unix_ms;
    other.description.cpu_count += 1;
    recorder.turn(&other).unwrap();
    after.iter().for_each(|tick| recorder.add(tick).unwrap());
    recorder.finish(ticks[299].wall_unix_ms).unwrap();
    let recording = Recording::open(&path).unwrap();
    let [first, second] = recording.sessions() else {
        panic!("{:?}", recording.sessions())
    };
    assert_eq!((&first.start, &second.start), (&start(), &other));
    assert_eq!(first.ended_unix_ms, Some(other.started_unix_ms));
    for (session, ticks) in [(first, before), (second, after)] {
        let read: Vec<Tick> = recording.ticks(session.id).map(Result::unwrap).collect();
        assert!(read == ticks);
        assert_eq!(recording.counts(session.id).unwrap()[0], ticks.len() as u64);
    }
    let seq = |tick: &Tick| tick.observation.seq;
    let goes_on = |seq_now| other.goes_on(&start(), seq_now, seq(&before[99]));
    assert!(goes_on(seq(&after[0])) && !goes_on(0));
}

#[test]
fn the_same_recording_gives_the_same_plan() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    let ticks = recorded(&path, 300);
    assert!(
        ticks.iter().any(|tick| !tick.plan.actions.is_empty()),
        "nothing was decided"
    );
    let recording = Recording::open(&path).unwrap();
    let mut world = Replayed::new(&recording, &recording.sessions()[0]);
    let mut state = State::default();
    for tick in &ticks {
        let seen = world.observe().unwrap();
        let plan = step(&mut state, &start().config, world.describe(), &seen);
        assert_eq!(
            format!("{plan:?}"),
            format!("{:?}", tick.plan),
            "to the last bit"
        );
        let outcomes = world.apply(&plan);
        assert_eq!(outcomes, tick.outcomes);
        state.note(&outcomes);
    }
    assert!(matches!(
        world.observe(),
        Err(weir_core::PlatformError::End)
    ));
}

#[test]
fn ticks_can_be_read_from_the_middle() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    let ticks = recorded(&path, 400);
    let recording = Recording::open(&path).unwrap();
    let id = recording.sessions()[0].id;
    for (place, key) in [(0, 0), (31, 0), (32, 32), (399, 384)] {
        let from = recording.ticks_from(id, ticks[place].wall_unix_ms).unwrap();
        let read: Vec<Tick> = from.map(Result::unwrap).collect();
        assert!(read == ticks[key..], "from {place} on");
    }
    assert_eq!(recording.ticks_from(id, 0).unwrap().count(), 400);
    assert_eq!(
        recording.last_unix_ms(id).unwrap(),
        Some(ticks[399].wall_unix_ms)
    );
    assert_eq!(recording.last_unix_ms(99).unwrap(), None);
}

#[test]
fn a_recording_is_a_world_like_any_other() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    recorded(&path, 50);
    let recording = Recording::open(&path).unwrap();
    let mut world = Replayed::new(&recording, &recording.sessions()[0]);
    assert_eq!(weir_core::seam::conformance::watch(&mut world, 60), []);
}

#[test]
fn columns_are_means_of_the_ticks() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    let ticks = recorded(&path, 95);
    let database = rusqlite::Connection::open(&path).unwrap();
    let query =
        "SELECT end_unix_ms, span_ns, bytes_per_sec, provenance, unknown_ns, cpu_microcpus, why
         FROM workloads WHERE workload = '/system.slice/a.service' ORDER BY end_unix_ms";
    let mut statement = database.prepare(query).unwrap();
    let rows = statement
        .query_map([], |row| {
            Ok((
                row.get::<_, u64>(0)?,
                row.get::<_, u64>(1)?,
                row.get::<_, f64>(2)?,
                row.get::<_, String>(3)?,
                row.get::<_, u64>(4)?,
                row.get::<_, f64>(5)?,
                row.get::<_, String>(6)?,
            ))
        })
        .unwrap();
    let rows: Vec<_> = rows.map(Result::unwrap).collect();
    assert_eq!(rows.len(), 10, "nine full seconds and the rest");
    for (end, span_ns, bytes, provenance, unknown, cpu, why) in &rows[1..9] {
        let inside = |tick: &&Tick| {
            let age = end.checked_sub(tick.wall_unix_ms);
            age.is_some_and(|age| age < span_ns / 1_000_000 - INTERVAL_MS / 2)
        };
        let inside: Vec<&Tick> = ticks.iter().filter(inside).collect();
        assert_eq!(inside.len(), 10);
        let verdicts: Vec<_> = inside
            .iter()
            .map(|tick| {
                tick.plan
                    .workloads
                    .iter()
                    .find(|v| v.id.as_str().ends_with("a.service"))
                    .unwrap()
            })
            .collect();
        let mean = verdicts
            .iter()
            .map(|v| v.bandwidth.bytes_per_sec.get())
            .sum::<f64>()
            / 10.0;
        // Ticks are not quite equally long.
        assert!((bytes / mean - 1.0).abs() < 1e-3, "{bytes} and {mean}");
        let mean = verdicts
            .iter()
            .map(|v| v.cpu_cpus.unwrap().get())
            .sum::<f64>()
            / 10.0;
        assert!((cpu / 1e6 / mean - 1.0).abs() < 1e-3, "{cpu} and {mean}");
        assert_eq!((provenance.as_str(), *unknown), ("apportioned", 0));
        assert_eq!(why, "limited");
    }
    let actions: u64 = database
        .query_one("SELECT count(*) FROM actions", [], |r| r.get(0))
        .unwrap();
    let decided: usize = ticks.iter().map(|tick| tick.plan.actions.len()).sum();
    assert_eq!(actions, decided as u64);
    let failed = "SELECT detail FROM actions WHERE outcome = 'failed' LIMIT 1";
    let detail: String = database.query_one(failed, [], |r| r.get(0)).unwrap();
    assert_eq!(detail, "a disk quota\nexceeded");
    let fact = "SELECT missing || ': ' || detail FROM fact WHERE name = 'resctrl.smba'";
    let why: String = database.query_one(fact, [], |r| r.get(0)).unwrap();
    assert_eq!(why, "not_supported: no such CPU");
}

/// D11: rows neither overlap nor leave holes, whenever the end was written.
#[test]
fn spans_follow_each_other() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    let mut plant = Plant::new(&["/a"]);
    let mut recorder = Recorder::open(&path, &start()).unwrap();
    let mut last = 0;
    for _ in 0..95 {
        let tick = plant.tick();
        last = tick.wall_unix_ms;
        recorder.add(&tick).unwrap();
    }
    recorder.finish(last + 5_000).unwrap();
    let database = rusqlite::Connection::open(&path).unwrap();
    let query = "SELECT end_unix_ms, span_ns FROM span ORDER BY id";
    let mut statement = database.prepare(query).unwrap();
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    let rows: Vec<(u64, u64)> = rows.map(Result::unwrap).collect();
    assert_eq!(rows.len(), 10);
    assert_eq!(rows[9].0, last, "the last one ends with the last tick");
    for pair in rows.windows(2) {
        let between = pair[1].0 - pair[0].0;
        // Rounded down, each.
        assert!(between.abs_diff(pair[1].1 / 1_000_000) <= 1, "{rows:?}");
    }
    let ended = Recording::open(&path).unwrap().sessions()[0].ended_unix_ms;
    assert_eq!(ended, Some(last + 5_000));
}

#[test]
fn ticks_that_were_lost_are_counted_where_they_are_missing() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    let mut plant = Plant::new(&["/a"]);
    let mut recorder = Recorder::open(&path, &start()).unwrap();
    for lost_before in [0, 3, 0, 2] {
        let lost = (0..lost_before).map(|_| plant.tick()).count() as u64;
        recorder
            .add(&Tick {
                lost_before: lost,
                ..plant.tick()
            })
            .unwrap();
    }
    recorder.finish(1).unwrap();
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.counts(1).unwrap()[2], 5);
    let seqs: Vec<(u64, u64)> = recording
        .ticks(1)
        .map(|tick| tick.map(|t| (t.plan.seq, t.lost_before)).unwrap())
        .collect();
    assert_eq!(seqs, [(0, 0), (4, 3), (5, 0), (8, 2)]);
}

/// Sizes do not depend on the machine: a bound on them is no race. The figures stand in
/// docs/evidence/recordings.md.
#[test]
fn a_tick_costs_some_tens_of_bytes_a_workload() {
    let names: Vec<String> = (0..50).map(|n| format!("/w{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (dir, mut plant) = (desk(), Plant::new(&names));
    let ticks: Vec<Tick> = (0..1000).map(|_| plant.tick()).collect();
    let documents = |name: &str, with_plans: bool| {
        let path = dir.path().join(name);
        let mut recorder = Recorder::open(&path, &start()).unwrap();
        for tick in &ticks {
            let mut tick = tick.clone();
            if !with_plans {
                (tick.plan, tick.outcomes) = (Plan::default(), Vec::new());
            }
            recorder.add(&tick).unwrap();
        }
        recorder.finish(1).unwrap();
        let database = rusqlite::Connection::open(&path).unwrap();
        let query = "SELECT sum(length(document)) FROM tick";
        let bytes: u64 = database.query_one(query, [], |row| row.get(0)).unwrap();
        bytes as f64 / ticks.len() as f64 / names.len() as f64
    };
    let (all, seen) = (documents("a.weir", true), documents("b.weir", false));
    eprintln!("bytes per tick and workload: {seen:.1} seen, {all:.1} with plans");
    assert!(
        seen < 30.0 && all < 120.0,
        "{seen:.1} bytes for what was seen, {all:.1} with plans"
    );
}

#[test]
fn sessions_follow_each_other_and_readers_see_a_running_one() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    let first = recorded(&path, 10);
    let mut recorder = Recorder::open(&path, &start()).unwrap();
    let mut plant = Plant::new(&["/other"]);
    let second: Vec<Tick> = (0..10).map(|_| plant.tick()).collect();
    for tick in &second {
        recorder.add(tick).unwrap();
    }
    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.sessions()[1].ended_unix_ms, None);
    for (session, ticks) in recording.sessions().iter().zip([first, second]) {
        let read: Vec<Tick> = recording.ticks(session.id).map(Result::unwrap).collect();
        assert!(read == ticks);
    }
    let busy = Recorder::open(&path, &start()).map(drop).unwrap_err();
    assert!(
        matches!(busy, weir_store::StoreError::Busy { .. }),
        "{busy}"
    );
}

fn any_missing() -> impl Strategy<Value = Missing> {
    prop_oneof![
        "(?s).{0,20}".prop_map(Missing::NotSupported),
        Just(Missing::NotYetRead),
        "(?s).{0,20}".prop_map(Missing::Lost),
    ]
}

fn any_reading<T: std::fmt::Debug + Clone>(
    make: impl Fn(u64) -> T + Clone + 'static,
) -> impl Strategy<Value = Reading<T>> {
    let value = prop_oneof![
        any::<u64>().prop_map(move |n| Ok(make(n))),
        any_missing().prop_map(Err)
    ];
    (any::<u64>(), value).prop_map(|(at, value)| Reading {
        at: Nanos(at),
        value,
    })
}

fn any_counts() -> impl Strategy<Value = TaskCountsReading> {
    let counts = prop::collection::vec(any::<[u64; 3]>(), 0..=TASK_EVENTS_MAX);
    let count = |[count, enabled_ns, running_ns]: [u64; 3]| EventCount {
        count,
        enabled_ns,
        running_ns,
    };
    let counts = counts.prop_map(move |counts| {
        let counts: Vec<EventCount> = counts.into_iter().map(count).collect();
        EventCounts::of(&counts)
    });
    let value = prop_oneof![counts.prop_map(Ok), any_missing().prop_map(Err)];
    ("(?s).{0,30}", any::<u64>(), value).prop_map(|(id, at, value)| TaskCountsReading {
        id: WorkloadId::new(id),
        counts: Reading {
            at: Nanos(at),
            value,
        },
    })
}

fn any_workload() -> impl Strategy<Value = WorkloadReading> {
    let uses = (
        any::<u32>(),
        any_reading(Bytes),
        prop::option::of(any_reading(Bytes)),
    );
    let uses = uses.prop_map(|(index, resident_bytes, sampled)| Use {
        group: GroupId {
            device: DeviceId(0),
            index,
        },
        resident_bytes,
        sampled_read_bytes: sampled.clone(),
        sampled_write_bytes: sampled,
    });
    let limit = prop::option::of(any::<f64>().prop_map(CpuShare::new));
    (
        "(?s).{0,30}",
        any_reading(Nanos),
        any_reading(Nanos),
        prop::collection::vec(uses, 0..3),
        any::<i32>(),
        limit,
        any::<bool>(),
        prop::option::of(any::<u64>()),
    )
        .prop_map(
            |(id, cpu_ns, throttled_ns, uses, weight, their_limit_cpus, real_time, all)| {
                WorkloadReading {
                    id: WorkloadId::new(id),
                    kind: WorkloadKind::Cgroup,
                    cpu_ns,
                    throttled_ns,
                    uses: uses.into(),
                    resident_bytes: all.map(Bytes),
                    weight: f64::from(weight) / 7.0,
                    their_limit_cpus,
                    limited_weight: match weight % 3 {
                        0 => None,
                        1 => Some(LimitedWeight::Lowered {
                            ratio: f64::from(weight) / 1e6,
                        }),
                        _ => Some(LimitedWeight::LeftAlone { why: "why".into() }),
                    },
                    excluded: real_time.then_some(Excluded::RealTime),
                }
            },
        )
}

fn any_observation() -> impl Strategy<Value = Observation> {
    let skipped = ("(?s).{0,30}", any_missing()).prop_map(|(what, why)| Skipped { what, why });
    (
        any::<(u64, u64)>(),
        prop::collection::vec(any_workload(), 0..6),
        prop::collection::vec(skipped, 0..3),
        prop::collection::vec((0u32..9, 0.001..1.0), 0..3),
        prop::collection::vec(any_counts(), 0..3),
    )
        .prop_map(
            |((seq, at), workloads, skipped, running, task_counts)| Observation {
                seq,
                at: Nanos(at),
                running: running
                    .into_iter()
                    .map(|(id, ratio)| Multiplexing {
                        id: DeviceId(id),
                        ratio,
                    })
                    .collect(),
                probe_traffic: vec![ProbeReading {
                    id: GroupId {
                        device: DeviceId(2),
                        index: 1,
                    },
                    read_bytes: Reading::new(Nanos(at / 2), Bytes(seq)),
                }],
                workloads,
                task_counts,
                skipped,
                ..Observation::default()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// No observation is too odd: readings of a broken kernel are recorded as they are.
    #[test]
    fn any_observation_is_read_as_it_was(all in prop::collection::vec(any_observation(), 1..6)) {
        let dir = desk();
        let path = dir.path().join("a.weir");
        let mut recorder = Recorder::open(&path, &start()).unwrap();
        for observation in &all {
            let tick = Tick {
                wall_unix_ms: 1,
                lost_before: 0,
                observation: observation.clone(),
                plan: Plan::default(),
                outcomes: Vec::new(),
                self_cost: None,
            };
            recorder.add(&tick).unwrap();
        }
        recorder.finish(2).unwrap();
        let recording = Recording::open(&path).unwrap();
        let read: Vec<Tick> = recording.ticks(1).map(Result::unwrap).collect();
        for (read, observation) in read.iter().zip(&all) {
            prop_assert_eq!(format!("{:?}", read.observation), format!("{:?}", observation));
        }
        prop_assert_eq!(read.len(), all.len());
    }
}
