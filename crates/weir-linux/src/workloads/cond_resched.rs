// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A walk through all processes takes its time, on a slow machine a quarter of a second each second. It must
//! not keep a CPU busy for that long: limited tasks of the scheduler in partial mode, which rank below weir,
//! would have one CPU less meanwhile (seen live: the device 20 % below its set-point, for as long as each
//! walk took). So the walk is made in short stretches with pauses between.

use crate::kernel::clock::{now, sleep};
use weir_core::Nanos;

/// Longest stretch of work, but for the last piece in it, and the pause after it: a quarter of one CPU at
/// most. Made in one go, the walk kept one of the two CPUs that limited readers had.
const STRETCH: Nanos = Nanos::from_millis(2);
const REST: Nanos = Nanos::from_millis(6);

#[derive(Debug, Default)]
pub(crate) struct CondResched {
    is_on: bool,
    since: Nanos,
}

impl CondResched {
    pub(crate) fn begin(&mut self, is_on: bool) {
        self.is_on = is_on;
        self.since = now();
    }

    /// Between two pieces of work.
    pub(crate) fn rest(&mut self) {
        if !self.is_on || now().0.saturating_sub(self.since.0) < STRETCH.0 {
            return;
        }
        sleep(REST);
        self.since = now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rests_after_a_stretch_and_only_where_it_may() {
        let long_ago = |is_on| {
            let mut rests = CondResched {
                is_on,
                since: Nanos(0),
            };
            rests.rest();
            rests.since
        };
        let before = now();
        assert!(
            long_ago(true).0 >= before.0 + REST.0,
            "it slept, and a new stretch began"
        );
        assert_eq!(long_ago(false), Nanos(0));
    }
}
