// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where threads run, and what time it is.

use crate::BenchError;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::mpsc;
use std::thread::JoinHandle;

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

/// Starts a thread that keeps to a CPU, makes something there and then runs with it. Returns as soon as `run`
/// calls what it was given: of threads that are started one after the other, none takes what another was
/// promised.
///
/// # Errors
/// The thread cannot be started, its CPU is refused, or `make` failed.
pub(crate) fn start_pinned<T: 'static>(
    name: String,
    cpu: u32,
    make: impl FnOnce() -> Result<T, BenchError> + Send + 'static,
    run: impl FnOnce(T, &dyn Fn()) + Send + 'static,
) -> Result<JoinHandle<()>, BenchError> {
    let (ready, is_ready) = mpsc::channel();
    let work = move || match pin(cpu).and_then(|()| make()) {
        Ok(made) => run(made, &|| drop(ready.send(Ok(())))),
        Err(error) => drop(ready.send(Err(error))),
    };
    let thread = std::thread::Builder::new().name(name).spawn(work);
    let thread = thread.map_err(BenchError::Thread)?;
    let gone = || Err(BenchError::Thread(std::io::ErrorKind::BrokenPipe.into()));
    match is_ready.recv().unwrap_or_else(|_| gone()) {
        Ok(()) => Ok(thread),
        Err(error) => {
            // It ends by itself; if it panicked, it has nothing to give back.
            let _ = thread.join();
            Err(error)
        }
    }
}

pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (secs, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    secs.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0)
}

pub fn thread_cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (secs, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    secs.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0)
}

/// How often the kernel took the calling thread off its CPU so far: `ru_nvcsw` + `ru_nivcsw` of
/// getrusage(2), `RUSAGE_THREAD`. Time between two equal counts is the thread's own.
pub fn thread_switches() -> u64 {
    // SAFETY: a struct of integers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call. It fails only for arguments that are none.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    let count = |switches: libc::c_long| u64::try_from(switches).unwrap_or(0);
    count(usage.ru_nvcsw) + count(usage.ru_nivcsw)
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
    fn a_thread_that_waits_is_off_its_cpu() {
        let (asked, is_asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        // Each waits for the other, so that neither has the word at once.
        let other =
            std::thread::spawn(move || is_asked.iter().for_each(|n: u32| answer.send(n).unwrap()));
        let before = thread_switches();
        for n in 0..1000 {
            asked.send(n).unwrap();
            assert_eq!(answers.recv(), Ok(n));
        }
        drop(asked);
        other.join().unwrap();
        assert!(thread_switches() > before);
    }

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

    #[test]
    fn a_started_thread_is_on_its_cpu_and_its_failure_comes_back() {
        let cpu = allowed().unwrap()[0];
        let started = |make: fn() -> Result<Vec<u32>, BenchError>| {
            start_pinned("test".into(), cpu, make, move |cpus, ready| {
                assert_eq!(cpus, [cpu]);
                ready();
            })
        };
        started(allowed).unwrap().join().unwrap();
        let said = started(|| Err(BenchError::Stopped)).unwrap_err();
        assert!(matches!(said, BenchError::Stopped));
        let said = started(|| panic!("as a test")).unwrap_err();
        assert!(matches!(said, BenchError::Thread(_)));
    }
}
