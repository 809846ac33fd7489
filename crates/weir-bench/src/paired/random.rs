// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random numbers that are the same everywhere: SplitMix64 (Steele, Lea, Flood 2014).

/// A generator; its seed is its state.
pub(super) struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below 1.
    pub fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The index that a part from 0 to below 1 is of, among `count`.
pub(super) fn index(part: f64, count: usize) -> usize {
    // A part below 1 times a count is not negative and below the count.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let index = (part * count as f64) as usize;
    index.min(count.saturating_sub(1))
}
