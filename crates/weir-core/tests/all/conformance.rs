// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The conformance checks themselves: a sound world passes all of them, and for each there is a
//! broken world that fails it and it only.

use crate::plant::Plant;
use std::sync::Arc;
use weir_core::seam::conformance::{Violation, act, dry_run, watch};
use weir_core::seam::observation::{
    EventCount, EventCounts, Missing, Skipped, TaskCountsReading, WorkloadReading,
};
use weir_core::seam::plan::OutcomeKind;
use weir_core::{
    Bytes, CpuShare, Description, Nanos, Observation, Outcome, Plan, Platform, PlatformError,
    Reading,
};

/// The plant with one fault, put in at its edge.
struct Broken<F, G> {
    plant: Plant,
    spoil: F,
    spoil_outcomes: G,
}

impl<F, G> Platform for Broken<F, G>
where
    F: FnMut(&mut Observation),
    G: FnMut(&mut Vec<Outcome>),
{
    fn describe(&self) -> &Description {
        self.plant.describe()
    }

    fn observe(&mut self) -> Result<Observation, PlatformError> {
        let mut seen = self.plant.observe()?;
        (self.spoil)(&mut seen);
        Ok(seen)
    }

    fn apply(&mut self, plan: &Plan) -> Vec<Outcome> {
        let mut outcomes = self.plant.apply(plan);
        (self.spoil_outcomes)(&mut outcomes);
        outcomes
    }

    fn release_all(&mut self) -> Vec<Outcome> {
        let mut outcomes = self.plant.release_all();
        (self.spoil_outcomes)(&mut outcomes);
        outcomes
    }
}

fn with_sight(spoil: impl FnMut(&mut Observation)) -> Vec<Violation> {
    let mut world = Broken {
        plant: Plant::new(1, 3),
        spoil,
        spoil_outcomes: |_: &mut Vec<_>| {},
    };
    watch(&mut world, 6)
}

fn with_hands(spoil_outcomes: impl FnMut(&mut Vec<Outcome>)) -> Vec<Violation> {
    let spoil = |_: &mut Observation| {};
    act(
        &mut Broken {
            plant: Plant::new(1, 3),
            spoil,
            spoil_outcomes,
        },
        3,
        CpuShare::new(8.0),
    )
}

fn only(check: &str, found: &[Violation]) {
    assert!(!found.is_empty(), "{check} did not notice");
    for violation in found {
        assert_eq!(violation.check, check, "{violation}");
    }
}

#[test]
fn a_sound_world_passes() {
    assert_eq!(act(&mut Plant::new(1, 5), 40, CpuShare::new(1.0)), []);
    let (found, mut plant) = dry_run(Plant::new(2, 5));
    assert_eq!(found, []);
    assert!(plant.readers.iter().all(|r| r.writes == 0));
    assert_eq!(watch(&mut plant, 5), []);
}

#[test]
fn time_and_seq() {
    only("seq", &with_sight(|seen| seen.seq /= 2));
    only(
        "time",
        &with_sight(|seen| {
            let uses = Arc::make_mut(&mut seen.workloads[0].uses);
            uses[0].resident_bytes.at = Nanos(u64::MAX);
        }),
    );
    let mut count = 0;
    let found = with_sight(move |seen| {
        count += 1;
        if count == 4 {
            seen.workloads[1].throttled_ns.at = Nanos(1);
        }
    });
    assert!(
        found
            .iter()
            .any(|v| v.check == "time" && v.detail.contains("went back")),
        "{found:?}"
    );
    // A clock that stands still spoils the counts too: they change within no time.
    assert!(
        with_sight(|seen| seen.at = Nanos(7))
            .iter()
            .any(|v| v.check == "time")
    );
}

#[test]
fn counts_only_grow() {
    let mut count = 0;
    only(
        "counts",
        &with_sight(move |seen| {
            count += 1;
            if count == 4 {
                seen.groups[0].read_bytes.value = Ok(Bytes(0));
            }
        }),
    );
    let mut count = 0;
    only(
        "counts",
        &with_sight(move |seen| {
            count += 1;
            if count == 3 {
                seen.workloads[2].cpu_ns.value = Ok(Nanos(0));
            }
        }),
    );
    let mut wrapping = Plant::new(3, 5);
    wrapping.set_mask((1 << 28) - 1);
    assert_eq!(watch(&mut wrapping, 40), [], "a wrap is no fault");
}

#[test]
fn task_counts_grow_and_are_of_the_events_of_the_machine() {
    let count = |n: u64| EventCount {
        count: n,
        enabled_ns: n,
        running_ns: n,
    };
    let with_counts = |counts: fn(u64) -> u64, per_workload: usize| {
        let mut plant = Plant::new(1, 3);
        plant.count_events(1);
        let spoil = move |seen: &mut Observation| {
            let counts = vec![count(counts(seen.seq)); per_workload];
            let reading = |workload: &WorkloadReading| TaskCountsReading {
                id: workload.id.clone(),
                counts: Reading::new(seen.at, EventCounts::of(&counts)),
            };
            seen.task_counts = seen.workloads.iter().map(reading).collect();
        };
        let spoil_outcomes = |_: &mut Vec<_>| {};
        watch(
            &mut Broken {
                plant,
                spoil,
                spoil_outcomes,
            },
            6,
        )
    };
    assert_eq!(with_counts(|seq| seq, 1), []);
    only("counts", &with_counts(|seq| seq, 2));
    only("counts", &with_counts(|seq| 9 - seq, 1));
}

#[test]
fn ids_are_ordered() {
    only("order", &with_sight(|seen| seen.workloads.reverse()));
    only(
        "order",
        &with_sight(|seen| {
            let twice = seen.groups[0].clone();
            seen.groups.push(twice);
        }),
    );
    only(
        "order",
        &with_sight(|seen| {
            let uses = &mut seen.workloads[0].uses;
            *uses = [&uses[..], &uses[..1]].concat().into();
        }),
    );
}

#[test]
fn absence_has_a_reason() {
    only(
        "absence",
        &with_sight(|seen| {
            let at = seen.at;
            seen.workloads[0].throttled_ns =
                Reading::missing(at, Missing::NotSupported(" ".into()));
        }),
    );
    only(
        "absence",
        &with_sight(|seen| {
            seen.skipped.push(Skipped {
                what: "/x".into(),
                why: Missing::Lost(String::new()),
            });
        }),
    );
}

#[test]
fn every_action_has_its_outcome() {
    only(
        "outcomes",
        &with_hands(|outcomes| {
            let _ = outcomes.pop();
        }),
    );
    only("outcomes", &with_hands(|outcomes| outcomes.reverse()));
    only(
        "outcomes",
        &with_hands(|outcomes| {
            for outcome in outcomes {
                outcome.result = OutcomeKind::Applied;
            }
        }),
    );
    only(
        "outcomes",
        &with_hands(|outcomes| {
            for outcome in outcomes {
                outcome.result = OutcomeKind::Refused(String::new());
            }
        }),
    );
}

#[test]
fn release_must_be_safe_twice() {
    let mut calls = 0;
    only(
        "release",
        &with_hands(move |outcomes| {
            calls += 1;
            if calls == 4 {
                let workload = weir_core::WorkloadId::new("/heavy0");
                outcomes.push(Outcome {
                    workload,
                    result: OutcomeKind::Failed("gone".into()),
                });
            }
        }),
    );
}

/// Ends, or breaks, after some observations.
struct Short(Plant, u32, bool);

impl Platform for Short {
    fn describe(&self) -> &Description {
        self.0.describe()
    }

    fn observe(&mut self) -> Result<Observation, PlatformError> {
        self.1 = self.1.checked_sub(1).ok_or_else(|| {
            if self.2 {
                PlatformError::Broken("pulled out".into())
            } else {
                PlatformError::End
            }
        })?;
        self.0.observe()
    }

    fn apply(&mut self, plan: &Plan) -> Vec<Outcome> {
        self.0.apply(plan)
    }

    fn release_all(&mut self) -> Vec<Outcome> {
        self.0.release_all()
    }
}

#[test]
fn an_end_is_no_fault_and_a_break_is_one() {
    assert_eq!(
        act(
            &mut Short(Plant::new(4, 2), 3, false),
            10,
            CpuShare::new(1.0)
        ),
        []
    );
    only("alive", &watch(&mut Short(Plant::new(4, 2), 3, true), 10));
}
