// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far single accesses lie from the mean: a lognormal body and rare exponential stalls.

use crate::profile::Tail;

/// Mean of the body that leaves `mean_ns` for body and stalls together.
pub(crate) fn body_mean_ns(tail: &Tail, mean_ns: f64) -> f64 {
    // A stall longer than the latency itself cannot come out of it.
    (mean_ns - tail.stall_ratio * tail.stall_ns).max(0.5 * mean_ns)
}

/// Quantile of the distribution with this mean; `quantile` is taken as the nearest in 0 to 1−10⁻⁹.
///
/// Body and stall are independent; the sum's distribution is integrated over the body in 64 equal
/// parts and inverted by bisection.
pub(crate) fn quantile_ns(tail: &Tail, mean_ns: f64, quantile: f64) -> f64 {
    let quantile = if quantile.is_nan() {
        0.5
    } else {
        quantile.clamp(0.0, 1.0 - 1e-9)
    };
    let body_mean = body_mean_ns(tail, mean_ns);
    let body = |q: f64| {
        (tail.spread * normal_quantile(q) - 0.5 * tail.spread * tail.spread).exp() * body_mean
    };
    let body_ns = body(quantile.max(1e-9));
    if tail.stall_ratio <= 0.0 || tail.stall_ns <= 0.0 {
        return body_ns;
    }
    let bodies: [f64; 64] = std::array::from_fn(|n| body((n as f64 + 0.5) / 64.0));
    let below = |limit: f64| {
        let z = if tail.spread > 0.0 && limit > 0.0 {
            ((limit / body_mean).ln() + 0.5 * tail.spread * tail.spread) / tail.spread
        } else if limit >= body_mean {
            f64::INFINITY
        } else {
            f64::NEG_INFINITY
        };
        let unstalled = normal_below(z);
        let stalled = |body: &f64| {
            let left = limit - body;
            if left > 0.0 && tail.stall_ns > 0.0 {
                1.0 - (-left / tail.stall_ns).exp()
            } else {
                0.0
            }
        };
        let sum: f64 = bodies.iter().map(stalled).sum();
        (1.0 - tail.stall_ratio) * unstalled + tail.stall_ratio * sum / bodies.len() as f64
    };
    let (mut low, mut high) = (0.0, body_ns + 25.0 * tail.stall_ns);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if below(middle) < quantile {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Part of a standard normal distribution below `z`: Abramowitz and Stegun 7.1.26, error < 1.5e-7.
fn normal_below(z: f64) -> f64 {
    if z.is_infinite() {
        return if z > 0.0 { 1.0 } else { 0.0 };
    }
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let above = 0.5 * poly * (-x * x).exp();
    if z > 0.0 { 1.0 - above } else { above }
}

/// The value that a part `q` of a standard normal distribution lies below, by bisection.
fn normal_quantile(q: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if normal_below(middle) < q {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}
