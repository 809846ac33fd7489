// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Units as types. Inside weir a number never travels without one of these; at every edge (flags,
//! JSON, TOML, metrics) the unit is the last word of the name instead. GiB/s is for people only.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// A CXL access moves one line of this many bytes (CXL 3.1, 4.2.1: 64-byte cache lines).
pub const LINE_BYTES: u64 = 64;

/// One binary gibibyte, for printing to people.
pub const GIB: f64 = (1u64 << 30) as f64;

const NANOS_PER_SEC: f64 = 1e9;

/// Nanoseconds: a point on the platform's monotonic clock, or a span of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A default period for limits, near the round one that is given: 3 % longer. Programs wake at round
/// intervals (1, 5, 10, 20 ms, and the kernel's tick), by the same clock as the refills of `cpu.max`. Where a
/// limit's period is a multiple of such an interval, a program that wakes on a CPU of limited tasks meets the
/// same part of their bursts each time: some never wait for them, some always do (docs/evidence/simulator.md
/// has how much that is).
pub const fn off_beat(period: Nanos) -> Nanos {
    Nanos(period.0 / 100 * 103)
}

impl Nanos {
    pub const fn from_millis(millis: u64) -> Self {
        Nanos(millis.saturating_mul(1_000_000))
    }

    /// Rounds to the nearest nanosecond, saturating; not a number is 0.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts of floats saturate"
    )]
    pub fn rounded(nanos: f64) -> Self {
        Nanos(nanos.round() as u64)
    }

    pub fn secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC
    }

    /// The span since `earlier`, or nothing if the clock did not move forward.
    pub fn since(self, earlier: Nanos) -> Option<Nanos> {
        self.0.checked_sub(earlier.0).filter(|d| *d > 0).map(Nanos)
    }
}

/// Bytes: a cumulative count or an amount of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl From<Nanos> for u64 {
    fn from(span: Nanos) -> u64 {
        span.0
    }
}

impl From<Bytes> for u64 {
    fn from(amount: Bytes) -> u64 {
        amount.0
    }
}

/// A rate in bytes per second. Never NaN, never negative: every constructor clamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
pub struct BytesPerSec(f64);

/// CPU time per wall time, in CPUs: 1.5 is one and a half CPUs. Never NaN, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
pub struct CpuShare(f64);

/// NaN and negative numbers become 0, infinity the largest finite number.
fn clamp_finite(value: f64) -> f64 {
    if value.is_nan() || value < 0.0 {
        0.0
    } else {
        value.min(f64::MAX)
    }
}

macro_rules! rate {
    ($t:ident) => {
        impl $t {
            pub const ZERO: Self = Self(0.0);
            /// From a raw number; NaN and negatives become 0, infinity the largest finite number.
            pub fn new(value: f64) -> Self {
                Self(clamp_finite(value))
            }
            /// The raw number: finite and not negative.
            pub fn get(self) -> f64 {
                self.0
            }
            pub fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }
            pub fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }
            /// Scaled by a factor, clamped as in `new`.
            pub fn scale(self, factor: f64) -> Self {
                Self::new(self.0 * factor)
            }
            /// `self / other`, or 0 where `other` is 0.
            pub fn ratio(self, other: Self) -> f64 {
                if other.0 > 0.0 {
                    clamp_finite(self.0 / other.0)
                } else {
                    0.0
                }
            }
        }
        impl From<f64> for $t {
            /// Reads a rate and clamps it as `new` does: a file is not trusted more than code.
            fn from(value: f64) -> Self {
                Self::new(value)
            }
        }
        impl From<$t> for f64 {
            fn from(rate: $t) -> f64 {
                rate.0
            }
        }
        impl Add for $t {
            type Output = Self;
            fn add(self, rhs: Self) -> Self {
                Self::new(self.0 + rhs.0)
            }
        }
        impl AddAssign for $t {
            fn add_assign(&mut self, rhs: Self) {
                *self = *self + rhs;
            }
        }
        impl Sub for $t {
            type Output = Self;
            fn sub(self, rhs: Self) -> Self {
                Self::new(self.0 - rhs.0)
            }
        }
        impl Sum for $t {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, |a, b| a + b)
            }
        }
    };
}
rate!(BytesPerSec);
rate!(CpuShare);

impl BytesPerSec {
    /// `amount` moved in `span`; 0 for an empty span.
    pub fn over(amount: Bytes, span: Nanos) -> Self {
        if span.0 == 0 {
            Self::ZERO
        } else {
            Self::new(amount.0 as f64 / span.secs_f64())
        }
    }
}

impl CpuShare {
    /// CPU time `used` in a wall span; 0 for an empty span.
    pub fn over(used: Nanos, span: Nanos) -> Self {
        if span.0 == 0 {
            Self::ZERO
        } else {
            Self::new(used.0 as f64 / span.0 as f64)
        }
    }
}

impl fmt::Display for BytesPerSec {
    /// For people: the largest binary unit that gives a number of at least 1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_binary(f, self.0, "/s")
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_binary(f, self.0 as f64, "")
    }
}

fn fmt_binary(f: &mut fmt::Formatter<'_>, mut value: f64, suffix: &str) -> fmt::Result {
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" {
        write!(f, "{value:.0} {unit}{suffix}")
    } else {
        write!(f, "{value:.2} {unit}{suffix}")
    }
}

impl fmt::Display for CpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} CPU", self.0)
    }
}

impl fmt::Display for Nanos {
    /// For people: the largest of ns, µs, ms and s that gives a number of at least 1, to a digit that
    /// distinguishes two costs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            n if n < 1_000 => return write!(f, "{n} ns"),
            // What would be rounded to 1000.0 is 1 of the next.
            n if n < 999_950 => (n as f64 / 1e3, "µs"),
            n if n < 999_950_000 => (n as f64 / 1e6, "ms"),
            n => (n as f64 / 1e9, "s"),
        };
        if value < 9.995 {
            write!(f, "{value:.2} {unit}")
        } else {
            write!(f, "{value:.1} {unit}")
        }
    }
}

/// The mean of the logarithms, as a value: the mean of `a ÷ b` is that of `a` ÷ that of `b`. Nothing without
/// values, and where one of them is not above 0 or not finite.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value.ln();
        count += 1.0;
    }
    let mean = (sum / count).exp();
    (mean.is_finite() && mean > 0.0).then_some(mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_never_nan_or_negative() {
        for raw in [
            f64::NAN,
            -1.0,
            f64::NEG_INFINITY,
            f64::INFINITY,
            0.0,
            f64::MAX,
        ] {
            let rate = BytesPerSec::new(raw);
            assert!(
                rate.get().is_finite() && rate.get() >= 0.0,
                "{raw} became {rate:?}"
            );
        }
        assert_eq!((BytesPerSec::new(1.0) - BytesPerSec::new(2.0)).get(), 0.0);
        assert_eq!(BytesPerSec::new(1.0).ratio(BytesPerSec::ZERO), 0.0);
    }

    #[test]
    fn rates_read_from_text_are_clamped_too() {
        let rate: BytesPerSec = serde_json::from_str("-3.5").expect("a number");
        assert_eq!(rate, BytesPerSec::ZERO);
        assert_eq!(
            serde_json::to_string(&CpuShare::new(0.25)).expect("text"),
            "0.25"
        );
    }

    #[test]
    fn spans_need_a_clock_that_moved() {
        assert_eq!(Nanos(5).since(Nanos(5)), None);
        assert_eq!(Nanos(5).since(Nanos(6)), None);
        assert_eq!(Nanos(6).since(Nanos(5)), Some(Nanos(1)));
    }

    #[test]
    fn people_read_binary_units() {
        assert_eq!(BytesPerSec::new(3.74 * GIB).to_string(), "3.74 GiB/s");
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (9_994, "9.99 µs"),
            (9_995, "10.0 µs"),
            (12_600, "12.6 µs"),
            (999_949, "999.9 µs"),
            (999_950, "1.00 ms"),
            (4_000_000, "4.00 ms"),
            (20_000_000, "20.0 ms"),
            (999_949_999, "999.9 ms"),
            (1_500_000_000, "1.50 s"),
            (u64::MAX, "18446744073.7 s"),
        ] {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn means_of_ratios_are_ratios_of_means() {
        let mean = |values: &[f64]| geometric_mean(values.iter().copied());
        assert!((mean(&[2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
        let ratio = mean(&[2.0 / 5.0, 8.0 / 3.0]).unwrap();
        assert!((ratio - 4.0 / mean(&[5.0, 3.0]).unwrap()).abs() < 1e-12);
        assert_eq!(mean(&[7.0]).map(f64::round), Some(7.0));
    }

    #[test]
    fn what_has_no_logarithm_has_no_mean() {
        for values in [&[][..], &[0.0], &[-1.0, 2.0], &[f64::INFINITY], &[f64::NAN]] {
            assert_eq!(geometric_mean(values.iter().copied()), None, "{values:?}");
        }
    }
}
