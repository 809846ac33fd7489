// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far CPUs are from each other: the time that a line takes from the cache of one to that of another and
//! back.
//!
//! A virtual machine does not know on which cores its CPUs run, and the host may move them. CPUs that share a
//! last-level cache answer each other several times faster than CPUs of two dies, and they share its way to
//! memory too: what streams do to each other changes with it.

use crate::cpu::{now_ns, start_pinned};
use crate::{BenchError, LINE_BYTES};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Rounds of which the median is taken.
const ROUNDS: u64 = 1500;
/// Rounds before them: the threads and the clock of the CPU begin.
const WARM_ROUNDS: u64 = 100;
/// A round that takes longer ends it: one of the two does not run.
const ROUND_MAX_NS: u64 = 500_000_000;

/// A word on lines of its own.
#[repr(align(128))]
struct Ball {
    number: AtomicU64,
    is_over: AtomicBool,
    median_ns: AtomicU64,
}

/// Median of the round trips of a line between two CPUs, in nanoseconds. Nothing if one of them is taken up
/// by something else, so that a round lasts half a second.
///
/// # Errors
/// A thread cannot be started, or a CPU is refused.
pub fn round_trip_ns(one: u32, other: u32) -> Result<Option<f64>, BenchError> {
    let ball = Arc::new(Ball {
        number: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        median_ns: AtomicU64::new(0),
    });
    const { assert!(size_of::<Ball>() >= LINE_BYTES) };
    let answering = Arc::clone(&ball);
    let answer = move |(), ready: &dyn Fn()| {
        ready();
        answer(&answering);
    };
    let answering = start_pinned("weir-answer".into(), other, || Ok(()), answer)?;
    let asking = Arc::clone(&ball);
    let ask = move |(), ready: &dyn Fn()| {
        ready();
        asking
            .median_ns
            .store(ask(&asking).unwrap_or(0), Ordering::Release);
        asking.is_over.store(true, Ordering::Release);
    };
    let asked = start_pinned("weir-ask".into(), one, || Ok(()), ask);
    if asked.is_err() {
        ball.is_over.store(true, Ordering::Release);
    }
    // Threads that panicked have nothing to give back.
    let _ = asked.map(|thread| thread.join())?;
    let _ = answering.join();
    let median_ns = ball.median_ns.load(Ordering::Acquire);
    Ok((median_ns > 0).then_some(median_ns as f64))
}

/// Odd numbers are answered by the next one.
fn answer(ball: &Ball) {
    while !ball.is_over.load(Ordering::Relaxed) {
        let number = ball.number.load(Ordering::Acquire);
        if number % 2 == 1 {
            ball.number.store(number + 1, Ordering::Release);
        }
        std::hint::spin_loop();
    }
}

fn ask(ball: &Ball) -> Option<u64> {
    let mut took_ns = Vec::with_capacity(usize::try_from(ROUNDS).unwrap_or(0));
    for round in 0..WARM_ROUNDS + ROUNDS {
        let begun_ns = now_ns();
        ball.number.store(2 * round + 1, Ordering::Release);
        while ball.number.load(Ordering::Acquire) != 2 * round + 2 {
            if now_ns() - begun_ns > ROUND_MAX_NS {
                return None;
            }
        }
        if round >= WARM_ROUNDS {
            took_ns.push(now_ns() - begun_ns);
        }
    }
    took_ns.sort_unstable();
    took_ns.get(took_ns.len() / 2).copied().map(|ns| ns.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu;

    #[test]
    fn two_cpus_answer_each_other() {
        let cpus = cpu::allowed().unwrap();
        let [one, other, ..] = cpus[..] else {
            return eprintln!("SKIP round trips: one CPU");
        };
        if let Some(ns) = round_trip_ns(one, other).unwrap() {
            assert!(ns >= 1.0);
        }
        let said = round_trip_ns(one, 100_000).unwrap_err().to_string();
        assert!(said.contains("cpu100000"), "{said}");
        let said = round_trip_ns(100_000, one).unwrap_err().to_string();
        assert!(said.contains("cpu100000"), "{said}");
    }
}
