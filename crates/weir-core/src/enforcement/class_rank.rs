// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether limits can be held by tasks that rank below all ordinary ones.
//!
//! In partial mode a sched_ext scheduler has only the limited tasks. The kernel runs them in the time that
//! ordinary tasks leave, and in a guarantee that is small (`ext_server`, Linux 7.0: 50 ms on a CPU where they
//! had nothing for 950 ms). Where other tasks need so many CPUs that less is left than the limits allow,
//! limited tasks get what is left, and the device stays below its set-point. `cpu.max` and full mode leave
//! the rank of tasks as it is.

use std::fmt;

/// A shortage below this part of the limits is none: a count of tasks is not more exact.
const TOLERATED: f64 = 0.05;

/// CPUs that are left are fewer than the limits allow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuShortage {
    pub cpus: f64,
    /// CPUs that ordinary tasks of others use or wait for: tasks that run or wait for a CPU, on average over
    /// time.
    pub others: f64,
    pub allowed: f64,
}

impl CpuShortage {
    pub fn of(cpus: f64, others: f64, allowed: f64) -> Option<CpuShortage> {
        let left = (cpus - others).max(0.0);
        (left < allowed * (1.0 - TOLERATED)).then_some(CpuShortage {
            cpus,
            others,
            allowed,
        })
    }
}

impl fmt::Display for CpuShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "limited tasks would rank below ordinary ones: other tasks need {:.1} of {} CPUs, and the limits allow {:.2} \
             CPUs: use the back end cpu-max or sched-ext-full",
            self.others, self.cpus, self.allowed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_tasks_that_rank_below_need_what_others_leave() {
        // The thesis's machine: 39 workers, kernel threads and daemons on 40 threads; five readers at 4
        // GiB/s.
        let short = CpuShortage::of(40.0, 39.2, 1.65).expect("0.8 is less than 1.65");
        let said = short.to_string();
        assert!(said.contains("39.2 of 40 CPUs"), "{said}");
        assert!(
            said.contains("1.65") && said.contains("sched-ext-full"),
            "{said}"
        );
        // The same readers alone; and beside one worker fewer than leaves them their part.
        assert_eq!(CpuShortage::of(40.0, 0.2, 1.65), None);
        assert_eq!(CpuShortage::of(40.0, 38.3, 1.65), None);
    }

    #[test]
    fn more_others_than_cpus_leave_nothing() {
        assert!(CpuShortage::of(2.0, 9.0, 0.001).is_some());
        assert!(
            CpuShortage::of(2.0, 9.0, 0.0).is_none(),
            "nothing is allowed"
        );
    }

    #[test]
    fn a_shortage_within_the_error_is_tolerated() {
        assert_eq!(CpuShortage::of(4.0, 3.0, 1.04), None);
        assert!(CpuShortage::of(4.0, 3.0, 1.06).is_some());
    }
}
