// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times in a recording: a span after its beginning, as `2h`, or a time of day with its zone, as
//! `2026-11-25T22:00+01:00` (RFC 3339; seconds may be left out).
//!
//! A time of day without a zone is refused: recordings of servers are read elsewhere, and rows that are an
//! hour off look right.

use crate::cli::quantities::{AmountError, Span};
use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};
use weir_report::date_utc;

const DAY_SEC: i64 = 86_400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A time after the beginning.
    After(Duration),
    /// A time in milliseconds since the Unix epoch.
    At(u64),
}

impl Moment {
    /// In milliseconds since the Unix epoch, in a recording that began at `start_ms`.
    pub fn unix_ms(self, start_ms: u64) -> u64 {
        match self {
            Moment::After(span) => {
                let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
                start_ms.saturating_add(ms)
            }
            Moment::At(unix_ms) => unix_ms,
        }
    }
}

impl FromStr for Moment {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Moment, AmountError> {
        if !text.contains([':', 'T']) {
            return text.parse::<Span>().map(|span| Moment::After(span.0));
        }
        let wrong = |why: &str| {
            AmountError::new(format!(
                "{text:?} is no time in a recording: {why}; give for example 2h after its beginning, or \
                 2026-11-25T22:00+01:00 (`date -Is -d 'yesterday 22:00'` prints such a time); `weir record FILE \
                 --info` says when the recording began"
            ))
        };
        at(text.trim()).map(Moment::At).map_err(wrong)
    }
}

/// Milliseconds since the Unix epoch.
fn at(text: &str) -> Result<u64, &'static str> {
    let (day, time) = text.split_once(['T', ' ']).ok_or("the day is missing")?;
    let days = days(day).ok_or("its day is not YYYY-MM-DD")?;
    let (time, offset_sec) = zone(time.trim())?;
    let of_day = clock(time).ok_or("its time of day is not HH:MM or HH:MM:SS")?;
    let sec = days * DAY_SEC + of_day - offset_sec;
    let sec = u64::try_from(sec).map_err(|_| "it is before 1970")?;
    Ok(sec * 1000)
}

/// A number of so many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here, so that the leap day
/// is the last of its year, as in `weir_report`.
fn days(text: &str) -> Option<i64> {
    let [year, month, day] = text.split('-').collect::<Vec<_>>()[..] else {
        return None;
    };
    let (year, month, day) = (digits(year, 4)?, digits(month, 2)?, digits(day, 2)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    let (year, month) = match month {
        ..3 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let of_year = (153 * month + 2) / 5 + day - 1;
    Some(
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year
            - 719_468,
    )
}

/// Seconds of `HH:MM` or `HH:MM:SS`.
fn clock(text: &str) -> Option<i64> {
    let parts: Vec<i64> = text
        .split(':')
        .map(|part| digits(part, 2))
        .collect::<Option<_>>()?;
    let (hour, min, sec) = match parts[..] {
        [hour, min] => (hour, min, 0),
        [hour, min, sec] => (hour, min, sec),
        _ => return None,
    };
    (hour < 24 && min < 60 && sec < 60).then_some(hour * 3600 + min * 60 + sec)
}

/// The text before the zone, and how many seconds the zone is ahead of UTC.
fn zone(text: &str) -> Result<(&str, i64), &'static str> {
    const MISSING: &str = "the zone is missing: Z is UTC, +01:00 an hour ahead of it";
    if let Some(time) = text.strip_suffix(['Z', 'z']) {
        return Ok((time, 0));
    }
    let place = text.find(['+', '-']).ok_or(MISSING)?;
    let (time, offset) = text.split_at(place);
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let offset = offset
        .get(1..)
        .filter(|rest| rest.len() == 5)
        .and_then(clock);
    offset.map(|sec| (time, sign * sec)).ok_or(MISSING)
}

/// A time of a recording in UTC, to the second, as `--from` takes it.
pub fn utc(unix_ms: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms));
    at.and_then(date_utc)
        .unwrap_or_else(|| format!("{unix_ms} ms after 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(text: &str) -> u64 {
        match text.parse::<Moment>() {
            Ok(Moment::At(ms)) => ms,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_span_counts_from_the_beginning() {
        assert_eq!("2h".parse::<Moment>().unwrap().unix_ms(5), 7_200_005);
        assert_eq!(Moment::At(7).unix_ms(5), 7);
    }

    #[test]
    fn a_time_of_day_has_its_zone() {
        assert_eq!(ms("1970-01-01T00:00Z"), 0);
        assert_eq!(ms("2026-01-01T00:00:54Z"), 1_767_225_654_000);
        assert_eq!(ms("2026-01-01 01:00+01:00"), ms("2026-01-01T00:00Z"));
        assert_eq!(ms("2025-12-31T18:30-05:30"), ms("2026-01-01T00:00Z"));
        assert_eq!(
            ms("2024-02-29T00:00Z") + 86_400_000,
            ms("2024-03-01T00:00Z")
        );
    }

    #[test]
    fn what_is_wrong_with_a_time_is_said_with_what_would_be_right() {
        for (text, why) in [
            ("22:00", "the day is missing"),
            ("2026-11-25T22:00", "the zone is missing"),
            ("2026-11-25T22:00+1", "the zone is missing"),
            ("2026-11-25T24:00Z", "time of day"),
            ("2026-11-25T22Z", "time of day"),
            ("2026-02-29T22:00Z", "its day is not"),
            ("2026-13-01T22:00Z", "its day is not"),
            ("25.11.2026 22:00Z", "its day is not"),
            ("1970-01-01T00:00+01:00", "before 1970"),
        ] {
            let said = text.parse::<Moment>().unwrap_err().to_string();
            for part in [why, "2h", "--info"] {
                assert!(said.contains(part), "{text}: {said}");
            }
        }
        let said = "5 days".parse::<Moment>().unwrap_err().to_string();
        assert!(said.contains("unknown unit"), "{said}");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(sec in 0u64..253_402_300_800) {
            prop_assert_eq!(ms(&utc(sec * 1000)), sec * 1000);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,30}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{2,9}(Z|[+-][0-9:]{0,6})") {
            let _ = text.parse::<Moment>();
        }
    }
}
