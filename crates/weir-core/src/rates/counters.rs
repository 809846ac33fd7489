// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cumulative counters and the differences between two of their readings.
//!
//! The world gives counts since some start: bytes on a device, CPU time of a cgroup. A rate needs
//! the difference of two of them and the time between them (thesis 4.3.1). Three things can spoil
//! the difference, and none of them may turn into a huge rate:
//!
//! * the counter *wraps*: it counts modulo `mask + 1`, so the difference is taken modulo that;
//! * the counter *goes back*: a driver was loaded again, a cgroup was made anew under its old name.
//!   Modulo arithmetic would make an enormous step forward of it. A step of more than half the
//!   modulus, or one that the source could not have made in that time, is taken for this;
//! * time *did not move*: nothing new was read.
//!
//! After either the newer reading is the base of the next difference, so one bad reading costs one
//! interval. A missing reading leaves the base alone: the next difference then spans the gap, and
//! its mean is right.
//!
//! What a device could not have moved is better not passed on at all: see [`crate::rates::count_check`].

use crate::seam::observation::{Missing, Reading};
use crate::units::Nanos;

/// A counter that uses all 64 bits.
pub const FULL_MASK: u64 = u64::MAX;

/// Steps faster than this many times the source's capacity are not believed. Capacity is often a
/// nominal figure and the time of a reading may be off by a part of an interval, hence the margin.
const BELIEF_FACTOR: f64 = 8.0;

/// What is known about a counter besides its readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Largest value it shows; the next step takes it to 0.
    pub mask: u64,
    /// Fastest it can count, in its own unit per second; nothing if not known.
    pub per_sec: Option<f64>,
}

/// How far a counter went, and in what time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// In the counter's own unit.
    pub amount: u64,
    /// Time between the two readings; never zero.
    pub span: Nanos,
}

impl Delta {
    /// The thesis's eq. 1: b = Δc / Δt, in the counter's unit per second.
    pub fn per_sec(self) -> f64 {
        self.amount as f64 / self.span.secs_f64()
    }
}

/// The difference between two readings, each a time and a count.
///
/// # Errors
/// [`Missing::NotYetRead`] when time did not move forward; [`Missing::Lost`] when the counter went
/// back, is above its mask, or may have wrapped more than once.
#[inline]
pub fn delta(limits: Limits, earlier: (Nanos, u64), later: (Nanos, u64)) -> Result<Delta, Missing> {
    let Some(span) = later.0.since(earlier.0) else {
        return Err(Missing::NotYetRead);
    };
    if earlier.1 > limits.mask || later.1 > limits.mask {
        let shown = earlier.1.max(later.1);
        return Err(lost(format_args!(
            "counter shows {shown}, above its mask {}",
            limits.mask
        )));
    }
    let amount = match later.1.checked_sub(earlier.1) {
        Some(forward) => forward,
        None => limits.mask - earlier.1 + later.1 + 1,
    };
    let fastest = limits
        .per_sec
        .filter(|rate| rate.is_finite() && *rate > 0.0);
    if let Some(rate) = fastest
        && limits.mask != FULL_MASK
        && rate * span.secs_f64() > limits.mask as f64
    {
        let secs = span.secs_f64();
        return Err(lost(format_args!(
            "counter may have wrapped more than once in {secs} s"
        )));
    }
    let too_fast =
        fastest.is_some_and(|rate| amount as f64 > BELIEF_FACTOR * rate * span.secs_f64());
    if amount > limits.mask / 2 {
        return Err(lost(format_args!(
            "counter went back from {} to {}",
            earlier.1, later.1
        )));
    }
    if too_fast {
        let secs = span.secs_f64();
        return Err(lost(format_args!(
            "counter went from {} to {} in {secs} s: more than its source can count",
            earlier.1, later.1
        )));
    }
    Ok(Delta { amount, span })
}

/// Apart, so that the rest is small enough to be a part of the loop that reads thousands of counters.
#[cold]
fn lost(why: std::fmt::Arguments<'_>) -> Missing {
    Missing::Lost(why.to_string())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    last: Option<(Nanos, u64)>,
}

impl Counter {
    /// Takes a reading and gives the way from the one before.
    ///
    /// # Errors
    /// As [`delta`]; [`Missing::NotYetRead`] on the first reading; the reading's own reason when it
    /// has no value.
    #[inline]
    pub fn advance<T: Copy + Into<u64>>(
        &mut self,
        limits: Limits,
        reading: &Reading<T>,
    ) -> Result<Delta, Missing> {
        let now = match &reading.value {
            Ok(count) => (reading.at, (*count).into()),
            Err(why) => return Err(why.clone()),
        };
        match self.last {
            None => {
                self.last = Some(now);
                Err(Missing::NotYetRead)
            }
            // An older reading that comes late must not become the base.
            Some(base) if now.0 <= base.0 => Err(Missing::NotYetRead),
            Some(base) => {
                self.last = Some(now);
                delta(limits, base, now)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;
    use proptest::prelude::*;

    const SEC: u64 = 1_000_000_000;

    fn went(mask: u64, from: u64, to: u64) -> Result<u64, Missing> {
        let limits = Limits {
            mask,
            per_sec: None,
        };
        delta(limits, (Nanos(0), from), (Nanos(SEC), to)).map(|d| d.amount)
    }

    #[test]
    fn wraps_at_the_mask_and_not_before() {
        assert_eq!(went(0xff, 0xfe, 0xff), Ok(1));
        assert_eq!(went(0xff, 0xfe, 0x00), Ok(2));
        assert_eq!(went(u64::MAX, u64::MAX, 0), Ok(1));
        assert_eq!(went(u64::MAX, u64::MAX - 9, 5), Ok(15));
        assert_eq!(
            went(99, 95, 4),
            Ok(9),
            "a modulus need not be a power of two"
        );
    }

    #[test]
    fn half_the_modulus_is_the_border_between_forward_and_back() {
        assert_eq!(went(0xff, 0, 0x7f), Ok(0x7f));
        assert!(matches!(went(0xff, 0, 0x80), Err(Missing::Lost(_))));
        assert!(
            matches!(went(u64::MAX, 1000, 10), Err(Missing::Lost(why)) if why.contains("went back"))
        );
        assert!(matches!(went(0xff, 0x100, 0x10), Err(Missing::Lost(why)) if why.contains("mask")));
    }

    #[test]
    fn what_the_source_cannot_do_is_not_believed() {
        let limits = Limits {
            mask: u64::MAX,
            per_sec: Some(1000.0),
        };
        let run = |to| delta(limits, (Nanos(0), 0), (Nanos(SEC), to));
        assert_eq!(run(8000).map(|d| d.amount), Ok(8000));
        assert!(matches!(run(8001), Err(Missing::Lost(_))));
        let narrow = Limits {
            mask: 999,
            per_sec: Some(1000.0),
        };
        let twice = delta(narrow, (Nanos(0), 0), (Nanos(SEC), 3));
        assert!(matches!(twice, Err(Missing::Lost(why)) if why.contains("more than once")));
    }

    #[test]
    fn a_gap_is_bridged_and_stale_readings_change_nothing() {
        let limits = Limits {
            mask: u64::MAX,
            per_sec: None,
        };
        let mut counter = Counter::default();
        let at = |secs: u64, n| Reading::new(Nanos(secs * SEC), n);
        assert_eq!(
            counter.advance(limits, &at(1, 100u64)),
            Err(Missing::NotYetRead)
        );
        assert_eq!(
            counter.advance(limits, &at(1, 100u64)),
            Err(Missing::NotYetRead)
        );
        let gone = Reading::<u64>::missing(Nanos(2 * SEC), Missing::NotPermitted("x".into()));
        assert_eq!(
            counter.advance(limits, &gone),
            Err(Missing::NotPermitted("x".into()))
        );
        assert_eq!(
            counter.advance(limits, &at(0, 1u64)),
            Err(Missing::NotYetRead)
        );
        let bridged = counter
            .advance(limits, &at(3, 300u64))
            .expect("two good readings");
        assert_eq!((bridged.amount, bridged.per_sec()), (200, 100.0));
    }

    #[test]
    fn one_reset_costs_one_interval() {
        let limits = Limits {
            mask: u64::MAX,
            per_sec: None,
        };
        let mut counter = Counter::default();
        let at = |secs: u64, n| Reading::new(Nanos(secs * SEC), Bytes(n));
        let _ = counter.advance(limits, &at(1, 1 << 40));
        assert!(matches!(
            counter.advance(limits, &at(2, 10)),
            Err(Missing::Lost(_))
        ));
        assert_eq!(
            counter.advance(limits, &at(3, 25)).map(|d| d.amount),
            Ok(15)
        );
    }

    proptest! {
        #[test]
        fn any_step_forward_survives_any_wrap(mask in 2u64.., from: u64, step: u64) {
            let from = from % mask;
            let step = step % (mask / 2).max(1);
            let to = match from.checked_add(step) {
                Some(sum) if sum <= mask => sum,
                _ => step - (mask - from) - 1,
            };
            prop_assert_eq!(went(mask, from, to), Ok(step));
        }

        #[test]
        fn nothing_panics(mask: u64, a: (u64, u64), b: (u64, u64), rate: f64) {
            let limits = Limits { mask, per_sec: Some(rate) };
            if let Ok(d) = delta(limits, (Nanos(a.0), a.1), (Nanos(b.0), b.1)) {
                prop_assert!(d.amount <= mask / 2 && d.span.0 > 0);
            }
        }
    }
}
