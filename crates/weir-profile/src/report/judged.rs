// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules, applied to all windows together and to spans of them.

use super::scene::Scene;
use crate::culprit::{Sharer, Waits};
use crate::figure::places::{PlaceKind, place_words};
use crate::figure::printable;
use crate::figure::sources::Sources;
use crate::findings::{Finding, RULES, Rule, RuleOutcome, View, is_felt};
use crate::quality::Refusal;
use crate::stalls::{StallSplit, stalls};
use crate::window_file::WindowFile;
use serde::Serialize;
use weir_core::window::CountScope;
use weir_core::window::role::Stage;
use weir_core::{Nanos, Window};

/// Spans that a subject's rules look at. More windows are taken together.
const SPANS_MAX: usize = 60;

/// Windows to take together, so that there are at most so many spans.
pub fn windows_a_span(windows: usize, spans_max: usize) -> usize {
    windows.div_ceil(spans_max).max(1)
}

/// A rule and a subject.
#[derive(Debug, Serialize)]
pub struct RuleReport {
    /// The rule.
    pub rule: &'static str,
    /// The subject.
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
    /// What would refute it.
    pub refuted_by: &'static str,
    /// The next move.
    pub next_move: &'static str,
    /// What it says.
    #[serde(flatten)]
    pub outcome: RuleOutcome,
}

/// Some of a subject's phases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundPhases {
    /// Which, from 1.
    pub phases: Vec<usize>,
    /// How many phases there are.
    pub of: usize,
    /// When the first of them begins, on the recording's clock.
    pub from: Nanos,
    /// When the last of them ends, likewise; nothing where the recording does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Nanos>,
}

/// Windows taken together, with what is made of them once.
#[derive(Debug)]
pub struct Span {
    scene: Scene,
    waits: Result<Waits, Refusal>,
    /// Waits at places of which there are several.
    places: Vec<(CountScope, Result<Waits, Refusal>)>,
    first: usize,
    windows: usize,
    /// When it begins.
    from: Option<Nanos>,
}

impl Span {
    /// Of these windows of the file, of which the first has this place.
    fn new(file: &WindowFile, windows: &[Window], first: usize, idle: Option<&Scene>) -> Span {
        let scene = Scene::new(windows, &file.header.capacities);
        let begin = windows.first().filter(|window| window.length().is_some());
        Span {
            waits: scene.waits(idle),
            places: scene
                .places()
                .map(|place| (place, scene.waits_at(place, idle)))
                .collect(),
            scene,
            first,
            windows: windows.len(),
            from: begin.map(|window| window.from),
        }
    }

    /// Of all windows.
    pub fn whole(file: &WindowFile, idle: Option<&Scene>) -> Span {
        Span::new(file, &file.windows, 0, idle)
    }

    /// Of some windows.
    pub fn of(file: &WindowFile, first: usize, windows: usize, idle: Option<&Scene>) -> Span {
        let own = file.windows.get(first..first + windows).unwrap_or_default();
        Span::new(file, own, first, idle)
    }

    /// Spans of all windows: each window, or as many together as give [`SPANS_MAX`] spans.
    pub fn all(file: &WindowFile, idle: Option<&Scene>) -> Vec<Span> {
        let length = windows_a_span(file.windows.len(), SPANS_MAX);
        let spans = file.windows.chunks(length).enumerate();
        let span =
            |(place, chunk): (usize, &[Window])| Span::new(file, chunk, place * length, idle);
        spans.map(span).collect()
    }

    /// Its counts.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// Waits at the stages that workloads share.
    pub fn waits(&self) -> &Result<Waits, Refusal> {
        &self.waits
    }

    /// A subject's stalls.
    pub fn stalls(&self, name: Option<&str>) -> Result<StallSplit, Refusal> {
        stalls(&self.scene.sources(name))
    }

    fn view<'a>(
        &'a self,
        name: Option<&'a str>,
        idle: Option<&'a Scene>,
        stalls: &'a Result<StallSplit, Refusal>,
        sharers: &'a [Sharer<'a>],
    ) -> View<'a> {
        View {
            name: name.unwrap_or(MACHINE),
            counts: self.scene.counts(name),
            idle: idle.map(|idle| idle.counts(name)),
            sources: self.scene.sources(name),
            idle_sources: idle.map(|idle| idle.sources(name)),
            stalls: stalls.as_ref(),
            waits: self.waits.as_ref(),
            sharers,
            place: None,
        }
    }

    /// What each rule says of a subject.
    fn outcomes(&self, name: Option<&str>, idle: Option<&Scene>) -> Vec<RuleOutcome> {
        let (stalls, sharers) = (self.stalls(name), self.scene.sharers());
        let view = self.view(name, idle, &stalls, &sharers);
        let outcome = |rule: &Rule| match self.found_at(rule, view, name, idle) {
            Some(outcome) => outcome,
            None => (rule.check)(view),
        };
        RULES.iter().map(outcome).collect()
    }

    /// What a rule finds at single places, of the first kind of places that has the counts: these are named.
    /// Nothing where places lack the counts. A place at which others wait, and not the workload, is none of
    /// its.
    fn found_at(
        &self,
        rule: &Rule,
        view: View,
        name: Option<&str>,
        idle: Option<&Scene>,
    ) -> Option<RuleOutcome> {
        for (kind, stage) in rule.places {
            let own = self
                .places
                .iter()
                .filter(|(place, _)| PlaceKind::of(*place) == Some(*kind));
            let said: Vec<(CountScope, RuleOutcome)> = own
                .filter_map(|(place, waits)| {
                    let view = self.view_at(view, (*place, waits), name, idle)?;
                    Some((*place, outcome_at(rule, view, *stage)))
                })
                .collect();
            let is_blind = |(_, outcome): &(CountScope, RuleOutcome)| {
                matches!(outcome, RuleOutcome::CannotTell { .. })
            };
            let blind = said.iter().filter(|one| is_blind(one)).count();
            if blind < said.len() {
                let is_known = blind == 0;
                let found = named(said, name).map(RuleOutcome::Found);
                return found.or(is_known.then_some(RuleOutcome::NotFound));
            }
        }
        None
    }

    /// The same view with counts of one place alone of its kind.
    fn view_at<'a>(
        &'a self,
        view: View<'a>,
        (place, waits): (CountScope, &'a Result<Waits, Refusal>),
        name: Option<&str>,
        idle: Option<&'a Scene>,
    ) -> Option<View<'a>> {
        let machine = self.scene.at(place)?;
        let quiet = idle.and_then(|idle| idle.at(place));
        let is_machine = name.is_none();
        Some(View {
            counts: if is_machine { machine } else { view.counts },
            idle: if is_machine { quiet } else { view.idle },
            sources: Sources {
                machine,
                ..view.sources
            },
            idle_sources: quiet.and_then(|machine| {
                Some(Sources {
                    machine,
                    ..view.idle_sources?
                })
            }),
            waits: match PlaceKind::of(place) {
                // What waits at one port of several is not counted; how busy its link is, is.
                Some(PlaceKind::Port) => view.waits,
                _ => waits.as_ref(),
            },
            place: Some(place),
            ..view
        })
    }
}

/// What a rule says at one place.
fn outcome_at(rule: &Rule, view: View, stage: Stage) -> RuleOutcome {
    match (rule.check)(view) {
        RuleOutcome::Found(_) if is_felt(view, stage) == Some(false) => RuleOutcome::NotFound,
        said => said,
    }
}

/// The finding of the place that it concerns most, with all places at which there is one.
fn named(said: Vec<(CountScope, RuleOutcome)>, name: Option<&str>) -> Option<Finding> {
    let all = said.len();
    let found = said.into_iter().filter_map(|(place, said)| match said {
        RuleOutcome::Found(finding) => Some((place, finding)),
        _ => None,
    });
    let (places, found): (Vec<CountScope>, Vec<Finding>) = found.unzip();
    let weight = |finding: &Finding| finding.time_ratio.unwrap_or(0.0);
    let most = found
        .into_iter()
        .rev()
        .max_by(|a, b| weight(a).total_cmp(&weight(b)))?;
    let words: Vec<String> = places.iter().map(|place| place_words(*place)).collect();
    let mut finding = Finding {
        what: format!("{}, at {}", most.what, words.join(", ")),
        ..most
    };
    let is_of_workloads = name.is_some() || !finding.because_of.is_empty();
    if is_of_workloads && places.len() < all {
        let which = "from which of these places the lines of a workload come was not counted";
        finding.caveat = Some(match finding.caveat {
            None => which.to_owned(),
            Some(caveat) => format!("{caveat}; {which}"),
        });
    }
    finding.places = places;
    Some(finding)
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
    let each: Vec<Vec<RuleOutcome>> = match outcomes.iter().any(is_found) {
        true => spans.iter().map(|span| span.outcomes(name, idle)).collect(),
        false => Vec::new(),
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
    /// How many there are.
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
