// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Latency of one load: a ring of pointers, one in each line, in an order that no prefetcher guesses.
//! Each load needs the address that the one before brings, so never are two on their way.
//!
//! The order is one cycle through all lines (Sattolo 1986): several short ones would stay in a cache. For a
//! continuous walk that is enough: the caches have evicted a line before the walk returns to it. An
//! occasional probe on an otherwise idle machine flushes each line after use instead
//! ([`Ring::flushed_batch_ns`]).

use crate::cpu::{self, now_ns};
use crate::{BenchError, Buffer, LINE_BYTES};
use weir_core::random::SplitMix;

/// Loads that are timed together: reading the clock costs little beside them.
pub const BATCH_LOADS: u32 = 256;
/// Untimed loads before a batch that follows a pause: translations and the clock of the CPU are cold.
pub const WARM_LOADS: u32 = 32;
/// Lines that a prefetcher fetches together: flushing one of them leaves the other.
const PAIR_BYTES: usize = 2 * LINE_BYTES;

/// A ring of pointers through a buffer.
pub struct Ring {
    buffer: Buffer,
    at: *const u8,
}

// SAFETY: the pointer points into the buffer, which goes where the ring goes.
unsafe impl Send for Ring {}

impl Ring {
    /// Writes the ring into the buffer: the same seed, the same order.
    pub fn new(buffer: Buffer, seed: u64) -> Ring {
        let order = one_cycle(buffer.bytes() / LINE_BYTES, seed);
        for (line, next) in order.iter().enumerate() {
            // SAFETY: lines of the buffer, aligned as its pages are.
            unsafe {
                let place = buffer.start().add(line * LINE_BYTES).cast::<*const u8>();
                place.write(buffer.start().add(*next as usize * LINE_BYTES));
            }
        }
        Ring {
            at: buffer.start(),
            buffer,
        }
    }

    pub fn lines(&self) -> usize {
        self.buffer.bytes() / LINE_BYTES
    }

    /// Goes on by one batch.
    pub fn batch(&mut self) {
        // SAFETY: every line of the ring has the address of another.
        self.at = unsafe { walk(self.at, BATCH_LOADS) };
    }

    /// Goes on by one batch; nanoseconds a load.
    pub fn batch_ns(&mut self) -> f64 {
        let start = now_ns();
        self.batch();
        (now_ns() - start) as f64 / f64::from(BATCH_LOADS)
    }

    /// The same for occasional probes: [`WARM_LOADS`] come first and are not timed, and afterwards the
    /// lines of all these loads are flushed from the caches, each with its neighbour.
    ///
    /// If the kernel preempts the thread meanwhile, the thread's CPU time counts, without that of other
    /// tasks. To drop such batches would keep the fast ones: a batch that lasts longer is preempted more
    /// often.
    pub fn flushed_batch_ns(&mut self) -> f64 {
        let first = self.at;
        // SAFETY: every line of the ring has the address of another.
        self.at = unsafe { walk(self.at, WARM_LOADS) };
        let (switches, began_ns) = (cpu::thread_switches(), cpu::thread_cpu_ns());
        let elapsed_ns = self.batch_ns();
        let used_ns = cpu::thread_cpu_ns() - began_ns;
        let is_preempted = cpu::thread_switches() != switches;
        // SAFETY: as above.
        unsafe { flush_chain(first, WARM_LOADS + BATCH_LOADS) };
        if is_preempted {
            used_ns as f64 / f64::from(BATCH_LOADS)
        } else {
            elapsed_ns
        }
    }

    /// Whether its memory still is where it was put.
    ///
    /// # Errors
    /// Pages are on another node, or the kernel does not say.
    pub fn check(&self, node: u32) -> Result<(), BenchError> {
        self.buffer.check(node)
    }
}

/// Whether lines can be flushed from the caches on this kind of CPU.
///
/// # Errors
/// [`BenchError::NoInstruction`].
pub fn can_flush_lines() -> Result<(), BenchError> {
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        Ok(())
    } else {
        Err(BenchError::NoInstruction(
            "an instruction that takes a line out of the caches",
        ))
    }
}

/// Follows so many pointers once more, and flushes each line and its neighbour from all caches.
///
/// # Safety
/// `at` begins a chain of at least so many.
unsafe fn flush_chain(mut at: *const u8, loads: u32) {
    for _ in 0..loads {
        // SAFETY: as promised by the caller; read before it goes.
        let next = unsafe { walk(at, 1) };
        let pair = at.map_addr(|address| address & !(PAIR_BYTES - 1));
        // SAFETY: buffers are whole pages, so the pair is within it.
        unsafe {
            flush(pair);
            flush(pair.add(LINE_BYTES));
        }
        at = next;
    }
}

/// Flushes a line from all caches; the next load reads it from memory.
///
/// # Safety
/// It is a line of memory that is ours.
#[inline(always)]
pub(crate) unsafe fn flush(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as promised by the caller; SSE2 is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_clflush(line);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as promised by the caller; Linux lets programs do that (SCTLR_EL1.UCI).
    unsafe {
        std::arch::asm!("dc civac, {line}", line = in(reg) line, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

/// Follows so many pointers.
///
/// # Safety
/// `at` begins a chain of at least so many.
#[inline(never)]
unsafe fn walk(mut at: *const u8, loads: u32) -> *const u8 {
    for _ in 0..loads {
        // One load into the register that holds its address, whatever else a compiler would think of.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as promised by the caller.
        unsafe {
            std::arch::asm!("mov {at}, [{at}]", at = inout(reg) at, options(nostack, readonly, preserves_flags));
        }
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: as promised by the caller.
        unsafe {
            at = at.cast::<*const u8>().read_volatile();
        }
    }
    at
}

/// The successor of each of `count` lines, all of them in one cycle.
fn one_cycle(count: usize, seed: u64) -> Vec<u32> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let mut next: Vec<u32> = (0..count).collect();
    let mut random = SplitMix::new(seed);
    for i in (1..next.len()).rev() {
        // Below i, never i itself: that makes it one cycle.
        let j = random.below(i as u64);
        next.swap(i, usize::try_from(j).unwrap_or(0));
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_one_cycle_through_all_lines() {
        for (count, seed) in [(1, 0), (2, 1), (3, 2), (1000, 3), (4096, 4), (99_991, 5)] {
            let next = one_cycle(count, seed);
            let mut at = 0;
            for step in 1..=count {
                at = next[at] as usize;
                assert_eq!(at == 0, step == count, "{count} lines: back after {step}");
            }
        }
    }

    #[test]
    fn neighbours_are_rarely_successors() {
        let next = one_cycle(100_000, 1);
        let near = |(line, next): &(usize, &u32)| (**next as usize).abs_diff(*line) <= 8;
        let near = next.iter().enumerate().filter(near).count();
        assert!(near < 100, "{near} of 100000 within a prefetcher's reach");
    }

    #[test]
    fn walking_visits_every_line_once() {
        let Ok(buffer) = Buffer::on_node(1, 0) else {
            return eprintln!("SKIP walking: no memory can be bound to node 0 here");
        };
        let start = buffer.start().cast_const();
        let mut ring = Ring::new(buffer, 7);
        let batches = ring.lines() / BATCH_LOADS as usize;
        for batch in 1..=batches {
            assert!(ring.batch_ns() >= 0.0);
            assert_eq!(ring.at == start, batch == batches, "batch {batch}");
        }
    }

    #[test]
    fn a_rare_batch_goes_on_by_all_its_loads_and_the_ring_stays_whole() {
        let Ok(buffer) = Buffer::on_node(1, 0) else {
            return eprintln!("SKIP rare batches: no memory can be bound to node 0 here");
        };
        let start = buffer.start().cast_const();
        let mut ring = Ring::new(buffer, 7);
        let each = u64::from(WARM_LOADS + BATCH_LOADS);
        for _ in 0..100 {
            assert!(ring.flushed_batch_ns() > 0.0);
        }
        // The rest of the way around, by a walk that flushes nothing.
        let left = ring.lines() as u64 * 2 - 100 * each;
        // SAFETY: every line of the ring has the address of another.
        ring.at = unsafe { walk(ring.at, u32::try_from(left).unwrap()) };
        assert_eq!(ring.at, start);
        ring.check(0).unwrap();
        assert!(ring.check(1).is_err(), "it is not on another node");
    }

    /// This is run by hand: `cargo test --release -p weir-bench -- --ignored --nocapture`.
    #[test]
    #[ignore = "prints times of this machine and checks nothing"]
    fn lines_that_were_given_up_come_from_memory() {
        let mut ring = Ring::new(Buffer::on_node(1, 0).unwrap(), 7);
        let rounds = ring.lines() / BATCH_LOADS as usize;
        let median = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        for round in 0..3 {
            // Once around, to have them all in the caches.
            let _: f64 = (0..rounds).map(|_| ring.batch_ns()).sum();
            let kept = median((0..rounds).map(|_| ring.batch_ns()).collect());
            let given_up = median((0..rounds).map(|_| ring.flushed_batch_ns()).collect());
            println!("round {round}: {kept:.1} ns kept, {given_up:.1} ns given up");
        }
    }
}
