// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a description in a TOML file cannot be used: a profile, a machine, a load, a plan of counts.

/// Why a profile, a machine, its workloads or its counting plan cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DescriptionError {
    #[error("no {kind} is called `{name}`: use one of {names}")]
    Unknown {
        kind: &'static str,
        name: String,
        names: String,
    },
    /// The text is no description: a syntax error, an unknown key, a missing one.
    #[error("{origin}: {problem}")]
    Syntax {
        origin: String,
        /// Line, column and what is wrong, as the TOML reader says it.
        problem: String,
    },
    #[error("{origin}: {key} is {value}: {allowed}")]
    Value {
        origin: String,
        /// The key, with its table.
        key: String,
        value: String,
        allowed: String,
    },
}

impl DescriptionError {
    /// The error for a text that the TOML reader refuses.
    pub fn syntax(origin: &str, error: &toml::de::Error) -> Self {
        DescriptionError::Syntax {
            origin: origin.to_owned(),
            problem: error.to_string().trim_end().to_owned(),
        }
    }
}
