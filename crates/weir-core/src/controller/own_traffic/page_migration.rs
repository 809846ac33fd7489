// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel moves when it migrates pages. The device counts that with all the rest, and no task of a
//! workload moves it: kswapd demotes, NUMA balancing promotes, compaction and DAMON move pages about. The
//! kernel counts pages of the whole machine (`/proc/vmstat`), and not where they went:
//!
//! * a page that is *demoted* is written to a device, and one that is *promoted* is read from one;
//! * any other page that was migrated may have been read from a device, written to one, both or neither.
//!
//! Both kinds are given to the kernel, up to what the devices count: a workload is not charged for what it
//! may not have moved. Of the first kind it is known; of the second it is a bound. Pages are counted when a
//! batch of them is done, and reach the device out of the caches: what finds no traffic yet waits for some,
//! and is forgotten after a second or two.

use crate::rates::attribution::{AccessSignal, OwnTraffic};
use crate::rates::bandwidth::GroupRate;
use crate::rates::counters::{Counter, FULL_MASK, Limits};
use crate::seam::observation::PageMigrationReading;
use crate::units::BytesPerSec;

const LIMITS: Limits = Limits {
    mask: FULL_MASK,
    per_sec: None,
};
/// Pages that found no traffic are forgotten after this time, and at the latest after twice as long.
const FORGET_SECS: f64 = 1.0;

/// One kind of migration: pages counted, and what of them still waits for traffic, in bytes.
#[derive(Clone, Debug, Default)]
struct Moved {
    counter: Counter,
    /// Counted since the last time that something was forgotten.
    new: f64,
    /// Counted before that: forgotten the next time.
    old: f64,
}

impl Moved {
    fn waiting(&self) -> f64 {
        self.old + self.new
    }

    /// So many bytes found traffic.
    fn settle(&mut self, bytes: f64) {
        let of_new = (bytes - self.old).max(0.0);
        self.old = (self.old - bytes).max(0.0);
        self.new = (self.new - of_new).max(0.0);
    }

    fn forget(&mut self) {
        self.old = std::mem::take(&mut self.new);
    }
}

/// The last counts.
#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct PageMigration {
    demoted: Moved,
    promoted: Moved,
    other: Moved,
    /// Since something was forgotten, in seconds.
    age: f64,
}

/// The kernel's part of each group, in their order.
#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct MigratedParts {
    /// One for each group with any, in their order.
    pub signals: Vec<AccessSignal>,
    /// By group, what of it is known to be the kernel's, in bytes per second.
    pub known: Vec<f64>,
}

impl PageMigration {
    /// The kernel as an owner of traffic. Nothing without two readings, and where no pages moved.
    pub(in crate::controller) fn read(
        &mut self,
        groups: &[GroupRate],
        seen: Option<&PageMigrationReading>,
        dt: f64,
    ) -> MigratedParts {
        let Some(seen) = seen else {
            *self = PageMigration::default();
            return MigratedParts::default();
        };
        let counts = [&seen.demoted_bytes, &seen.promoted_bytes, &seen.other_bytes];
        for (moved, count) in self.all().into_iter().zip(counts) {
            let came = moved.counter.advance(LIMITS, count);
            moved.new += came.map_or(0.0, |delta| delta.amount as f64);
        }
        self.age += dt;
        if self.age > FORGET_SECS {
            self.age = 0.0;
            self.all().into_iter().for_each(Moved::forget);
        }
        if dt <= 0.0 || self.all().iter().all(|moved| moved.waiting() < 1.0) {
            return MigratedParts::default();
        }
        let rate = |of: &Result<BytesPerSec, _>| of.as_ref().map_or(0.0, |rate| rate.get());
        let mut written = Flow::of(groups.iter().map(|group| rate(&group.write)), dt);
        let mut read = Flow::of(groups.iter().map(|group| rate(&group.read)), dt);
        self.demoted.settle(written.take(self.demoted.waiting()));
        self.promoted.settle(read.take(self.promoted.waiting()));
        let known = written.taken.iter().zip(&read.taken);
        let known = known.map(|(written, read)| (written + read) / dt).collect();
        let other = self.other.waiting();
        self.other.settle(written.take(other).max(read.take(other)));
        let each = written.taken.iter().zip(&read.taken).enumerate();
        let signal = |(group, (written, read)): (usize, (&f64, &f64))| AccessSignal {
            group,
            is_bound: true,
            counted: Some(OwnTraffic {
                read: read / dt,
                write: written / dt,
            }),
            ..AccessSignal::default()
        };
        let is_some = |(_, (written, read)): &(usize, (&f64, &f64))| *written + *read > 0.0;
        MigratedParts {
            signals: each.filter(is_some).map(signal).collect(),
            known,
        }
    }

    fn all(&mut self) -> [&mut Moved; 3] {
        [&mut self.demoted, &mut self.promoted, &mut self.other]
    }
}

/// Traffic of one direction in a step, and what of it was taken, by group and in bytes.
struct Flow {
    left: Vec<f64>,
    taken: Vec<f64>,
}

impl Flow {
    fn of(rates: impl Iterator<Item = f64>, dt: f64) -> Flow {
        let left: Vec<f64> = rates.map(|rate| rate.max(0.0) * dt).collect();
        Flow {
            taken: vec![0.0; left.len()],
            left,
        }
    }

    /// Takes up to so many bytes of all groups, in proportion to what is left there; gives how many.
    fn take(&mut self, bytes: f64) -> f64 {
        let sum: f64 = self.left.iter().sum();
        let part = if sum > 0.0 {
            (bytes / sum).min(1.0)
        } else {
            0.0
        };
        for (left, taken) in self.left.iter_mut().zip(&mut self.taken) {
            *taken += *left * part;
            *left *= 1.0 - part;
        }
        sum * part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{DeviceId, GroupId};
    use crate::seam::observation::Reading;
    use crate::units::{Bytes, Nanos};

    const MIB: f64 = 1_048_576.0;

    fn group(index: u32, read_mib: f64, write_mib: f64) -> GroupRate {
        GroupRate {
            id: GroupId {
                device: DeviceId(0),
                index,
            },
            read: Ok(BytesPerSec::new(read_mib * MIB)),
            write: Ok(BytesPerSec::new(write_mib * MIB)),
            span: Nanos::from_millis(100),
        }
    }

    /// Counts after so many ticks of 100 ms, in MiB.
    fn seen(tick: u64, [demoted, promoted, other]: [u64; 3]) -> PageMigrationReading {
        let count = |mib: u64| Reading::new(Nanos::from_millis(tick * 100), Bytes(mib << 20));
        PageMigrationReading {
            demoted_bytes: count(demoted),
            promoted_bytes: count(promoted),
            other_bytes: count(other),
        }
    }

    /// Reads and writes of the kernel in each group, in MiB/s.
    fn own(found: &MigratedParts) -> Vec<(usize, f64, f64)> {
        let each = found.signals.iter().map(|signal| {
            let own = signal.counted.expect("the kernel's own");
            (
                signal.group,
                (own.read / MIB).round(),
                (own.write / MIB).round(),
            )
        });
        each.collect()
    }

    #[test]
    fn demoted_pages_are_writes_promoted_ones_reads_and_others_may_be_both() {
        let mut state = PageMigration::default();
        let groups = [group(0, 300.0, 500.0), group(1, 0.0, 500.0)];
        // The first step is no interval, and the base of the next.
        assert_eq!(
            own(&state.read(&groups, Some(&seen(1, [9, 9, 9])), 0.0)),
            []
        );
        let found = state.read(&groups, Some(&seen(2, [49, 19, 9])), 0.1);
        assert_eq!(own(&found), [(0, 100.0, 200.0), (1, 0.0, 200.0)]);
        assert_eq!(found.known, [300.0 * MIB, 200.0 * MIB]);
        let found = state.read(&groups, Some(&seen(3, [49, 19, 29])), 0.1);
        assert_eq!(own(&found), [(0, 200.0, 100.0), (1, 0.0, 100.0)]);
        assert_eq!(found.known, [0.0, 0.0], "only a bound");
        assert_eq!(
            own(&state.read(&groups, Some(&seen(4, [49, 19, 29])), 0.1)),
            []
        );
    }

    /// Pages are counted a batch at a time: over some ticks the sums are equal.
    #[test]
    fn what_finds_no_traffic_waits_for_some_and_is_forgotten() {
        let mut state = PageMigration::default();
        let mut tick = 0;
        let mut step = |demoted: u64, write_mib: f64| {
            tick += 1;
            let groups = [group(0, 0.0, write_mib)];
            let found = state.read(&groups, Some(&seen(tick, [demoted, 0, 0])), 0.1);
            own(&found).first().map_or(0.0, |(_, _, write)| *write)
        };
        assert_eq!(step(0, 0.0), 0.0);
        // 40 MiB at once, and written over two ticks.
        assert_eq!(step(40, 250.0), 250.0);
        assert_eq!(step(40, 250.0), 150.0);
        assert_eq!(step(80, 0.0), 0.0);
        for _ in 0..30 {
            step(80, 0.0);
        }
        assert_eq!(step(80, 250.0), 0.0, "forgotten");
    }

    #[test]
    fn counts_that_stop_or_begin_anew_give_nothing() {
        let mut state = PageMigration::default();
        let groups = [group(0, 100.0, 100.0)];
        state.read(&groups, Some(&seen(1, [500, 0, 0])), 0.1);
        assert_eq!(own(&state.read(&groups, None, 0.1)), []);
        assert_eq!(
            own(&state.read(&groups, Some(&seen(3, [900, 0, 0])), 0.1)),
            []
        );
        assert_eq!(
            own(&state.read(&groups, Some(&seen(4, [10, 0, 0])), 0.1)),
            []
        );
    }
}
