// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which counters of a PMU an event can be counted on.

use serde::Deserialize;
use std::fmt;

/// A set of counters, 0 to 63: written `0-3`, `0`, `4-7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct CounterSet(u64);

impl CounterSet {
    /// The first `count` counters, at most 64.
    pub fn first(count: u32) -> Self {
        CounterSet(u64::MAX.checked_shr(64 - count.clamp(1, 64)).unwrap_or(0))
    }

    /// Reads ranges separated by commas, ascending.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bits = 0u64;
        let mut next = 0;
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first < next || last < first || last > 63 {
                return None;
            }
            for counter in first..=last {
                bits |= 1 << counter;
            }
            next = last + 1;
        }
        Some(CounterSet(bits))
    }

    /// Whether all of these are among those.
    pub fn is_within(self, others: CounterSet) -> bool {
        self.0 & !others.0 == 0
    }

    /// The counters, ascending.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..64).filter(move |counter| self.0 & (1 << counter) != 0)
    }
}

fn number(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

impl TryFrom<String> for CounterSet {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
            .ok_or_else(|| format!("counters {text:?}: 0-3 or 0,2 is wanted, below 64"))
    }
}

impl fmt::Display for CounterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for counter in self.iter() {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == counter => *last = counter,
                _ => runs.push((counter, counter)),
            }
        }
        let run = |(a, b): &(u32, u32)| {
            if a == b {
                a.to_string()
            } else {
                format!("{a}-{b}")
            }
        };
        f.write_str(&runs.iter().map(run).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sets_are_written_as_ranges() {
        for text in ["0", "0-3", "4-7", "0,2-3,63"] {
            assert_eq!(CounterSet::parse(text).unwrap().to_string(), text);
        }
        for bad in ["", "64", "3-1", "1,1", "2,1", "-1", "0-", "+1", "0 ", "001"] {
            assert_eq!(CounterSet::parse(bad), None, "{bad:?}");
        }
        assert_eq!(CounterSet::first(4), CounterSet::parse("0-3").unwrap());
        assert_eq!(CounterSet::first(64), CounterSet::parse("0-63").unwrap());
    }

    proptest! {
        #[test]
        fn any_set_reads_back(bits in 1u64..) {
            let set = CounterSet(bits);
            prop_assert_eq!(CounterSet::parse(&set.to_string()), Some(set));
        }

        #[test]
        fn any_text_is_survived(text in "[0-9,\\-]{0,12}", other in ".*") {
            let _ = (CounterSet::parse(&text), CounterSet::parse(&other));
        }
    }
}
