// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel moves when it migrates pages. The device counts that with all the rest, and no task of a
//! workload moves it: kswapd demotes, NUMA balancing promotes, compaction and DAMON move pages about. The
//! kernel counts pages of the whole machine (`/proc/vmstat`), and not where they went:
//!
//! * a page that is *demoted* is written to a device, and one that is *promoted* is read from one;
//! * any other page that was migrated may have been read from a device, written to one, both or neither;
//! * a page on a device may be cleared before it is copied to (`init_on_alloc`), so that it is written twice;
//!   and a store to a line that is not in a cache fetches it first, unless the CPU writes without.
//!
//! All of it is given to the kernel, up to what the devices count: a workload is not charged for what it may
//! not have moved. Of the first kind it is known; the rest is a bound. Pages are counted when a batch of
//! them is done, and reach the device out of the caches: what finds no traffic yet waits for some, and is
//! forgotten after a second or two. A batch that is not counted yet moves bytes too: while pages move, the
//! bound may be ahead of the counts by as much as the largest one of the last second or two. It is paid back
//! by them.

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

/// Bytes that were counted and wait for traffic.
#[derive(Clone, Debug, Default)]
struct Waiting {
    /// Counted since the last time that something was forgotten.
    new: f64,
    /// Counted before that: forgotten the next time.
    old: f64,
}

impl Waiting {
    fn sum(&self) -> f64 {
        self.old + self.new
    }

    /// So many bytes found traffic. Gives how many of them do not wait.
    fn settle(&mut self, bytes: f64) -> f64 {
        let of_new = (bytes - self.old).max(0.0);
        self.old = (self.old - bytes).max(0.0);
        let beyond = (of_new - self.new).max(0.0);
        self.new = (self.new - of_new).max(0.0);
        beyond
    }

    fn forget(&mut self) {
        self.old = std::mem::take(&mut self.new);
    }
}

/// The most that the kernel may have moved in one direction, beside what is known.
#[derive(Clone, Debug, Default)]
struct Bound {
    waiting: Waiting,
    /// Found traffic before it was counted.
    ahead: f64,
    /// The most that one step counted, with what is known of it: since something was forgotten, and before.
    batch: [f64; 2],
}

impl Bound {
    /// So many bytes may have moved; `batch` with those that are known.
    fn add(&mut self, bytes: f64, batch: f64) {
        let paid = bytes.min(self.ahead);
        self.ahead -= paid;
        self.waiting.new += bytes - paid;
        self.batch[0] = self.batch[0].max(batch);
    }

    fn most(&self) -> f64 {
        let [new, old] = self.batch;
        self.waiting.sum() + (new.max(old) - self.ahead).max(0.0)
    }

    fn settle(&mut self, bytes: f64) {
        self.ahead += self.waiting.settle(bytes);
    }

    fn forget(&mut self) {
        self.waiting.forget();
        self.batch = [0.0, self.batch[0]];
        self.ahead = self.ahead.min(self.batch[1]);
    }
}

/// The last counts, and what they say.
#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct PageMigration {
    /// Counters of the pages that were demoted, of those that were promoted, and of all others that were
    /// migrated.
    counters: [Counter; 3],
    demoted: Waiting,
    promoted: Waiting,
    written: Bound,
    read: Bound,
    /// Time since something was forgotten, in seconds.
    age: f64,
}

/// The kernel's part of each group, in their order.
#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct MigratedParts {
    /// One for each group with any, in their order.
    pub signals: Vec<AccessSignal>,
    /// One entry for each group: the traffic that is known to be the kernel's, in bytes per second.
    pub known: Vec<f64>,
}

impl PageMigration {
    /// The kernel as an owner of traffic. Nothing without two readings, and where no pages moved.
    ///
    /// Traffic that is known to be the kernel's is taken off the groups before traffic that may be: a bound
    /// must not use up what a certain copy has moved. What finds no traffic in this step waits for some in
    /// the next ones, up to [`FORGET_SECS`].
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
        self.count(seen);
        self.age += dt;
        if self.age > FORGET_SECS {
            self.age = 0.0;
            self.demoted.forget();
            self.promoted.forget();
            self.written.forget();
            self.read.forget();
        }
        let known = self.demoted.sum() + self.promoted.sum();
        if dt <= 0.0 || known + self.written.most() + self.read.most() < 1.0 {
            return MigratedParts::default();
        }
        let rate = |of: &Result<BytesPerSec, _>| of.as_ref().map_or(0.0, |rate| rate.get());
        let mut written = Flow::of(groups.iter().map(|group| rate(&group.write)), dt);
        let mut read = Flow::of(groups.iter().map(|group| rate(&group.read)), dt);
        self.demoted.settle(written.take(self.demoted.sum()));
        self.promoted.settle(read.take(self.promoted.sum()));
        let known = written.taken.iter().zip(&read.taken);
        let known = known.map(|(written, read)| (written + read) / dt).collect();
        self.written.settle(written.take(self.written.most()));
        self.read.settle(read.take(self.read.most()));
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

    /// What was counted since the last time. A page that comes to a device is written when it is cleared and
    /// when it is copied, and its lines are fetched for both; one that leaves it is read.
    fn count(&mut self, seen: &PageMigrationReading) {
        let counts = [&seen.demoted_bytes, &seen.promoted_bytes, &seen.other_bytes];
        let mut came = [0.0; 3];
        for ((counter, count), came) in self.counters.iter_mut().zip(counts).zip(&mut came) {
            let delta = counter.advance(LIMITS, count);
            *came = delta.map_or(0.0, |delta| delta.amount as f64);
        }
        let [demoted, promoted, other] = came;
        self.demoted.new += demoted;
        self.promoted.new += promoted;
        let cleared = demoted + 2.0 * other;
        self.written.add(cleared, cleared + demoted);
        let fetched = 2.0 * demoted + 3.0 * other;
        self.read.add(fetched, fetched + promoted);
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
        let groups = [group(0, 3000.0, 1500.0), group(1, 0.0, 1500.0)];
        // The first step is no interval, and the base of the next.
        assert_eq!(
            own(&state.read(&groups, Some(&seen(1, [9, 9, 9])), 0.0)),
            []
        );
        let found = state.read(&groups, Some(&seen(2, [49, 19, 9])), 0.1);
        // Of 40 MiB that were demoted another 40 may be written, and 80 read; and the same of as many again
        // that are not counted yet, with 10 that are promoted.
        assert_eq!(own(&found), [(0, 1800.0, 800.0), (1, 0.0, 800.0)]);
        assert_eq!(found.known, [300.0 * MIB, 200.0 * MIB]);
        let found = state.read(&groups, Some(&seen(3, [49, 19, 29])), 0.1);
        // 20 MiB of others pay back what was ahead, and what they leave of it may be on its way.
        assert_eq!(own(&found), [(0, 600.0, 200.0), (1, 0.0, 200.0)]);
        assert_eq!(found.known, [0.0, 0.0], "only a bound");
        assert_eq!(
            own(&state.read(&groups, Some(&seen(4, [49, 19, 29])), 0.1)),
            []
        );
    }

    /// Pages are counted a batch at a time, before or after they reach the device: over some steps the sums
    /// are equal.
    #[test]
    fn what_finds_no_traffic_waits_for_some_and_is_forgotten() {
        let mut state = PageMigration::default();
        let mut tick = 0;
        let mut step = |demoted: u64, write_mib: f64| {
            tick += 1;
            let groups = [group(0, 0.0, write_mib)];
            let found = state.read(&groups, Some(&seen(tick, [demoted, 0, 0])), 0.1);
            let known = found.known.iter().sum::<f64>() / MIB;
            let all = own(&found).first().map_or(0.0, |(_, _, write)| *write);
            (all, known.round())
        };
        assert_eq!(step(0, 0.0), (0.0, 0.0));
        // 40 MiB at once: written over some ticks, twice, and as much again of a batch to come.
        assert_eq!(step(40, 250.0), (250.0, 250.0));
        assert_eq!(step(40, 250.0), (250.0, 150.0));
        assert_eq!(step(40, 250.0), (250.0, 0.0));
        assert_eq!(step(40, 2000.0), (850.0, 0.0), "no more than a batch ahead");
        assert_eq!(step(40, 2000.0), (0.0, 0.0));
        // It comes, and is known by now.
        assert_eq!(step(80, 100.0), (100.0, 100.0));
        for _ in 0..30 {
            step(80, 0.0);
        }
        assert_eq!(step(80, 250.0), (0.0, 0.0), "forgotten");
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
