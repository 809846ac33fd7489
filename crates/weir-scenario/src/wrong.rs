// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of scenario files: which key, in which line, has what value, and what is allowed.

use crate::Expect;
use crate::place::Part::{self, Index, Key};
use crate::place::line_of;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// No TOML, an unknown key, a missing key, a wrong type.
    #[error("{origin}: {problem}")]
    Syntax {
        origin: String,
        /// Line, key and what is allowed, as the reader says it.
        problem: String,
    },
    #[error("{origin}{line}: {key} = {value}: {allowed}")]
    Value {
        origin: String,
        /// `:LINE`, where it was found.
        line: String,
        /// The key with the tables it is in.
        key: String,
        value: String,
        allowed: String,
    },
}

impl ScenarioError {
    /// Line, key and what is allowed are in the reader's own words.
    pub(crate) fn syntax(origin: &str, error: &toml::de::Error) -> Self {
        ScenarioError::Syntax {
            origin: origin.to_owned(),
            problem: error.to_string(),
        }
    }
}

/// A value that may not be, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongValue {
    path: Vec<Part>,
    value: String,
    allowed: String,
}

impl WrongValue {
    /// The key with the tables it is in.
    fn key(&self) -> String {
        let mut key = String::new();
        for part in &self.path {
            match part {
                Index(i) => key.push_str(&format!("[{i}]")),
                named => {
                    let dot = if key.is_empty() { "" } else { "." };
                    key.push_str(&format!("{dot}{}", named.name().unwrap_or_default()));
                }
            }
        }
        key
    }

    /// The error of a text that has the value.
    pub(crate) fn at(self, text: &str, origin: &str) -> ScenarioError {
        ScenarioError::Value {
            origin: origin.to_owned(),
            line: line_of(text, &self.path).map_or(String::new(), |l| format!(":{l}")),
            key: self.key(),
            value: self.value,
            allowed: self.allowed,
        }
    }
}

impl fmt::Display for WrongValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: {}", self.key(), self.value, self.allowed)
    }
}

impl std::error::Error for WrongValue {}

pub(crate) type Checked = Result<(), WrongValue>;

/// It may not.
pub(crate) fn wrong(path: &[Part], value: impl ToString, allowed: impl Into<String>) -> Checked {
    let (path, value, allowed) = (path.to_vec(), value.to_string(), allowed.into());
    Err(WrongValue {
        path,
        value,
        allowed,
    })
}

/// A value within bounds, which are allowed themselves.
pub(crate) fn within(path: &[Part], value: f64, low: f64, high: f64) -> Checked {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        wrong(path, value, format!("allowed is {low} to {high}"))
    }
}

/// Bounds that can be met and missed.
pub(crate) fn check_expect(expect: &Expect) -> Checked {
    expect.check().map_err(|bound| {
        let below = bound.path.into_iter().map(Part::Name);
        WrongValue {
            path: std::iter::once(Key("expect")).chain(below).collect(),
            value: bound.value,
            allowed: bound.allowed,
        }
    })
}

pub(crate) fn join(path: &[Part], key: &'static str) -> Vec<Part> {
    let mut path = path.to_vec();
    path.push(Key(key));
    path
}
