// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of two texts a client takes, by its header `Accept` (RFC 9110, 12.5.1): a list of media ranges, each
//! with a weight. The most specific range that a type is in counts, and a weight of 0 refuses it.

use weir_store::metrics::Dialect;

const OPEN_METRICS: [&str; 2] = ["application", "openmetrics-text"];
const PROMETHEUS: [&str; 2] = ["text", "plain"];

/// What a client of `accepts`, the values of all such headers, is sent. Where it takes both alike,
/// OpenMetrics if it names that; where it takes neither, the text that all know.
pub fn dialect<'a>(accepts: impl Iterator<Item = &'a str>) -> Dialect {
    let ranges: Vec<Range<'_>> = accepts
        .flat_map(|value| value.split(','))
        .filter_map(range)
        .collect();
    let (open, text) = (weight(&ranges, OPEN_METRICS), weight(&ranges, PROMETHEUS));
    let is_named = ranges.iter().any(|range| range.is_just(OPEN_METRICS));
    if open > text || (is_named && open == text && open > 0.0) {
        Dialect::OpenMetrics
    } else {
        Dialect::Prometheus
    }
}

struct Range<'a> {
    parts: [&'a str; 2],
    weight: f32,
}

impl Range<'_> {
    fn is_just(&self, kind: [&str; 2]) -> bool {
        let mut both = self.parts.iter().zip(kind);
        both.all(|(part, of_kind)| part.eq_ignore_ascii_case(of_kind))
    }

    /// How closely it says what the type is; nothing where the type is not in it.
    fn closeness(&self, kind: [&str; 2]) -> Option<u8> {
        match self.parts {
            _ if self.is_just(kind) => Some(2),
            [first, "*"] if first.eq_ignore_ascii_case(kind[0]) => Some(1),
            ["*", "*"] => Some(0),
            _ => None,
        }
    }
}

/// One range. A weight that is no number is as if it were not there.
fn range(text: &str) -> Option<Range<'_>> {
    let mut words = text.split(';').map(str::trim);
    let (first, second) = words.next()?.split_once('/')?;
    let value = |word: &str| {
        let (name, value) = word.split_once('=')?;
        let value: f32 = value.trim().parse().ok()?;
        (name.trim().eq_ignore_ascii_case("q") && value.is_finite()).then_some(value)
    };
    Some(Range {
        parts: [first.trim(), second.trim()],
        weight: words.find_map(value).unwrap_or(1.0).clamp(0.0, 1.0),
    })
}

/// The weight of a type. One type may stand there several times, with parameters that differ.
fn weight(ranges: &[Range<'_>], kind: [&str; 2]) -> f32 {
    let fits = |range: &Range<'_>| Some((range.closeness(kind)?, range.weight));
    let best = ranges.iter().filter_map(fits);
    best.max_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)))
        .map_or(0.0, |(_, weight)| weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_open(accepts: &[&str]) -> bool {
        matches!(dialect(accepts.iter().copied()), Dialect::OpenMetrics)
    }

    #[test]
    fn weights_decide_and_a_weight_of_0_refuses() {
        let both = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4";
        for open in [
            both,
            "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
            "application/openmetrics-text; version=1.0.0",
            "Application/OpenMetrics-Text",
            "text/plain;q=0, */*",
            "text/plain ; Q=0.2 , application/openmetrics-text ; Q = 0.3",
            "application/openmetrics-text;q=0,application/openmetrics-text;version=1.0.0",
            "application/*;q=0.8, text/*;q=0.2",
            "application/openmetrics-text;q=much",
        ] {
            assert!(is_open(&[open]), "{open}");
        }
        for text in [
            "",
            "*/*",
            "text/plain",
            "text/plain;version=0.0.4;q=1,application/openmetrics-text;version=1.0.0;q=0",
            "application/openmetrics-text;q=0.000, */*;q=0",
            "APPLICATION/OPENMETRICS-TEXT;Q=0.2,TEXT/PLAIN;Q=0.3",
            "application/openmetrics-text;q=0, */*",
            "application/openmetrics-text;q=0.5, text/*",
            "application/openmetrics-text-of-another",
            "application/openmetrics-text;q=-1",
            "html",
        ] {
            assert!(!is_open(&[text]), "{text}");
        }
        assert!(is_open(&[
            "text/plain;q=0.1",
            "application/openmetrics-text"
        ]));
    }

    proptest! {
        #[test]
        fn any_header_is_survived(text: String, odd in "[a-zA-Z*/;,=q0-9. ]{0,60}") {
            let _ = is_open(&[&text, &odd]);
        }
    }
}
