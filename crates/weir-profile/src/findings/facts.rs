// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts that several rules look at, each a figure or the reason why it is not known.

use super::{Certainty, Evidence, Finding, RuleOutcome, View};
use crate::culprit::{Blame, StageWaits};
use crate::figure::{Answer, Class, Figure, Unit};
use crate::quality::Refusal;
use crate::stages::clock_of;
use crate::stalls::{StallPart, StallSplit};
use weir_core::Role;
use weir_core::window::CountProvenance;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Workloads with less of the lines than this are no cause.
const BLAME_MIN: f64 = 0.1;
/// Part of the stalls that is at a stage where it is found.
const STALLED_AT_MIN: f64 = 0.3;
/// Flits that are sent again, for each line, of a link that is at fault itself.
const RESENT_MIN: f64 = 1e-3;

/// What a rule finds, or that it is not so, or why it cannot tell.
pub type Judged = Result<Option<Finding>, Refusal>;

/// The outcome as rules say it.
pub fn outcome(judged: Judged) -> RuleOutcome {
    match judged {
        Ok(Some(finding)) => RuleOutcome::Found(finding),
        Ok(None) => RuleOutcome::NotFound,
        Err(why) => RuleOutcome::CannotTell {
            why: why.to_string(),
        },
    }
}

/// The split, where the subject stalls for this part of its time or more.
pub fn stalled(view: View<'_>, ratio_min: f64) -> Result<Option<&StallSplit>, Refusal> {
    match view.stalls {
        // A core that does not stall waits for nothing.
        Err(Refusal::NoStalls) => Ok(None),
        Err(why) => Err(why.clone()),
        Ok(split) => {
            let ratio = split.stalled_ratio.clone()?.value;
            Ok((ratio >= ratio_min).then_some(split))
        }
    }
}

/// A part of the stalls.
pub fn share(split: &StallSplit, is_it: impl Fn(Role) -> bool) -> Figure {
    let value = split.share_of(is_it).min(1.0);
    let mut figure = Figure::new(value, Unit::Ratio, CountProvenance::Modelled, None);
    figure.class = Class::Modelled;
    figure.share_of = Some("measured stalls".into());
    figure
}

pub fn is_cxl(role: Role) -> bool {
    crate::stalls::ways::is_cxl(role.target)
}

/// The largest place of the stalls, for the evidence.
pub fn largest(split: &StallSplit) -> Option<&StallPart> {
    split.parts.first()
}

/// A stage that workloads share, in which much of a subject's stalls is.
pub struct StalledAt<'a> {
    split: &'a StallSplit,
    part: Figure,
    pub waits: &'a StageWaits,
}

/// Where a tenth of the subject's time or more is stalled, and [`STALLED_AT_MIN`] of that at this stage.
pub fn stalled_at(view: View<'_>, stage: Stage) -> Result<Option<StalledAt<'_>>, Refusal> {
    let Some(split) = stalled(view, 0.1)? else {
        return Ok(None);
    };
    let part = share(split, |role| role.stage == stage);
    let waits = waits_at(view, stage)?;
    Ok((part.value >= STALLED_AT_MIN).then_some(StalledAt { split, part, waits }))
}

impl StalledAt<'_> {
    /// Time of a request there ÷ that on the idle machine.
    pub fn times(&self) -> f64 {
        1.0 + self.waits.wait_ratio.value
    }

    /// The finding. `place`: the words for the stage behind *part of the stalls*.
    pub fn finding(self, what: String, place: &str) -> Finding {
        let part = self.part.value;
        let evidence = vec![
            Evidence::new(format!("part of the stalls {place}"), Ok(self.part)),
            Evidence::new(
                "waiting time there ÷ residence on the idle machine",
                Ok(self.waits.wait_ratio.clone()),
            ),
            Evidence::new("requests that wait there", Ok(self.waits.waiting.clone())),
        ];
        finding(self.split, what, part, evidence)
    }
}

/// Waiting at a stage that workloads share.
pub fn waits_at(view: View<'_>, stage: Stage) -> Result<&StageWaits, Refusal> {
    let waits = view.waits.map_err(Clone::clone)?;
    waits.stage(stage).ok_or(Refusal::NotCounted {
        what: format!("residences at {}", stage.word()),
    })
}

/// Whether requests wait at a stage for this part of its idle residence or more; not, where it is not known.
pub fn is_waited_at(view: View, stage: Stage, ratio: f64) -> bool {
    waits_at(view, stage).is_ok_and(|waits| waits.wait_ratio.value >= ratio)
}

/// The part of the time that one direction of the link is busy.
pub fn link_busy(view: View, path: AccessPath) -> Answer {
    let role = Role::new(Stage::Port, path, Target::Cxl, Quantity::Busy);
    let clock = clock_of(Stage::Port).ok_or(Refusal::NoTime)?;
    let (busy, ticks) = view.sources.machine.with_clock(role, clock)?;
    busy.share_of(&ticks, "cycles of the port")
}

/// Whether the link sends flits again so often that it is at fault itself.
pub fn resends(view: View) -> bool {
    let get = |path, quantity| {
        let role = Role::new(Stage::Port, path, Target::Cxl, quantity);
        view.sources
            .machine
            .get(role)
            .map_or(0.0, |figure| figure.value)
    };
    let resent = get(AccessPath::Any, Quantity::Rejects) + get(AccessPath::Any, Quantity::Errors);
    let lines = get(AccessPath::Reads, Quantity::Lines) + get(AccessPath::Wb, Quantity::Lines);
    resent > RESENT_MIN * lines
}

/// Cycles of the subject's cores in which a demand request waits for a fill buffer ÷ cycles.
pub fn buffers_full(view: View) -> Answer {
    let role = Role::new(
        Stage::FillBuffer,
        AccessPath::Drd,
        Target::Any,
        Quantity::Full,
    );
    let clock = clock_of(Stage::FillBuffer).ok_or(Refusal::NoTime)?;
    let (full, ticks) = view.counts.with_clock(role, clock)?;
    full.share_of(&ticks, "cycles of the core")
}

/// Loads under way at once, while there are any.
pub fn loads_at_once(view: View) -> Answer {
    let of = |quantity| Role::new(Stage::FillBuffer, AccessPath::Drd, Target::Any, quantity);
    let (held, busy) = view
        .counts
        .pair(of(Quantity::Occupancy), of(Quantity::Busy))?;
    if busy.value <= 0.0 {
        return Err(Refusal::NoRequests {
            what: "loads that miss L1D".into(),
        });
    }
    Ok(held.and(&busy, held.value / busy.value, Unit::Entries))
}

/// Other workloads that are to blame.
pub fn others(view: View, blame: Vec<Blame>) -> Vec<Blame> {
    let name = crate::figure::printable(view.name);
    let keep = |one: &Blame| one.workload != name && one.share >= BLAME_MIN;
    blame.into_iter().filter(keep).collect()
}

pub fn finding(split: &StallSplit, what: String, part: f64, evidence: Vec<Evidence>) -> Finding {
    let stalled = split
        .stalled_ratio
        .as_ref()
        .map_or(0.0, |ratio| ratio.value);
    let mut evidence = evidence;
    evidence.push(Evidence::new(
        "stalled part of the time",
        split.stalled_ratio.clone(),
    ));
    if let Some(first) = largest(split) {
        let of = format!("largest part of the stalls, at {}", first.role);
        evidence.push(Evidence::new(
            of,
            Ok(share(split, |role| role == first.role)),
        ));
    }
    Finding {
        what,
        certainty: Certainty::Inferred,
        evidence,
        because_of: Vec::new(),
        places: Vec::new(),
        time_ratio: Some((stalled * part).clamp(0.0, 1.0)),
        caveat: None,
    }
}
