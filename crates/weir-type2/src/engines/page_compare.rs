// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares two pages, 64 bytes of each a clock, and says where they first differ and which is greater, as
//! memcmp does: twin of `PageCompare.scala`.
//!
//! ```text
//! pairs ─► differs, less (a bit a byte) ─► first of the 64 ─► result, held until it is taken
//! ```
//!
//! A pair's result is there three clocks later. Pages follow each other without a gap. A result that comes
//! before its page has ended is an early one: the source may begin the next page at once, and pairs of the
//! old one are ignored. A result that is not taken holds all stages.

use super::stalls::Stalls;
use super::{BEAT_BYTES, EngineRun, PageLengthError, check_length};
use std::cmp::Ordering;

/// Up to 64 bytes of two pages, as many of each.
#[derive(Clone, Copy, Debug)]
pub struct ComparePair<'a> {
    pub left: &'a [u8],
    pub right: &'a [u8],
    /// They are the first of their pages.
    pub is_first: bool,
    /// They are the last of their pages.
    pub is_last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Byte of the first difference, or the length where there is none.
    pub first_difference: u32,
    /// The first page against the second, there.
    pub order: Ordering,
}

/// A comparison and the clock it came in, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedComparison {
    pub comparison: Comparison,
    /// The clock in which it was taken.
    pub clock: u64,
}

/// A pair in one of the two stages before the result.
#[derive(Clone, Copy, Debug)]
struct StagedPair {
    is_first: bool,
    is_last: bool,
    /// Bytes of each.
    bytes: usize,
    /// Byte within the pair, and order.
    difference: Option<(usize, Ordering)>,
}

impl StagedPair {
    fn of(pair: ComparePair<'_>) -> StagedPair {
        let bytes = pair.left.iter().zip(pair.right);
        let difference = bytes.enumerate().find_map(|(at, (left, right))| {
            let order = left.cmp(right);
            (order != Ordering::Equal).then_some((at, order))
        });
        StagedPair {
            is_first: pair.is_first,
            is_last: pair.is_last,
            bytes: pair.left.len(),
            difference,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct PageCompareEngine {
    /// The comparison of two beats: a bit for each byte.
    compared: Option<StagedPair>,
    /// The first byte that differs.
    encoded: Option<StagedPair>,
    /// The page at the result has begun, and nothing is said of it yet.
    is_open: bool,
    /// Bytes before the pair that comes to the result.
    before: usize,
    result: Option<Comparison>,
}

impl PageCompareEngine {
    /// The result that it shows in this clock.
    pub fn result(&self) -> Option<Comparison> {
        self.result
    }

    /// Whether it takes a pair in this clock, if the shown result is taken, or not.
    pub fn is_ready(&self, is_taken: bool) -> bool {
        self.result.is_none() || is_taken
    }

    /// One clock: a pair if it is ready for one, and whether a shown result is taken.
    pub fn clock(&mut self, pair: Option<ComparePair<'_>>, is_taken: bool) {
        if !self.is_ready(is_taken) {
            return;
        }
        self.result = None;
        if let Some(staged) = self.encoded {
            self.decide(staged);
        }
        self.encoded = self.compared;
        self.compared = pair.map(StagedPair::of);
    }

    fn decide(&mut self, staged: StagedPair) {
        if !staged.is_first && !self.is_open {
            return;
        }
        let before = if staged.is_first { 0 } else { self.before };
        let end = (staged.bytes, Ordering::Equal);
        let said = staged.difference.or(staged.is_last.then_some(end));
        self.result = said.map(|(at, order)| Comparison {
            first_difference: (before + at) as u32,
            order,
        });
        self.is_open = said.is_none();
        self.before = before + BEAT_BYTES;
    }
}

#[derive(Clone, Copy, Debug)]
pub struct PagePair<'a> {
    pub left: &'a [u8],
    /// The other: at least as long, what is beyond is not looked at.
    pub right: &'a [u8],
}

impl<'a> PagePair<'a> {
    fn beat(self, from: usize) -> ComparePair<'a> {
        let to = self.left.len().min(from + BEAT_BYTES);
        ComparePair {
            left: &self.left[from..to],
            right: &self.right[from..to],
            is_first: from == 0,
            is_last: to == self.left.len(),
        }
    }
}

/// Compares pairs of pages one after the other; what is left of a page after its result is not sent.
///
/// # Errors
/// A page is empty or longer than 4096 bytes, or the second is shorter than the first.
pub fn compare_timed(
    pages: &[PagePair<'_>],
    mut stalls: Stalls,
) -> Result<Vec<TimedComparison>, PageLengthError> {
    for pair in pages {
        check_length(pair.left.len())?;
        if pair.right.len() < pair.left.len() {
            let bytes = pair.right.len();
            return Err(PageLengthError { bytes });
        }
    }
    let mut engine = PageCompareEngine::default();
    let mut found = Vec::with_capacity(pages.len());
    let (mut page, mut sent) = (0, 0);
    for clock in 0.. {
        if found.len() == pages.len() {
            break;
        }
        let stall = stalls.clock();
        let is_taken = !stall.sink;
        let offered = pages.get(page).filter(|_| !stall.source);
        let beat = offered
            .filter(|_| engine.is_ready(is_taken))
            .map(|pair| pair.beat(sent));
        let shown = engine.result();
        engine.clock(beat, is_taken);
        if let Some(beat) = beat {
            sent += BEAT_BYTES;
            if beat.is_last {
                (page, sent) = (page + 1, 0);
            }
        }
        if let Some(comparison) = shown.filter(|_| is_taken) {
            // An early one: the rest of its page is not sent.
            if page == found.len() && sent > 0 {
                (page, sent) = (page + 1, 0);
            }
            found.push(TimedComparison { comparison, clock });
        }
    }
    Ok(found)
}

/// Compares pairs of pages: eight bytes for each, little endian, the first difference in 32 bits and then -1,
/// 0 or 1 in 32 bits.
///
/// # Errors
/// A page is empty or longer than 4096 bytes, or the second is shorter than the first.
pub fn compare_pages(pages: &[PagePair<'_>]) -> Result<EngineRun, PageLengthError> {
    let found = compare_timed(pages, Stalls::none())?;
    let mut bytes = Vec::with_capacity(8 * found.len());
    for TimedComparison { comparison, .. } in &found {
        bytes.extend(comparison.first_difference.to_le_bytes());
        bytes.extend((comparison.order as i32).to_le_bytes());
    }
    Ok(EngineRun {
        bytes,
        clocks: found.last().map_or(0, |last| last.clock + 1),
    })
}
