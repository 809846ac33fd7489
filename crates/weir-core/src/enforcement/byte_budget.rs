// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Budgets in whole bytes, as schedulers have them: of one limited workload, and of all others together.

use crate::seam::plan::{ByteBudget, DeviceState};
use crate::units::BytesPerSec;

/// Bytes a second, whole and at least 1, because 0 would be no limit or no charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeBudget {
    pub bytes_per_sec: u64,
    /// What it moves in a second of CPU time.
    pub intensity_bytes_per_cpu_sec: u64,
}

impl WholeBudget {
    /// The budget for what a plan lets a workload move, in bytes per second, and for what it moves in a
    /// second of CPU time.
    pub fn of(bytes_per_sec: f64, intensity_bytes_per_cpu_sec: f64) -> Self {
        WholeBudget {
            bytes_per_sec: whole(bytes_per_sec).max(1),
            intensity_bytes_per_cpu_sec: whole(intensity_bytes_per_cpu_sec).max(1),
        }
    }
}

impl From<&ByteBudget> for WholeBudget {
    fn from(budget: &ByteBudget) -> Self {
        WholeBudget::of(
            budget.bytes_per_sec.get(),
            budget.intensity_bytes_per_cpu_sec,
        )
    }
}

/// Budget for the workloads that are not limited, where the limited ones are given `given` bytes a second:
/// what is left of the split's budget. The correction counts: without it this budget would grow by what it
/// takes from the limited ones, the device as a whole would stay where it is, and the correction would wind
/// up. A planned total is what was split, and needs no correction.
pub fn others_room(device: &DeviceState, given: u64) -> u64 {
    let corrected = |of: BytesPerSec| of.get() * device.correction_ratio;
    let planned = device.planned_bytes_per_sec.map(BytesPerSec::get);
    let all = planned.or(device.set_point_bytes_per_sec.map(corrected));
    whole(all.unwrap_or(0.0)).saturating_sub(given)
}

/// Rounds to the nearest whole number; what is no number is 0.
pub fn whole(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates"
    )]
    let whole = value.round() as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceId;

    #[test]
    fn bytes_that_the_correction_takes_from_the_limited_go_to_no_workload() {
        let device = |set_point: Option<f64>, correction_ratio| DeviceState {
            id: DeviceId(0),
            read_bytes_per_sec: None,
            write_bytes_per_sec: None,
            unattributed_bytes_per_sec: None,
            migrated_bytes_per_sec: None,
            set_point_bytes_per_sec: set_point.map(BytesPerSec::new),
            correction_ratio,
            planned_bytes_per_sec: None,
            unenforceable: None,
            saturation: None,
        };
        assert_eq!(others_room(&device(Some(1000.0), 1.0), 600), 400);
        assert_eq!(others_room(&device(Some(1000.0), 0.9), 500), 400);
        assert_eq!(others_room(&device(Some(1000.0), 0.9), 900), 0);
        assert_eq!(others_room(&device(Some(1000.0), 0.9), 1000), 0);
        assert_eq!(others_room(&device(None, 1.0), 1), 0);
        let planned = DeviceState {
            planned_bytes_per_sec: Some(BytesPerSec::new(700.0)),
            unenforceable: None,
            saturation: None,
            ..device(Some(1000.0), 0.9)
        };
        assert_eq!(others_room(&planned, 600), 100);
    }

    #[test]
    fn budgets_are_whole_and_never_zero() {
        let budget = WholeBudget::of(3e6, 2.4);
        assert_eq!(
            (budget.bytes_per_sec, budget.intensity_bytes_per_cpu_sec),
            (3_000_000, 2)
        );
        let budget = WholeBudget::of(0.0, 0.3);
        assert_eq!(
            (budget.bytes_per_sec, budget.intensity_bytes_per_cpu_sec),
            (1, 1),
            "0 would be no limit or no charge"
        );
        assert_eq!(
            (whole(-3.0), whole(f64::NAN), whole(1e30)),
            (0, 0, u64::MAX)
        );
    }
}
