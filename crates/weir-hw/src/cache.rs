// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Filter between a core's accesses and the device: a shared last-level cache with write-back and
//! write-allocate, indexed by physical line. A store to a line that is not cached reads it from the
//! device first (thesis 6.2.1: 1 GiB/s of writes is 0.99 read + 0.99 written), and writes it back
//! when it is evicted.
//!
//! Direct mapped, index hashed, so that a strided workload does not alias with itself. Smaller and
//! simpler than a real cache; it decides *which* accesses reach the device, not how long a hit takes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Tag of an entry that holds no line. Line numbers are physical addresses / 64: far below.
const EMPTY: u64 = u64::MAX;
/// The lowest bit of an entry: the line was written since it came, and is written back when another takes its
/// place.
const DIRTY: u64 = 1;

/// A shared cache of lines; usable from many threads.
pub struct CacheFilter {
    /// `line << 1 | dirty`, or `EMPTY`.
    entries: Box<[AtomicU64]>,
    index_shift: u32,
}

/// Effect of one access on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Nothing: the line was cached.
    Hit,
    /// The line must be read; a dirty line that had its place must be written back.
    Miss {
        /// Physical line number (address / 64) to write back.
        write_back_line: Option<u64>,
    },
}

impl CacheFilter {
    /// A cache of `lines` entries, rounded up to a power of two, at least 2.
    pub fn new(lines: usize) -> Self {
        let lines = lines.max(2).next_power_of_two();
        let entries = (0..lines).map(|_| AtomicU64::new(EMPTY)).collect();
        CacheFilter {
            entries,
            index_shift: 64 - lines.trailing_zeros(),
        }
    }

    /// A load or store of physical line `line` (address / 64). Two threads that miss the same entry
    /// at once both reach the device, as two cores would.
    pub fn access(&self, line: u64, is_store: bool) -> Lookup {
        // Fibonacci hashing: the high bits of the product depend on all bits of the line.
        let index = (line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.index_shift) as usize;
        let entry = &self.entries[index];
        let seen = entry.load(Ordering::Relaxed);
        let mine = line << 1 | u64::from(is_store);
        if seen != EMPTY && seen >> 1 == line {
            // If the entry changed hands meanwhile, the store's dirtiness is lost with the race:
            // one write-back too few, on two cores fighting for one entry.
            if is_store && seen & DIRTY == 0 {
                let _ = entry.compare_exchange(seen, mine, Ordering::Relaxed, Ordering::Relaxed);
            }
            return Lookup::Hit;
        }
        let old = entry.swap(mine, Ordering::Relaxed);
        let dirty_other = old != EMPTY && old & DIRTY != 0 && old >> 1 != line;
        Lookup::Miss {
            write_back_line: dirty_other.then_some(old >> 1),
        }
    }

    /// Forget everything without writing back, as at power-on.
    pub fn clear(&self) {
        for entry in &self.entries {
            entry.store(EMPTY, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_once_while_it_stays() {
        let cache = CacheFilter::new(1024);
        assert_eq!(
            cache.access(7, false),
            Lookup::Miss {
                write_back_line: None
            }
        );
        assert_eq!(cache.access(7, false), Lookup::Hit);
        assert_eq!(cache.access(7, true), Lookup::Hit);
    }

    #[test]
    fn streaming_stores_read_and_write_every_line_once() {
        let cache = CacheFilter::new(1024);
        let lines = 100_000u64;
        let (mut reads, mut writes) = (0u64, 0u64);
        for line in 0..lines {
            if let Lookup::Miss { write_back_line } = cache.access(line, true) {
                reads += 1;
                writes += u64::from(write_back_line.is_some());
            }
        }
        assert_eq!(reads, lines, "write-allocate: each store reads its line");
        assert!(
            writes <= lines && writes >= lines - 1024,
            "all but the cached ones come back"
        );
    }

    #[test]
    fn clean_lines_leave_silently() {
        let cache = CacheFilter::new(64);
        for line in 0..10_000 {
            match cache.access(line, false) {
                Lookup::Miss { write_back_line } => assert_eq!(write_back_line, None),
                Lookup::Hit => panic!("line {line} was never touched before"),
            }
        }
    }

    #[test]
    fn random_reads_hit_as_often_as_the_cache_is_large() {
        // 1024 entries over 16 384 equally likely lines: hit ratio 1/16.
        let cache = CacheFilter::new(1024);
        let mut seed = 1u64;
        let mut hits = 0u32;
        let accesses = 200_000u32;
        for _ in 0..accesses {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let line = seed >> 50;
            hits += u32::from(cache.access(line, false) == Lookup::Hit);
        }
        let ratio = f64::from(hits) / f64::from(accesses);
        assert!((ratio - 1.0 / 16.0).abs() < 0.01, "hit ratio {ratio}");
    }
}
