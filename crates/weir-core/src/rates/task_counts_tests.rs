// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::ids::{DeviceId, GroupId};
use crate::seam::observation::TASK_EVENTS_MAX;
use crate::units::Bytes;
use proptest::prelude::*;

const READS: TaskEvent = TaskEvent {
    bytes_per_count: 64,
    counts_stores: false,
};
const STORES: TaskEvent = TaskEvent {
    bytes_per_count: 64,
    counts_stores: true,
};

/// Counts of events: count, enabled and running time of each.
fn counts(all: &[[u64; 3]]) -> EventCounts {
    let count = |[count, enabled_ns, running_ns]: &[u64; 3]| EventCount {
        count: *count,
        enabled_ns: *enabled_ns,
        running_ns: *running_ns,
    };
    let all: Vec<EventCount> = all.iter().map(count).collect();
    EventCounts::of(&all)
}

struct Readings<'a> {
    counter: TaskCounter,
    events: &'a [TaskEvent],
    at: Nanos,
}

impl<'a> Readings<'a> {
    fn of(events: &'a [TaskEvent]) -> Self {
        Readings {
            counter: TaskCounter::default(),
            events,
            at: Nanos(0),
        }
    }

    fn next(&mut self, all: &[[u64; 3]]) -> Result<TaskDelta, Missing> {
        self.at.0 += 1_000_000_000;
        let reading = Reading::new(self.at, counts(all));
        self.counter.advance(self.events, &reading)
    }

    /// Bytes of loads, and the part of the time that they were counted.
    fn loads(&mut self, all: &[[u64; 3]]) -> (f64, f64) {
        let delta = self.next(all).expect("a difference");
        (delta.load_bytes, delta.running_ratio)
    }
}

#[test]
fn counts_begin_at_the_first_reading_and_are_scaled_by_running_time() {
    let mut readings = Readings::of(&[READS]);
    assert_eq!(readings.next(&[[1000, 500, 500]]), Err(Missing::NotYetRead));
    assert_eq!(readings.loads(&[[1010, 600, 600]]), (640.0, 1.0));
    assert_eq!(readings.loads(&[[1020, 800, 700]]), (1280.0, 0.5));
    assert_eq!(readings.loads(&[[1020, 800, 700]]), (0.0, 1.0), "idle");
}

#[test]
fn without_running_time_nothing_is_known_and_nothing_is_lost() {
    let mut readings = Readings::of(&[READS]);
    assert_eq!(readings.next(&[[0, 0, 0]]), Err(Missing::NotYetRead));
    let why = readings.next(&[[0, 100, 0]]).expect_err("it did not run");
    assert!(matches!(why, Missing::Lost(_)), "{why}");
    let delta = readings.next(&[[10, 200, 50]]).expect("it ran");
    assert_eq!((delta.load_bytes, delta.running_ratio), (2560.0, 0.25));
    assert_eq!(delta.span, Nanos::from_millis(2000), "over the gap");
}

/// The reading that shows it is where counting begins: one interval is lost, and the next is no zero.
#[test]
fn what_was_forgotten_begins_anew() {
    let mut readings = Readings::of(&[READS]);
    assert_eq!(readings.next(&[[50, 1000, 1000]]), Err(Missing::NotYetRead));
    let why = readings.next(&[[5, 10, 10]]).expect_err("less time");
    assert_eq!(why, Missing::Lost("counts began anew".into()));
    let delta = readings.next(&[[6, 20, 20]]).expect("two readings");
    assert_eq!(
        (delta.load_bytes, delta.span),
        (64.0, Nanos::from_millis(1000))
    );
}

#[test]
fn stores_are_taken_out_of_the_reads_that_they_cause() {
    let mut readings = Readings::of(&[READS, STORES]);
    let mut next = |reads, stores, ns, stores_running_ns| {
        let delta = readings.next(&[[reads, ns, ns], [stores, ns, stores_running_ns]]);
        delta.map(|delta| (delta.load_bytes, delta.store_bytes, delta.running_ratio))
    };
    assert_eq!(next(100, 40, 10, 10), Err(Missing::NotYetRead));
    assert_eq!(next(110, 43, 20, 20), Ok((448.0, Some(192.0), 1.0)));
    // The store's counter was read a moment later.
    assert_eq!(next(110, 45, 30, 30), Ok((0.0, Some(128.0), 1.0)));
    assert_eq!(next(120, 49, 50, 40), Ok((128.0, Some(512.0), 0.5)));
    // Nothing ran: known to be nothing, also of stores.
    assert_eq!(next(120, 49, 50, 40), Ok((0.0, Some(0.0), 1.0)));
}

#[test]
fn without_an_event_of_stores_nothing_is_said_of_them() {
    let mut readings = Readings::of(&[READS, READS]);
    let _ = readings.next(&[[0, 0, 0], [0, 0, 0]]);
    let delta = readings.next(&[[1, 9, 9], [2, 9, 9]]).expect("counts");
    assert_eq!((delta.load_bytes, delta.store_bytes), (192.0, None));
}

#[test]
fn counts_of_other_events_are_not_compared() {
    let mut readings = Readings::of(&[READS]);
    let _ = readings.next(&[[0, 0, 0]]);
    let why = readings
        .next(&[[1, 9, 9], [2, 9, 9]])
        .expect_err("two of one");
    assert_eq!(why, Missing::Lost("2 counts of 1 events of tasks".into()));
    assert_eq!(readings.next(&[[7, 20, 20]]), Err(Missing::NotYetRead));
    assert_eq!(readings.loads(&[[8, 30, 30]]), (64.0, 1.0));
}

#[test]
fn a_reading_without_a_value_or_of_before_changes_nothing() {
    let mut readings = Readings::of(&[READS]);
    let _ = readings.next(&[[0, 0, 0]]);
    let gone = Missing::NotPermitted("no".into());
    let missing = Reading::missing(Nanos::from_millis(2000), gone.clone());
    assert_eq!(readings.counter.advance(&[READS], &missing), Err(gone));
    let old = Reading::new(Nanos::from_millis(1000), counts(&[[9, 9, 9]]));
    let again = readings.counter.advance(&[READS], &old);
    assert_eq!(again, Err(Missing::NotYetRead));
    assert_eq!(readings.counter.base_at(), Some(Nanos::from_millis(1000)));
    assert_eq!(readings.loads(&[[3, 5, 5]]), (192.0, 1.0));
}

fn use_of(index: u32, resident: Option<u64>) -> Use {
    let resident_bytes = match resident {
        Some(bytes) => Reading::new(Nanos(1), Bytes(bytes)),
        None => Reading::missing(Nanos(1), Missing::NotYetRead),
    };
    Use {
        group: GroupId {
            device: DeviceId(0),
            index,
        },
        resident_bytes,
        sampled_read_bytes: None,
        sampled_write_bytes: None,
    }
}

fn split(residents: &[Option<u64>]) -> Vec<f64> {
    let uses = residents.iter().zip(0..);
    let uses: Vec<Use> = uses.map(|(bytes, index)| use_of(index, *bytes)).collect();
    let split = MemorySplit::of(&uses);
    uses.iter().map(|use_| split.ratio(use_)).collect()
}

#[test]
fn groups_get_what_memory_they_hold() {
    assert_eq!(split(&[Some(300), Some(100), None]), [0.75, 0.25, 0.0]);
    assert_eq!(split(&[None, Some(0)]), [0.5, 0.5]);
    assert_eq!(split(&[Some(7)]), [1.0]);
    assert!(split(&[]).is_empty());
}

proptest! {
    #[test]
    fn bytes_are_never_negative_and_nothing_panics(
        readings in prop::collection::vec(any::<[[u64; 3]; 2]>(), 0..8),
        residents in prop::collection::vec(prop::option::of(any::<u64>()), 0..4),
        worth in any::<u64>(),
        tells_stores in any::<bool>(),
    ) {
        let second = if tells_stores { STORES } else { READS };
        let events = [READS, TaskEvent { bytes_per_count: worth, ..second }];
        let mut all = Readings::of(&events);
        for counts in readings {
            let Ok(delta) = all.next(&counts) else { continue };
            prop_assert_eq!(delta.store_bytes.is_some(), tells_stores);
            for bytes in [delta.load_bytes, delta.store_bytes.unwrap_or(0.0)] {
                prop_assert!(bytes.is_finite() && bytes >= 0.0, "{}", bytes);
            }
            prop_assert!(delta.running_ratio > 0.0 && delta.running_ratio <= 1.0);
        }
        let ratios = split(&residents);
        prop_assert!(ratios.iter().all(|ratio| (0.0..=1.0).contains(ratio)));
        let sum: f64 = ratios.iter().sum();
        prop_assert!(residents.is_empty() || (sum - 1.0).abs() < 1e-9, "{}", sum);
    }

    #[test]
    fn counts_pass_through_text(all in prop::collection::vec(any::<[u64; 3]>(), 0..4)) {
        let text = serde_json::to_string(&counts(&all)).expect("plain data");
        let read: EventCounts = serde_json::from_str(&text).expect("what was written");
        prop_assert_eq!(read, counts(&all));
        prop_assert_eq!(read.as_slice().len(), all.len().min(TASK_EVENTS_MAX));
    }
}

#[test]
fn more_counts_than_can_be_are_an_error() {
    let one = r#"{"count":1,"enabled_ns":1,"running_ns":1}"#;
    let text = format!("[{one},{one},{one}]");
    let why = serde_json::from_str::<EventCounts>(&text).expect_err("three");
    assert!(why.to_string().contains("counts of 3 events"), "{why}");
}
