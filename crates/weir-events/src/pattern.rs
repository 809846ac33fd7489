// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of PMUs: text in which each `#` stands for a decimal number, as in `uncore_cha_#` or
//! `cxl_pmu_mem#.#`. Everything else stands for itself.

use serde::Deserialize;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Pattern(String);

impl Pattern {
    pub fn new(text: &str) -> Self {
        Pattern(text.to_owned())
    }

    /// The numbers in a name that fits: for `uncore_cha_12` those are `[12]`.
    pub fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        let mut rest = name;
        let mut numbers = Vec::new();
        for (place, text) in self.0.split('#').enumerate() {
            if place > 0 {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                numbers.push(rest.get(..digits)?.parse().ok()?);
                rest = rest.get(digits..)?;
            }
            rest = rest.strip_prefix(text)?;
        }
        rest.is_empty().then_some(numbers)
    }

    pub fn fits(&self, name: &str) -> bool {
        self.numbers(name).is_some()
    }

    /// A name that fits, with 0 for each number.
    pub fn example(&self) -> String {
        self.0.replace('#', "0")
    }

    /// Whether it could be the name of a directory.
    pub(crate) fn is_sound(&self) -> bool {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'#');
        let starts = self
            .0
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic());
        starts && self.0.len() <= 64 && self.0.bytes().all(plain) && !self.0.contains("##")
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mark_is_a_number() {
        let cha = Pattern::new("uncore_cha_#");
        assert_eq!(cha.numbers("uncore_cha_12"), Some(vec![12]));
        for other in [
            "uncore_cha_",
            "uncore_cha",
            "uncore_cha_1x",
            "uncore_chas_1",
            "uncore_cha_-1",
        ] {
            assert!(!cha.fits(other), "{other}");
        }
        let device = Pattern::new("cxl_pmu_mem#.#");
        assert_eq!(device.numbers("cxl_pmu_mem3.1"), Some(vec![3, 1]));
        assert!(device.fits(&device.example()));
        assert!(Pattern::new("cpu").fits("cpu") && !Pattern::new("cpu").fits("cpu_core"));
    }

    proptest! {
        #[test]
        fn any_name_is_survived(pattern in "[a-z#.]{0,8}", name in ".{0,12}") {
            let pattern = Pattern::new(&pattern);
            if pattern.is_sound() {
                prop_assert!(pattern.fits(&pattern.example()));
            }
            let _ = pattern.fits(&name);
        }
    }
}
