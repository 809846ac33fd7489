// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of a workload as whole numbers of three digits, which is what the page shows: what a reader could
//! not see is not sent. A figure that is not known is [`UNKNOWN`].

use weir_core::rates::attribution::Provenance;
use weir_core::seam::plan::Decision;
use weir_core::{BytesPerSec, CpuShare};

/// Stands for a figure that is not known, and for a limit that is not there.
pub const UNKNOWN: i64 = -1;
/// A mean forgets in so much time, in milliseconds.
const MEMORY_MS: f64 = 500.0;

/// What is sent of a workload, in this order.
pub const FIGURES: [&str; 8] = [
    "bandwidth_kib_per_sec",
    "source",
    "cpu_milli",
    "throttled_milli",
    "limit_milli",
    "allowed_kib_per_sec",
    "limited_since_ms",
    "reason",
];

/// These of one workload.
pub type Figures = [i64; FIGURES.len()];

/// A mean over about a second, of what came.
#[derive(Clone, Copy, Default)]
pub struct Smooth(Option<f64>);

/// How much of a new value counts.
#[derive(Clone, Copy)]
pub struct Weight(f64);

impl Weight {
    /// The weight of a value that comes so long after the one before.
    pub fn after_ms(span_ms: u64) -> Weight {
        // A span of more than that counts as much as a span of that.
        let span_ms = span_ms.min(60_000) as f64;
        Weight(1.0 - (-span_ms / MEMORY_MS).exp())
    }
}

impl Smooth {
    /// The mean with this value. What is not known now is not known.
    pub fn with(&mut self, value: Option<f64>, weight: Weight) -> Option<f64> {
        let value = value.filter(|value| value.is_finite());
        let mean = |value| {
            self.0
                .map_or(value, |mean| mean + (value - mean) * weight.0)
        };
        self.0 = value.map(mean);
        self.0
    }
}

/// A whole number of three digits and zeros. It is made so often that it is made without a division of whole
/// numbers.
pub fn three_digits(value: Option<f64>) -> i64 {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return UNKNOWN;
    };
    // More than any device moves; less than 2^53, which JavaScript counts exactly.
    let value = value.clamp(0.0, 1e15);
    let (mut step, mut whole) = (1.0, 1);
    while value >= step * 999.5 {
        step *= 10.0;
        whole *= 10;
    }
    // Up to 1000 steps.
    #[allow(clippy::cast_possible_truncation)]
    let steps = (value / step + 0.5) as i64;
    steps * whole
}

/// The rate in KiB per second.
pub fn kib_per_sec(rate: Option<BytesPerSec>) -> i64 {
    three_digits(rate.map(|rate| rate.get() / 1024.0))
}

/// The use or limit in thousandths of a CPU.
pub fn milli(cpus: Option<CpuShare>) -> i64 {
    three_digits(cpus.map(|cpus| cpus.get() * 1000.0))
}

/// The bandwidth of a decision, if it is known.
pub fn bandwidth(decision: &Decision) -> Option<f64> {
    let known = decision.bandwidth.provenance != Provenance::Unknown;
    known.then(|| decision.bandwidth.bytes_per_sec.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_kept() {
        for (value, wanted) in [
            (0.0, 0),
            (0.4, 0),
            (7.6, 8),
            (999.4, 999),
            (999.6, 1000),
            (12_345.0, 12_300),
            (12_351.0, 12_400),
            (99_950.0, 100_000),
            (-3.0, 0),
            (1e300, 1_000_000_000_000_000),
        ] {
            assert_eq!(three_digits(Some(value)), wanted, "{value}");
        }
        assert_eq!(three_digits(None), UNKNOWN);
        assert_eq!(three_digits(Some(f64::NAN)), UNKNOWN);
    }

    #[test]
    fn a_mean_follows_and_does_not_invent() {
        let mut mean = Smooth::default();
        let weight = Weight::after_ms(100);
        assert_eq!(mean.with(None, weight), None);
        assert_eq!(mean.with(Some(100.0), weight), Some(100.0));
        let next = mean.with(Some(200.0), weight).unwrap();
        assert!((115.0..125.0).contains(&next), "{next}");
        for _ in 0..50 {
            mean.with(Some(200.0), weight);
        }
        assert_eq!(three_digits(mean.0), 200);
        assert_eq!(mean.with(None, weight), None, "missing is not zero");
        assert_eq!(mean.with(Some(f64::INFINITY), weight), None);
    }
}
