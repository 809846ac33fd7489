// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The twins of encoder and decoder, judged by liblz4.

mod corpora;
mod flaws;
mod hostile;
mod pages;

use weir_hw::engines::PAGE_BYTES;
use weir_hw::engines::lz4::Positions;

const ALL_POSITIONS: [Positions; 4] = [
    Positions::One,
    Positions::Two,
    Positions::Four,
    Positions::Eight,
];

/// xorshift64 (Marsaglia 2003).
#[derive(Clone, Copy, Debug)]
struct Xorshift {
    state: u64,
}

impl Xorshift {
    fn new(seed: u64) -> Xorshift {
        Xorshift {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state >> 11
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A page of runs, copies of earlier bytes and fresh bytes, of which `fresh_percent` decides the share.
fn mixed_page(random: &mut Xorshift, bytes: usize, fresh_percent: usize) -> Vec<u8> {
    let mut page = Vec::with_capacity(bytes + 64);
    while page.len() < bytes {
        let count = 1 + random.below(40);
        if page.is_empty() || random.below(100) < fresh_percent {
            page.extend((0..count).map(|_| random.next() as u8));
        } else if random.below(4) == 0 {
            let byte = random.next() as u8;
            page.extend(std::iter::repeat_n(byte, count * count));
        } else {
            let from = random.below(page.len());
            let copied: Vec<u8> = page[from..].iter().take(count).copied().collect();
            page.extend(copied);
        }
    }
    page.truncate(bytes);
    page
}

/// What liblz4 makes of a page.
fn liblz4_block(page: &[u8]) -> Vec<u8> {
    lz4::block::compress(page, None, false).unwrap()
}

/// What liblz4 reads, if it takes the block.
fn liblz4_page(block: &[u8], limit_bytes: usize) -> Option<Vec<u8>> {
    let mut page = [0; PAGE_BYTES];
    let limit = Some(limit_bytes as i32);
    let bytes = lz4::block::decompress_to_buffer(block, limit, &mut page).ok()?;
    Some(page[..bytes].to_vec())
}
