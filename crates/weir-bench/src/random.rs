// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random numbers that are the same everywhere: `SplitMix64` (Steele, Lea, Flood 2014).

/// A generator.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// One seed gives one series.
    #[must_use]
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// From 0 to below a bound; 0 if the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        u64::try_from((u128::from(self.next()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// From 0 to below 1.
    pub fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Its mixing of a state.
pub(crate) fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_is_that_of_the_paper() {
        // Seed 1234567: the first numbers of the authors' reference implementation.
        let mut random = SplitMix::new(1_234_567);
        let seen = [random.next(), random.next(), random.next()];
        let wanted = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all_below_it() {
        let mut random = SplitMix::new(1);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[usize::try_from(random.below(7)).unwrap()] = true;
            assert!((0.0..1.0).contains(&random.part()));
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(random.below(0), 0);
    }
}
