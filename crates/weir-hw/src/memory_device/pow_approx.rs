// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Approximation of `powf` for a base and an exponent that move little from call to call: the search for an
//! equilibrium computes `u` to the `p` again and again.

/// `powf` by series around the last value that was computed in full; relative error below 1e-11.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PowApprox {
    base: f64,
    exponent: f64,
    ln: f64,
    value: f64,
}

impl Default for PowApprox {
    fn default() -> Self {
        PowApprox {
            base: 1.0,
            exponent: 0.0,
            ln: 0.0,
            value: 1.0,
        }
    }
}

impl PowApprox {
    /// `base` to the `exponent`, for a base above 0.
    #[inline]
    pub fn of(&mut self, base: f64, exponent: f64) -> f64 {
        const NEAR: f64 = 2e-3;
        let d = base / self.base - 1.0;
        if d.abs() < NEAR {
            let ln = self.ln + d * (1.0 - d * (0.5 - d * (1.0 / 3.0)));
            let e = exponent * ln - self.exponent * self.ln;
            if e.abs() < NEAR {
                return self.value * (1.0 + e * (1.0 + e * (0.5 + e * (1.0 / 6.0))));
            }
        }
        *self = PowApprox {
            base,
            exponent,
            ln: base.ln(),
            value: base.powf(exponent),
        };
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_by_series_are_those_computed() {
        let mut pow = PowApprox::default();
        let mut worst: f64 = 0.0;
        for n in 0..200_000 {
            let base = 0.001 + 0.998 * f64::from(n) / 200_000.0;
            let exponent = 0.5 + 0.3 * (f64::from(n) / 3700.0).sin();
            let exact = base.powf(exponent);
            worst = worst.max((pow.of(base, exponent) / exact - 1.0).abs());
        }
        assert!(worst < 1e-11, "{worst:e}");
    }
}
