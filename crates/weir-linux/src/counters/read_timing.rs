// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When counts were true: in the middle of their read. Of a read in which weir was preempted the middle says
//! nothing, and the rate of one tick would be wrong. So a read that takes unusually long is repeated, and the
//! shortest counts.

use crate::kernel::clock::now;
use weir_core::Nanos;

/// Most reads of the same counters at one tick. Preemptions of 100 ms and more in the middle of a read were
/// seen; a read is repeated only if it takes longer than [`UNNOTICED`] and [`TIMES_USUAL`] times what the one
/// before took.
const READS_MAX: usize = 3;

/// No read is unusually long below this: half of it is 1 % of a tick of 50 ms.
const UNNOTICED: Nanos = Nanos::from_millis(1);

/// Nor below so many times what the read before took: a device with many groups takes long each time.
const TIMES_USUAL: u64 = 2;

/// How long a read of some counters takes.
#[derive(Debug, Default)]
pub(crate) struct ReadTiming {
    usual: Nanos,
}

struct TimedRead<T> {
    value: T,
    began: Nanos,
    took: Nanos,
}

impl<T> TimedRead<T> {
    fn make(read: &mut impl FnMut() -> T) -> Self {
        let began = now();
        let value = read();
        TimedRead {
            value,
            began,
            took: Nanos(now().0.saturating_sub(began.0)),
        }
    }
}

impl ReadTiming {
    /// Calls `read`, once or a few times. Gives what the shortest call brought, and the middle of that call.
    pub(crate) fn read<T>(&mut self, mut read: impl FnMut() -> T) -> (Nanos, T) {
        let longest = UNNOTICED.0.max(self.usual.0.saturating_mul(TIMES_USUAL));
        let mut shortest = TimedRead::make(&mut read);
        for _ in 1..READS_MAX {
            if shortest.took.0 <= longest {
                break;
            }
            let again = TimedRead::make(&mut read);
            if again.took < shortest.took {
                shortest = again;
            }
        }
        // Where all were long, that is what is usual now.
        self.usual = shortest.took;
        let at = Nanos(shortest.began.0 + shortest.took.0 / 2);
        (at, shortest.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::clock::made;

    /// Calls that take so many milliseconds. How many there were, and which one counts, by its number and by
    /// the time.
    fn calls(timing: &mut ReadTiming, clock: &made::Clock, took_ms: &[u64]) -> (usize, usize) {
        let mut began = Vec::new();
        let (at, kept) = timing.read(|| {
            let number = began.len();
            began.push(now());
            clock.advance(Nanos::from_millis(took_ms[number]));
            number
        });
        let middle = began[kept].0 + Nanos::from_millis(took_ms[kept]).0 / 2;
        // Each look at the clock takes a microsecond.
        assert!(at.0.abs_diff(middle) <= 2000, "{at:?} and {middle}");
        (began.len(), kept)
    }

    #[test]
    fn a_read_that_was_preempted_is_repeated_and_the_shortest_counts() {
        let clock = made::clock();
        let mut timing = ReadTiming::default();
        assert_eq!(calls(&mut timing, &clock, &[0]), (1, 0));
        assert_eq!(calls(&mut timing, &clock, &[100, 0]), (2, 1));
        assert_eq!(calls(&mut timing, &clock, &[100, 200, 0]), (3, 2));
        // The same holds for the first read of all.
        assert_eq!(calls(&mut ReadTiming::default(), &clock, &[100, 0]), (2, 1));
    }

    #[test]
    fn a_device_that_is_slow_is_not_read_three_times_at_each_tick() {
        let clock = made::clock();
        let mut timing = ReadTiming::default();
        assert_eq!(
            calls(&mut timing, &clock, &[50, 40, 60]),
            (3, 1),
            "no more than three"
        );
        assert_eq!(calls(&mut timing, &clock, &[79]), (1, 0));
        assert_eq!(calls(&mut timing, &clock, &[500, 50]), (2, 1));
        assert_eq!(calls(&mut timing, &clock, &[2]), (1, 0));
        assert_eq!(
            calls(&mut timing, &clock, &[50, 2]),
            (2, 1),
            "as fast as it was last"
        );
    }
}
