// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptions in TOML files: profiles of devices, machines, their loads.
//!
//! ```text
//! text ─► serde (keys, types) ─► garde (a range at each field) ─► what holds between fields ─► a description
//! ```
//!
//! A figure's range stands at its field, beside its unit: `#[garde(custom(from_to(0.1, 10.0)))]`. Every
//! figure has one, so that no equation divides by zero, and no figure asks for more memory or time than a
//! model may take. Ranges stood in nine readers before, each with a list of the same names.

#![forbid(unsafe_code)]

mod error;

pub use error::DescriptionError;

use garde::Validate;
use serde::de::DeserializeOwned;

/// Reads a description whose figures are in range. `origin` names the text in errors: a path, a name.
///
/// # Errors
/// The text is no TOML, a key is unknown or missing, a figure is out of range.
pub fn read<T>(text: &str, origin: &str) -> Result<T, DescriptionError>
where
    T: DeserializeOwned + Validate<Context = ()>,
{
    let description =
        toml::from_str(text).map_err(|error| DescriptionError::syntax(origin, &error))?;
    in_range(&description, origin)?;
    Ok(description)
}

/// Refuses a description with a figure out of its range.
///
/// # Errors
/// Names the first such key, its value and what is allowed. Where another figure leaves no value for a key,
/// that figure is named if it is out of its own range: garde reports by name, and not by cause.
pub fn in_range<T: Validate<Context = ()>>(
    description: &T,
    origin: &str,
) -> Result<(), DescriptionError> {
    let Err(report) = description.validate() else {
        return Ok(());
    };
    let has_values = |error: &garde::Error| !error.message().ends_with(NO_VALUE);
    let first = report.iter().find(|(_, error)| has_values(error));
    let Some((key, error)) = first.or_else(|| report.iter().next()) else {
        return Ok(());
    };
    let said = error.message();
    let (value, allowed) = said.split_once(": ").unwrap_or(("", said));
    Err(Origin(origin).wrong(&key.to_string(), value, allowed))
}

/// A text with a description, for the errors of what holds between its fields.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a>(pub &'a str);

impl Origin<'_> {
    pub fn wrong(&self, key: &str, value: impl ToString, allowed: &str) -> DescriptionError {
        DescriptionError::Value {
            origin: self.0.to_owned(),
            key: key.to_owned(),
            value: value.to_string(),
            allowed: allowed.to_owned(),
        }
    }

    /// Refuses a value unless `is_so`.
    ///
    /// # Errors
    /// It is not so.
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

/// What is said of a range whose ends, given by other figures, leave no value.
const NO_VALUE: &str = ", which no value is";

/// A number of a description. One that is left out is in every range.
pub trait Figure {
    fn figure(&self) -> Option<f64>;
}

impl Figure for f64 {
    fn figure(&self) -> Option<f64> {
        Some(*self)
    }
}

macro_rules! whole {
    ($($number:ty)*) => {
        $(impl Figure for $number {
            fn figure(&self) -> Option<f64> {
                // Exact up to 2^53, above which no figure of a description lies.
                Some(*self as f64)
            }
        })*
    };
}
whole!(i32 u16 u32 u64 usize);

impl<T: Figure> Figure for Option<T> {
    fn figure(&self) -> Option<f64> {
        self.as_ref().and_then(T::figure)
    }
}

/// A range for `#[garde(custom(…))]`, both ends included.
pub fn from_to<F: Figure>(
    low: impl Figure,
    high: impl Figure,
) -> impl Fn(&F, &()) -> garde::Result {
    let ends = low.figure().zip(high.figure());
    move |figure, ()| match (figure.figure(), ends) {
        (Some(value), Some((low, high))) if !(low..=high).contains(&value) => {
            let no_value = if low > high { NO_VALUE } else { "" };
            let [value, low, high] = [value, low, high].map(short);
            Err(garde::Error::new(format!(
                "{value}: {low} to {high} is allowed{no_value}"
            )))
        }
        _ => Ok(()),
    }
}

/// A figure as written, with an exponent where it would have many digits.
pub fn short(value: f64) -> String {
    let is_plain = value == 0.0 || (1e-6..1e16).contains(&value.abs());
    if is_plain || !value.is_finite() {
        value.to_string()
    } else {
        format!("{value:e}")
    }
}

/// Descriptions that are built into a program: their names and texts.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// What they are, in errors.
    pub kind: &'static str,
    pub texts: &'static [(&'static str, &'static str)],
    /// What may be given in place of a name, if anything.
    pub or: &'static str,
}

impl BuiltIn {
    pub fn names(&self) -> Vec<&'static str> {
        self.texts.iter().map(|(name, _)| *name).collect()
    }

    /// The text of this name.
    ///
    /// # Errors
    /// There is none: which there are.
    pub fn text(&self, name: &str) -> Result<&'static str, DescriptionError> {
        let found = self.texts.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, text)| *text)
            .ok_or_else(|| DescriptionError::Unknown {
                kind: self.kind,
                name: name.to_owned(),
                names: format!("{}{}", self.names().join(", "), self.or),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, Validate)]
    struct Queue {
        #[garde(custom(from_to(2, self.slots)))]
        depth: u32,
        #[garde(custom(from_to(2, 64)))]
        slots: u32,
    }

    fn refused(text: &str) -> String {
        read::<Queue>(text, "queue.toml").unwrap_err().to_string()
    }

    #[test]
    fn the_figure_that_leaves_no_value_for_another_is_named_and_not_the_other() {
        let by_slots = refused("depth = 4\nslots = 1");
        assert!(by_slots.contains("slots is 1: 2 to 64"), "{by_slots}");
        let by_depth = refused("depth = 9\nslots = 8");
        assert!(by_depth.contains("depth is 9: 2 to 8 is"), "{by_depth}");
    }
}
