// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random numbers that stay the same for ever: own generator, own distributions, one stream per
//! component, so that two controllers meet the same workload (common random numbers).

use weir_core::random::SplitMix;

/// xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// A stream of its own for each pair of seed and stream.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut state = SplitMix::new(seed ^ stream.wrapping_mul(0xD134_2543_DE82_EF95));
        Rng([(); 4].map(|()| state.bits()))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..n; 0 for n = 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Standard normal (Box and Muller, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Poisson: counted out for small means, rounded normal above 30.
    pub fn poisson(&mut self, mean: f64) -> f64 {
        if mean > 30.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0);
        }
        let (floor, mut product, mut count) = ((-mean).exp(), self.unit(), 0.0);
        while product > floor {
            product *= self.unit();
            count += 1.0;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let take = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            [rng.bits(), rng.bits(), rng.bits()]
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(1, 3));
        assert_ne!(take(1, 2), take(2, 2));
    }

    #[test]
    fn distributions_have_their_moments() {
        let mut rng = Rng::new(7, 0);
        let n = 200_000;
        let mean = |mut draw: Box<dyn FnMut() -> f64 + '_>| {
            (0..n).map(|_| draw()).sum::<f64>() / f64::from(n)
        };
        assert!((mean(Box::new(|| rng.exponential(3.0))) - 3.0).abs() < 0.05);
        assert!(mean(Box::new(|| rng.normal())).abs() < 0.02);
        assert!((mean(Box::new(|| rng.normal().powi(2))) - 1.0).abs() < 0.03);
        assert!((mean(Box::new(|| rng.poisson(2.5))) - 2.5).abs() < 0.03);
        assert!((mean(Box::new(|| rng.poisson(80.0))) - 80.0).abs() < 0.2);
        assert!((mean(Box::new(|| rng.below(10) as f64)) - 4.5).abs() < 0.05);
    }
}
