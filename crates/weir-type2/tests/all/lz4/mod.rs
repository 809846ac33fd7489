// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The twins of encoder and decoder, judged by liblz4.

mod corpora;
mod flaws;
mod hostile;
mod pages;
mod redis;

use crate::lz4_cases::{Xorshift, hostile_block, liblz4_block, mixed_page};
use weir_type2::engines::PAGE_BYTES;
use weir_type2::engines::lz4::Positions;

const ALL_POSITIONS: [Positions; 4] = [
    Positions::One,
    Positions::Two,
    Positions::Four,
    Positions::Eight,
];

/// What liblz4 reads, if it takes the block.
fn liblz4_page(block: &[u8], limit_bytes: usize) -> Option<Vec<u8>> {
    let mut page = [0; PAGE_BYTES];
    let limit = Some(limit_bytes as i32);
    let bytes = lz4::block::decompress_to_buffer(block, limit, &mut page).ok()?;
    Some(page[..bytes].to_vec())
}
