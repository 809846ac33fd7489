// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Amounts with units: `4GiB/s`, `500MB/s`, `40%`, `50ms`.
//!
//! Binary and decimal units differ (1 GiB = 2^30 bytes, 1 GB = 10^9), and so do bytes and bits. `4G` and
//! `4Gb/s` are refused with the spelling that was probably meant: a set-point that is wrong by 7 % or by 8
//! times is worse than an error.

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use weir_core::BytesPerSec;

/// What is wrong with an amount, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AmountError(String);

impl AmountError {
    pub fn new(text: String) -> AmountError {
        AmountError(text)
    }
}

/// A positive bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub BytesPerSec);

/// A positive amount of memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// A set-point: a bandwidth, or a part of the device's capacity or of its knee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SetPoint {
    Rate(Rate),
    /// A ratio, above 0 and at most 1.
    OfCapacity(f64),
    /// A ratio of the knee that `weir calibrate` has found, above 0 and at most 1.
    OfKnee(f64),
}

/// The weight of a limited workload: a part of the weight that goes with its limit, above 0 and at most 1, or
/// 0 for its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitedWeight(pub f64);

/// A positive span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

const RATE_UNITS: [(&str, f64); 11] = [
    ("", 1.0),
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
];

/// Everything above is a slip of the pen: no memory device moves an exbibyte per second.
const RATE_MAX: f64 = 1_152_921_504_606_846_976.0;

const SPAN_UNITS: [(&str, f64); 6] = [
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("h", 3600.0),
];

/// A year: longer spans are a slip of the pen.
const SPAN_MAX_SECS: f64 = 366.0 * 86_400.0;

/// Whether it is an amount below zero, as far as can be seen at its start.
fn is_below_zero(text: &str) -> bool {
    let rest = text.trim_ascii().strip_prefix(['-', '−']);
    rest.is_some_and(|rest| split_number(rest).is_some())
}

/// The number at the start, and the trimmed rest.
fn split_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_ascii();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let number = digits.parse::<f64>().ok().filter(|n| n.is_finite())?;
    Some((number, rest.trim_ascii()))
}

impl FromStr for Rate {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let wrong = |why: &str| {
            AmountError(format!(
                "{text:?} is not a bandwidth: {why}; write for example 4GiB/s, 500MB/s, or plain \
                 bytes per second"
            ))
        };
        if is_below_zero(text) {
            return Err(wrong("it must be above 0"));
        }
        let (number, unit) =
            split_number(text).ok_or_else(|| wrong("it has no number in front"))?;
        let unit = unit.strip_suffix("/s").unwrap_or(unit);
        let scale = RATE_UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, scale)| *scale);
        let scale = scale.ok_or_else(|| wrong(&rate_unit_hint(unit)))?;
        let value = number * scale;
        if value <= 0.0 {
            return Err(wrong("it must be above 0"));
        }
        if value > RATE_MAX {
            return Err(wrong("it is more than any device can move"));
        }
        Ok(Rate(BytesPerSec::new(value)))
    }
}

fn rate_unit_hint(unit: &str) -> String {
    match unit {
        "K" | "k" | "M" | "G" | "T" => {
            format!("{unit} could be {unit}iB (binary) or {unit}B (decimal)")
        }
        "Kb" | "kb" | "Mb" | "Gb" | "Tb" | "Kib" | "Mib" | "Gib" | "Tib" => {
            format!("{unit} means bits; weir counts bytes")
        }
        "%" => "a percentage is allowed for the set-point only".to_owned(),
        _ => format!("unknown unit {unit:?}, allowed are B, KiB, MiB, GiB, TiB, kB, MB, GB, TB"),
    }
}

impl FromStr for SetPoint {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        if let Some(rest) = text.trim_ascii().strip_prefix("knee") {
            return of_knee(rest).ok_or_else(|| {
                AmountError(format!(
                    "{text:?} is not a part of the knee: write knee, or knee*0.9 with a number above 0 and \
                     at most 1"
                ))
            });
        }
        let Some(percent) = text.trim_ascii().strip_suffix('%') else {
            return text.parse().map(SetPoint::Rate);
        };
        match split_number(percent) {
            Some((number, "")) if number > 0.0 && number <= 100.0 => {
                Ok(SetPoint::OfCapacity(number / 100.0))
            }
            _ => Err(AmountError(format!(
                "{text:?} is not a part of the capacity: write a number above 0 and at most 100 \
                 before the %"
            ))),
        }
    }
}

/// What follows `knee`: nothing, or a factor.
fn of_knee(rest: &str) -> Option<SetPoint> {
    let rest = rest.trim_ascii();
    if rest.is_empty() {
        return Some(SetPoint::OfKnee(1.0));
    }
    match split_number(rest.strip_prefix('*')?) {
        Some((ratio, "")) if ratio > 0.0 && ratio <= 1.0 => Some(SetPoint::OfKnee(ratio)),
        _ => None,
    }
}

impl FromStr for LimitedWeight {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        if text.trim_ascii() == "off" {
            return Ok(LimitedWeight(0.0));
        }
        let percent = text.trim_ascii().strip_suffix('%').and_then(split_number);
        match percent {
            Some((number, "")) if (1.0..=100.0).contains(&number) => {
                Ok(LimitedWeight(number / 100.0))
            }
            _ => Err(AmountError(format!(
                "{text:?} is no weight of limited workloads: write 1% to 100%, or off"
            ))),
        }
    }
}

impl FromStr for Size {
    type Err = AmountError;

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn from_str(text: &str) -> Result<Self, AmountError> {
        let wrong = || {
            AmountError(format!(
                "{text:?} is not an amount of memory: write for example 64MiB, 2GiB, or plain bytes"
            ))
        };
        let (number, unit) = split_number(text).ok_or_else(wrong)?;
        let unit = RATE_UNITS.iter().find(|(name, _)| *name == unit);
        let bytes = number * unit.ok_or_else(wrong)?.1;
        if (1.0..RATE_MAX).contains(&bytes) {
            Ok(Size(bytes as u64))
        } else {
            Err(wrong())
        }
    }
}

impl FromStr for Span {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let wrong = |why: &str| {
            AmountError(format!(
                "{text:?} is not a time: {why}; write for example 50ms, 2s, 10min"
            ))
        };
        if is_below_zero(text) {
            return Err(wrong("it must be above 0"));
        }
        let (number, unit) =
            split_number(text).ok_or_else(|| wrong("it has no number in front"))?;
        let scale = SPAN_UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, scale)| *scale);
        let scale = scale.ok_or_else(|| match unit {
            "" => wrong("the unit is missing"),
            _ => wrong(&format!(
                "unknown unit {unit:?}, allowed are us, ms, s, min, h"
            )),
        })?;
        let secs = number * scale;
        if secs > SPAN_MAX_SECS {
            return Err(wrong("it is longer than a year"));
        }
        let span = Duration::from_secs_f64(secs);
        if span.is_zero() {
            Err(wrong("it must be above 0"))
        } else {
            Ok(Span(span))
        }
    }
}

/// Text, or for a rate also a plain number, as TOML gives it.
struct TextOrNumber<T> {
    plain_numbers: bool,
    wanted: &'static str,
    kind: std::marker::PhantomData<T>,
}

impl<T: FromStr<Err = AmountError>> de::Visitor<'_> for TextOrNumber<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.wanted)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        if self.plain_numbers {
            return self.visit_str(&number.to_string());
        }
        Err(E::invalid_type(de::Unexpected::Signed(number), &self))
    }
}

macro_rules! from_toml {
    ($type:ty, $plain_numbers:expr, $wanted:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(TextOrNumber::<$type> {
                    plain_numbers: $plain_numbers,
                    wanted: $wanted,
                    kind: std::marker::PhantomData,
                })
            }
        }
    };
}
from_toml!(LimitedWeight, false, "a part such as \"60%\", or \"off\"");
from_toml!(
    Rate,
    true,
    "a bandwidth such as \"4GiB/s\", or bytes per second"
);
from_toml!(
    SetPoint,
    true,
    "a bandwidth such as \"4GiB/s\", a part of the capacity as \"40%\", or \"knee*0.9\""
);
from_toml!(Span, false, "a time with its unit, such as \"50ms\"");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(text: &str) -> f64 {
        text.parse::<Rate>().unwrap().0.get()
    }

    #[test]
    fn binary_and_decimal_units_differ() {
        assert_eq!(rate("4GiB/s"), 4.0 * 1_073_741_824.0);
        assert_eq!(rate("4GB/s"), 4e9);
        assert_eq!(rate(" 1.5 MiB "), 1_572_864.0);
        assert_eq!(rate("1000"), 1000.0);
        assert_eq!(rate("1000B/s"), 1000.0);
        // Blanks of ASCII only: another one is a slip that looks like none.
        for blank in ["\u{3000}", "\u{a0}", "\u{2009}"] {
            for text in [
                format!("4GiB/s{blank}"),
                format!("{blank}4GiB/s"),
                format!("4{blank}GiB/s"),
            ] {
                assert!(text.parse::<SetPoint>().is_err(), "{text:?}");
            }
            assert!(format!("40%{blank}").parse::<SetPoint>().is_err());
            assert!(format!("knee{blank}").parse::<SetPoint>().is_err());
            assert!(format!("50ms{blank}").parse::<Span>().is_err());
        }
    }

    #[test]
    fn doubtful_rates_are_refused_with_the_likely_meaning() {
        for (text, hint) in [
            ("4G", "GiB (binary) or GB"),
            ("4Gb/s", "bits"),
            ("0", "above 0"),
            ("0GiB/s", "above 0"),
            ("-1", "must be above 0"),
            ("-1GiB/s", "must be above 0"),
            ("fast", "no number"),
            ("", "no number"),
            ("1e9", "unknown unit"),
            ("40%", "set-point only"),
            ("9999999TiB/s", "any device"),
            ("1.2.3GiB/s", "no number"),
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text:?} said: {error}");
        }
    }

    #[test]
    fn a_set_point_may_be_a_part_of_the_capacity() {
        assert_eq!("40%".parse(), Ok(SetPoint::OfCapacity(0.4)));
        assert_eq!("100 %".parse(), Ok(SetPoint::OfCapacity(1.0)));
        for text in ["0%", "100.1%", "%", "-5%", "4GiB%"] {
            assert!(text.parse::<SetPoint>().is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn a_set_point_may_be_a_part_of_the_knee() {
        assert_eq!("knee".parse(), Ok(SetPoint::OfKnee(1.0)));
        assert_eq!(" knee * 0.9 ".parse(), Ok(SetPoint::OfKnee(0.9)));
        for text in [
            "knee*",
            "knee*0",
            "knee*1.1",
            "knees",
            "knee 0.9",
            "knee*0.9%",
            "knee*-1",
        ] {
            let error = text.parse::<SetPoint>().unwrap_err().to_string();
            assert!(error.contains("knee*0.9"), "{text:?} said: {error}");
        }
    }

    #[test]
    fn sizes_are_bytes() {
        assert_eq!("64MiB".parse(), Ok(Size(64 << 20)));
        assert_eq!("1000".parse(), Ok(Size(1000)));
        for text in ["0", "", "1e9", "64M", "64MiB/s", "99999999TiB", "-1"] {
            assert!(text.parse::<Size>().is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn spans_need_their_unit() {
        assert_eq!("50ms".parse(), Ok(Span(Duration::from_millis(50))));
        assert_eq!("1.5 s".parse(), Ok(Span(Duration::from_millis(1500))));
        assert_eq!("2min".parse(), Ok(Span(Duration::from_secs(120))));
        for (text, hint) in [
            ("50", "unit is missing"),
            ("0ms", "above 0"),
            ("5 days", "unknown unit"),
            ("9999999h", "longer than a year"),
        ] {
            let error = text.parse::<Span>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text:?} said: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_accepted_is_positive(text in "\\PC{0,24}|[0-9.]{1,20} ?[a-zA-Z/%µ]{0,6}") {
            if let Ok(rate) = text.parse::<Rate>() {
                prop_assert!(rate.0.get() > 0.0);
            }
            if let Ok(SetPoint::OfCapacity(ratio) | SetPoint::OfKnee(ratio)) = text.parse::<SetPoint>() {
                prop_assert!(ratio > 0.0 && ratio <= 1.0);
            }
            if let Ok(span) = text.parse::<Span>() {
                prop_assert!(!span.0.is_zero());
            }
        }
    }
}
