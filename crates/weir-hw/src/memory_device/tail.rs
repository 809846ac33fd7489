// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far single accesses lie from the mean: a lognormal body, a gamma-distributed wait in the
//! queue, and rare exponential stalls, independent of each other.

use crate::memory_device::closed_network::Equilibrium;
use crate::memory_device::profile::Tail;

/// The body is integrated over its normal deviate from −4 to 4 in steps of a quarter.
const BODY_POINTS: i32 = 33;
const STALL_POINTS: i32 = 8;

/// Mean of the body that leaves `mean_ns` for body and stalls together.
pub(crate) fn body_mean_ns(tail: &Tail, mean_ns: f64) -> f64 {
    // A stall longer than the latency itself cannot come out of it.
    (mean_ns - tail.stall_ratio * tail.stall_ns).max(0.5 * mean_ns)
}

/// Quantile of the latency at an equilibrium; `quantile` is taken as the nearest in 0 to 1−10⁻⁶,
/// NaN as the median. Inverted by bisection.
pub(crate) fn quantile_ns(tail: &Tail, at: &Equilibrium, quantile: f64) -> f64 {
    let quantile = if quantile.is_nan() {
        0.5
    } else {
        quantile.clamp(0.0, 1.0 - 1e-6)
    };
    let mean_ns = body_mean_ns(tail, (at.latency_ns - at.queued_ns).max(0.0));
    let wait = TailWait::new(at.queued_ns, at.queued_deviation_ns);
    let bodies: [(f64, f64); BODY_POINTS as usize] = std::array::from_fn(|n| {
        let z = (n as f64 - f64::from(BODY_POINTS / 2)) * 0.25;
        let body = (tail.spread * z - 0.5 * tail.spread * tail.spread).exp() * mean_ns;
        (body, (-0.5 * z * z).exp())
    });
    let weights: f64 = bodies.iter().map(|b| b.1).sum();
    let unstalled = |limit: f64| {
        let below = |(body, weight): &(f64, f64)| weight * wait.below(limit - body);
        bodies.iter().map(below).sum::<f64>() / weights
    };
    let below = |limit: f64| {
        if tail.stall_ratio <= 0.0 {
            return unstalled(limit);
        }
        let stall = |n: i32| {
            let part = (f64::from(n) + 0.5) / f64::from(STALL_POINTS);
            -tail.stall_ns * (1.0 - part).ln()
        };
        let stalled: f64 = (0..STALL_POINTS).map(|n| unstalled(limit - stall(n))).sum();
        (1.0 - tail.stall_ratio) * unstalled(limit)
            + tail.stall_ratio * stalled / f64::from(STALL_POINTS)
    };
    let most = bodies[BODY_POINTS as usize - 1].0 + at.queued_ns + 20.0 * at.queued_deviation_ns;
    let (mut low, mut high) = (0.0, most + 4.0 * tail.stall_ns);
    for _ in 0..48 {
        let middle = 0.5 * (low + high);
        if below(middle) < quantile {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// A gamma distribution by the cube-root transformation of Wilson and Hilferty (PNAS 17, 1931).
struct TailWait {
    mean_ns: f64,
    shape: f64,
}

impl TailWait {
    fn new(mean_ns: f64, deviation_ns: f64) -> Self {
        let ratio = if deviation_ns > 0.0 {
            mean_ns / deviation_ns
        } else {
            1.0
        };
        TailWait {
            mean_ns,
            shape: (ratio * ratio).clamp(1.0, 1e6),
        }
    }

    /// Part of the waits that are shorter.
    fn below(&self, limit_ns: f64) -> f64 {
        if limit_ns <= 0.0 {
            return 0.0;
        }
        if self.mean_ns <= 0.0 {
            return 1.0;
        }
        let nine = 9.0 * self.shape;
        normal_below(((limit_ns / self.mean_ns).cbrt() - (1.0 - 1.0 / nine)) * nine.sqrt())
    }
}

/// Part of a standard normal distribution below `z`: Abramowitz and Stegun 7.1.26, error < 1.5e-7.
fn normal_below(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let above = 0.5 * poly * (-x * x).exp();
    if z > 0.0 { 1.0 - above } else { above }
}
