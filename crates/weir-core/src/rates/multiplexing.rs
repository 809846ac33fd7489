// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events that are more than there are counters are multiplexed: the kernel counts each for a part of the
//! time, and its count is scaled to all of the time (perf_event_open(2), `time_enabled` and `time_running`).

use crate::seam::observation::Missing;

/// How much of the time between two readings events counted. Never nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MuxGroup {
    enabled_ns: u64,
    running_ns: u64,
}

impl MuxGroup {
    /// From two readings of (how long they were to count, how long they did), in nanoseconds.
    ///
    /// # Errors
    /// [`Missing::NotYetRead`] where they were not to count; [`Missing::Lost`] where they did not count at
    /// all though they were to: nothing is known, and the next reading spans the gap.
    pub fn between(before: (u64, u64), now: (u64, u64)) -> Result<MuxGroup, Missing> {
        let enabled_ns = now.0.saturating_sub(before.0);
        // Clocks of CPUs differ a little.
        let running_ns = now.1.saturating_sub(before.1).min(enabled_ns);
        match (enabled_ns, running_ns) {
            (0, _) => Err(Missing::NotYetRead),
            (_, 0) => Err(Missing::Lost(format!(
                "the events were enabled for {enabled_ns} ns and did not run"
            ))),
            _ => Ok(MuxGroup {
                enabled_ns,
                running_ns,
            }),
        }
    }

    pub fn running_ns(self) -> f64 {
        self.running_ns as f64
    }

    /// Time that they counted, of the time that they were to: 1 where nothing is scaled.
    pub fn running_ratio(self) -> f64 {
        self.running_ns as f64 / self.enabled_ns as f64
    }

    /// What would have been counted in all of the time.
    pub fn scaled(self, count: f64) -> f64 {
        count / self.running_ratio()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_scales_by_the_time_between_two_readings() {
        let group = MuxGroup::between((100, 100), (300, 150)).expect("it ran");
        assert_eq!((group.running_ns(), group.running_ratio()), (50.0, 0.25));
        assert_eq!(group.scaled(10.0), 40.0);
        let ahead = MuxGroup::between((0, 0), (10, 12)).expect("it ran");
        assert_eq!(ahead.running_ratio(), 1.0);
    }

    #[test]
    fn without_running_time_nothing_is_known() {
        let same = MuxGroup::between((7, 7), (7, 7)).expect_err("it was not to count");
        assert_eq!(same, Missing::NotYetRead);
        let none = MuxGroup::between((7, 7), (17, 7)).expect_err("it did not run");
        assert!(
            none.to_string()
                .contains("enabled for 10 ns and did not run"),
            "{none}"
        );
    }
}
