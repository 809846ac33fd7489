// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Load: threads that read (or write) memory of their own, line after line, and pause after every few lines
//! for an injected delay. The delay sets the load, as in Intel's Memory Latency Checker; the resulting
//! bandwidth is measured.

use crate::{BenchError, Buffer, LINE_BYTES, cpu};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Lines between two pauses: few, so that the load is even.
pub const CHUNK_LINES: usize = 8;

/// The delay with which threads wait until they are wanted.
const STANDING: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    Reads,
    /// Two lines read for each written, by allocating stores to every other line.
    TwoToOne,
    /// Threads write as many lines as they read, by allocating stores.
    OneToOne,
    /// Non-temporal stores, which read nothing.
    NtWrites,
}

impl Mix {
    /// Bytes that the device moves for a chunk: a stored line is read first and written back later.
    fn chunk_bytes(self) -> u64 {
        let lines = CHUNK_LINES as u64;
        let lines = match self {
            Mix::Reads | Mix::NtWrites => lines,
            Mix::TwoToOne => lines + lines / 2,
            Mix::OneToOne => 2 * lines,
        };
        lines * LINE_BYTES as u64
    }

    /// Whether this CPU can.
    ///
    /// # Errors
    /// It has no such stores.
    pub fn check(self) -> Result<(), BenchError> {
        if self == Mix::NtWrites && !cfg!(target_arch = "x86_64") {
            return Err(BenchError::NoInstruction("a non-temporal store"));
        }
        Ok(())
    }
}

/// Each thread counts here. The count stands on a line of its own, so that threads do not take it from each
/// other.
#[repr(align(128))]
struct Count(AtomicU64);

struct Shared {
    stop: AtomicBool,
    delay: AtomicU64,
    chunks: Vec<Count>,
}

/// Threads that load a node. They end with this value.
pub struct Loaders {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    mix: Mix,
}

impl Loaders {
    /// A thread on each CPU, with so much memory each on the node. They stand still until a delay is set.
    ///
    /// # Errors
    /// The first that cannot be started, or has no memory there.
    pub fn start(cpus: &[u32], bytes: usize, node: u32, mix: Mix) -> Result<Loaders, BenchError> {
        mix.check()?;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            delay: AtomicU64::new(STANDING),
            chunks: cpus.iter().map(|_| Count(AtomicU64::new(0))).collect(),
        });
        let mut loaders = Loaders {
            shared,
            threads: Vec::new(),
            mix,
        };
        for (place, cpu) in cpus.iter().copied().enumerate() {
            let shared = Arc::clone(&loaders.shared);
            let make = move || Buffer::on_node(bytes, node);
            let run = move |buffer: Buffer, ready: &dyn Fn()| {
                ready();
                run(&shared, place, &buffer, mix);
            };
            let name = format!("weir-load-{place}");
            loaders
                .threads
                .push(cpu::start_pinned(name, cpu, make, run)?);
        }
        Ok(loaders)
    }

    /// Pauses of so many steps of [`cpu::spin`] from now on; `None` makes the threads stand still.
    pub fn set_delay(&self, steps: Option<u64>) {
        let steps = steps.map_or(STANDING, |s| s.min(STANDING - 1));
        self.shared.delay.store(steps, Ordering::Relaxed);
        for thread in &self.threads {
            thread.thread().unpark();
        }
    }

    /// Bytes requested so far: caches may have answered a part of them.
    pub fn moved_bytes(&self) -> u64 {
        let chunks = self.shared.chunks.iter();
        let chunks: u64 = chunks.map(|c| c.0.load(Ordering::Relaxed)).sum();
        chunks * self.mix.chunk_bytes()
    }

    pub fn count(&self) -> usize {
        self.threads.len()
    }
}

impl Drop for Loaders {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A thread that panicked has nothing to give back.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, place: usize, buffer: &Buffer, mix: Mix) {
    let chunks = buffer.bytes() / (CHUNK_LINES * LINE_BYTES);
    let mut at = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        let delay = shared.delay.load(Ordering::Relaxed);
        if delay == STANDING {
            std::thread::park();
            continue;
        }
        // SAFETY: whole chunks within the buffer.
        unsafe { chunk(buffer.start().add(at * CHUNK_LINES * LINE_BYTES), mix) };
        at = (at + 1) % chunks;
        if let Some(count) = shared.chunks.get(place) {
            count.0.fetch_add(1, Ordering::Relaxed);
        }
        cpu::spin(delay);
    }
}

/// Touches each line of a chunk once.
///
/// # Safety
/// `start` begins a chunk of memory that is ours.
#[inline(always)]
unsafe fn chunk(start: *mut u8, mix: Mix) {
    let lines = (0..CHUNK_LINES).map(|line| {
        // SAFETY: within the chunk, aligned as lines are.
        unsafe { start.add(line * LINE_BYTES).cast::<u64>() }
    });
    // SAFETY: each is a line of ours.
    unsafe {
        match mix {
            Mix::Reads => lines.for_each(|line| read(line)),
            Mix::OneToOne => lines.for_each(|line| line.write_volatile(1)),
            Mix::NtWrites => lines.for_each(|line| stream(line)),
            Mix::TwoToOne => lines.enumerate().for_each(|(n, line)| match n % 2 {
                0 => read(line),
                _ => line.write_volatile(1),
            }),
        }
    }
}

/// Reads a line and discards the value. The load's target is another register than its address: a pointer
/// chase loads into the register of the address, and the testbed's model distinguishes the two by that.
///
/// # Safety
/// `place` is a line that is ours.
#[inline(always)]
unsafe fn read(place: *mut u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as promised by the caller.
    unsafe {
        std::arch::asm!("mov {word}, [{place}]", word = out(reg) _, place = in(reg) place,
            options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as promised by the caller.
    let _ = unsafe { place.read_volatile() };
}

/// Writes a whole line past the caches.
///
/// # Safety
/// `place` is a line that is ours.
#[cfg(target_arch = "x86_64")]
unsafe fn stream(place: *mut u64) {
    for word in 0..LINE_BYTES / 8 {
        // SAFETY: within the line; SSE2 is part of x86-64.
        unsafe { std::arch::x86_64::_mm_stream_si64(place.add(word).cast(), 1) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn stream(_: *mut u64) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_bytes_are_counted_and_threads_end() {
        let cpus = cpu::allowed().unwrap();
        let Ok(_) = Buffer::on_node(1, 0) else {
            return eprintln!("SKIP loaders: no memory can be bound to node 0 here");
        };
        for mix in [Mix::Reads, Mix::TwoToOne, Mix::OneToOne, Mix::NtWrites] {
            if mix.check().is_err() {
                continue;
            }
            let loaders = Loaders::start(&cpus[..1], 1, 0, mix).unwrap();
            assert_eq!(loaders.moved_bytes(), 0, "it began by itself");
            loaders.set_delay(Some(1));
            while loaders.moved_bytes() < 1 << 20 {
                std::thread::yield_now();
            }
            loaders.set_delay(None);
            assert_eq!(loaders.moved_bytes() % mix.chunk_bytes(), 0);
        }
    }

    #[test]
    fn a_cpu_or_a_node_that_is_not_there_is_named() {
        let said = |cpu, node| {
            let result = Loaders::start(&[cpu], 1, node, Mix::Reads);
            result.err().expect("it began").to_string()
        };
        assert!(said(100_000, 0).contains("cpu100000"));
        let first = cpu::allowed().unwrap()[0];
        assert!(said(first, 1023).contains("node1023"));
    }
}
