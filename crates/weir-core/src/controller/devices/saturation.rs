// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether limits have any effect left: the device stays beside its set-point, and the controller cannot move
//! it. Below it when the correction is at its upper bound, or when most of the limited workloads do not reach
//! their limits, because they wait for CPUs; a higher limit brings nothing then. Above it when all limits are
//! at their floor, or the correction is at its lower bound.

use super::LimitCounts;

/// Time over which the error is averaged, and for which it must last before limits are said to have no effect
/// left, in seconds. A moment is no state.
const LASTS_SECS: f64 = 5.0;

/// A mean error below this part of the set-point is not reported. The same 3 % are the bar for a device that
/// counts as held on random scenarios (docs/evidence/random.md).
const BIAS_MIN: f64 = 0.03;

#[derive(Clone, Copy, Debug, Default)]
pub(in crate::controller) struct SaturationTrack {
    /// What it moves beside its set-point, relative to it, in the mean of the last seconds.
    bias: f64,
    /// For so long limits have had no effect left, in seconds.
    secs: f64,
}

/// Where the correction is between its bounds.
#[derive(Clone, Copy, Debug)]
pub(in crate::controller) struct CorrectionReach {
    pub is_lowest: bool,
    pub is_highest: bool,
}

impl SaturationTrack {
    /// Takes in a step in which limits had had their time to show.
    pub(in crate::controller) fn follow(
        &mut self,
        dt_secs: f64,
        error: f64,
        bound: LimitCounts,
        reach: CorrectionReach,
    ) {
        self.bias += (dt_secs / LASTS_SECS).min(1.0) * (-error - self.bias);
        let is_below = self.bias < -BIAS_MIN;
        let is_above = self.bias > BIAS_MIN;
        let no_more = reach.is_highest || 2 * bound.pinned <= bound.limited;
        let no_less = reach.is_lowest || bound.at_floor == bound.limited;
        let is_saturated = (is_below && no_more) || (is_above && no_less);
        self.secs = if is_saturated {
            self.secs + dt_secs
        } else {
            0.0
        };
    }

    /// The bias, if limits have had no effect left for some seconds.
    pub(in crate::controller) fn bias_ratio(self) -> Option<f64> {
        (self.secs >= LASTS_SECS).then_some(self.bias)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BETWEEN: CorrectionReach = CorrectionReach {
        is_lowest: false,
        is_highest: false,
    };

    /// After so many seconds of an error.
    fn after(
        secs: u32,
        error: f64,
        pinned: u32,
        at_floor: u32,
        reach: CorrectionReach,
    ) -> Option<f64> {
        let mut track = SaturationTrack::default();
        let bound = LimitCounts {
            limited: 8,
            at_floor,
            pinned,
        };
        for _ in 0..20 * secs {
            track.follow(0.05, error, bound, reach);
        }
        track.bias_ratio()
    }

    #[test]
    fn it_is_said_when_no_limit_helps_and_not_before() {
        // Below the set-point: most wait for CPUs, or the correction is at its bound.
        let bias = after(30, 0.2, 3, 0, BETWEEN).expect("saturated");
        assert!((bias + 0.2).abs() < 0.01, "{bias}");
        assert_eq!(after(30, 0.2, 8, 0, BETWEEN), None, "the integral rises");
        let highest = CorrectionReach {
            is_highest: true,
            ..BETWEEN
        };
        assert!(after(30, 0.2, 8, 0, highest).is_some());
        // Above it.
        assert!(after(30, -0.2, 8, 8, BETWEEN).is_some());
        assert_eq!(after(30, -0.2, 8, 7, BETWEEN), None);
        // A moment is no state, and a small bias neither.
        assert_eq!(after(4, 0.2, 3, 0, BETWEEN), None);
        assert_eq!(after(30, 0.02, 3, 0, BETWEEN), None);
    }

    #[test]
    fn it_ends_when_limits_bring_it_again() {
        let mut track = SaturationTrack::default();
        let waiting = LimitCounts {
            limited: 8,
            at_floor: 0,
            pinned: 0,
        };
        for _ in 0..400 {
            track.follow(0.05, 0.3, waiting, BETWEEN);
        }
        assert!(track.bias_ratio().is_some());
        let all = LimitCounts {
            pinned: 8,
            ..waiting
        };
        track.follow(0.05, 0.3, all, BETWEEN);
        assert_eq!(track.bias_ratio(), None);
    }
}
