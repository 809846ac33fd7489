// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as perf prints them: with a decimal point, or with the comma of another locale.

use super::PerfStatError;
use weir_core::Missing;

/// A count with what is behind its decimal point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerfValue {
    pub whole: u64,
    /// The rest, 0 to 1.
    pub fraction: f64,
}

impl PerfValue {
    /// A whole count, rounded.
    pub fn rounded(self) -> u64 {
        self.whole.saturating_add(u64::from(self.fraction >= 0.5))
    }

    /// Times a million, for milliseconds.
    pub fn millions(self) -> Option<u64> {
        let rest = weir_core::Nanos::rounded(self.fraction * 1e6).0;
        self.whole.checked_mul(1_000_000)?.checked_add(rest)
    }
}

/// A number: digits, and one decimal sign at most.
pub fn number(text: &str) -> Option<PerfValue> {
    let text = text.trim();
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let (whole, rest) = text.split_once(['.', ',']).unwrap_or((text, "0"));
    if !is_digits(whole) || !is_digits(rest) || rest.len() > 18 {
        return None;
    }
    let fraction: f64 = format!("0.{rest}").parse().ok()?;
    Some(PerfValue {
        whole: whole.parse().ok()?,
        fraction,
    })
}

/// A count, or perf's word for none. Nothing where the text is neither.
pub fn value(text: &str, event: &str) -> Option<Result<PerfValue, Missing>> {
    let event = super::event_name(event).inside;
    let short: String = event.chars().take(80).collect();
    match text.trim() {
        "<not counted>" => Some(Err(Missing::Lost(format!("{short} never had a counter")))),
        "<not supported>" => {
            let why = format!("this machine does not count {short}");
            Some(Err(Missing::NotSupported(why)))
        }
        other => number(other).map(Ok),
    }
}

/// Whether a column can be one of counts.
pub fn is_value(text: &str) -> bool {
    value(text, "").is_some()
}

/// Why a text is no count.
pub fn no_count(text: &str) -> PerfStatError {
    PerfStatError::Number(text.chars().take(40).collect())
}
