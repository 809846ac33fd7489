// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes out of the counts of a workload's tasks. An observation has them as they were read; all that is made
//! of them is made here, so that a recording can be replayed with another rule.
//!
//! ```text
//! counts ─► difference ─► × enabled ÷ running ─► × bytes a count ─► loads = reads − stores ─► groups
//!           (two readings)  (of each event)        (Description)                              (by memory)
//! ```
//!
//! - *Running time.* Where more events share a counter, each counts for a part of the time, and is scaled by
//!   it ([`MuxGroup`]). An event that was to count and did not says nothing; the next difference spans the
//!   gap.
//! - *Anew.* Enabled time that went back: the counts were dropped and began again. That costs one interval.
//! - *Loads.* An event of stores counts a part of what the events of reads count. What is left are loads.
//! - *Groups.* These events see all CXL memory as one. A workload with memory in several groups has its bytes
//!   divided among them by how much it has there ([`MemorySplit`]).

use crate::rates::multiplexing::MuxGroup;
use crate::seam::observation::{EventCount, EventCounts, Missing, Reading, Use};
use crate::seam::topology::TaskEvent;
use crate::units::Nanos;

/// What a workload read of all devices between two readings of its counts. All finite, none negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskDelta {
    /// Bytes read for loads; for loads and stores where no event distinguishes them.
    pub load_bytes: f64,
    /// Bytes read to be stored to; nothing where no event counts them.
    pub store_bytes: Option<f64>,
    /// Time between the readings. Never zero.
    pub span: Nanos,
    /// Part of its time that an event ran, of the one that had least: below 1 the bytes are scaled.
    pub running_ratio: f64,
}

/// The counts of one workload, and what the next difference begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounter {
    base: Option<(Nanos, EventCounts)>,
}

impl TaskCounter {
    /// When the counts were read that the next difference begins with.
    pub fn base_at(&self) -> Option<Nanos> {
        self.base.map(|(at, _)| at)
    }

    /// Takes a reading and gives what was read since the one before.
    ///
    /// # Errors
    /// [`Missing::NotYetRead`] on the first reading, and when time did not move forward; [`Missing::Lost`]
    /// when counts began anew, an event did not run, or there are not as many counts as events; the reading's
    /// own reason when it has no value.
    pub fn advance(
        &mut self,
        events: &[TaskEvent],
        reading: &Reading<EventCounts>,
    ) -> Result<TaskDelta, Missing> {
        let now = match &reading.value {
            Ok(counts) => *counts,
            Err(why) => return Err(why.clone()),
        };
        let count = now.as_slice().len();
        if count != events.len() {
            let events = events.len();
            self.base = None;
            return Err(Missing::Lost(format!(
                "{count} counts of {events} events of tasks"
            )));
        }
        let Some((at, before)) = self.base else {
            self.base = Some((reading.at, now));
            return Err(Missing::NotYetRead);
        };
        // An older reading that comes late must not become the base.
        let Some(span) = reading.at.since(at) else {
            return Err(Missing::NotYetRead);
        };
        if is_anew(&before, &now) {
            self.base = Some((reading.at, now));
            return Err(Missing::Lost("counts began anew".into()));
        }
        let delta = difference(events, &before, &now, span)?;
        self.base = Some((reading.at, now));
        Ok(delta)
    }
}

fn is_anew(before: &EventCounts, now: &EventCounts) -> bool {
    let (before, now) = (before.as_slice(), now.as_slice());
    let mut pairs = before.iter().zip(now);
    before.len() != now.len() || pairs.any(|(before, now)| now.enabled_ns < before.enabled_ns)
}

fn difference(
    events: &[TaskEvent],
    before: &EventCounts,
    now: &EventCounts,
    span: Nanos,
) -> Result<TaskDelta, Missing> {
    let (mut read_bytes, mut store_bytes) = (0.0f64, None);
    let mut running_ratio = 1.0f64;
    let counts = before.as_slice().iter().zip(now.as_slice());
    for (event, (before, now)) in events.iter().zip(counts) {
        let sum = if event.counts_stores {
            store_bytes.get_or_insert(0.0f64)
        } else {
            &mut read_bytes
        };
        let times = |count: &EventCount| (count.enabled_ns, count.running_ns);
        let running = match MuxGroup::between(times(before), times(now)) {
            // No task ran, so it was not to count.
            Err(Missing::NotYetRead) => continue,
            running => running?,
        };
        let count = now.count.saturating_sub(before.count) as f64;
        *sum += running.scaled(count * event.bytes_per_count as f64);
        running_ratio = running_ratio.min(running.running_ratio());
    }
    Ok(TaskDelta {
        // Two events are not read in the same moment, nor scaled alike.
        load_bytes: (read_bytes - store_bytes.unwrap_or(0.0)).max(0.0),
        store_bytes,
        span,
        running_ratio,
    })
}

/// How the bytes of one workload are divided among the groups that it uses: by the memory it has in each, or
/// evenly where no memory in any is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemorySplit {
    all_bytes: f64,
    even_ratio: f64,
}

impl MemorySplit {
    /// The split of a workload with these uses; they have to be all that it has.
    pub fn of(uses: &[Use]) -> MemorySplit {
        MemorySplit {
            all_bytes: uses.iter().map(resident_bytes).sum(),
            even_ratio: 1.0 / uses.len().max(1) as f64,
        }
    }

    /// The part of one of them, 0 to 1. All parts together are 1.
    pub fn ratio(self, use_: &Use) -> f64 {
        if self.all_bytes > 0.0 {
            resident_bytes(use_) / self.all_bytes
        } else {
            self.even_ratio
        }
    }
}

/// Memory that is not known counts as none.
fn resident_bytes(use_: &Use) -> f64 {
    use_.resident_bytes.ok().map_or(0.0, |bytes| bytes.0 as f64)
}

#[cfg(test)]
#[path = "task_counts_tests.rs"]
mod tests;
