// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules that say in a sentence what is wrong, one file each: condition, evidence, what would refute it, and
//! the next move. A rule that lacks a count says so; it does not say that nothing is wrong.

mod before_llc;
mod before_table;
mod chains;
mod device_saturated;
mod device_slow;
mod dram_contended;
mod facts;
mod felt;
mod fill_buffers_held;
mod link_errors;
mod link_saturated;
mod llc_displaced;
mod prefetch_late;
mod prefetch_useless;
mod remote_socket;
mod store_bound;
#[cfg(test)]
mod tests;
mod tor_held;

use crate::counts::Counts;
use crate::culprit::{Blame, Sharer, Waits};
use crate::figure::Answer;
use crate::figure::places::PlaceKind;
use crate::figure::sources::Sources;
use crate::quality::Refusal;
use crate::stalls::StallSplit;
pub use felt::is_felt;
use serde::Serialize;
use weir_core::window::CountScope;
use weir_core::window::role::Stage;

/// What a rule looks at: counts of one subject, those of its machine, those of the idle machine where there
/// are any, and what was made of them.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The subject's name.
    pub name: &'a str,
    /// Counts of the subject.
    pub counts: &'a Counts,
    /// Counts of the same kind on the idle machine, or at a time at which all was well.
    pub idle: Option<&'a Counts>,
    /// Counts of the subject with those of its machine.
    pub sources: Sources<'a>,
    /// The same of the idle machine.
    pub idle_sources: Option<Sources<'a>>,
    /// The subject's stalls by place.
    pub stalls: Result<&'a StallSplit, &'a Refusal>,
    /// Waits at the stages that workloads share.
    pub waits: Result<&'a Waits, &'a Refusal>,
    /// All workloads.
    pub sharers: &'a [Sharer<'a>],
    /// The only place of its kind that the machine's counts are of; nothing where they are of all places.
    pub place: Option<CountScope>,
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
    /// Kinds of places at which it looks one by one, where the counts tell them apart, with the stage at
    /// which requests wait there. The first that has the counts.
    pub places: &'static [(PlaceKind, Stage)],
    /// The rule.
    pub check: fn(View) -> RuleOutcome,
}

/// All rules.
pub const RULES: &[Rule] = &[
    link_errors::RULE,
    link_saturated::READS,
    link_saturated::WRITES,
    device_slow::RULE,
    device_saturated::RULE,
    dram_contended::RULE,
    tor_held::RULE,
    before_llc::RULE,
    llc_displaced::RULE,
    remote_socket::RULE,
    store_bound::RULE,
    prefetch_useless::RULE,
    prefetch_late::RULE,
    fill_buffers_held::RULE,
    chains::RULE,
];

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

impl Certainty {
    /// In words.
    pub fn said(self) -> &'static str {
        match self {
            Certainty::Counted => "counted",
            Certainty::Inferred => "inferred: the counts fit, something else could be behind them",
        }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What is wrong, because of what.
    pub what: String,
    /// How sure that is.
    pub certainty: Certainty,
    /// Places at which it is so; none where the counts do not tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<CountScope>,
    /// Figures that say so.
    pub evidence: Vec<Evidence>,
    /// Workloads because of which it is so, with their parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because_of: Vec<Blame>,
    /// Part of the subject's time that it concerns; nothing where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ratio: Option<f64>,
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
