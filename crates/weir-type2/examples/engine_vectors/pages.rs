// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages to feed engines with: random ones, and such as memory has.

/// Draws pages; the same ones for the same seed.
pub struct Pages {
    state: u64,
}

impl Pages {
    pub fn new(seed: u64) -> Pages {
        Pages {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    /// 64 random bits (xorshift64*).
    pub fn draw(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() >> 16) as usize % bound
    }

    /// Fills a page: random, one byte, pointers that rise, few bits, or short words over and over.
    pub fn fill(&mut self, page: &mut [u8]) {
        let kind = self.below(5);
        let base = self.draw();
        let period = 1 + self.below(40);
        for (index, chunk) in page.chunks_mut(8).enumerate() {
            let word = match kind {
                0 => self.draw(),
                1 => (base & 0xff) * 0x0101_0101_0101_0101,
                2 => (base & 0x7fff_ffff_f000) + 24 * index as u64,
                3 => 1 << (self.draw() >> 58),
                _ => base.rotate_left((index % period) as u32),
            };
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
    }

    pub fn page(&mut self, bytes: usize) -> Vec<u8> {
        let mut page = vec![0; bytes];
        self.fill(&mut page);
        page
    }
}
