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
    pub name: &'a str,
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
    pub sharers: &'a [Sharer<'a>],
    /// The only place of its kind that the machine's counts come from; nothing where they come from all
    /// places.
    pub place: Option<CountScope>,
}

pub struct Rule {
    /// Its name, for programs.
    pub name: &'static str,
    pub looks_for: &'static str,
    pub condition: &'static str,
    pub refuted_by: &'static str,
    pub next_move: &'static str,
    /// Kinds of places at which it looks one by one, where the counts tell them apart, with the stage at
    /// which requests wait there. The first that has the counts.
    pub places: &'static [(PlaceKind, Stage)],
    pub check: fn(View) -> RuleOutcome,
}

/// The rules in the order in which they are looked at.
///
/// Their thresholds were chosen on machines of the synthetic server, seeds 1 to 60, and judged on seeds from
/// 127000 on, which nothing was chosen on: 96.8 % of the causes of medium strength or more are found, 97.4 %
/// of the findings are right, and 3 of 400 healthy or busy machines have one (docs/evidence/stalls.md). On
/// hardware they are assumptions.
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

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum RuleOutcome {
    Found(Finding),
    /// It was looked at, and is not so.
    NotFound,
    /// Counts are missing, or refused.
    CannotTell {
        why: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// The counts measure this very thing.
    Counted,
    /// The counts fit, and something else could be behind them.
    Inferred,
}

impl Certainty {
    pub fn said(self) -> &'static str {
        match self {
            Certainty::Counted => "counted",
            Certainty::Inferred => "inferred: the counts fit, something else could be behind them",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What is wrong, because of what.
    pub what: String,
    pub certainty: Certainty,
    /// Places at which it is so; none where the counts do not tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<CountScope>,
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

#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// Name of the figure.
    pub of: String,
    pub figure: Answer,
}

impl Evidence {
    fn new(of: impl Into<String>, figure: Answer) -> Evidence {
        let of = of.into();
        Evidence { of, figure }
    }
}
