// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes sequences as the search finds them: up to 16 bytes of block a clock.
//!
//! A clock writes a token, up to 13 literals and the offset. Where there are more literals the token has a
//! clock of its own; each byte of a length has one too.

use super::{LENGTH_BYTE_MAX, LENGTH_CODE_MAX, MATCH_BYTES_MIN, MOVE_BYTES};
use std::collections::VecDeque;

/// Sequences that may wait for the emitter, which works beside the search: a sequence with many literals
/// takes it several clocks, and the search goes on meanwhile.
const QUEUE_SEQUENCES: usize = 4;

/// Token and offset, beside which literals may stand.
const BESIDE_LITERALS_BYTES: usize = 3;

/// Literals, and a match unless it is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    /// Byte of the page where the literals begin.
    pub(super) anchor: usize,
    pub(super) literals: usize,
    pub(super) offset: usize,
    /// 0: this is the last sequence.
    pub(super) match_bytes: usize,
}

impl Sequence {
    fn match_code(&self) -> usize {
        self.match_bytes.saturating_sub(MATCH_BYTES_MIN)
    }

    fn token(&self) -> u8 {
        let literals = self.literals.min(LENGTH_CODE_MAX);
        (literals << 4 | self.match_code().min(LENGTH_CODE_MAX)) as u8
    }
}

/// What the next byte of the block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EmittedPart {
    Token,
    LiteralLength,
    Literals,
    MatchLength,
}

/// What a clock of the emitter leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emitted {
    More,
    /// The last sequence is written.
    Complete,
    /// The block is not smaller than the page.
    TooLarge,
}

#[derive(Clone, Debug)]
pub(super) struct Emitter<'a> {
    page: &'a [u8],
    queue: VecDeque<Sequence>,
    part: EmittedPart,
    /// The sequence under way; its literals are those still to come.
    sequence: Sequence,
    /// What is left of a length.
    length: usize,
    pub(super) block: Vec<u8>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(page: &'a [u8]) -> Emitter<'a> {
        Emitter {
            page,
            queue: VecDeque::with_capacity(QUEUE_SEQUENCES),
            part: EmittedPart::Token,
            sequence: Sequence {
                anchor: 0,
                literals: 0,
                offset: 0,
                match_bytes: 0,
            },
            length: 0,
            block: Vec::with_capacity(page.len()),
        }
    }

    /// Whether a sequence can come in this clock.
    pub(super) fn is_ready(&self) -> bool {
        self.queue.len() < QUEUE_SEQUENCES
    }

    /// One clock, in which a sequence may come.
    pub(super) fn clock(&mut self, found: Option<Sequence>) -> Emitted {
        let before = self.block.len();
        let head = self.queue.front().copied();
        let is_complete = match (self.part, head) {
            (EmittedPart::Token, Some(sequence)) => {
                self.queue.pop_front();
                if before + 1 + sequence.literals >= self.page.len() {
                    return Emitted::TooLarge;
                }
                self.token(sequence)
            }
            (EmittedPart::Token, None) => false,
            (EmittedPart::LiteralLength, _) => {
                self.length_byte(EmittedPart::Literals);
                false
            }
            (EmittedPart::Literals, _) => self.literals(),
            (EmittedPart::MatchLength, _) => {
                self.length_byte(EmittedPart::Token);
                false
            }
        };
        self.queue.extend(found);
        if self.block.len() >= self.page.len() {
            Emitted::TooLarge
        } else if is_complete {
            Emitted::Complete
        } else {
            Emitted::More
        }
    }

    fn token(&mut self, sequence: Sequence) -> bool {
        self.sequence = sequence;
        self.block.push(sequence.token());
        if sequence.literals + BESIDE_LITERALS_BYTES <= MOVE_BYTES {
            return self.literals_and_offset();
        }
        self.length = sequence.literals.saturating_sub(LENGTH_CODE_MAX);
        self.part = if sequence.literals >= LENGTH_CODE_MAX {
            EmittedPart::LiteralLength
        } else {
            EmittedPart::Literals
        };
        false
    }

    fn length_byte(&mut self, next: EmittedPart) {
        self.block.push(self.length.min(LENGTH_BYTE_MAX) as u8);
        if self.length < LENGTH_BYTE_MAX {
            self.part = next;
        }
        self.length = self.length.saturating_sub(LENGTH_BYTE_MAX);
    }

    fn literals(&mut self) -> bool {
        if self.sequence.literals + 2 <= MOVE_BYTES {
            return self.literals_and_offset();
        }
        let is_last = self.sequence.match_bytes == 0 && self.sequence.literals <= MOVE_BYTES;
        self.move_literals(self.sequence.literals.min(MOVE_BYTES));
        is_last
    }

    fn literals_and_offset(&mut self) -> bool {
        self.move_literals(self.sequence.literals);
        self.part = EmittedPart::Token;
        if self.sequence.match_bytes == 0 {
            return true;
        }
        self.block
            .extend((self.sequence.offset as u16).to_le_bytes());
        if self.sequence.match_code() >= LENGTH_CODE_MAX {
            self.length = self.sequence.match_code() - LENGTH_CODE_MAX;
            self.part = EmittedPart::MatchLength;
        }
        false
    }

    fn move_literals(&mut self, bytes: usize) {
        let from = self.sequence.anchor;
        self.block.extend_from_slice(&self.page[from..from + bytes]);
        self.sequence.anchor += bytes;
        self.sequence.literals -= bytes;
    }
}
