// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of weir's scheduler that follow from the period of limits, the same in the kernel and in the
//! simulator. Settings that are built into the scheduler itself stand in `bpf/sched/weir_sched.h`.

use crate::units::Nanos;

/// The smallest limit, in CPUs: one tick of a millisecond in each second.
pub const MIN_CPUS: f64 = 0.001;
/// Largest remainder that one interval leaves for the next, as time at the set-point.
pub const CARRY: Nanos = Nanos::from_millis(200);
/// Bytes above its set-point that a device may transfer before capped workloads are throttled, as time at the
/// set-point. The cap answers loads that begin between two plans: with it a load that begins between two
/// ticks took the device to 1.13 of its set-point over 10 ms and 0.99 over 100 ms (docs/evidence/testbed.md).
pub const OVERLOAD_CAP: Nanos = Nanos::from_millis(5);

/// Ticks in one period, and the least and the longest tick.
const TICKS_PER_PERIOD: u64 = 20;
const TICK_MIN: Nanos = Nanos::from_millis(1);
const TICK_MAX: Nanos = Nanos::from_millis(10);
const RUNS_PER_PERIOD: u64 = 10;

/// Settings for one period (`struct sched_settings` of `bpf/sched/intf.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedSettings {
    pub tick: Nanos,
    /// Budget that can be saved up, as time at the workload's rate.
    pub burst: Nanos,
    /// Largest debt that is carried over, likewise.
    pub debt: Nanos,
    /// A parked task runs after this time, whatever its debt. With that turn alone a task that reads 32 MiB
    /// in one system call moved 19.0 MiB/s where the set-point was 4, so a task that stays in the kernel is
    /// parked there as well (ADR 27).
    pub starvation: Nanos,
    /// Where many tasks of a workload are parked, after this time for each of them: these runs are not
    /// covered by the budget.
    pub starvation_each: Nanos,
    /// The longest time that a task stays parked. The kernel's watchdog waits for 30 s.
    pub starvation_max: Nanos,
    /// A throttled workload saves up budget for a run of this length.
    pub run: Nanos,
}

impl SchedSettings {
    /// For limits that hold over this period.
    pub fn for_period(period: Nanos) -> Self {
        let tick = (period.0 / TICKS_PER_PERIOD).clamp(TICK_MIN.0, TICK_MAX.0);
        SchedSettings {
            tick: Nanos(tick),
            burst: Nanos((period.0 / 2).max(2 * tick)),
            debt: Nanos::from_millis(500),
            starvation: Nanos::from_millis(500),
            starvation_each: Nanos::from_millis(50),
            starvation_max: Nanos::from_millis(5_000),
            run: Nanos(period.0 / RUNS_PER_PERIOD),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_follow_from_the_period() {
        let of = |ms| SchedSettings::for_period(Nanos::from_millis(ms));
        let (usual, long, short) = (of(20), of(1_000), of(1));
        assert_eq!(
            (usual.tick, usual.burst),
            (TICK_MIN, Nanos::from_millis(10))
        );
        assert_eq!(usual.run, Nanos::from_millis(2));
        assert_eq!((long.tick, long.burst), (TICK_MAX, Nanos::from_millis(500)));
        assert_eq!(short.burst, Nanos::from_millis(2), "at least two ticks");
        assert!(long.starvation <= long.starvation_max);
    }
}
