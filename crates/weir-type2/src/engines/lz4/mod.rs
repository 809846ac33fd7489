// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LZ4 blocks, made and read clock by clock: twins of `Lz4Encoder.scala` and `Lz4Decoder.scala`.
//!
//! ```text
//! page ──► 16 bytes a clock into the page RAM ──► search ──► queue ──► emitter ──► packer ──► beats
//!                                              (hash table)  (4 sequences)
//! block ─► 16 bytes a clock into a window ──► one sequence a clock ──► history ──► packer ──► beats
//! ```
//!
//! The format is LZ4's block format (`lz4_Block_format.md` of the LZ4 project). A block is a row of
//! sequences: a token with two lengths, literals, and a match, which is an offset into what was decoded
//! before. The last has literals only; of a page's bytes the last 5 are literals and no match begins in
//! the last 12.

mod decoder;
mod emitter;
mod encoder;
mod hash_table;
mod loading;
mod search;

pub use decoder::{BlockFlaw, DecodeRefusal, clock_bound, decode};
pub use encoder::{EncodeRefusal, Positions, encode};

/// Bytes that an engine moves or compares in a clock.
pub const MOVE_BYTES: usize = 16;

const MATCH_BYTES_MIN: usize = 4;

/// So many bytes at the end of a page belong to no match.
const LITERAL_TAIL_BYTES: usize = 5;

/// No match begins in so many bytes at the end of a page.
const MATCH_START_TAIL_BYTES: usize = 12;

/// The bytes of a length that its four bits in the token do not hold.
const LENGTH_CODE_MAX: usize = 15;

/// The value of a length byte that another one follows.
const LENGTH_BYTE_MAX: usize = 255;

/// Clocks from the last move of an engine to its result: the packer gives its last beat, in a clock of its
/// own if that is not full, before the result is shown.
fn closing_clocks(bytes: usize) -> u64 {
    if bytes.is_multiple_of(super::BEAT_BYTES) {
        2
    } else {
        3
    }
}
