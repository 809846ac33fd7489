// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a figure out of its range is said, of all description files.

use crate::description::DescriptionError;

/// Ranges of one description.
pub(crate) struct Ranges<'a> {
    /// Names the text: a path, a name.
    pub origin: &'a str,
}

impl Ranges<'_> {
    pub fn wrong(&self, key: &str, value: impl ToString, allowed: &str) -> DescriptionError {
        DescriptionError::Value {
            origin: self.origin.to_owned(),
            key: key.to_owned(),
            value: value.to_string(),
            allowed: allowed.to_owned(),
        }
    }

    pub fn figure(
        &self,
        key: &str,
        value: f64,
        low: f64,
        high: f64,
    ) -> Result<(), DescriptionError> {
        if (low..=high).contains(&value) {
            Ok(())
        } else {
            let allowed = format!("{} to {} is allowed", short(low), short(high));
            Err(self.wrong(key, short(value), &allowed))
        }
    }

    pub fn count(
        &self,
        key: &str,
        value: u32,
        low: u32,
        high: u32,
    ) -> Result<(), DescriptionError> {
        self.figure(key, f64::from(value), f64::from(low), f64::from(high))
    }

    pub fn holds(
        &self,
        is_so: bool,
        key: &str,
        value: impl ToString,
        allowed: &str,
    ) -> Result<(), DescriptionError> {
        if is_so {
            Ok(())
        } else {
            Err(self.wrong(key, value, allowed))
        }
    }
}

/// A figure as written, with an exponent where it would have many digits.
pub(crate) fn short(value: f64) -> String {
    let is_plain = value == 0.0 || (1e-6..1e16).contains(&value.abs());
    match is_plain || !value.is_finite() {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}
