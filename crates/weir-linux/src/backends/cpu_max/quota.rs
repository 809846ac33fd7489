// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From CPUs to `cpu.max`: the arithmetic of limits, without files.

use crate::kernel::parse::cgroup::CpuMax;
use std::time::Duration;
use weir_core::CpuShare;

/// Shortest quota the kernel takes, in microseconds (`min_bw_quota_period_us`, kernel sched/core.c).
pub(crate) const QUOTA_MIN_US: u64 = 1_000;
/// Longest period (`max_bw_quota_period_us`).
pub(crate) const PERIOD_MAX_US: u64 = 1_000_000;
/// Longest quota: far more than any machine has CPUs, and far from the kernel's own bound.
const QUOTA_MAX_US: u64 = 1 << 40;
/// Smallest limit: the shortest quota in the longest period.
pub(crate) const MIN_CPUS: f64 = QUOTA_MIN_US as f64 / PERIOD_MAX_US as f64;

/// A period that the kernel takes, in microseconds.
pub(crate) fn period_us(wanted: Duration) -> u64 {
    let wanted = u64::try_from(wanted.as_micros()).unwrap_or(PERIOD_MAX_US);
    wanted.clamp(QUOTA_MIN_US, PERIOD_MAX_US)
}

/// The `cpu.max` that allows `cpus` with the given period. A limit too small for the shortest quota
/// makes the period longer; one below [`MIN_CPUS`] becomes that.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn quota(cpus: CpuShare, period_us: u64) -> CpuMax {
    let period_us = period_us.clamp(QUOTA_MIN_US, PERIOD_MAX_US);
    let cpus = cpus.get().max(MIN_CPUS);
    // A float cast saturates, and a CpuShare is finite and not negative.
    let quota_us = ((cpus * period_us as f64).round() as u64).min(QUOTA_MAX_US);
    if quota_us >= QUOTA_MIN_US {
        return CpuMax {
            quota_us: Some(quota_us),
            period_us,
        };
    }
    let period_us = ((QUOTA_MIN_US as f64 / cpus).round() as u64).clamp(period_us, PERIOD_MAX_US);
    CpuMax {
        quota_us: Some(QUOTA_MIN_US),
        period_us,
    }
}

/// The tighter of the two: what others set stays in force.
pub(crate) fn tighter(theirs: CpuMax, ours: CpuMax) -> CpuMax {
    if ours.is_tighter_than(&theirs) {
        ours
    } else {
        theirs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(cpus: f64, period_us: u64) -> String {
        quota(CpuShare::new(cpus), period_us).to_string()
    }

    #[test]
    fn small_limits_lengthen_the_period() {
        assert_eq!(text(1.5, 20_000), "30000 20000");
        assert_eq!(text(0.05, 20_000), "1000 20000");
        assert_eq!(text(0.049, 20_000), "1000 20408");
        assert_eq!(text(0.001, 20_000), "1000 1000000");
        assert_eq!(text(0.0, 20_000), "1000 1000000");
        assert_eq!(text(f64::MAX, 20_000), format!("{QUOTA_MAX_US} 20000"));
        assert_eq!(text(1.0, 0), "1000 1000");
        assert_eq!(text(1.0, u64::MAX), "1000000 1000000");
    }

    #[test]
    fn periods_are_those_the_kernel_takes() {
        for (wanted, got) in [
            (0, 1_000),
            (999, 1_000),
            (20_000, 20_000),
            (1_000_001, 1_000_000),
        ] {
            assert_eq!(period_us(Duration::from_micros(wanted)), got);
        }
        assert_eq!(period_us(Duration::MAX), PERIOD_MAX_US);
    }

    #[test]
    fn theirs_stays_in_force() {
        let max = |t: &str| crate::kernel::parse::cgroup::cpu_max(t.as_bytes()).unwrap();
        assert_eq!(
            tighter(max("max 100000"), max("20000 20000")),
            max("20000 20000")
        );
        assert_eq!(
            tighter(max("10000 100000"), max("20000 20000")),
            max("10000 100000")
        );
        assert_eq!(
            tighter(max("100000 100000"), max("20000 20000")),
            max("100000 100000"),
            "equal"
        );
    }

    proptest! {
        #[test]
        fn the_kernel_takes_every_limit(cpus in 0.0f64..2000.0, period: u64) {
            let max = quota(CpuShare::new(cpus), period);
            let quota = max.quota_us.unwrap();
            prop_assert!((QUOTA_MIN_US..=QUOTA_MAX_US).contains(&quota));
            prop_assert!((1_000..=PERIOD_MAX_US).contains(&max.period_us));
        }

        #[test]
        fn limits_are_exact_to_a_rounding(cpus in MIN_CPUS..64.0, period in 1_000u64..1_000_000) {
            let got = quota(CpuShare::new(cpus), period).cpus().unwrap();
            prop_assert!((got / cpus - 1.0).abs() <= 0.5e-3, "{} for {}", got, cpus);
        }
    }
}
