// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where threads run, and what time it is.

use crate::BenchError;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// CPUs this process may use, ascending.
///
/// # Errors
/// The kernel has more CPUs than a set holds.
pub fn allowed() -> Result<Vec<u32>, BenchError> {
    let set = sched_getaffinity(None).map_err(|answer| BenchError::Cpu {
        cpu: 0,
        answer: answer.into(),
    })?;
    let all = 0..u32::try_from(CpuSet::MAX_CPU).unwrap_or(0);
    Ok(all.filter(|cpu| set.is_set(*cpu as usize)).collect())
}

/// Keeps the calling thread on this CPU.
///
/// # Errors
/// It is offline, or forbidden to us.
pub fn pin(cpu: u32) -> Result<(), BenchError> {
    pin_to(&[cpu])
}

/// Keeps the calling thread, and what it starts from now on, on these CPUs.
///
/// # Errors
/// There are none, or all are offline or forbidden to us.
pub fn pin_to(cpus: &[u32]) -> Result<(), BenchError> {
    let first = cpus.first().copied().unwrap_or_default();
    let no = |answer: std::io::Error| BenchError::Cpu { cpu: first, answer };
    let mut set = CpuSet::new();
    for cpu in cpus {
        let place = *cpu as usize;
        if place >= CpuSet::MAX_CPU {
            return Err(no(std::io::ErrorKind::InvalidInput.into()));
        }
        set.set(place);
    }
    sched_setaffinity(None, &set).map_err(|answer| no(answer.into()))
}

/// The monotonic clock.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (secs, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    secs.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0)
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (secs, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    secs.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0)
}

/// Work of its own that takes a time and touches no memory: each step needs the one before.
#[inline(always)]
pub fn spin(steps: u64) {
    let mut x = steps;
    for _ in 0..steps {
        x = std::hint::black_box(x.wrapping_add(1));
    }
    std::hint::black_box(x);
}

/// Time of one step of [`spin`]. The shortest of several tries: interrupts make a try longer.
pub fn spin_step_ns() -> f64 {
    const STEPS: u32 = 20_000;
    let one = |_| {
        let start = now_ns();
        spin(u64::from(STEPS));
        now_ns() - start
    };
    let shortest = (0..5).map(one).min().unwrap_or(0);
    (shortest as f64 / f64::from(STEPS)).max(0.01)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_is_where_it_was_put() {
        let cpus = allowed().unwrap();
        let last = *cpus.last().unwrap();
        let seen = std::thread::spawn(move || {
            pin(last).unwrap();
            allowed().unwrap()
        });
        assert_eq!(seen.join().unwrap(), [last]);
        assert!(pin(1 << 20).is_err());
    }
}
