// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules, applied to all windows together and to spans of them.

use super::scene::Scene;
use crate::culprit::{Sharer, Waits};
use crate::figure::printable;
use crate::findings::{RULES, RuleOutcome, View};
use crate::quality::Refusal;
use crate::stalls::{StallSplit, stalls};
use crate::window_file::WindowFile;
use serde::Serialize;
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
    /// How long after the first window of all that one begins; nothing where the length of windows is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ns: Option<Nanos>,
    /// What would refute it.
    pub refuted_by: &'static str,
    /// The next move.
    pub next_move: &'static str,
    /// What it says.
    #[serde(flatten)]
    pub outcome: RuleOutcome,
}

/// Windows taken together, with what is made of them once.
#[derive(Debug)]
pub struct Span {
    scene: Scene,
    waits: Result<Waits, Refusal>,
    first: usize,
    windows: usize,
    /// When it begins, since the begin of the recording.
    from: Option<Nanos>,
}

impl Span {
    /// Of these windows of the file, of which the first has this place.
    fn new(file: &WindowFile, windows: &[Window], first: usize, idle: Option<&Scene>) -> Span {
        let scene = Scene::new(windows, &file.header.capacities);
        let begin = windows.first().filter(|window| window.length().is_some());
        let origin = file.windows.first().map_or(Nanos(0), |window| window.from);
        Span {
            waits: scene.waits(idle),
            scene,
            first,
            windows: windows.len(),
            from: begin.map(|window| Nanos(window.from.0.saturating_sub(origin.0))),
        }
    }

    /// Of all windows.
    pub fn whole(file: &WindowFile, idle: Option<&Scene>) -> Span {
        Span::new(file, &file.windows, 0, idle)
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
        }
    }

    /// What each rule says of a subject.
    fn outcomes(&self, name: Option<&str>, idle: Option<&Scene>) -> Vec<RuleOutcome> {
        let (stalls, sharers) = (self.stalls(name), self.scene.sharers());
        let view = self.view(name, idle, &stalls, &sharers);
        RULES.iter().map(|rule| (rule.check)(view)).collect()
    }
}

/// What the machine is called among subjects.
pub const MACHINE: &str = "machine";

/// What each rule says of a subject.
pub fn judged(
    whole: &Span,
    spans: &[Span],
    name: Option<&str>,
    idle: Option<&Scene>,
) -> Vec<RuleReport> {
    let outcomes = whole.outcomes(name, idle);
    let is_found = |outcome: &RuleOutcome| matches!(outcome, RuleOutcome::Found(_));
    let each: Vec<Vec<RuleOutcome>> = match outcomes.iter().any(is_found) {
        true => spans.iter().map(|span| span.outcomes(name, idle)).collect(),
        false => Vec::new(),
    };
    let rules = RULES.iter().zip(outcomes).enumerate();
    let reports = rules.map(|(place, (rule, outcome))| {
        let found_in = is_found(&outcome).then(|| {
            let found = spans
                .iter()
                .zip(&each)
                .filter(|(_, said)| is_found(&said[place]));
            let found: Vec<&Span> = found.map(|(span, _)| span).collect();
            let first = found.first().map_or(1, |span| span.first + 1);
            let since = found
                .first()
                .or(spans.first().as_ref())
                .and_then(|span| span.from);
            ((first, found.iter().map(|span| span.windows).sum()), since)
        });
        RuleReport {
            rule: rule.name,
            subject: name.map_or_else(|| MACHINE.to_owned(), printable),
            found_in: found_in.map(|(windows, _)| windows),
            since_ns: found_in.and_then(|(_, since)| since),
            refuted_by: rule.refuted_by,
            next_move: rule.next_move,
            outcome,
        }
    });
    reports.collect()
}
