// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Phases of a subject with what only all counts of a phase together say: the hot path, the part of CXL
//! memory in stalls, and findings.

use super::RuleReport;
use super::judged::Span;
use crate::path_map::{self, AccessPathWord};
use crate::phases::{FollowedFigure, NoPhases, Phase, Phases};
use crate::window_file::WindowFile;
use serde::Serialize;

/// Phases of which stalls are split: the model takes some milliseconds for each.
const SPLIT_MAX: usize = 40;

/// A phase, and what is said of it.
#[derive(Debug, Serialize)]
pub struct PhaseRow {
    #[serde(flatten)]
    pub phase: Phase,
    /// The path of most lines behind L2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot_path: Option<AccessPathWord>,
    /// The part of CXL memory in the stalls, by the model, and what it may be off by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cxl_of_stalls: Option<[f64; 2]>,
    /// Rules that find something in it, where they do not in all phases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<&'static str>,
}

/// Phases of a subject.
#[derive(Debug, Serialize)]
pub struct PhaseReport {
    pub phases: Vec<PhaseRow>,
    /// Probability that a figure without any change shows one.
    pub significance: f64,
    /// Windows taken together where the recording is long; changes shorter than four times as many are not
    /// seen.
    pub block_windows: usize,
    /// Places between windows at which time is missing.
    pub gaps: usize,
    pub figures: Vec<FollowedFigure>,
}

/// Spans of a subject's phases; none where there is one phase only, which is all windows.
pub fn spans(
    file: &WindowFile,
    phases: &Result<Phases, NoPhases>,
    idle: Option<&super::Scene>,
) -> Vec<Span> {
    let phases = phases.as_ref().map_or(&[][..], |found| &found.phases);
    let is_several = phases.len() > 1;
    let several = phases.iter().filter(|_| is_several).take(SPLIT_MAX);
    let spans = several.map(|phase| Span::of(file, phase.first_window - 1, phase.windows, idle));
    spans.collect()
}

/// Phases with what their spans and the rules say of them.
pub fn rows(
    phases: Phases,
    spans: &[Span],
    name: Option<&str>,
    rules: &[RuleReport],
) -> PhaseReport {
    let row = |(place, phase): (usize, Phase)| {
        let span = spans.get(place);
        let split = span.and_then(|span| span.stalls(name).ok());
        let is_in = |rule: &&RuleReport| {
            let found = rule.found_in_phases.as_ref();
            found.is_some_and(|found| found.phases.contains(&(place + 1)))
        };
        PhaseRow {
            hot_path: span.and_then(|span| path_map::path_map(span.scene().counts(name)).hot_path),
            cxl_of_stalls: split.map(|split| [split.cxl_share.value, split.cxl_error]),
            findings: rules.iter().filter(is_in).map(|rule| rule.rule).collect(),
            phase,
        }
    };
    PhaseReport {
        phases: phases.phases.into_iter().enumerate().map(row).collect(),
        significance: phases.significance,
        block_windows: phases.block_windows,
        gaps: phases.gaps,
        figures: phases.figures,
    }
}
