// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a decision to a budget: what back ends that limit in device bytes get for one workload.

use crate::CpuShare;
use crate::seam::plan::{Decision, DeviceState, Why};

/// Bytes a second, whole and at least 1, because 0 would be no limit or no charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// What the workload may move.
    pub bytes_per_sec: u64,
    /// What it moves in a second of CPU time.
    pub intensity_bytes_per_cpu_sec: u64,
}

/// A limited workload may move what the plan allows it; at its floor, or when its limit is being
/// raised on the way out, it may move its limit in CPUs times its intensity. Nothing if the plan does
/// not know its intensity.
pub fn budget_of(verdict: &Decision, cpus: CpuShare) -> Option<Budget> {
    let intensity = verdict
        .intensity_bytes_per_cpu_sec
        .filter(|k| k.is_finite() && *k > 0.0)?;
    let bytes_per_sec = match (&verdict.why, verdict.allowed_bytes_per_sec) {
        (Why::Limited { .. }, Some(allowed)) => allowed.get(),
        _ => cpus.get() * intensity,
    };
    Some(Budget {
        bytes_per_sec: whole(bytes_per_sec).max(1),
        intensity_bytes_per_cpu_sec: whole(intensity).max(1),
    })
}

/// Budget for the workloads that are not limited, where the limited ones are given `given` bytes a second:
/// what is left of the split's budget. The correction counts: without it this budget would grow by what it
/// takes from the limited ones, the device as a whole would stay where it is, and the correction would wind
/// up.
pub fn others_room(device: &DeviceState, given: u64) -> u64 {
    let target = device.set_point_bytes_per_sec.map_or(0.0, |t| t.get());
    whole(target * device.correction_ratio).saturating_sub(given)
}

/// To the nearest whole number; what is none is 0.
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
    use crate::rates::attribution::Estimate;
    use crate::{BytesPerSec, WorkloadId};

    fn verdict(why: Why, allowed: Option<f64>, intensity: Option<f64>) -> Decision {
        Decision {
            id: WorkloadId::new("/a"),
            bandwidth: Estimate::UNKNOWN,
            traffic: None,
            cpu_cpus: None,
            intensity_bytes_per_cpu_sec: intensity,
            allowed_bytes_per_sec: allowed.map(BytesPerSec::new),
            limit_cpus: None,
            limited_weight: None,
            throttled_ns: None,
            why,
        }
    }

    fn limited() -> Why {
        Why::Limited {
            policy: "max-min".into(),
            demand_bytes_per_sec: BytesPerSec::new(9e6),
            device_bytes_per_sec: BytesPerSec::new(9e6),
            asked_bytes_per_sec: None,
        }
    }

    #[test]
    fn a_limited_workload_may_move_what_the_plan_allows_or_its_limit_times_intensity() {
        let half = CpuShare::new(0.5);
        let budget = budget_of(&verdict(limited(), Some(3e6), Some(2e7)), half).unwrap();
        let wanted = Budget {
            bytes_per_sec: 3_000_000,
            intensity_bytes_per_cpu_sec: 20_000_000,
        };
        assert_eq!(budget, wanted);
        for why in [Why::AtFloor, Why::Headroom, Why::BelowFairShare] {
            let budget = budget_of(&verdict(why, Some(3e6), Some(2e7)), half).unwrap();
            assert_eq!(budget.bytes_per_sec, 10_000_000);
        }
    }

    #[test]
    fn bytes_that_the_correction_takes_from_the_limited_go_to_no_workload() {
        let device = |set_point: Option<f64>, correction_ratio| DeviceState {
            id: crate::DeviceId(0),
            read_bytes_per_sec: None,
            write_bytes_per_sec: None,
            unattributed_bytes_per_sec: None,
            set_point_bytes_per_sec: set_point.map(BytesPerSec::new),
            correction_ratio,
        };
        assert_eq!(others_room(&device(Some(1000.0), 1.0), 600), 400);
        assert_eq!(others_room(&device(Some(1000.0), 0.9), 500), 400);
        assert_eq!(others_room(&device(Some(1000.0), 0.9), 900), 0);
        assert_eq!(others_room(&device(Some(1000.0), 0.9), 1000), 0);
        assert_eq!(others_room(&device(None, 1.0), 1), 0);
    }

    #[test]
    fn a_workload_of_unknown_intensity_has_no_budget() {
        for intensity in [
            None,
            Some(0.0),
            Some(-1.0),
            Some(f64::NAN),
            Some(f64::INFINITY),
        ] {
            assert_eq!(
                budget_of(
                    &verdict(limited(), Some(3e6), intensity),
                    CpuShare::new(1.0)
                ),
                None
            );
        }
        let budget = budget_of(
            &verdict(limited(), Some(0.0), Some(0.3)),
            CpuShare::new(1.0),
        )
        .unwrap();
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
