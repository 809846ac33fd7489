// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running sum that parts are added to and taken off again.
//!
//! A plain sum of a hundred thousand parts of very different size is nothing but rounding error once the
//! large ones are taken off. This one keeps the error of each addition beside it (Knuth's two-sum), so
//! that some 30 digits are kept instead of 16.

/// A sum in two floating-point numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExactSum {
    high: f64,
    low: f64,
}

impl ExactSum {
    pub fn add(&mut self, part: f64) {
        let (high, error) = two_sum(self.high, part);
        (self.high, self.low) = two_sum(high, self.low + error);
    }

    pub fn get(self) -> f64 {
        self.high
    }

    /// What is left of `whole`, and never less than nothing.
    pub fn left_of(self, whole: f64) -> f64 {
        ((whole - self.high) - self.low).max(0.0)
    }
}

/// The rounded sum, and what rounding took off.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_part_outlives_a_large_one() {
        let mut sum = ExactSum::default();
        for part in [1.0, 1e20, 1e-9, -1e20] {
            sum.add(part);
        }
        assert!((sum.get() - (1.0 + 1e-9)).abs() < 1e-15, "{}", sum.get());
        let plain: f64 = [1.0, 1e20, 1e-9, -1e20].iter().sum();
        assert_eq!(plain, 0.0, "a plain sum has nothing left");
        assert!((sum.left_of(2.0) - (1.0 - 1e-9)).abs() < 1e-15);
        assert_eq!(sum.left_of(0.5), 0.0);
    }
}
