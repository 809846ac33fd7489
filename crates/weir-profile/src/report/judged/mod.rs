// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules, applied to all windows together and to spans of them.

mod places;
mod span;

pub use span::{Span, windows_a_span};

use super::scene::Scene;
use crate::figure::printable;
use crate::findings::{RULES, RuleOutcome};
use crate::window_file::WindowFile;
use serde::Serialize;
use weir_core::Nanos;

/// A rule and a subject.
#[derive(Debug, Serialize)]
pub struct RuleReport {
    pub rule: &'static str,
    pub subject: String,
    /// The first window in which it finds it alone, from 1, and in how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_in: Option<(usize, usize)>,
    /// When that one begins, on the recording's clock; nothing where the length of windows is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ns: Option<Nanos>,
    /// The phases in which it finds it, where it does not in all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_in_phases: Option<FoundPhases>,
    pub refuted_by: &'static str,
    pub next_move: &'static str,
    #[serde(flatten)]
    pub outcome: RuleOutcome,
}

/// Some of a subject's phases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundPhases {
    /// Numbers of the phases, from 1.
    pub phases: Vec<usize>,
    pub of: usize,
    /// When the first of them begins, on the recording's clock.
    pub from: Nanos,
    /// When the last of them ends, likewise; nothing where the recording does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Nanos>,
}

/// What the machine is called among subjects.
pub const MACHINE: &str = "machine";

/// What each rule says of a subject. Where its load has phases, a rule may find something in some of them
/// only: that is what it says then, with the phases.
pub fn judged(
    file: &WindowFile,
    whole: &Span,
    [spans, phases]: [&[Span]; 2],
    name: Option<&str>,
    idle: Option<&Scene>,
) -> Vec<RuleReport> {
    let outcomes = whole.outcomes(name, idle);
    let by_phase: Vec<Vec<RuleOutcome>> = phases
        .iter()
        .map(|phase| phase.outcomes(name, idle))
        .collect();
    let each: Vec<Vec<RuleOutcome>> = if outcomes.iter().any(is_found) {
        spans.iter().map(|span| span.outcomes(name, idle)).collect()
    } else {
        Vec::new()
    };
    let rules = RULES.iter().zip(outcomes).enumerate();
    let reports = rules.map(|(place, (rule, outcome))| {
        let in_phases = found_in(place, phases, &by_phase);
        let is_in_some = !in_phases.is_empty() && in_phases.len() < phases.len();
        let found = match (is_in_some, is_found(&outcome)) {
            (true, _) => Some(FoundWindows::new(phases, &in_phases)),
            (false, true) => Some(FoundWindows::new(spans, &found_in(place, spans, &each))),
            (false, false) => None,
        };
        RuleReport {
            rule: rule.name,
            subject: name.map_or_else(|| MACHINE.to_owned(), printable),
            found_in: found.as_ref().map(|found| (found.first, found.count)),
            since_ns: found.and_then(|found| found.since),
            found_in_phases: is_in_some.then(|| FoundPhases::new(file, phases, &in_phases)),
            refuted_by: rule.refuted_by,
            next_move: rule.next_move,
            outcome: match (is_in_some, is_found(&outcome)) {
                (true, false) => strongest(place, &in_phases, &by_phase).unwrap_or(outcome),
                _ => outcome,
            },
        }
    });
    reports.collect()
}

fn is_found(outcome: &RuleOutcome) -> bool {
    matches!(outcome, RuleOutcome::Found(_))
}

/// The spans in which a rule finds something: their places.
fn found_in(rule: usize, spans: &[Span], outcomes: &[Vec<RuleOutcome>]) -> Vec<usize> {
    let found = spans.iter().zip(outcomes).enumerate();
    let found = found.filter(|(_, (_, said))| said.get(rule).is_some_and(is_found));
    found.map(|(place, _)| place).collect()
}

/// Where a rule finds something.
struct FoundWindows {
    /// The first window, from 1.
    first: usize,
    count: usize,
    /// When the first begins.
    since: Option<Nanos>,
}

impl FoundWindows {
    /// In the spans at these places; where there are none, in all windows together.
    fn new(spans: &[Span], places: &[usize]) -> FoundWindows {
        let found = || places.iter().filter_map(|place| spans.get(*place));
        FoundWindows {
            first: found().next().map_or(1, |span| span.first + 1),
            count: found().map(|span| span.windows).sum(),
            since: found().next().or(spans.first()).and_then(|span| span.from),
        }
    }
}

/// What a rule says of the phase that it concerns most.
fn strongest(rule: usize, places: &[usize], by_phase: &[Vec<RuleOutcome>]) -> Option<RuleOutcome> {
    let weight = |outcome: &&RuleOutcome| match outcome {
        RuleOutcome::Found(finding) => finding.time_ratio.unwrap_or(1.0),
        _ => 0.0,
    };
    let said = places
        .iter()
        .filter_map(|place| by_phase.get(*place)?.get(rule));
    said.max_by(|a, b| weight(a).total_cmp(&weight(b))).cloned()
}

impl FoundPhases {
    fn new(file: &WindowFile, phases: &[Span], places: &[usize]) -> FoundPhases {
        let of = |place: Option<&usize>| place.and_then(|place| phases.get(*place));
        let window = |place: usize| file.windows.get(place);
        let first = of(places.first()).and_then(|span| window(span.first));
        let last = of(places.last()).map(|span| span.first + span.windows);
        let ends = last.filter(|end| *end < file.windows.len());
        let ends = ends.and_then(|end| window(end.checked_sub(1)?));
        FoundPhases {
            phases: places.iter().map(|place| place + 1).collect(),
            of: phases.len(),
            from: first.map_or(Nanos(0), |window| window.from),
            to: ends.map(|window| window.to),
        }
    }
}
