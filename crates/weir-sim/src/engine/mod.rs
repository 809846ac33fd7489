// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine in virtual time, whatever schedules its tasks: [`machine`] (the loop over events),
//! [`event_queue`], [`program`] and [`task_exec`] (what tasks do), [`memory`] (how fast they do it),
//! [`cpu_speed`], [`accounting`].

pub(crate) mod accounting;
pub(crate) mod cpu_speed;
pub(crate) mod event_queue;
pub(crate) mod histogram;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod program;
pub(crate) mod rng;
pub(crate) mod task_exec;

/// The first whole number that is not less: [`f64::ceil`] is a call into the C library on CPUs as old as are
/// built for, and this is asked for each CPU at each event. Less than 0 is 0.
pub(crate) fn ceil_ns(ns: f64) -> u64 {
    let whole = ns as u64;
    whole.saturating_add(u64::from((whole as f64) < ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rounded_up_as_ceil_does() {
        for ns in [
            0.0,
            0.1,
            1.0,
            1.000_001,
            4e15 + 0.5,
            9e15,
            1e300,
            f64::INFINITY,
            -0.5,
        ] {
            assert_eq!(ceil_ns(ns), ns.ceil() as u64, "{ns}");
        }
    }
}
