// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the emulated device counts, access by access, for somebody who counts again: real hardware in
//! a simulator, fed with the accesses of a real kernel.
//!
//! ```text
//!  vCPU 0 ──push──► ring 0 ──┐
//!  vCPU 1 ──push──► ring 1 ──┼──take──► one consumer
//!      …                …    ┘
//! ```
//!
//! One shared file of 64-bit words holds a ring for each vCPU, so that none waits for another. A ring has
//! one producer and one consumer; it is bounded, and a full one says so: the producer waits (back
//! pressure). What was given up nevertheless is counted in `lost`, and a consumer that sees a number
//! there has not seen everything.
//!
//! *When is an access there?* After `push` has returned, for everybody who is told of it later, by
//! whatever way. [`Stream::pushed`] names what is there; taking up to it is all of it.

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

/// One access of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of the line: its host-physical address without the lowest 6 of 52 bits.
    pub line: u64,
    /// Whether it was written, else read.
    pub is_write: bool,
    /// Lines that were before it at the device; 255 is that many or more.
    pub queue_fill: u8,
}

impl Record {
    fn to_word(self) -> u64 {
        let line = self.line & ((1 << LINE_BITS) - 1);
        line | u64::from(self.is_write) << WRITE_BIT | u64::from(self.queue_fill) << FILL_SHIFT
    }

    fn of_word(word: u64) -> Self {
        Record {
            line: word & ((1 << LINE_BITS) - 1),
            is_write: word >> WRITE_BIT & 1 != 0,
            queue_fill: (word >> FILL_SHIFT) as u8,
        }
    }
}

/// Shape of a stream: decides where the words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rings: one for each vCPU.
    pub ring_count: usize,
    /// Records that each holds; a power of two.
    pub ring_records: usize,
}

impl Shape {
    /// Words of the whole stream.
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

/// The two ends of a ring are no ends of one ring: somebody else has written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ring {ring} says {pushed} pushed and {taken} taken: that is no ring of {records}")]
pub struct Broken {
    /// Which one.
    pub ring: usize,
    /// Records ever pushed, as it says.
    pub pushed: u64,
    /// Records ever taken, as it says.
    pub taken: u64,
    /// What it holds.
    pub records: usize,
}

/// A stream over shared words.
#[derive(Clone, Copy)]
pub struct Stream<'a> {
    words: &'a [AtomicU64],
    shape: Shape,
}

impl<'a> Stream<'a> {
    /// Lay out an empty stream; nothing if there are too few words, or there is no such shape.
    pub fn create(words: &'a [AtomicU64], shape: Shape) -> Option<Self> {
        if !shape.is_valid() || words.len() < shape.words() {
            return None;
        }
        for word in words {
            word.store(0, Ordering::Relaxed);
        }
        words[1].store(VERSION, Ordering::Relaxed);
        words[2].store(shape.ring_count as u64, Ordering::Relaxed);
        words[3].store(shape.ring_records as u64, Ordering::Relaxed);
        words[0].store(MAGIC, Ordering::Release);
        Some(Stream { words, shape })
    }

    /// Open a stream that somebody created; nothing if this is none, or not of our version.
    pub fn open(words: &'a [AtomicU64]) -> Option<Self> {
        let get = |i: usize| words.get(i).map(|w| w.load(Ordering::Acquire));
        if get(0)? != MAGIC || get(1)? != VERSION {
            return None;
        }
        let shape = Shape {
            ring_count: usize::try_from(get(2)?).ok()?,
            ring_records: usize::try_from(get(3)?).ok()?,
        };
        (shape.is_valid() && words.len() >= shape.words()).then_some(Stream { words, shape })
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Add a record; `false` if the ring is full, or there is none of this number. One thread at a time
    /// for each ring.
    #[must_use = "a record that is not pushed is lost"]
    pub fn push(&self, ring: usize, record: Record) -> bool {
        let Some([pushed, taken]) = self.ends(ring) else {
            return false;
        };
        let at = pushed.load(Ordering::Relaxed);
        // Acquire: the place is free once the consumer has read it.
        if at.wrapping_sub(taken.load(Ordering::Acquire)) >= self.shape.ring_records as u64 {
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
        mut to: impl FnMut(Record),
    ) -> Result<usize, Broken> {
        let Some([pushed, taken]) = self.ends(ring) else {
            return Ok(0);
        };
        let (end, at) = (
            pushed.load(Ordering::Acquire),
            taken.load(Ordering::Relaxed),
        );
        let there = end.wrapping_sub(at);
        if there > self.shape.ring_records as u64 {
            return Err(Broken {
                ring,
                pushed: end,
                taken: at,
                records: self.shape.ring_records,
            });
        }
        let count = there.min(most as u64);
        for i in 0..count {
            let word = self.place(ring, at.wrapping_add(i)).load(Ordering::Relaxed);
            to(Record::of_word(word));
        }
        taken.store(at.wrapping_add(count), Ordering::Release);
        Ok(count as usize)
    }

    /// Records ever pushed into a ring. Once as many are taken, all that was there now has been.
    pub fn pushed(&self, ring: usize) -> u64 {
        self.ends(ring)
            .map_or(0, |[pushed, _]| pushed.load(Ordering::Acquire))
    }

    /// Records ever taken out of it.
    pub fn taken(&self, ring: usize) -> u64 {
        self.ends(ring)
            .map_or(0, |[_, taken]| taken.load(Ordering::Acquire))
    }

    /// Give an access up: nobody will see it.
    pub fn lose(&self) {
        self.words[LOST_AT].fetch_add(1, Ordering::Relaxed);
    }

    /// Accesses that were given up.
    pub fn lost(&self) -> u64 {
        self.words[LOST_AT].load(Ordering::Relaxed)
    }

    /// Say that a producer waits for room once more.
    pub fn wait(&self) {
        self.words[WAITS_AT].fetch_add(1, Ordering::Relaxed);
    }

    /// How often producers have waited for room.
    pub fn waits(&self) -> u64 {
        self.words[WAITS_AT].load(Ordering::Relaxed)
    }

    /// How many records were pushed and how many taken, for ever.
    fn ends(&self, ring: usize) -> Option<[&'a AtomicU64; 2]> {
        let at = self.shape.ring_at(ring);
        (ring < self.shape.ring_count).then(|| [&self.words[at], &self.words[at + TAKEN_AT]])
    }

    fn place(&self, ring: usize, number: u64) -> &'a AtomicU64 {
        let first = self.shape.ring_at(ring) + RING_HEADER_WORDS;
        &self.words[first + (number as usize & (self.shape.ring_records - 1))]
    }
}
