// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules that say in a sentence what is wrong, one file each: condition, evidence, what would refute it, and the
//! next move. A rule that lacks a count says so; it does not say that nothing is wrong.

mod before_llc;
mod link_errors;
mod remote_socket;

use crate::counts::Counts;
use crate::figure::Answer;
use serde::Serialize;

/// What a rule looks at: counts of one subject, and those of the idle machine where there are any.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Counts of the subject.
    pub counts: &'a Counts,
    /// Counts of the same kind on the idle machine, or at a time at which all was well.
    pub idle: Option<&'a Counts>,
}

/// A rule.
pub struct Rule {
    /// Its name, for programs.
    pub name: &'static str,
    /// What it looks for.
    pub looks_for: &'static str,
    /// When it finds it.
    pub condition: &'static str,
    /// What would refute it.
    pub refuted_by: &'static str,
    /// The next move.
    pub next_move: &'static str,
    /// The rule.
    pub check: fn(View) -> RuleOutcome,
}

/// All rules.
pub const RULES: &[Rule] = &[link_errors::RULE, remote_socket::RULE, before_llc::RULE];

/// What a rule says.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum RuleOutcome {
    /// Something is wrong.
    Found(Finding),
    /// It was looked at, and is not so.
    NotFound,
    /// Counts are missing, or refused.
    CannotTell {
        /// Which, and why.
        why: String,
    },
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// The counts are of this very thing.
    Counted,
    /// The counts fit, and something else could be behind them.
    Inferred,
}

/// Something that is wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What is wrong, because of what.
    pub what: String,
    /// How sure that is.
    pub certainty: Certainty,
    /// Figures that say so.
    pub evidence: Vec<Evidence>,
    /// What must be kept in mind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
}

/// One figure of a finding.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// What it is of.
    pub of: String,
    /// The figure.
    pub figure: Answer,
}

impl Evidence {
    fn new(of: impl Into<String>, figure: Answer) -> Evidence {
        let of = of.into();
        Evidence { of, figure }
    }
}
