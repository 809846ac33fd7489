// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long runs take, for the estimate of the time left: stages of known length, in seconds of the host.

use crate::live::live_run::{Mode, Stage};
use weir_scenario::TestbedScenario;

/// Wall time of a second of a guest beside another guest, while the model is on, on the machine that the
/// other figures were measured on too.
const WALL_SEC_PER_SEC: f64 = 1.9;
/// A guest comes up, the first one from power-on, and its files are made.
const BOOT_SEC: f64 = 15.0;
/// Seconds of the guest until workloads have begun.
const STARTING_SEC: f64 = 9.0;
/// Until weir's own scheduler is loaded beside them.
const LOADING_SEC: f64 = 20.0;
/// Until weir and the workloads have ended.
const ENDING_SEC: f64 = 3.0;
/// Logs are read while the model is off.
const READING_SEC: f64 = 2.0;
/// A stage whose end is not known is never taken for further than this.
const UNFINISHED_MAX: f64 = 0.95;

/// Planned seconds of each [`Stage`] of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RunPlan([f64; 5]);

impl RunPlan {
    pub(crate) fn of(scenario: &TestbedScenario, mode: &Mode) -> Self {
        let control = &scenario.control;
        let controlled = (control.settle_sec + control.measure_sec) as f64;
        let loading = if mode.begins_early() {
            LOADING_SEC
        } else {
            0.0
        };
        let in_guest = |sec: f64| sec * WALL_SEC_PER_SEC;
        RunPlan([
            BOOT_SEC,
            in_guest(STARTING_SEC + loading),
            in_guest(controlled),
            in_guest(ENDING_SEC),
            READING_SEC,
        ])
    }

    pub(crate) fn whole_sec(&self) -> f64 {
        self.0.iter().sum()
    }

    /// What of it is left, after so many seconds of the guest in a stage.
    pub(crate) fn left_sec(&self, stage: Stage, in_guest_sec: f64) -> f64 {
        let stage = stage as usize;
        let done = (in_guest_sec * WALL_SEC_PER_SEC).min(UNFINISHED_MAX * self.0[stage]);
        self.0[stage..].iter().sum::<f64>() - done
    }
}

/// How long runs take that begin in this order as soon as one of `at_once` places is free.
pub(crate) fn makespan(runs_sec: &[f64], at_once: usize) -> f64 {
    let mut places = vec![0.0; at_once.max(1)];
    for run_sec in runs_sec {
        places.sort_by(f64::total_cmp);
        places[0] += run_sec;
    }
    places.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_begins_where_a_place_is_free() {
        assert_eq!(makespan(&[170.0, 140.0, 120.0], 2), 260.0);
        assert_eq!(makespan(&[30.0, 0.0, 120.0], 2), 120.0);
        assert_eq!(makespan(&[1.0, 2.0], 1), 3.0);
        assert_eq!(makespan(&[1.0, 2.0], 0), 3.0);
        assert_eq!(makespan(&[], 4), 0.0);
    }

    #[test]
    fn a_run_is_over_when_it_is_over() {
        let plan = RunPlan([8.0, 33.0, 66.0, 10.0, 2.0]);
        let mut last = plan.whole_sec();
        for stage in [
            Stage::Booting,
            Stage::Starting,
            Stage::Controlled,
            Stage::Ending,
            Stage::Reading,
        ] {
            // Twice as long as planned.
            for second in 0..60 {
                let left = plan.left_sec(stage, f64::from(second));
                assert!(left <= last && left > 0.0, "{stage:?}, {second} s");
                last = left;
            }
        }
    }
}
