// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random numbers that a seed decides, the same on every machine: `SplitMix64` (Steele, Lea, Flood 2014).

/// What the state grows by: 2⁶⁴ ÷ the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitMix(u64);

impl SplitMix {
    /// One seed gives one series.
    #[must_use]
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// From 0 to below a bound; 0 if the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        u64::try_from((u128::from(self.bits()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// A number from 0 to below 1, evenly distributed.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A normally distributed number of mean 0 and standard deviation 1, by the method of Box and Muller. The
    /// second value that the method gives is not kept.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// Its mixing of a state: each bit of the result hangs on all bits of the number.
#[must_use]
pub fn mix(z: u64) -> u64 {
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
        let seen = [random.bits(), random.bits(), random.bits()];
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
            assert!((0.0..1.0).contains(&random.unit()));
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn normal_numbers_have_mean_0_and_deviation_1() {
        let mut random = SplitMix::new(3);
        let all: Vec<f64> = (0..10_000).map(|_| random.normal()).collect();
        let mean = all.iter().sum::<f64>() / 1e4;
        let variance = all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 1e4;
        assert!(
            mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05,
            "{mean} {variance}"
        );
    }
}
