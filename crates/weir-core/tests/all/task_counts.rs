// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of tasks, and the arithmetic that made bytes of them before observations had them: it is kept here
//! as it was, and gives the same plans.

use crate::plant::{CAPACITY, GROUP, Plant};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_core::rates::multiplexing::MuxGroup;
use weir_core::seam::observation::{
    EventCount, EventCounts, GroupReading, TaskCountsReading, Use, WorkloadReading,
};
use weir_core::seam::topology::{Group, TaskEvent};
use weir_core::{
    Bytes, BytesPerSec, Config, Description, GroupId, Missing, Nanos, Observation, Plan, Platform,
    Reading, State, WorkloadId, step,
};

const EVENTS: [TaskEvent; 2] = [
    TaskEvent {
        bytes_per_count: 64,
        counts_stores: false,
    },
    TaskEvent {
        bytes_per_count: 64,
        counts_stores: true,
    },
];
const SECOND: GroupId = GroupId { index: 1, ..GROUP };

/// What the edge knew of a workload: cumulative bytes by group, of loads and of stores.
#[derive(Default)]
struct EdgeAccount {
    last: Option<EventCounts>,
    bytes: BTreeMap<GroupId, [f64; 2]>,
}

impl EdgeAccount {
    fn advance(&mut self, now: EventCounts) -> Result<[f64; 2], Missing> {
        let (mut read, mut stores) = (0.0, 0.0);
        let last = self.last.unwrap_or(now);
        let counts = now.as_slice().iter().zip(last.as_slice());
        for ((now, last), event) in counts.zip(EVENTS) {
            if now.enabled_ns < last.enabled_ns {
                self.last = None;
                return Err(Missing::Lost("counts began anew".into()));
            }
            let before = (last.enabled_ns, last.running_ns);
            let span = match MuxGroup::between(before, (now.enabled_ns, now.running_ns)) {
                Err(Missing::NotYetRead) => continue,
                span => span?,
            };
            let count = now.count.saturating_sub(last.count) as f64;
            let sum = match event.counts_stores {
                true => &mut stores,
                false => &mut read,
            };
            *sum += span.scaled(count * event.bytes_per_count as f64);
        }
        self.last = Some(now);
        Ok([(read - stores).max(0.0), stores])
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn share_out(&mut self, at: Nanos, more: Result<[f64; 2], Missing>, uses: &mut [Use]) {
        let resident = |use_: &Use| use_.resident_bytes.ok().map_or(0.0, |b| b.0 as f64);
        let all: f64 = uses.iter().map(resident).sum();
        let evenly = 1.0 / uses.len().max(1) as f64;
        for use_ in uses {
            let part = match all > 0.0 {
                true => resident(use_) / all,
                false => evenly,
            };
            let sums = more.as_ref().map(|more| {
                let sums = self.bytes.entry(use_.group).or_default();
                for (sum, more) in sums.iter_mut().zip(more) {
                    *sum += more * part;
                }
                *sums
            });
            let reading = |way: usize| match &sums {
                Err(why) => Reading::missing(at, (*why).clone()),
                Ok(sums) => Reading::new(at, Bytes(sums[way] as u64)),
            };
            use_.sampled_read_bytes = Some(reading(0));
            use_.sampled_write_bytes = Some(reading(1));
        }
    }
}

/// The same observation as it was made before.
fn by_edge(edge: &mut BTreeMap<WorkloadId, EdgeAccount>, seen: &Observation) -> Observation {
    let mut seen = seen.clone();
    for TaskCountsReading { id, counts } in std::mem::take(&mut seen.task_counts) {
        if let Some(workload) = seen.workloads.iter_mut().find(|w| w.id == id) {
            let account = edge.entry(id).or_default();
            let more = counts.value.and_then(|counts| account.advance(counts));
            account.share_out(counts.at, more, Arc::make_mut(&mut workload.uses));
        }
    }
    seen
}

/// How hard a series is.
#[derive(Clone, Copy, PartialEq)]
enum Series {
    /// One group, and events that count all the time: all bytes are whole.
    Whole,
    /// Two groups, and events that are multiplexed.
    Scaled,
}

/// The plant with counts of its readers' tasks.
struct CountedPlant {
    plant: Plant,
    series: Series,
    counts: BTreeMap<WorkloadId, [EventCount; 2]>,
    before: BTreeMap<WorkloadId, f64>,
}

impl CountedPlant {
    fn new(seed: u64, series: Series) -> (CountedPlant, Description) {
        let mut plant = Plant::new(seed, 4);
        plant.add("/light", 0.04);
        let mut machine = plant.describe().clone();
        machine.task_events = EVENTS.to_vec();
        if series == Series::Scaled {
            machine.groups.push(Group {
                id: SECOND,
                node: None,
                size_bytes: Bytes(1 << 30),
            });
        }
        let world = CountedPlant {
            plant,
            series,
            counts: BTreeMap::new(),
            before: BTreeMap::new(),
        };
        (world, machine)
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn count(&mut self, id: &WorkloadId) -> EventCounts {
        let reader = self.plant.reader(id.as_str());
        let (bytes, cpu_ns) = (reader.bytes, reader.cpu_ns);
        let before = self.before.insert(id.clone(), bytes).unwrap_or(0.0);
        let dice = &mut self.plant.dice;
        let lines = (bytes - before) / 64.0;
        let counts = self.counts.entry(id.clone()).or_default();
        for (count, ratio) in counts.iter_mut().zip([0.9, 0.3 * dice.unit()]) {
            let ran_ns = cpu_ns - count.enabled_ns;
            // At times an event does not run at all.
            let running = match (self.series, dice.next() % 9) {
                (Series::Whole, _) => 1.0,
                (Series::Scaled, 0) => 0.0,
                (Series::Scaled, _) => dice.unit(),
            };
            count.count += (lines * ratio * running) as u64;
            count.enabled_ns = cpu_ns;
            count.running_ns += (ran_ns as f64 * running) as u64;
        }
        EventCounts::of(counts)
    }

    fn observe(&mut self) -> Observation {
        let mut seen = self.plant.observe().expect("the plant does not break");
        let at = seen.at;
        for workload in &mut seen.workloads {
            let counts = self.count(&workload.id);
            if self.series == Series::Scaled {
                self.spread(workload);
            }
            let dice = &mut self.plant.dice;
            let fate = dice.next() % 20;
            if fate == 0 {
                // It uses no group now.
                workload.uses = [].into();
                continue;
            }
            let counts = match fate {
                1 => Reading::missing(at, Missing::Lost("a map could not be read".into())),
                _ => Reading::new(at, counts),
            };
            seen.task_counts.push(TaskCountsReading {
                id: workload.id.clone(),
                counts,
            });
        }
        if self.series == Series::Scaled {
            let third =
                |r: &Reading<Bytes>| Reading::new(r.at, Bytes(r.ok().map_or(0, |b| b.0 / 3)));
            let second = seen.groups.first().map(|first| GroupReading {
                id: SECOND,
                read_bytes: third(&first.read_bytes),
                write_bytes: third(&first.read_bytes),
            });
            seen.groups.extend(second);
        }
        seen
    }

    /// Memory in both groups, or in one, as far as it is known.
    fn spread(&mut self, workload: &mut WorkloadReading) {
        let dice = &mut self.plant.dice;
        let mut uses = workload.uses.to_vec();
        for use_ in workload.uses.iter() {
            let mut other = Use {
                group: SECOND,
                ..use_.clone()
            };
            if dice.next().is_multiple_of(3) {
                other.resident_bytes.value = Ok(Bytes(dice.next() % (1 << 30)));
            }
            if dice.next().is_multiple_of(30) {
                other.resident_bytes.value = Err(Missing::NotYetRead);
            }
            if !dice.next().is_multiple_of(15) {
                uses.push(other);
            }
        }
        workload.uses = uses.into();
    }
}

/// Runs a series through both; `compare` sees the plans.
fn both(seed: u64, series: Series, mut compare: impl FnMut(&Plan, &Plan)) {
    let config = Config {
        set_point_bytes_per_sec: Some(BytesPerSec::new(0.4 * CAPACITY)),
        limit: true,
        ..Config::default()
    };
    let (mut world, machine) = CountedPlant::new(seed, series);
    let (mut before, mut now) = (State::default(), State::default());
    let mut edge = BTreeMap::new();
    let mut count = 0;
    for _ in 0..200 {
        let seen = world.observe();
        let old = step(&mut before, &config, &machine, &by_edge(&mut edge, &seen));
        let new = step(&mut now, &config, &machine, &seen);
        compare(&old, &new);
        count += old.actions.len();
        let outcomes = world.plant.apply(&old);
        before.note(&outcomes);
        now.note(&outcomes);
    }
    assert!(count > 10, "{count} actions");
}

#[test]
fn whole_bytes_give_the_same_plans_byte_for_byte() {
    let text = |plan: &Plan| serde_json::to_string(plan).expect("plain data");
    let mut sampled = 0;
    for seed in 0..20 {
        both(seed, Series::Whole, |old, new| {
            assert_eq!(text(old), text(new), "seed {seed}");
            sampled += text(new).matches("\"sampled\"").count();
        });
    }
    assert!(
        sampled > 10_000,
        "attributed by counts only {sampled} times"
    );
}

/// How far plans are apart: the largest difference of two numbers, as a part of the larger one.
#[derive(Debug, Default)]
struct Distance {
    writes_of_workloads: f64,
    all_else: f64,
}

impl Distance {
    /// What is no number is equal.
    fn add(&mut self, place: &str, old: &Value, new: &Value) {
        match (old, new) {
            (Value::Number(old), Value::Number(new)) => {
                let of = |n: &serde_json::Number| n.as_f64().expect("a number");
                let (from, to) = (of(old), of(new));
                // Of what is near nothing no part is looked at.
                let least = if place.contains("bytes") { 1e6 } else { 1e-3 };
                let part = (from - to).abs() / from.abs().max(to.abs()).max(least);
                let most = match place.contains("traffic.write") {
                    true => &mut self.writes_of_workloads,
                    false => &mut self.all_else,
                };
                *most = most.max(part);
            }
            (Value::Array(old), Value::Array(new)) => {
                assert_eq!(old.len(), new.len(), "{place}");
                let each = old.iter().zip(new);
                each.for_each(|(old, new)| self.add(place, old, new));
            }
            (Value::Object(old), Value::Object(new)) => {
                assert!(old.keys().eq(new.keys()), "{place}: {old:?} {new:?}");
                for ((key, old), new) in old.iter().zip(new.values()) {
                    self.add(&format!("{place}.{key}"), old, new);
                }
            }
            _ => assert_eq!(old, new, "{place}"),
        }
    }
}

/// Before, sums were rounded to whole bytes: up to a byte an interval. Writes are shared out by stores, which
/// are few in some intervals.
#[test]
fn scaled_and_divided_bytes_differ_in_the_last_digits() {
    let mut apart = Distance::default();
    for seed in 0..20 {
        both(seed, Series::Scaled, |old, new| {
            let value = |plan: &Plan| {
                let mut plan = plan.clone();
                plan.task_events_running_ratio = None;
                serde_json::to_value(plan).expect("plain data")
            };
            apart.add("plan", &value(old), &value(new));
        });
    }
    eprintln!("{apart:?}");
    assert!(apart.all_else > 0.0 && apart.all_else < 1e-5, "{apart:?}");
    assert!(apart.writes_of_workloads < 1e-3, "{apart:?}");
}

#[test]
fn multiplexing_is_said_with_the_plan() {
    let mut ratios = Vec::new();
    both(1, Series::Scaled, |old, new| {
        assert_eq!(old.multiplexed(), None, "the edge said it");
        ratios.extend(new.task_events_running_ratio);
        if let Some(note) = new.multiplexed() {
            let text = note.why.to_string();
            assert!(text.contains(" % of it; figures are scaled"), "{text}");
        }
    });
    assert!(ratios.len() > 150 && ratios.iter().all(|ratio| (0.0..1.0).contains(ratio)));
    both(1, Series::Whole, |_, new| {
        assert_eq!(new.multiplexed(), None)
    });
}

/// Counts that began anew cost one interval. Before they also made the next one a zero.
#[test]
fn counts_that_began_anew_make_no_zero() {
    let (mut world, machine) = CountedPlant::new(3, Series::Whole);
    let (mut before, mut now) = (State::default(), State::default());
    let mut edge = BTreeMap::new();
    let mut figures = Vec::new();
    for tick in 0..8 {
        let mut seen = world.plant.observe().expect("the plant does not break");
        let at = seen.at;
        for workload in &seen.workloads {
            let mut counts = world.count(&workload.id);
            if tick >= 5 && workload.id.as_str() == "/heavy0" {
                // Half of it is gone, of time too.
                let half = counts.as_slice().iter().map(|c| EventCount {
                    count: c.count / 2,
                    enabled_ns: c.enabled_ns / 2,
                    running_ns: c.enabled_ns / 2,
                });
                counts = EventCounts::of(&half.collect::<Vec<_>>());
            }
            seen.task_counts.push(TaskCountsReading {
                id: workload.id.clone(),
                counts: Reading::new(at, counts),
            });
        }
        let config = Config::default();
        let old = step(&mut before, &config, &machine, &by_edge(&mut edge, &seen));
        let new = step(&mut now, &config, &machine, &seen);
        let figure = |plan: &Plan| {
            let found = plan.workloads.iter().find(|w| w.id.as_str() == "/heavy0");
            let found = found.expect("it is there").bandwidth;
            (found.provenance, found.bytes_per_sec.get())
        };
        figures.push((figure(&old), figure(&new)));
    }
    use weir_core::rates::attribution::Provenance::{Apportioned, Sampled};
    let provenance = |at: usize| (figures[at].0.0, figures[at].1.0);
    assert_eq!(provenance(4), (Sampled, Sampled));
    assert_eq!(provenance(5), (Apportioned, Apportioned));
    assert_eq!(figures[6].0, (Sampled, 0.0));
    assert!(figures[6].1.1 > 0.1 * figures[4].1.1, "{:?}", figures[6]);
    assert_eq!(figures[7].0.0, figures[7].1.0);
}
