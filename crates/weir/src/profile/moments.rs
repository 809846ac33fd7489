// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times of a recording on the command line: `90s`, `1.5ms`, `0s`; and spans of them: `10s..90s`, `..90s`,
//! `90s..`.

use crate::cli::quantities::{AmountError, Span};
use std::str::FromStr;
use weir_core::Nanos;
use weir_profile::TimeSpan;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingMoment(pub Nanos);

/// A span of a recording's time, open at either end or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MomentSpan(pub TimeSpan);

impl FromStr for RecordingMoment {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<RecordingMoment, AmountError> {
        let number = text.trim().trim_end_matches(char::is_alphabetic);
        if number.trim().parse() == Ok(0.0) {
            return Ok(RecordingMoment(Nanos(0)));
        }
        let span: Span = text.parse()?;
        let nanos = u64::try_from(span.0.as_nanos()).unwrap_or(u64::MAX);
        Ok(RecordingMoment(Nanos(nanos)))
    }
}

impl FromStr for MomentSpan {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<MomentSpan, AmountError> {
        let wrong = || {
            AmountError::new(format!(
                "{text:?} is no span of time; write for example 10s..90s, ..90s, or 90s.."
            ))
        };
        let (from, to) = text.split_once("..").ok_or_else(wrong)?;
        let moment = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text.parse().map(|moment: RecordingMoment| Some(moment.0)),
        };
        let span = TimeSpan {
            from: moment(from)?,
            to: moment(to)?,
        };
        if span.is_all() {
            Err(wrong())
        } else {
            Ok(MomentSpan(span))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_others_refused() {
        let span = |text: &str| text.parse::<MomentSpan>().map(|span| span.0);
        let nanos = |from: Option<u64>, to: Option<u64>| TimeSpan {
            from: from.map(Nanos),
            to: to.map(Nanos),
        };
        let us = 1000;
        assert_eq!(
            span("400us..1.5ms"),
            Ok(nanos(Some(400 * us), Some(1500 * us)))
        );
        assert_eq!(span("..450us"), Ok(nanos(None, Some(450 * us))));
        assert_eq!(
            span(" 0s .. 2min"),
            Ok(nanos(Some(0), Some(120_000_000 * us)))
        );
        for wrong in ["", "..", "90s", "1s..x", "-1s..2s", "1..2furlongs"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
        assert_eq!("0".parse(), Ok(RecordingMoment(Nanos(0))));
        assert!("-0.5s".parse::<RecordingMoment>().is_err());
    }
}
