// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a description in a TOML file cannot be used: a profile, a machine, a load, a plan of counts.

/// Why a profile, a machine, its workloads or its counting plan cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DescriptionError {
    /// Nothing built in has this name.
    #[error("no {kind} is called `{name}`: use one of {names}")]
    Unknown {
        /// What was asked for.
        kind: &'static str,
        /// The requested name.
        name: String,
        /// The names there are.
        names: String,
    },
    /// The text is no description: a syntax error, an unknown key, a missing one.
    #[error("{origin}: {problem}")]
    Syntax {
        /// Where the text comes from.
        origin: String,
        /// Line, column and what is wrong, as the TOML reader says it.
        problem: String,
    },
    /// A figure is out of its range.
    #[error("{origin}: {key} is {value}: {allowed}")]
    Value {
        /// Where the text comes from.
        origin: String,
        /// The key, with its table.
        key: String,
        /// The value found.
        value: String,
        /// The allowed values.
        allowed: String,
    },
}

impl DescriptionError {
    pub(crate) fn syntax(origin: &str, error: &toml::de::Error) -> Self {
        DescriptionError::Syntax {
            origin: origin.to_owned(),
            problem: error.to_string().trim_end().to_owned(),
        }
    }
}
