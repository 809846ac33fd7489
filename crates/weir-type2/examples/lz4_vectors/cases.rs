// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages and blocks to try the LZ4 engines with.

use weir_type2::engines::PAGE_BYTES;

/// xorshift64 (Marsaglia 2003).
#[derive(Clone, Copy, Debug)]
pub struct Xorshift {
    state: u64,
}

impl Xorshift {
    pub fn new(seed: u64) -> Xorshift {
        Xorshift {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    pub fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state >> 11
    }

    /// A number from 0 to `end - 1`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A page of runs, copies of earlier bytes and fresh bytes, of which `fresh_percent` decides the share.
pub fn mixed_page(random: &mut Xorshift, bytes: usize, fresh_percent: usize) -> Vec<u8> {
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

pub fn liblz4_block(page: &[u8]) -> Vec<u8> {
    lz4::block::compress(page, None, false).expect("liblz4 takes any page")
}

/// A block, and the limit of what it may become.
pub fn hostile_block(random: &mut Xorshift) -> (Vec<u8>, usize) {
    let bytes = if random.below(8) == 0 {
        PAGE_BYTES
    } else {
        1 + random.below(300)
    };
    let fresh_percent = random.below(80);
    let page = mixed_page(random, bytes, fresh_percent);
    let mut block = liblz4_block(&page);
    match random.below(6) {
        0 => {
            block = (0..1 + random.below(60))
                .map(|_| random.next() as u8)
                .collect()
        }
        1 => block.truncate(1 + random.below(block.len())),
        2 => block.extend_from_within(random.below(block.len())..),
        // Small bytes: short lengths and near offsets, so that much of it is right.
        3 => {
            block = (0..1 + random.below(200))
                .map(|_| (random.next() & random.next() & 0x33) as u8)
                .collect()
        }
        _ => {}
    }
    for _ in 0..random.below(4) {
        let at = random.below(block.len());
        block[at] = match random.below(3) {
            0 => random.next() as u8,
            1 => 255,
            _ => block[at] ^ 1 << random.below(8),
        };
    }
    block.truncate(PAGE_BYTES);
    let limit = match random.below(4) {
        0 => 1 + random.below(PAGE_BYTES),
        1 => PAGE_BYTES,
        _ => (bytes + random.below(8)).min(PAGE_BYTES),
    };
    (block, limit)
}
