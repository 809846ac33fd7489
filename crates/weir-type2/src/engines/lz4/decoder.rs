// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a block: one sequence and up to 16 bytes a clock.
//!
//! A clock moves the bytes of a match that is under way. If these are its last, the next sequence's literals
//! follow them in the same clock, and its offset and lengths are kept for the next: a sequence a clock, where
//! match and literals are at most 16 bytes. The bytes of a length beyond the token's four bits take a
//! clock each.

use super::loading::Loading;
use super::{
    LENGTH_BYTE_MAX, LENGTH_CODE_MAX, LITERAL_TAIL_BYTES, MATCH_BYTES_MIN, MATCH_START_TAIL_BYTES,
    MOVE_BYTES, closing_clocks,
};
use crate::engines::{BEAT_BYTES, EngineRun, PageLengthError, check_length};

const OFFSET_BYTES: usize = 2;

/// After literals that are not the last: an offset, a token, and the literals at the page's end.
const AFTER_LITERALS_BYTES_MIN: usize = OFFSET_BYTES + 1 + LITERAL_TAIL_BYTES;

/// After a match's length: less cannot be a last sequence that liblz4 takes.
const AFTER_MATCH_LENGTH_BYTES_MIN: usize = 4;

/// Why a block is malformed; the number is the RTL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockFlaw {
    /// It ends where a sequence is not complete, or too soon after a match.
    #[error("the block ends within a sequence or too soon after a match")]
    Truncated = 1,
    #[error("a sequence has more literals than the block has bytes")]
    LiteralsBeyondInput = 2,
    #[error("an offset is 0")]
    OffsetZero = 3,
    #[error("an offset leads to before the first byte")]
    OffsetBeforeStart = 4,
    /// There is more than the page takes, or a match reaches into its last 5 bytes.
    #[error("the decoded bytes pass the limit, or a match reaches into the last 5")]
    OutputBeyondLimit = 5,
    /// A match would begin in the page's last 12 bytes.
    #[error("the block goes on where the page is full, or has at most 12 bytes left")]
    TrailingInput = 6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeRefusal {
    /// The block's length, or the limit of the page's.
    #[error(transparent)]
    Length(#[from] PageLengthError),
    #[error("{flaw} (refused after {clocks} clocks)")]
    Malformed { flaw: BlockFlaw, clocks: u64 },
}

/// What the next byte of the block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockPart {
    Token,
    LiteralLength,
    Literals,
    MatchLength,
}

enum AfterClock {
    More,
    Complete,
}

struct Decoder<'a> {
    block: &'a [u8],
    limit_bytes: usize,
    loading: Loading,
    /// Bytes of the block that have been used.
    used: usize,
    part: BlockPart,
    /// Literals of this sequence that are still to come, unless they fit the token's clock.
    literals: usize,
    /// The token's four bits for the match.
    match_code: usize,
    /// Bytes of the match under way that are still to come.
    match_bytes: usize,
    offset: usize,
    page: Vec<u8>,
}

impl<'a> Decoder<'a> {
    fn new(block: &'a [u8], limit_bytes: usize) -> Decoder<'a> {
        Decoder {
            block,
            limit_bytes,
            loading: Loading::new(block.len()),
            used: 0,
            part: BlockPart::Token,
            literals: 0,
            match_code: 0,
            match_bytes: 0,
            offset: 0,
            page: Vec::with_capacity(limit_bytes),
        }
    }

    fn remaining(&self) -> usize {
        self.block.len() - self.used
    }

    /// One clock: a step if the window is full, and 16 more bytes into the window if it has room.
    fn clock(&mut self) -> Result<AfterClock, BlockFlaw> {
        let window_start = self.used / MOVE_BYTES * MOVE_BYTES;
        let is_full =
            self.loading.loaded_bytes >= self.block.len().min(window_start + 2 * MOVE_BYTES);
        let result = if is_full && self.loading.loaded_bytes > 0 {
            self.step()
        } else {
            Ok(AfterClock::More)
        };
        let is_shifted = self.used >= window_start + MOVE_BYTES;
        let is_refused = result.is_err();
        self.loading.clock(!is_full || (is_shifted && !is_refused));
        result
    }

    fn step(&mut self) -> Result<AfterClock, BlockFlaw> {
        self.check_registers()?;
        let moved = self.match_bytes.min(MOVE_BYTES);
        let is_match_over = self.match_bytes <= MOVE_BYTES;
        match self.part {
            BlockPart::Token if is_match_over => self.token(moved),
            BlockPart::Token => {
                self.move_match(moved);
                Ok(AfterClock::More)
            }
            BlockPart::LiteralLength => {
                self.literal_length();
                Ok(AfterClock::More)
            }
            BlockPart::Literals if self.literals <= MOVE_BYTES - OFFSET_BYTES => {
                self.literals_and_offset(0, self.literals)
            }
            BlockPart::Literals => self.only_literals(),
            BlockPart::MatchLength => self.match_length(moved),
        }
    }

    /// Whether what is under way fits, as the registers have it.
    fn check_registers(&self) -> Result<(), BlockFlaw> {
        if self.match_bytes > 0 {
            if self.offset == 0 {
                return Err(BlockFlaw::OffsetZero);
            }
            if self.offset > self.page.len() {
                return Err(BlockFlaw::OffsetBeforeStart);
            }
            if self.page.len() + self.match_bytes + LITERAL_TAIL_BYTES > self.limit_bytes {
                return Err(BlockFlaw::OutputBeyondLimit);
            }
        }
        if matches!(self.part, BlockPart::LiteralLength | BlockPart::Literals) {
            self.check_literals(0, self.literals)?;
        }
        Ok(())
    }

    /// `before`: bytes of block before them; the page has all that comes before them.
    fn check_literals(&self, before: usize, literals: usize) -> Result<(), BlockFlaw> {
        if before + literals > self.remaining() {
            return Err(BlockFlaw::LiteralsBeyondInput);
        }
        if self.page.len() + literals > self.limit_bytes {
            return Err(BlockFlaw::OutputBeyondLimit);
        }
        Ok(())
    }

    fn token(&mut self, moved: usize) -> Result<AfterClock, BlockFlaw> {
        if self.remaining() == 0 {
            return Err(BlockFlaw::Truncated);
        }
        let token = self.block[self.used] as usize;
        let literals = token >> 4;
        self.match_code = token & LENGTH_CODE_MAX;
        self.move_match(moved);
        if literals + OFFSET_BYTES < MOVE_BYTES && literals + moved <= MOVE_BYTES {
            self.check_literals(1, literals)?;
            return self.literals_and_offset(1, literals);
        }
        self.used += 1;
        self.literals = literals;
        self.part = if literals == LENGTH_CODE_MAX {
            BlockPart::LiteralLength
        } else {
            BlockPart::Literals
        };
        Ok(AfterClock::More)
    }

    /// There is a byte: the registers have at least 15 literals, for which the block has bytes.
    fn literal_length(&mut self) {
        let byte = self.length_byte();
        self.literals += byte;
        if byte < LENGTH_BYTE_MAX {
            self.part = BlockPart::Literals;
        }
    }

    fn match_length(&mut self, moved: usize) -> Result<AfterClock, BlockFlaw> {
        if self.remaining() <= AFTER_MATCH_LENGTH_BYTES_MIN {
            return Err(BlockFlaw::Truncated);
        }
        let byte = self.length_byte();
        self.move_match(moved);
        self.match_bytes += byte;
        if byte < LENGTH_BYTE_MAX {
            self.part = BlockPart::Token;
        }
        Ok(AfterClock::More)
    }

    fn length_byte(&mut self) -> usize {
        self.used += 1;
        self.block[self.used - 1] as usize
    }

    fn only_literals(&mut self) -> Result<AfterClock, BlockFlaw> {
        let moved = self.literals.min(MOVE_BYTES);
        let is_end = moved == self.remaining();
        self.move_literals(0, moved);
        self.literals -= moved;
        Ok(if is_end {
            AfterClock::Complete
        } else {
            AfterClock::More
        })
    }

    /// The last literals of a sequence, and its offset unless it is the block's last.
    fn literals_and_offset(
        &mut self,
        before: usize,
        literals: usize,
    ) -> Result<AfterClock, BlockFlaw> {
        let after = self.remaining() - before - literals;
        if after == 0 {
            self.move_literals(before, literals);
            return Ok(AfterClock::Complete);
        }
        if after < AFTER_LITERALS_BYTES_MIN {
            return Err(BlockFlaw::Truncated);
        }
        if self.page.len() + literals + MATCH_START_TAIL_BYTES > self.limit_bytes {
            return Err(BlockFlaw::TrailingInput);
        }
        self.move_literals(before, literals);
        let offset = &self.block[self.used..self.used + OFFSET_BYTES];
        self.offset = u16::from_le_bytes([offset[0], offset[1]]) as usize;
        self.used += OFFSET_BYTES;
        self.literals = 0;
        self.match_bytes = self.match_code + MATCH_BYTES_MIN;
        self.part = if self.match_code == LENGTH_CODE_MAX {
            BlockPart::MatchLength
        } else {
            BlockPart::Token
        };
        Ok(AfterClock::More)
    }

    fn move_literals(&mut self, before: usize, literals: usize) {
        let start = self.used + before;
        self.page
            .extend_from_slice(&self.block[start..start + literals]);
        self.used = start + literals;
    }

    fn move_match(&mut self, moved: usize) {
        for _ in 0..moved {
            self.page.push(self.page[self.page.len() - self.offset]);
        }
        self.match_bytes -= moved;
    }

    fn run(mut self) -> Result<EngineRun, DecodeRefusal> {
        loop {
            match self.clock() {
                Ok(AfterClock::More) => {}
                Ok(AfterClock::Complete) => {
                    let clocks = self.loading.clocks() + closing_clocks(self.page.len());
                    let bytes = self.page;
                    return Ok(EngineRun { bytes, clocks });
                }
                Err(flaw) => {
                    let clocks = self.loading.clocks() + 2 + self.loading.beats_outstanding();
                    return Err(DecodeRefusal::Malformed { flaw, clocks });
                }
            }
        }
    }
}

/// Decodes a block of at most 4096 bytes to at most `limit_bytes` bytes. What it accepts, liblz4 accepts,
/// with the same bytes.
///
/// # Errors
/// The block is malformed, or one of the lengths is 0 or more than 4096.
pub fn decode(block: &[u8], limit_bytes: usize) -> Result<EngineRun, DecodeRefusal> {
    check_length(block.len())?;
    check_length(limit_bytes)?;
    Decoder::new(block, limit_bytes).run()
}

/// The most clocks that a block takes, malformed or not, if the source always has a beat and the sink
/// always takes one. A sequence gives 4 bytes or more; what takes a clock more gives 4 bytes more too.
pub fn clock_bound(block_bytes: usize, limit_bytes: usize) -> u64 {
    let beats = block_bytes.div_ceil(BEAT_BYTES);
    // Length bytes of literals that turn out to be too many.
    let lengths = limit_bytes / LENGTH_BYTE_MAX;
    (limit_bytes / MATCH_BYTES_MIN + lengths + beats + CLOCKS_BESIDE) as u64
}

/// Loading before the first sequence, the last sequence, and closing.
const CLOCKS_BESIDE: usize = 16;
