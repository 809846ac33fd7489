// SPDX-License-Identifier: Apache-2.0 OR MIT
//! XXH64 with seed 0 of pages of 1 to 4096 bytes (the published specification, *xxHash fast digest
//! algorithm*, section XXH64): twin of `Xxh64.scala`.
//!
//! ```text
//! beats ─► slot 0 ┐   a stripe of 32 bytes a clock,        accumulators          merge, rest,
//!    ⋮       ⋮     ├─► of the slots in turn ─► x · P2 ─► + rotl · P1 (a ring) ─► avalanche ─► hash
//! beats ─► slot 4 ┘                                        back in 5 clocks     one page at a time
//! ```
//!
//! A stripe needs the accumulators that the one before left, which takes five clocks: one to add, four to
//! multiply. So five pages are hashed at a time. The finisher has one multiplier and takes five clocks for
//! each product: 70 for a page of 4096 bytes, where the slots give it one each 128 clocks.

use super::stalls::Stalls;
use super::{BEAT_BYTES, EngineRun, PageLengthError, check_length};
use std::collections::VecDeque;

/// Pages under way: as many as the clocks from an accumulator to its next use.
pub const SLOTS: usize = 5;

const STRIPE_BYTES: usize = 32;
/// Clocks of a product in the finisher.
const PRODUCT_CLOCKS: u32 = SLOTS as u32;

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

/// Up to 64 bytes for a slot. The first of a page says how long that is.
#[derive(Clone, Copy, Debug)]
pub struct Xxh64Beat<'a> {
    /// The slot, which must want a beat.
    pub slot: usize,
    /// Length of the page, in bytes; it counts in the page's first beat only.
    pub page_bytes: usize,
    pub bytes: &'a [u8],
}

/// A hash, as the engine shows it until it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotHash {
    pub slot: usize,
    /// XXH64 of its bytes.
    pub value: u64,
}

/// A hash and the clock it came in, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedHash {
    /// XXH64 of the page.
    pub value: u64,
    /// The clock in which it was taken.
    pub clock: u64,
}

/// One page under way, up to the finisher.
#[derive(Clone, Copy, Debug)]
struct HashSlot {
    /// Has begun and not all of its stripes are issued, or its rest.
    is_active: bool,
    /// No stripe of it is issued yet.
    is_first: bool,
    page_bytes: usize,
    stripes_left: usize,
    beat: [u8; BEAT_BYTES],
    has_beat: bool,
    /// The next stripe is the beat's second half.
    second_half: bool,
    accumulators: [u64; 4],
    /// A page without a rest whose stripes are issued waits for the finisher: its length.
    waiting_bytes: Option<usize>,
}

const IDLE: HashSlot = HashSlot {
    is_active: false,
    is_first: false,
    page_bytes: 0,
    stripes_left: 0,
    beat: [0; BEAT_BYTES],
    has_beat: false,
    second_half: false,
    accumulators: [0; 4],
    waiting_bytes: None,
};

impl HashSlot {
    fn rest_bytes(&self) -> usize {
        self.page_bytes % STRIPE_BYTES
    }

    fn wants(&self) -> bool {
        let is_short = self.stripes_left > 0 || self.rest_bytes() > 0;
        !self.has_beat && (!self.is_active || is_short)
    }

    fn accept(&mut self, beat: Xxh64Beat<'_>) {
        if !self.is_active {
            self.is_active = true;
            self.is_first = true;
            self.page_bytes = beat.page_bytes;
            self.stripes_left = beat.page_bytes / STRIPE_BYTES;
        }
        self.beat[..beat.bytes.len()].copy_from_slice(beat.bytes);
        self.has_beat = true;
        self.second_half = false;
    }

    fn half(&self) -> [u8; STRIPE_BYTES] {
        let from = if self.second_half { STRIPE_BYTES } else { 0 };
        let mut half = [0; STRIPE_BYTES];
        half.copy_from_slice(&self.beat[from..from + STRIPE_BYTES]);
        half
    }

    fn issue(&mut self) {
        if !self.is_active || !self.has_beat || self.stripes_left == 0 {
            return;
        }
        let stripe = self.half();
        if self.is_first {
            self.accumulators = [P1.wrapping_add(P2), P2, 0, P1.wrapping_neg()];
        }
        for (accumulator, word) in self.accumulators.iter_mut().zip(stripe.chunks_exact(8)) {
            *accumulator = round(*accumulator, little_endian(word));
        }
        self.is_first = false;
        self.stripes_left -= 1;
        let is_end = self.stripes_left == 0 && self.rest_bytes() == 0;
        if is_end {
            self.is_active = false;
            self.waiting_bytes = Some(self.page_bytes);
        }
        self.has_beat = !self.second_half && !is_end;
        self.second_half = true;
    }
}

#[derive(Clone, Copy, Debug)]
struct Finishing {
    hash: SlotHash,
    clocks_left: u32,
}

#[derive(Clone, Debug)]
pub struct Xxh64Engine {
    slots: [HashSlot; SLOTS],
    turn: usize,
    finishing: Option<Finishing>,
}

impl Default for Xxh64Engine {
    fn default() -> Self {
        Xxh64Engine {
            slots: [IDLE; SLOTS],
            turn: 0,
            finishing: None,
        }
    }
}

impl Xxh64Engine {
    /// Whether a slot takes a beat in this clock.
    pub fn wants(&self, slot: usize) -> bool {
        self.slots[slot].wants()
    }

    /// The hash that it shows in this clock.
    pub fn hash(&self) -> Option<SlotHash> {
        let done = self
            .finishing
            .filter(|finishing| finishing.clocks_left == 0);
        done.map(|finishing| finishing.hash)
    }

    /// One clock: a beat for a slot that wants one, and whether a shown hash is taken.
    pub fn clock(&mut self, beat: Option<Xxh64Beat<'_>>, is_taken: bool) {
        let is_free = self.finishing.is_none();
        match &mut self.finishing {
            Some(finishing) if finishing.clocks_left > 0 => finishing.clocks_left -= 1,
            finishing if is_taken => *finishing = None,
            _ => {}
        }
        let turn = self.turn;
        let slot = &mut self.slots[turn];
        match slot.waiting_bytes {
            Some(page_bytes) if is_free => {
                self.finishing = Some(finish(turn, slot.accumulators, page_bytes, &[]));
                slot.waiting_bytes = None;
                slot.issue();
            }
            Some(_) => {}
            None if slot.is_active && slot.stripes_left == 0 => {
                if slot.has_beat && is_free {
                    let rest = &slot.half()[..slot.rest_bytes()];
                    self.finishing = Some(finish(turn, slot.accumulators, slot.page_bytes, rest));
                    slot.is_active = false;
                    slot.has_beat = false;
                }
            }
            None => slot.issue(),
        }
        if let Some(beat) = beat {
            self.slots[beat.slot].accept(beat);
        }
        self.turn = (turn + 1) % SLOTS;
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn round(accumulator: u64, word: u64) -> u64 {
    let sum = accumulator.wrapping_add(word.wrapping_mul(P2));
    sum.rotate_left(31).wrapping_mul(P1)
}

/// Merges the accumulators, takes the rest in and mixes the bits; counts the products. Rotations and shifts
/// are those of the specification (section XXH64, steps 3 to 6); how many products there are decides how long
/// the finisher has a page.
fn finish(slot: usize, accumulators: [u64; 4], page_bytes: usize, rest: &[u8]) -> Finishing {
    let mut products = 0;
    let mut hash = P5;
    if page_bytes >= STRIPE_BYTES {
        let turns = [1, 7, 12, 18];
        let turned = accumulators.iter().zip(turns);
        hash = turned.fold(0, |sum: u64, (a, by)| sum.wrapping_add(a.rotate_left(by)));
        for accumulator in accumulators {
            hash = (hash ^ round(0, accumulator))
                .wrapping_mul(P1)
                .wrapping_add(P4);
            products += 3;
        }
    }
    hash = hash.wrapping_add(page_bytes as u64);
    let words = rest.chunks_exact(8);
    let (half_words, bytes) = match words.remainder() {
        [a, b, c, d, bytes @ ..] => (Some([*a, *b, *c, *d]), bytes),
        bytes => (None, bytes),
    };
    for word in words {
        hash = (hash ^ round(0, little_endian(word))).rotate_left(27);
        hash = hash.wrapping_mul(P1).wrapping_add(P4);
        products += 3;
    }
    if let Some(half) = half_words {
        hash = (hash ^ little_endian(&half).wrapping_mul(P1)).rotate_left(23);
        hash = hash.wrapping_mul(P2).wrapping_add(P3);
        products += 2;
    }
    for byte in bytes {
        hash = (hash ^ u64::from(*byte).wrapping_mul(P5)).rotate_left(11);
        hash = hash.wrapping_mul(P1);
        products += 2;
    }
    hash = (hash ^ hash >> 33).wrapping_mul(P2);
    hash = (hash ^ hash >> 29).wrapping_mul(P3);
    products += 2;
    Finishing {
        hash: SlotHash {
            slot,
            value: hash ^ hash >> 32,
        },
        // The last stripe leaves the ring; then the products.
        clocks_left: SLOTS as u32 + PRODUCT_CLOCKS * products,
    }
}

/// What a source has still to send to a slot.
#[derive(Clone, Copy, Default)]
struct Feed<'a> {
    page_bytes: usize,
    left: &'a [u8],
}

/// Hashes pages, each sent to the first slot that is free; slots that want a beat get one by turns.
///
/// # Errors
/// A page is empty or longer than 4096 bytes.
pub fn hash_timed(pages: &[&[u8]], mut stalls: Stalls) -> Result<Vec<TimedHash>, PageLengthError> {
    pages.iter().try_for_each(|page| check_length(page.len()))?;
    let mut engine = Xxh64Engine::default();
    let mut found = vec![TimedHash { value: 0, clock: 0 }; pages.len()];
    let mut feeds = [Feed::default(); SLOTS];
    let mut under_way: [VecDeque<usize>; SLOTS] = Default::default();
    let (mut next_page, mut next_slot, mut left) = (0, 0, pages.len());
    for clock in 0.. {
        if left == 0 {
            break;
        }
        let stall = stalls.clock();
        let wanting = (0..SLOTS).map(|n| (next_slot + n) % SLOTS);
        let chosen = wanting
            .filter(|slot| engine.wants(*slot))
            .find(|slot| !feeds[*slot].left.is_empty() || next_page < pages.len());
        let beat = chosen.filter(|_| !stall.source).map(|slot| {
            let feed = &mut feeds[slot];
            if feed.left.is_empty() {
                let page = pages[next_page];
                (feed.page_bytes, feed.left) = (page.len(), page);
                under_way[slot].push_back(next_page);
                next_page += 1;
            }
            let (bytes, left) = feed.left.split_at(feed.left.len().min(BEAT_BYTES));
            feed.left = left;
            next_slot = (slot + 1) % SLOTS;
            Xxh64Beat {
                slot,
                page_bytes: feed.page_bytes,
                bytes,
            }
        });
        if let Some(hash) = engine.hash().filter(|_| !stall.sink)
            && let Some(page) = under_way[hash.slot].pop_front()
        {
            let value = hash.value;
            found[page] = TimedHash { value, clock };
            left -= 1;
        }
        engine.clock(beat, !stall.sink);
    }
    Ok(found)
}

/// Hashes pages: eight bytes for each, the hash as a little-endian integer.
///
/// # Errors
/// A page is empty or longer than 4096 bytes.
pub fn hash_pages(pages: &[&[u8]]) -> Result<EngineRun, PageLengthError> {
    let hashes = hash_timed(pages, Stalls::none())?;
    let last = hashes.iter().map(|hash| hash.clock + 1).max();
    Ok(EngineRun {
        bytes: hashes
            .iter()
            .flat_map(|hash| hash.value.to_le_bytes())
            .collect(),
        clocks: last.unwrap_or(0),
    })
}
