// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far single accesses lie from the mean: a lognormal body, a gamma-distributed wait in the
//! queue, and rare exponential stalls, independent of each other.

use crate::memory_device::closed_network::Equilibrium;
use crate::memory_device::profile::Tail;

/// The body is integrated over its normal deviate from −4 to 4 in steps of a quarter: what lies outside is 6
/// in 100 000.
const BODY_POINTS: i32 = 33;
const STALL_POINTS: i32 = 8;

/// Mean of the body that leaves `mean_ns` for body and stalls together.
pub(crate) fn body_mean_ns(tail: &Tail, mean_ns: f64) -> f64 {
    // A stall longer than the latency itself cannot come out of it.
    (mean_ns - tail.stall_ratio * tail.stall_ns).max(0.5 * mean_ns)
}

/// Quantile of the latency at an equilibrium; `quantile` is taken as the nearest in 0 to 1−10⁻⁶, NaN as the
/// median.
///
/// The distribution has no closed form: body, wait and stalls are integrated at each limit that is tried.
/// That was a quarter of a simulator's run while limits were found by bisection, 48 of them with a cube root
/// each; [`first_above`] needs a third of that.
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
    let stalls: [f64; STALL_POINTS as usize] = std::array::from_fn(|n| {
        let part = (n as f64 + 0.5) / f64::from(STALL_POINTS);
        -tail.stall_ns * (1.0 - part).ln()
    });
    let below = |limit: f64| {
        if tail.stall_ratio <= 0.0 {
            return unstalled(limit);
        }
        let stalled: f64 = stalls.iter().map(|stall| unstalled(limit - stall)).sum();
        (1.0 - tail.stall_ratio) * unstalled(limit)
            + tail.stall_ratio * stalled / f64::from(STALL_POINTS)
    };
    let most = bodies[BODY_POINTS as usize - 1].0 + at.queued_ns + 20.0 * at.queued_deviation_ns;
    first_above(most + 4.0 * tail.stall_ns, |limit| below(limit) - quantile)
}

/// Where a rising function becomes positive or 0 between 0 and `most`, to 2⁻⁴⁸ of that: by quadratic
/// interpolation of the inverse where that is safe, and bisection where it is not (Chandrupatla, Advances in
/// Engineering Software 28, 1997).
fn first_above(most: f64, rising: impl Fn(f64) -> f64) -> f64 {
    /// Many more than were ever needed.
    const STEPS: usize = 200;
    let tolerance = most * 0.5_f64.powi(48);
    let (mut old, mut new) = ((most, rising(most)), (0.0, rising(0.0)));
    if new.1 >= 0.0 || old.1 < 0.0 {
        return if new.1 >= 0.0 { new.0 } else { old.0 };
    }
    let mut part = 0.5;
    for _ in 0..STEPS {
        let at = new.0 + part * (old.0 - new.0);
        let value = rising(at);
        let before = if (value < 0.0) == (new.1 < 0.0) {
            std::mem::replace(&mut new, (at, value))
        } else {
            let opposite = std::mem::replace(&mut new, (at, value));
            std::mem::replace(&mut old, opposite)
        };
        let width = (old.0 - new.0).abs();
        if width.is_nan() || width <= tolerance {
            break;
        }
        part = inverse_quadratic(new, old, before).unwrap_or(0.5);
        let least = 0.5 * tolerance / width;
        part = part.clamp(least, 1.0 - least);
    }
    new.0.max(old.0)
}

/// How far from `new` to `old` the root is, by three points, if their parabola can be trusted.
fn inverse_quadratic(new: (f64, f64), old: (f64, f64), before: (f64, f64)) -> Option<f64> {
    let ((a, fa), (b, fb), (c, fc)) = (new, old, before);
    let place = (a - b) / (c - b);
    let height = (fa - fb) / (fc - fb);
    let is_safe = height * height < place && (1.0 - height) * (1.0 - height) < 1.0 - place;
    is_safe.then(|| {
        fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_root_is_found_as_by_bisection_and_in_fewer_steps() {
        type Rising<'a> = &'a dyn Fn(f64) -> f64;
        let rising: [(&str, Rising, f64); 5] = [
            ("a line", &|x| x - 0.3, 0.3),
            (
                "a normal distribution's tail",
                &|x| normal_below((x - 50.0) / 3.0) - 0.999,
                59.270_7,
            ),
            ("a step", &|x| if x < 7.25 { -0.5 } else { 0.5 }, 7.25),
            ("a flat piece before it", &|x| (x - 90.0).max(-0.001), 90.0),
            ("above from the start", &|_| 0.5, 0.0),
        ];
        for (what, rising, wanted) in rising {
            let asked = Cell::new(0);
            let found = first_above(100.0, |x| {
                asked.set(asked.get() + 1);
                rising(x)
            });
            assert!((found - wanted).abs() < 1e-3, "{what}: {found}");
            assert!(rising(found) >= 0.0, "{what}");
            assert!(asked.get() <= 60, "{what}: {} calls", asked.get());
        }
        assert_eq!(first_above(100.0, |_| -0.5), 100.0, "never above");
        // It ends, and does not panic.
        assert_eq!(first_above(f64::NAN, |x| x - 1.0), 0.0);
    }

    #[test]
    fn smooth_distributions_take_a_third_of_what_bisection_takes() {
        let asked = Cell::new(0);
        first_above(2000.0, |x| {
            asked.set(asked.get() + 1);
            normal_below((x - 310.0) / 40.0) - 0.99
        });
        assert!(asked.get() <= 18, "{} calls", asked.get());
    }
}
