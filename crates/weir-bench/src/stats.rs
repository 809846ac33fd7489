// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics of some hundred timings. The mean of the middle half: an interrupt makes one batch a hundred
//! times longer and has nothing to do with memory, and a median of few values is coarser.

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Mean of the middle half, in nanoseconds.
    pub mean_ns: f64,
    pub median_ns: f64,
    /// 99th percentile of the batches: means of many loads, not single ones. In nanoseconds.
    pub p99_ns: f64,
    /// Half of the 95 % confidence interval of the mean, relative to it.
    pub error_ratio: f64,
    pub batches: usize,
}

/// Fewer timings say nothing.
pub const BATCHES_MIN: usize = 8;

impl Timing {
    /// The summary of these timings, which may be in any order; nothing if they are too few.
    pub fn of(timings_ns: &[f64]) -> Option<Timing> {
        let mut sorted = timings_ns.to_vec();
        sorted.retain(|t| t.is_finite());
        if sorted.len() < BATCHES_MIN {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let middle = &sorted[count / 4..count - count / 4];
        let mean_ns = middle.iter().sum::<f64>() / middle.len() as f64;
        // For a normal distribution the quartiles are 1.349 σ apart, and this mean scatters by 1.09 σ/√n.
        let sigma = (sorted[count - 1 - count / 4] - sorted[count / 4]) / 1.349;
        let error_ns = 1.96 * 1.09 * sigma / (count as f64).sqrt();
        Some(Timing {
            mean_ns,
            median_ns: f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]),
            p99_ns: sorted[(count - 1) * 99 / 100],
            error_ratio: error_ns / mean_ns.max(f64::MIN_POSITIVE),
            batches: count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_do_not_count_and_noise_averages_out() {
        // Evenly spread over 90 to 110, and every twentieth was interrupted.
        let noisy = |n: usize| -> Vec<f64> {
            let even = |i: usize| 90.0 + 20.0 * ((i * 7919) % n) as f64 / n as f64;
            (0..n)
                .map(|i| if i % 20 == 19 { 5000.0 } else { even(i) })
                .collect()
        };
        let (few, many) = (noisy(101), noisy(10_007));
        let (few, many) = (Timing::of(&few).unwrap(), Timing::of(&many).unwrap());
        assert!((many.mean_ns - 100.0).abs() < 1.0, "{many:?}");
        assert!((many.median_ns - 100.0).abs() < 1.0 && many.p99_ns == 5000.0);
        assert!(many.error_ratio < 0.005 && few.error_ratio > 5.0 * many.error_ratio);
        assert!((few.mean_ns / many.mean_ns - 1.0).abs() < 2.0 * few.error_ratio);
    }

    #[test]
    fn too_few_say_nothing() {
        assert_eq!(Timing::of(&[1.0; BATCHES_MIN - 1]), None);
        assert_eq!(Timing::of(&[f64::NAN; 100]), None);
        assert_eq!(Timing::of(&[2.0; 100]).unwrap().error_ratio, 0.0);
    }
}
