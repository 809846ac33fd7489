// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Terms of an event as perf writes them between slashes: `event=0x35,umask=0x10c8178201`. Each
//! names a field of the PMU's `format` directory and the value to put there.

use serde::Deserialize;
use std::fmt;

const TERM_COUNT_MAX: usize = 16;

/// Fields and values, each field once, in the order they were written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Terms(Vec<(String, u64)>);

impl Terms {
    /// Reads them. A field without a value is a flag: 1.
    ///
    /// # Errors
    /// The fault, in words: an empty or repeated name, a value that is no number of 64 bits, more
    /// than 16 terms.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms: Vec<(String, u64)> = Vec::new();
        for part in text.split(',') {
            let (name, value) = part.split_once('=').unwrap_or((part, "1"));
            if !is_name(name) {
                return Err(format!("{part:?} in {text:?}: name=value is wanted"));
            }
            let value = number(value)
                .ok_or_else(|| format!("{part:?}: the value is no number of 64 bits"))?;
            if terms.iter().any(|(other, _)| other == name) {
                return Err(format!("{name} stands twice in {text:?}"));
            }
            terms.push((name.to_owned(), value));
        }
        if terms.len() > TERM_COUNT_MAX {
            return Err(format!("more than {TERM_COUNT_MAX} terms"));
        }
        Ok(Terms(terms))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| value)
    }

    /// The same with one term more, or with another value of it.
    #[must_use]
    pub fn with(&self, name: &str, value: u64) -> Self {
        let mut terms = self.clone();
        match terms.0.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = value,
            None => terms.0.push((name.to_owned(), value)),
        }
        terms
    }
}

/// Names of format files: letters, digits and underscores.
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    first && text.len() <= 32 && text.bytes().all(plain)
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()
        }
        None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

impl TryFrom<String> for Terms {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Terms::parse(&text)
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{name}={value:#x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn terms_are_names_and_numbers() {
        let terms = Terms::parse("event=0x35,umask=0x10c8178201,edge").unwrap();
        assert_eq!(terms.get("umask"), Some(0x10_c817_8201));
        assert_eq!(terms.get("edge"), Some(1));
        assert_eq!(terms.to_string(), "event=0x35,umask=0x10c8178201,edge=0x1");
        assert_eq!(terms.with("edge", 0).get("edge"), Some(0));
        assert_eq!(terms.with("inv", 1).iter().count(), 4);
        for bad in [
            "",
            ",",
            "event=",
            "=1",
            "event=x",
            "event=0x",
            "event=+1",
            "event=1,event=2",
            "event=0x10000000000000000",
            "a b=1",
            "event=?",
            "../x=1",
        ] {
            assert!(Terms::parse(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived_and_what_is_read_reads_back(
            text in prop_oneof![".{0,40}", "([a-z]{1,3}=(0x)?[0-9a-f]{0,17},?){0,5}"]
        ) {
            if let Ok(terms) = Terms::parse(&text) {
                prop_assert_eq!(Terms::parse(&terms.to_string()), Ok(terms));
            }
        }
    }
}
