// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes out of counts. A set that did not run all the time is scaled by enabled ÷ running of the time
//! between two readings, as perf does, and that it was is said. Scaling all that was ever counted, as perf
//! does at its end, would let the sum go backwards from one reading to the next.

use super::set::Counted;
use weir_core::Missing;
use weir_events::Traffic;

/// What one event of a set stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventTerm {
    pub(crate) traffic: Traffic,
    pub(crate) bytes: u64,
}

/// Bytes of one set, since it was opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    last: Counted,
    read_bytes: f64,
    write_bytes: f64,
}

/// How a set did since the last reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    /// Time that it ran, of the time that it was to: 1 where nothing was scaled.
    pub(crate) running_ratio: f64,
}

impl Meter {
    /// Takes a reading.
    ///
    /// # Errors
    /// The set did not run at all since the last: nothing is known, and the next reading spans the gap.
    pub(crate) fn advance(&mut self, now: Counted, parts: &[EventTerm]) -> Result<Share, Missing> {
        let running = now.running_since(&self.last)?;
        for (place, part) in parts.iter().enumerate() {
            let bytes = running.scaled(now.count_since(&self.last, place)) * part.bytes as f64;
            match part.traffic {
                Traffic::Read => self.read_bytes += bytes,
                Traffic::Write => self.write_bytes += bytes,
            }
        }
        self.last = now;
        Ok(Share {
            running_ratio: running.running_ratio(),
        })
    }

    /// Bytes so far. Below 2^53, which a device of 100 GB/s reaches in a day, this is exact where nothing was
    /// scaled; above, to the 16th digit.
    pub(crate) fn bytes(&self, traffic: Traffic) -> u64 {
        let bytes = match traffic {
            Traffic::Read => self.read_bytes,
            Traffic::Write => self.write_bytes,
        };
        // Never negative, and never NaN: a sum of such.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let whole = bytes.round() as u64;
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINES: [EventTerm; 2] = [
        EventTerm {
            traffic: Traffic::Read,
            bytes: 64,
        },
        EventTerm {
            traffic: Traffic::Write,
            bytes: 32,
        },
    ];

    fn counted(counts: [u64; 2], enabled_ns: u64, running_ns: u64) -> Counted {
        Counted {
            counts: counts.to_vec(),
            enabled_ns,
            running_ns,
        }
    }

    #[test]
    fn what_ran_all_the_time_is_exact_and_half_the_time_is_doubled() {
        let mut meter = Meter::default();
        let share = meter.advance(counted([10, 4], 100, 100), &LINES).unwrap();
        assert_eq!(share.running_ratio, 1.0);
        assert_eq!(
            (meter.bytes(Traffic::Read), meter.bytes(Traffic::Write)),
            (640, 128)
        );
        let share = meter.advance(counted([15, 4], 200, 150), &LINES).unwrap();
        assert_eq!(share.running_ratio, 0.5);
        assert_eq!(
            (meter.bytes(Traffic::Read), meter.bytes(Traffic::Write)),
            (640 + 2 * 5 * 64, 128)
        );
    }

    #[test]
    fn a_set_without_a_turn_says_so_and_loses_nothing() {
        let mut meter = Meter::default();
        meter.advance(counted([10, 0], 100, 100), &LINES).unwrap();
        let why = meter
            .advance(counted([10, 0], 200, 100), &LINES)
            .unwrap_err();
        assert!(matches!(why, Missing::Lost(_)), "{why}");
        assert_eq!(meter.bytes(Traffic::Read), 640);
        // 10 counts in 50 of 200 ns.
        let share = meter.advance(counted([20, 0], 300, 150), &LINES).unwrap();
        assert_eq!(
            (share.running_ratio, meter.bytes(Traffic::Read)),
            (0.25, 640 + 2560)
        );
        let same = meter
            .advance(counted([20, 0], 300, 150), &LINES)
            .unwrap_err();
        assert_eq!(same, Missing::NotYetRead);
    }

    proptest! {
        #[test]
        fn bytes_never_go_back(readings in prop::collection::vec((any::<[u64; 2]>(), any::<u64>(), any::<u64>()), 0..8)) {
            let mut meter = Meter::default();
            let mut before = 0;
            for (counts, enabled, running) in readings {
                if let Ok(share) = meter.advance(counted(counts, enabled, running), &LINES) {
                    prop_assert!(share.running_ratio > 0.0 && share.running_ratio <= 1.0);
                }
                prop_assert!(meter.bytes(Traffic::Read) >= before);
                before = meter.bytes(Traffic::Read);
            }
        }
    }
}
