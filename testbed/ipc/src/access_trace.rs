// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trace of the accesses that the emulated device counts, for a second counter of the same accesses: the
//! RTL in a simulator, fed with the accesses of a real kernel.
//!
//! ```text
//!  vCPU 0 ──push──► ring 0 ──┐
//!  vCPU 1 ──push──► ring 1 ──┼──take──► one consumer
//!      …                …    ┘
//! ```
//!
//! One shared file of 64-bit words holds a ring for each vCPU, so that none waits for another. A ring has
//! one producer and one consumer; it is bounded, and the producer of a full one waits (back
//! pressure). Accesses that were dropped nevertheless are counted in `lost`; a consumer that finds a number
//! there has not received everything.
//!
//! *When is an access visible?* After `push` has returned, for every thread that learns of it later, in
//! whatever way. [`AccessTrace::pushed`] names what is there; taking up to it is all of it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies the file ("WEIRSTRM").
const MAGIC: u64 = u64::from_le_bytes(*b"WEIRSTRM");
/// Raised when words move or records change.
const VERSION: u64 = 1;

/// Words of the header, and of each ring's; a ring's two ends lie in cache lines of their own.
const HEADER_WORDS: usize = 16;
const RING_HEADER_WORDS: usize = 32;
const LOST_AT: usize = 4;
const WAITS_AT: usize = 5;
const TAKEN_AT: usize = 16;

const RINGS_MAX: usize = 1 << 12;
const RECORDS_MAX: usize = 1 << 24;

const LINE_BITS: u32 = 46;
const WRITE_BIT: u32 = LINE_BITS;
const FILL_SHIFT: u32 = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// Number of the line: its host-physical address without the lowest 6 of 52 bits.
    pub line: u64,
    /// Whether it was written, else read.
    pub is_write: bool,
    /// Lines that were before it at the device; 255 is that many or more.
    pub queue_fill: u8,
}

impl TraceRecord {
    /// One word a record: the line's number in 46 bits, a bit for writes above it, and from bit 48 on how
    /// many lines were before it. So a record is written and read in one piece, without a lock.
    fn to_word(self) -> u64 {
        let line = self.line & ((1 << LINE_BITS) - 1);
        line | u64::from(self.is_write) << WRITE_BIT | u64::from(self.queue_fill) << FILL_SHIFT
    }

    fn of_word(word: u64) -> Self {
        TraceRecord {
            line: word & ((1 << LINE_BITS) - 1),
            is_write: word >> WRITE_BIT & 1 != 0,
            queue_fill: (word >> FILL_SHIFT) as u8,
        }
    }
}

/// Shape of a trace: decides where the words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLayout {
    /// Rings: one for each vCPU.
    pub ring_count: usize,
    /// Records that each holds; a power of two.
    pub ring_records: usize,
}

impl TraceLayout {
    pub fn words(&self) -> usize {
        self.ring_at(self.ring_count)
    }

    fn ring_at(&self, ring: usize) -> usize {
        HEADER_WORDS + ring * (RING_HEADER_WORDS + self.ring_records)
    }

    fn is_valid(&self) -> bool {
        (1..=RINGS_MAX).contains(&self.ring_count)
            && (1..=RECORDS_MAX).contains(&self.ring_records)
            && self.ring_records.is_power_of_two()
    }
}

/// The two ends of a ring contradict each other: another program has written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ring {ring} says {pushed} pushed and {taken} taken: that is no ring of {records}")]
pub struct BrokenRing {
    pub ring: usize,
    /// Records ever pushed, by its header.
    pub pushed: u64,
    /// Records ever taken, by its header.
    pub taken: u64,
    pub records: usize,
}

#[derive(Clone, Copy)]
pub struct AccessTrace<'a> {
    words: &'a [AtomicU64],
    layout: TraceLayout,
}

impl<'a> AccessTrace<'a> {
    /// Lay out an empty trace; nothing if there are too few words, or the layout is impossible.
    pub fn create(words: &'a [AtomicU64], layout: TraceLayout) -> Option<Self> {
        if !layout.is_valid() || words.len() < layout.words() {
            return None;
        }
        for word in words {
            word.store(0, Ordering::Relaxed);
        }
        words[1].store(VERSION, Ordering::Relaxed);
        words[2].store(layout.ring_count as u64, Ordering::Relaxed);
        words[3].store(layout.ring_records as u64, Ordering::Relaxed);
        words[0].store(MAGIC, Ordering::Release);
        Some(AccessTrace { words, layout })
    }

    /// Opens a trace; nothing if this is none, or has another version.
    pub fn open(words: &'a [AtomicU64]) -> Option<Self> {
        let get = |i: usize| words.get(i).map(|w| w.load(Ordering::Acquire));
        if get(0)? != MAGIC || get(1)? != VERSION {
            return None;
        }
        let layout = TraceLayout {
            ring_count: usize::try_from(get(2)?).ok()?,
            ring_records: usize::try_from(get(3)?).ok()?,
        };
        (layout.is_valid() && words.len() >= layout.words())
            .then_some(AccessTrace { words, layout })
    }

    pub fn layout(&self) -> TraceLayout {
        self.layout
    }

    /// Add a record; `false` if the ring is full, or there is none of this number. One thread at a time
    /// for each ring.
    #[must_use = "a record that is not pushed is lost"]
    pub fn push(&self, ring: usize, record: TraceRecord) -> bool {
        let Some([pushed, taken]) = self.ends(ring) else {
            return false;
        };
        let at = pushed.load(Ordering::Relaxed);
        // Acquire: the place is free once the consumer has read it.
        if at.wrapping_sub(taken.load(Ordering::Acquire)) >= self.layout.ring_records as u64 {
            return false;
        }
        self.place(ring, at)
            .store(record.to_word(), Ordering::Relaxed);
        pushed.store(at.wrapping_add(1), Ordering::Release);
        true
    }

    /// Take at most `most` records of a ring, oldest first; returns how many. One thread at a time.
    ///
    /// # Errors
    /// The ring's ends contradict each other; nothing is taken.
    pub fn take(
        &self,
        ring: usize,
        most: usize,
        mut to: impl FnMut(TraceRecord),
    ) -> Result<usize, BrokenRing> {
        let Some([pushed, taken]) = self.ends(ring) else {
            return Ok(0);
        };
        let (end, at) = (
            pushed.load(Ordering::Acquire),
            taken.load(Ordering::Relaxed),
        );
        let there = end.wrapping_sub(at);
        if there > self.layout.ring_records as u64 {
            return Err(BrokenRing {
                ring,
                pushed: end,
                taken: at,
                records: self.layout.ring_records,
            });
        }
        let count = there.min(most as u64);
        for i in 0..count {
            let word = self.place(ring, at.wrapping_add(i)).load(Ordering::Relaxed);
            to(TraceRecord::of_word(word));
        }
        taken.store(at.wrapping_add(count), Ordering::Release);
        Ok(count as usize)
    }

    /// Records ever pushed into a ring. Once as many are taken, all that was there now has been.
    pub fn pushed(&self, ring: usize) -> u64 {
        self.ends(ring)
            .map_or(0, |[pushed, _]| pushed.load(Ordering::Acquire))
    }

    pub fn taken(&self, ring: usize) -> u64 {
        self.ends(ring)
            .map_or(0, |[_, taken]| taken.load(Ordering::Acquire))
    }

    pub fn count_lost(&self) {
        self.words[LOST_AT].fetch_add(1, Ordering::Relaxed);
    }

    pub fn lost(&self) -> u64 {
        self.words[LOST_AT].load(Ordering::Relaxed)
    }

    /// Counts a wait of a producer for space.
    pub fn count_wait(&self) {
        self.words[WAITS_AT].fetch_add(1, Ordering::Relaxed);
    }

    /// How often producers have waited for space.
    pub fn waits(&self) -> u64 {
        self.words[WAITS_AT].load(Ordering::Relaxed)
    }

    /// How many records were pushed and how many taken, for ever.
    fn ends(&self, ring: usize) -> Option<[&'a AtomicU64; 2]> {
        let at = self.layout.ring_at(ring);
        (ring < self.layout.ring_count).then(|| [&self.words[at], &self.words[at + TAKEN_AT]])
    }

    fn place(&self, ring: usize, number: u64) -> &'a AtomicU64 {
        let first = self.layout.ring_at(ring) + RING_HEADER_WORDS;
        &self.words[first + (number as usize & (self.layout.ring_records - 1))]
    }
}
