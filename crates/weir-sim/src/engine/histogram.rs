// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Latencies in log-linear buckets: 32 an octave, so a quantile is at most 3.2 % off, over the whole range of
//! 64 bits in at most 16 KiB, and no more than the largest value needs. Counts are weights: a fluid model
//! adds parts of accesses.

const BITS: u32 = 5;
const BUCKETS: usize = (64 << BITS) + 1;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Up to the last bucket that was ever added to.
    weights: Vec<f64>,
    total: f64,
    sum: f64,
    squares: f64,
}

pub(crate) fn bucket(ns: u64) -> usize {
    let octave = 63 - (ns | 1).leading_zeros();
    if octave < BITS {
        return ns as usize;
    }
    let shift = octave - BITS;
    ((shift as usize + 1) << BITS) + ((ns >> shift) as usize - (1 << BITS))
}

fn middle(bucket: usize) -> f64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    if bucket < (2 << BITS) {
        return bucket as f64;
    }
    let mantissa = (bucket & ((1 << BITS) - 1)) + (1 << BITS);
    (mantissa as f64 + 0.5) * (shift as f64).exp2()
}

fn start(bucket: usize) -> f64 {
    if bucket < (2 << BITS) {
        return bucket as f64;
    }
    let shift = (bucket >> BITS) - 1;
    let mantissa = (bucket & ((1 << BITS) - 1)) + (1 << BITS);
    mantissa as f64 * (shift as f64).exp2()
}

impl Histogram {
    pub fn add(&mut self, ns: f64, weight: f64) {
        self.add_at(bucket(ns as u64), ns, weight);
    }

    /// The same where the bucket is known already.
    pub(crate) fn add_at(&mut self, bucket: usize, ns: f64, weight: f64) {
        if bucket >= self.weights.len() && bucket < BUCKETS {
            self.weights.resize(bucket + 1, 0.0);
        }
        if let Some(slot) = self.weights.get_mut(bucket) {
            *slot += weight;
            self.total += weight;
            self.sum += weight * ns;
            self.squares += weight * ns * ns;
        }
    }

    pub fn count(&self) -> f64 {
        self.total
    }

    pub fn mean_ns(&self) -> Option<f64> {
        (self.total > 0.0).then(|| self.sum / self.total)
    }

    pub fn stddev_ns(&self) -> Option<f64> {
        let mean = self.mean_ns()?;
        Some((self.squares / self.total - mean * mean).max(0.0).sqrt())
    }

    /// Nearest rank: the middle of the bucket below the end of which at least `q` of all values lie.
    pub fn quantile_ns(&self, q: f64) -> Option<f64> {
        if self.total <= 0.0 {
            return None;
        }
        let wanted = q.clamp(0.0, 1.0) * self.total * (1.0 - 1e-12);
        let mut below = 0.0;
        let at = self.weights.iter().position(|w| {
            below += w;
            *w > 0.0 && below >= wanted
        });
        at.map(middle)
    }

    /// Buckets that hold something: from, below, and the weight between, by rising value.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        let full = self.weights.iter().enumerate().filter(|(_, w)| **w > 0.0);
        full.map(|(i, w)| (start(i), start(i + 1), *w))
    }

    pub fn merge(&mut self, other: &Histogram) {
        if self.weights.len() < other.weights.len() {
            self.weights.resize(other.weights.len(), 0.0);
        }
        for (sum, weight) in self.weights.iter_mut().zip(&other.weights) {
            *sum += weight;
        }
        self.total += other.total;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    pub fn clear(&mut self) {
        *self = Histogram::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nearest_rank_within_a_bucket() {
        let mut all = Histogram::default();
        (1..=1000).for_each(|v| all.add(f64::from(v) * 1000.0, 1.0));
        for (q, value) in [(0.5, 500e3), (0.99, 990e3), (1.0, 1000e3)] {
            let found = all.quantile_ns(q).expect("values");
            assert!((found / value - 1.0).abs() < 0.032, "{q}: {found}");
        }
        assert!((all.mean_ns().expect("values") - 500_500.0).abs() < 1e-6);
        assert!((all.stddev_ns().expect("values") - 288_674.9).abs() < 1.0);
        assert_eq!(Histogram::default().quantile_ns(0.5), None);
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(ns in 0u64..1 << 52) {
            let mut one = Histogram::default();
            one.add(ns as f64, 2.0);
            let found: Vec<(f64, f64, f64)> = one.buckets().collect();
            prop_assert_eq!(found.len(), 1);
            let (from, below, weight) = found[0];
            prop_assert!(from <= ns as f64 && (ns as f64) < below && weight == 2.0, "{from} {below}");
        }

        #[test]
        fn buckets_are_ordered_and_close(ns in 0u64..=u64::MAX, more in 0u64..1 << 40) {
            prop_assert!(bucket(ns) < BUCKETS);
            prop_assert!(bucket(ns) <= bucket(ns.saturating_add(more)));
            let off = middle(bucket(ns)) - ns as f64;
            prop_assert!(off.abs() <= 0.032 * ns as f64 + 0.5, "{off}");
        }
    }
}
