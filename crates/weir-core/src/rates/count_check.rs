// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts that cannot be. A register that answers with nonsense, a bit that flipped, a device that does not
//! answer (reads of PCIe then give all ones): such a count is not passed on, so that it is neither recorded
//! nor exported nor acted on.
//!
//! ```text
//! count − last good one ≤ the most that the device moves × time     passed on
//! more than that                                                    this reading is lost; wait for the next
//!   the next fits to the last good one                              it was one bad reading: go on from there
//!   the next fits to the bad one                                    the count jumped: go on from there, less the jump
//! less than the last good one                                       the counter began anew: passed on, see counters.rs
//! ```
//!
//! A jump is taken off all later counts. Otherwise a rate over the gap (as Prometheus makes it) would contain
//! it.

use crate::seam::observation::{Missing, Reading};
use crate::units::{Bytes, Nanos};

/// More than this is moved by no device: an upper bound where nothing is known about its link. 16 lanes of 64
/// GT/s, the fastest link of CXL 3.1, move 128 GB/s in a direction.
pub const FASTEST_BYTES_PER_SEC: f64 = 1e12;

/// Time between two readings is taken for at least this: on a busy machine the moment of a count is not known
/// better.
const LEAST_SPAN: Nanos = Nanos::from_millis(10);
/// What a counter of bytes reads if its register reads as all ones: the register counts lines of 64 bytes.
/// Reads of PCIe give all ones where no device answers.
const ALL_ONES: u64 = u64::MAX - 63;

/// One cumulative counter of bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountCheck {
    /// The last count that was passed on.
    good: Option<(Nanos, u64)>,
    /// The count after it, which was not, in the same scale.
    suspect: Option<(Nanos, u64)>,
    /// The sum of all jumps so far, which is taken off later counts.
    taken_off: u64,
    /// The next count is another counter's.
    is_other: bool,
}

impl CountCheck {
    /// The reading as it is to be passed on. `most_per_sec`: bytes per second that the device does not
    /// exceed.
    pub fn pass(&mut self, most_per_sec: f64, reading: Reading<Bytes>) -> Reading<Bytes> {
        let Ok(Bytes(raw)) = reading.value else {
            return reading;
        };
        match self.decide(most_per_sec, reading.at, raw) {
            Ok(count) => Reading::new(reading.at, Bytes(count)),
            Err(why) => Reading::missing(reading.at, Missing::Lost(why)),
        }
    }

    /// From now on another counter is read in its place. Counts go on from where they were, so that the
    /// difference between the two has no effect.
    pub fn change_counter(&mut self) {
        self.is_other = self.good.is_some();
        self.suspect = None;
    }

    /// The count that is passed on, or why there is none.
    ///
    /// All ones come first: that is no count, and no jump to learn from. Then a change of the counter, where
    /// the difference between two readings means nothing. A count that fits to the last good one is passed
    /// on, whatever is suspected. A count below the last one is a counter that began anew, and only what is
    /// left is a candidate for a jump, which needs a second count that agrees with it.
    fn decide(&mut self, most_per_sec: f64, at: Nanos, raw: u64) -> Result<u64, String> {
        if raw >= ALL_ONES {
            return Err("the counter reads as all ones: the device does not answer".into());
        }
        if std::mem::take(&mut self.is_other)
            && let Some((_, last)) = self.good
        {
            self.taken_off = raw.wrapping_sub(last);
            self.take(at, last);
            return Err("another counter is read from now on".into());
        }
        let count = raw.wrapping_sub(self.taken_off);
        let Some(good) = self.good else {
            self.good = Some((at, count));
            return Ok(count);
        };
        if fits(most_per_sec, good, (at, count)) {
            return Ok(self.take(at, count));
        }
        if raw < good.1.wrapping_add(self.taken_off) {
            return self.begin_anew(at, raw, good.1);
        }
        let suspect = self.suspect.replace((at, count));
        if let Some(suspect) = suspect.filter(|s| fits(most_per_sec, *s, (at, count))) {
            let jump = suspect.1.wrapping_sub(good.1);
            self.taken_off = self.taken_off.wrapping_add(jump);
            return Ok(self.take(at, count.wrapping_sub(jump)));
        }
        let decimals = if most_per_sec < 10e9 { 2 } else { 0 };
        Err(format!(
            "the counter went on by {} bytes in {:.3} s, and the device moves at most {:.decimals$} GB/s",
            count.wrapping_sub(good.1),
            span(good.0, at).secs_f64(),
            most_per_sec / 1e9
        ))
    }

    fn take(&mut self, at: Nanos, count: u64) -> u64 {
        self.good = Some((at, count));
        self.suspect = None;
        count
    }

    /// The counter began anew. With a jump taken off, its scale would be lost: the count goes on from where
    /// it was.
    fn begin_anew(&mut self, at: Nanos, raw: u64, last: u64) -> Result<u64, String> {
        if self.taken_off == 0 {
            return Ok(self.take(at, raw));
        }
        self.taken_off = raw.wrapping_sub(last);
        self.take(at, last);
        Err("the counter went back".into())
    }
}

fn span(earlier: Nanos, later: Nanos) -> Nanos {
    Nanos(later.0.saturating_sub(earlier.0)).max(LEAST_SPAN)
}

/// Whether a device could have come from one to the other. A wrap at 64 bits is a small step too.
fn fits(most_per_sec: f64, earlier: (Nanos, u64), later: (Nanos, u64)) -> bool {
    let amount = later.1.wrapping_sub(earlier.1);
    amount as f64 <= most_per_sec * span(earlier.0, later.0).secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: f64 = 64e9;

    /// What is passed on of these counts, one each 50 ms; nothing where a reading is lost.
    fn passed(counts: &[u64]) -> Vec<Option<u64>> {
        let mut gate = CountCheck::default();
        let at = |n: usize| Nanos::from_millis(50 * (n as u64 + 1));
        let pass = |(n, count): (usize, &u64)| {
            let reading = Reading::new(at(n), Bytes(*count));
            gate.pass(MOST, reading).value.ok().map(|bytes| bytes.0)
        };
        counts.iter().enumerate().map(pass).collect()
    }

    #[test]
    fn one_bad_reading_costs_one_reading() {
        assert_eq!(
            passed(&[100, 200, 1 << 60, 400, 500]),
            [Some(100), Some(200), None, Some(400), Some(500)]
        );
        let lost = passed(&[100, u64::MAX, u64::MAX - 63, 400]);
        assert_eq!(lost, [Some(100), None, None, Some(400)], "all ones");
    }

    #[test]
    fn a_jump_is_taken_off_what_follows() {
        let jump = 1 << 60;
        assert_eq!(
            passed(&[100, 200, jump + 300, jump + 400, jump + 500]),
            [Some(100), Some(200), None, Some(300), Some(400)],
            "what was moved in the lost time is lost, and no more"
        );
        let twice = passed(&[0, jump, jump + 10, 2 * jump, 2 * jump + 10]);
        assert_eq!(twice, [Some(0), None, Some(10), None, Some(20)]);
    }

    #[test]
    fn a_counter_that_begins_anew_is_passed_on_until_a_jump_was_taken_off() {
        assert_eq!(
            passed(&[5000, 6000, 10, 20]),
            [5000, 6000, 10, 20].map(Some)
        );
        let jump = 1 << 60;
        let counts = [0, jump, jump + 10, 500, 600];
        assert_eq!(passed(&counts), [Some(0), None, Some(10), None, Some(110)]);
    }

    #[test]
    fn what_the_link_carries_is_passed_on() {
        let step = 3_200_000_000;
        let counts: Vec<u64> = (0..20).map(|n| n * step).collect();
        assert!(passed(&counts).iter().all(Option::is_some));
        assert_eq!(passed(&[0, step + 1])[1], None);
        let wrap = [u64::MAX - 1000, u64::MAX - 100, 5];
        assert!(passed(&wrap).iter().all(Option::is_some), "a wrap");
    }

    #[test]
    fn what_is_missing_stays_missing() {
        let mut gate = CountCheck::default();
        let why = Missing::NotPermitted("x".into());
        let missing = Reading::missing(Nanos(5), why.clone());
        assert_eq!(gate.pass(MOST, missing).value, Err(why));
    }

    proptest! {
        /// Whatever the counts: two that are passed on one after the other are never further apart than the
        /// device moves in the time between them, unless the counter began anew.
        #[test]
        fn nothing_impossible_is_passed_on(counts in proptest::collection::vec(any::<u64>(), 0..30)) {
            let mut last: Option<(usize, u64)> = None;
            for (n, count) in passed(&counts).into_iter().enumerate() {
                let Some(count) = count else { continue };
                if let Some((before, old)) = last && count > old {
                    let secs = (n - before) as f64 * 0.05;
                    prop_assert!((count - old) as f64 <= MOST * secs, "{old} to {count} in {secs} s");
                }
                last = Some((n, count));
            }
        }

        /// Bytes that a device does move are passed on as they are, over gaps too.
        #[test]
        fn what_is_possible_is_passed_on(start in 0u64..1 << 50, steps in proptest::collection::vec(0u64..3_000_000_000, 0..30)) {
            let mut counts = vec![start];
            for step in steps {
                counts.push(counts[counts.len() - 1] + step);
            }
            let all: Vec<_> = counts.iter().copied().map(Some).collect();
            prop_assert_eq!(passed(&counts), all);
        }
    }

    #[test]
    fn another_counter_goes_on_from_where_the_one_before_was() {
        let mut gate = CountCheck::default();
        let pass = |gate: &mut CountCheck, ms, count| {
            let reading = Reading::new(Nanos::from_millis(ms), Bytes(count));
            gate.pass(MOST, reading).value.ok().map(|bytes| bytes.0)
        };
        assert_eq!(pass(&mut gate, 50, 1000), Some(1000));
        gate.change_counter();
        assert_eq!(pass(&mut gate, 100, 7), None);
        assert_eq!(pass(&mut gate, 150, 71), Some(1064));
        gate.change_counter();
        assert_eq!(pass(&mut gate, 200, 1 << 50), None);
        assert_eq!(pass(&mut gate, 250, (1 << 50) + 64), Some(1128));
    }
}
