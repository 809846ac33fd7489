// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Student's t: quantiles, and probabilities from them.

use distrs::StudentsT;

/// The smallest probability that is told apart from zero: a quantile takes 1 − p.
const SMALLEST: f64 = 1e-13;

/// The value that t exceeds in either direction in this part of all cases.
pub(super) fn two_sided_quantile(error_ratio: f64, degrees: f64) -> f64 {
    StudentsT::ppf(1.0 - error_ratio.clamp(SMALLEST, 1.0) / 2.0, degrees)
}

/// How often t exceeds `value` in either direction: the inverse of [`two_sided_quantile`], by bisection. The
/// distribution function of distrs 0.2.3 is not used: it gives infinity for 18 and 19 degrees above t = 2.
pub(super) fn two_sided_probability(value: f64, degrees: f64) -> f64 {
    let (mut low, mut high) = (SMALLEST.ln(), 0.0_f64);
    if value >= two_sided_quantile(SMALLEST, degrees) {
        return 0.0;
    }
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if two_sided_quantile(middle.exp(), degrees) > value {
            low = middle
        } else {
            high = middle
        }
    }
    high.exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_tables() {
        // Two-sided 5 % and 1 % (any table of Student's t).
        for (degrees, five, one) in [
            (1.0, 12.706, 63.657),
            (3.0, 3.182, 5.841),
            (5.0, 2.571, 4.032),
            (18.0, 2.101, 2.878),
            (19.0, 2.093, 2.861),
        ] {
            assert!((two_sided_quantile(0.05, degrees) - five).abs() < 2e-3);
            assert!((two_sided_probability(five, degrees) - 0.05).abs() < 2e-4);
            assert!((two_sided_probability(one, degrees) - 0.01).abs() < 1e-4);
        }
        assert_eq!(two_sided_probability(0.0, 5.0), 1.0);
        assert_eq!(two_sided_probability(f64::INFINITY, 5.0), 0.0);
    }
}
