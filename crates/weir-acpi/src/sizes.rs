// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a device is divided: fractions that add up to exactly 1.

use crate::error::AcpiError;
use std::fmt;
use std::str::FromStr;

/// Largest denominator: a device of 2 TiB in pieces of 32 MiB.
const DENOMINATOR_MAX: u64 = 65_536;

/// A part of the device, above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    numerator: u64,
    denominator: u64,
}

impl Fraction {
    fn parse(text: &str) -> Result<Self, AcpiError> {
        let wrong = || {
            let text: String = text.chars().take(40).collect();
            AcpiError::Sizes(format!(
                "\"{text}\" is no fraction such as 1/8: above 0, at most 1, denominator at most \
                 {DENOMINATOR_MAX}"
            ))
        };
        let (numerator, denominator) = text.trim().split_once('/').unwrap_or((text.trim(), "1"));
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let (numerator, denominator) = (number(numerator)?, number(denominator)?);
        let sound =
            (1..=DENOMINATOR_MAX).contains(&denominator) && (1..=denominator).contains(&numerator);
        sound
            .then_some(Fraction {
                numerator,
                denominator,
            })
            .ok_or_else(wrong)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

/// At least two parts that add up to 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Vec<Fraction>);

impl FromStr for Sizes {
    type Err = AcpiError;

    fn from_str(text: &str) -> Result<Self, AcpiError> {
        let parts = text.split(',').map(Fraction::parse);
        let parts: Vec<Fraction> = parts.collect::<Result<_, _>>()?;
        if !(2..=crate::DOMAIN_COUNT_MAX).contains(&parts.len()) {
            return Err(AcpiError::Sizes(format!(
                "{} given; a device is split into 2 to {}",
                parts.len(),
                crate::DOMAIN_COUNT_MAX
            )));
        }
        match add(&parts) {
            Some((n, d)) if n == d => Ok(Sizes(parts)),
            Some((n, d)) => Err(AcpiError::Sizes(format!(
                "they add up to {n}/{d}, not to 1: every byte of the device must be in one group"
            ))),
            None => Err(AcpiError::Sizes(
                "their denominators have no common multiple that is small enough to add them up"
                    .into(),
            )),
        }
    }
}

impl Sizes {
    pub fn parts(&self) -> &[Fraction] {
        &self.0
    }

    /// Where in `total` each part ends, rounded down to a byte.
    pub(crate) fn ends(&self, total: u64) -> Vec<u64> {
        let end = |count: usize| {
            let (n, d) = self.0.get(..count).and_then(add).unwrap_or((1, 1));
            // n/d is at most 1, so this fits wherever the product does.
            let exact = u128::from(total).checked_mul(n).map(|p| p / d);
            exact.and_then(|e| u64::try_from(e).ok()).unwrap_or(total)
        };
        (1..=self.0.len()).map(end).collect()
    }
}

/// The sum in lowest terms. Below 2^64 both, so that a product with a size fits.
fn add(parts: &[Fraction]) -> Option<(u128, u128)> {
    let mut sum = (0_u128, 1_u128);
    for part in parts {
        let (n, d) = (u128::from(part.numerator), u128::from(part.denominator));
        let top = sum.0.checked_mul(d)?.checked_add(n.checked_mul(sum.1)?)?;
        let bottom = sum.1.checked_mul(d)?;
        let common = gcd(top, bottom);
        sum = (top / common, bottom / common);
        if sum.1 > u128::from(u64::MAX) {
            return None;
        }
    }
    Some(sum)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}
