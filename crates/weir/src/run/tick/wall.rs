// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wall-clock time of a moment on the monotonic clock.
//!
//! A tick has the time of its observation, not the time when its limits are applied: on a loaded machine
//! deciding, limiting and waiting for a CPU take seconds. The distance of the two clocks is found by reading
//! one between two readings of the other. If these are far apart (the thread had to wait between them), the
//! earlier distance stays, so that spans of time are as long on one clock as on the other.

use rustix::time::{ClockId, Timespec, clock_gettime};
use weir_core::Nanos;

/// Readings that are at most so many ns apart give the clocks' distance well enough.
const CLOSE_NS: i128 = 50_000;

/// What is known of the clocks' distance.
#[derive(Debug, Default)]
pub struct Wall {
    /// Wall clock minus monotonic clock, and how wrong that may be at most.
    distance_ns: Option<(i128, i128)>,
}

/// The wall clock, read between two readings of the monotonic one; nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Readings {
    before_ns: i128,
    wall_ns: i128,
    after_ns: i128,
}

impl Wall {
    /// Milliseconds since the Unix epoch at a moment of the monotonic clock; 0 before the epoch.
    pub fn unix_ms(&mut self, at: Nanos) -> u64 {
        self.take(read());
        self.at(at)
    }

    fn at(&self, at: Nanos) -> u64 {
        let (distance, _) = self.distance_ns.unwrap_or_default();
        u64::try_from((distance + i128::from(at.0)).div_euclid(1_000_000)).unwrap_or(0)
    }

    /// Takes new readings. They count if they are close enough together, or surer than what is known, or
    /// contradict it: then the clock has been set.
    fn take(&mut self, new: Readings) {
        let doubt = (new.after_ns - new.before_ns + 1) / 2;
        let distance = new.wall_ns - (new.before_ns + new.after_ns) / 2;
        let is_old_better = self.distance_ns.is_some_and(|(old, old_doubt)| {
            doubt > CLOSE_NS && (old - distance).abs() <= old_doubt + doubt
        });
        if !is_old_better {
            self.distance_ns = Some((distance, doubt));
        }
    }
}

fn read() -> Readings {
    let ns = |time: Timespec| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    let before_ns = ns(clock_gettime(ClockId::Monotonic));
    let wall_ns = ns(clock_gettime(ClockId::Realtime));
    let after_ns = ns(clock_gettime(ClockId::Monotonic));
    Readings {
        before_ns,
        wall_ns,
        after_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i128 = 1_000_000_000;

    /// The wall clock is `distance` ahead; the thread waited after it had read that.
    fn readings(at: i128, distance: i128, waited: i128) -> Readings {
        Readings {
            before_ns: at,
            wall_ns: at + distance,
            after_ns: at + waited,
        }
    }

    #[test]
    fn a_moment_has_one_time_at_each_call() {
        let mut wall = Wall::default();
        let seen = Nanos(100 * 1_000_000_000);
        wall.take(readings(100 * SECOND, 5_000 * SECOND, 0));
        assert_eq!(wall.at(seen), 5_100_000);
        // Two seconds later, by a thread that waited for a CPU between the readings.
        wall.take(readings(102 * SECOND, 5_000 * SECOND, 900_000_000));
        assert_eq!(wall.at(seen), 5_100_000);
        wall.take(readings(103 * SECOND, 5_000 * SECOND, 40_000));
        assert_eq!(wall.at(seen), 5_099_999, "20 µs off, rounded down");
    }

    #[test]
    fn a_clock_that_was_set_is_followed() {
        let mut wall = Wall::default();
        wall.take(readings(100 * SECOND, 5_000 * SECOND, 100));
        for (distance, waited) in [(8_600u64, 100), (5_000, 900_000_000)] {
            let ahead = i128::from(distance) * SECOND;
            wall.take(readings(200 * SECOND, ahead, waited));
            let found = wall
                .at(Nanos(200 * 1_000_000_000))
                .abs_diff(200_000 + distance * 1000);
            assert!(found <= 450, "{found} ms off after a jump");
        }
    }

    #[test]
    fn what_is_known_badly_at_first_is_known_well_later() {
        let mut wall = Wall::default();
        wall.take(readings(100 * SECOND, 5_000 * SECOND, SECOND));
        assert!(wall.at(Nanos(0)).abs_diff(5_000_000) <= 500);
        wall.take(readings(102 * SECOND, 5_000 * SECOND, 100));
        assert!(wall.at(Nanos(0)).abs_diff(5_000_000) <= 1);
    }

    #[test]
    fn times_before_the_epoch_are_none() {
        let mut wall = Wall::default();
        wall.take(readings(100 * SECOND, -200 * SECOND, 100));
        assert_eq!(wall.at(Nanos(0)), 0);
        assert_eq!(wall.at(Nanos(u64::MAX)), u64::MAX / 1_000_000 - 200_000);
    }
}
