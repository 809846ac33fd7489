// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of tasks in whole steps: bytes of groups are shared out by them. The arithmetic has tests of its
//! own beside it.

use crate::parts::{GROUP, MS, decision, group, near};
use crate::steady::{Bench, TICK_MS, steady};
use weir_core::rates::attribution::Provenance::{self, Apportioned, Sampled};
use weir_core::seam::observation::{EventCount, EventCounts, TaskCountsReading};
use weir_core::seam::topology::TaskEvent;
use weir_core::{GroupId, Plan, Reading, WorkloadId};

const SECOND: GroupId = group(0, 1);
const READS: TaskEvent = TaskEvent {
    bytes_per_count: 64,
    counts_stores: false,
};

/// Two workloads whose reads are counted: `/a` in both groups, `/b` in the second.
struct Counted {
    bench: Bench,
    counts: [EventCount; 2],
}

impl Counted {
    fn new() -> Self {
        let both = [GROUP, SECOND];
        let workloads = vec![steady("/a", 1.0, &both), steady("/b", 1.0, &[SECOND])];
        let mut bench = Bench::new(&[(GROUP, 1e5), (SECOND, 6e5)], workloads);
        bench.config.limit = false;
        bench.machine.task_events = vec![READS];
        Counted {
            bench,
            counts: [EventCount::default(); 2],
        }
    }

    /// Each reads so many lines; their event runs for a part of the time.
    fn tick(&mut self, lines: [u64; 2], running_ratio: f64) -> Plan {
        let mut seen = self.bench.see();
        let span = (TICK_MS * MS) as f64;
        for ((count, lines), id) in self.counts.iter_mut().zip(lines).zip(["/a", "/b"]) {
            count.count += lines;
            count.enabled_ns += span as u64;
            count.running_ns += (span * running_ratio) as u64;
            seen.task_counts.push(TaskCountsReading {
                id: WorkloadId::new(id),
                counts: Reading::new(seen.at, EventCounts::of(&[*count])),
            });
        }
        self.bench.step(&seen)
    }
}

fn figure(plan: &Plan, id: &str) -> (Provenance, f64) {
    let found = decision(plan, id).bandwidth;
    (found.provenance, found.bytes_per_sec.get())
}

/// Bytes are shared out by the memory that a workload has in each of its groups.
#[test]
fn bytes_of_groups_are_shared_out_by_counts() {
    let mut world = Counted::new();
    let plans = [(); 3].map(|()| world.tick([1000, 250], 1.0));
    assert_eq!(figure(&plans[0], "/a").0, Provenance::Unknown);
    let (a, b) = (figure(&plans[2], "/a"), figure(&plans[2], "/b"));
    assert_eq!((a.0, b.0), (Sampled, Sampled));
    // For the second group's 6e5, half of 1000 lines stands against 250.
    near("both groups", a.1, 1e5 + 4e5);
    near("the second", b.1, 2e5);
}

#[test]
fn multiplexing_is_said_with_the_plan() {
    let mut world = Counted::new();
    let whole = [(); 2].map(|()| world.tick([1000, 250], 1.0));
    assert!(whole.iter().all(|plan| plan.multiplexed().is_none()));
    let scaled = world.tick([500, 125], 0.5);
    assert_eq!(scaled.task_events_running_ratio, Some(0.5));
    let note = scaled.multiplexed().expect("half of the time is not all");
    let text = note.why.to_string();
    assert!(text.contains("50 % of it; figures are scaled"), "{text}");
}

/// They cost one interval, and the next is no zero.
#[test]
fn counts_that_began_anew_make_no_zero() {
    let mut world = Counted::new();
    let _ = [(); 4].map(|()| world.tick([1000, 250], 1.0));
    world.counts = [EventCount::default(); 2];
    let lost = figure(&world.tick([10, 5], 1.0), "/b");
    assert_eq!(lost.0, Apportioned);
    let (provenance, rate) = figure(&world.tick([1000, 250], 1.0), "/b");
    assert_eq!(provenance, Sampled);
    assert!(rate > 1e5, "{rate}");
}
