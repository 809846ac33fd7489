// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line: lines are the words after `weir`. And amounts, where there is one word: what one means
//! is written as a plain number and read back.
#![no_main]

use clap::FromArgMatches;
use libfuzzer_sys::fuzz_target;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use weir::lab::command;
use weir::input::{Cli, LimitedWeight, Moment, Rate, SetPoint, Size, Span, advice};

fn amounts(text: &str) {
    if let Ok(rate) = text.parse::<Rate>() {
        let bytes = rate.0.get();
        assert!(bytes.is_finite() && bytes > 0.0, "{bytes}");
        assert_eq!(format!("{bytes}").parse::<Rate>(), Ok(rate), "{bytes}");
    }
    if let Ok(SetPoint::OfCapacity(ratio) | SetPoint::OfKnee(ratio)) = text.parse::<SetPoint>() {
        assert!(ratio > 0.0 && ratio <= 1.0, "{ratio}");
        let knee = format!("knee*{ratio}");
        assert_eq!(
            knee.parse::<SetPoint>(),
            Ok(SetPoint::OfKnee(ratio)),
            "{knee}"
        );
    }
    if let Ok(size) = text.parse::<Size>() {
        assert!(size.0 > 0);
        // Above 2^53 not each whole number is one of 64 bits of floating point.
        let again = size.0.to_string().parse::<Size>();
        assert!(size.0 > 1 << 53 || again == Ok(size), "{size:?}, {again:?}");
    }
    if let Ok(Span(span)) = text.parse::<Span>() {
        assert!(
            !span.is_zero() && span.as_secs() <= 366 * 86_400,
            "{span:?}"
        );
    }
    if let Ok(LimitedWeight(ratio)) = text.parse::<LimitedWeight>() {
        assert!((0.0..=1.0).contains(&ratio), "{ratio}");
    }
    if let Ok(moment) = text.parse::<Moment>() {
        let ms = moment.unix_ms(1_000);
        assert!(ms >= 1_000 || matches!(moment, Moment::At(_)), "{ms}");
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains('\n')
    {
        amounts(text);
        return;
    }
    let words = bytes.split(|byte| *byte == b'\n').take(24);
    let words = words.map(|word| OsString::from_vec(word.to_vec()));
    let words: Vec<OsString> = std::iter::once("weir".into()).chain(words).collect();
    match command().try_get_matches_from(&words) {
        Ok(matches) => {
            let _ = Cli::from_arg_matches(&matches);
        }
        Err(error) => {
            let kind = error.kind();
            let advised = advice::advised(error, &words);
            assert!(!advised.to_string().is_empty(), "{kind:?}");
        }
    }
});
