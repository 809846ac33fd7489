// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Phases of a recording: when what a subject does changes, what changes then, which phases are alike, and
//! what is to be expected next.
//!
//! ```text
//! windows ─► figures ─► segments ─► changes ─► phases ─► likeness
//!            (a value   (steps of   (of all figures      outlook (trend, season, forecast)
//!             a window)  one figure) together)           lags    (between workloads)
//! ```
//!
//! Windows and figures that are missing are absent: they have no part in a mean and never stand for zero.

mod changes;
mod figures;
mod lags;
mod likeness;
mod outlook;
mod regular;
mod segments;
mod step;
#[cfg(test)]
pub(crate) mod tests;

pub use changes::PhaseChange;
pub use figures::{FigureValues, PhaseFigure};
pub use lags::{LaggedPair, lagged};
pub use outlook::{Forecast, ForecastPoint, NoOutlook, Outlook, PhaseTrend, Season};
pub use segments::{KNOWN_MIN, SIGNIFICANCE};

use changes::PhaseSearch;
use serde::Serialize;
use std::collections::BTreeMap;
use weir_core::{Nanos, Window};

/// A subject's figures, window by window.
#[derive(Clone, Debug)]
pub struct Followed {
    /// The workload; nothing for the machine.
    pub name: Option<String>,
    pub figures: Vec<FigureValues>,
}

impl Followed {
    /// The figures of the machine, or of a workload.
    pub fn new(windows: &[Window], name: Option<&str>) -> Followed {
        Followed {
            name: name.map(str::to_owned),
            figures: figures::values(windows, name),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum NoPhases {
    /// Too few windows: a change could not be told from scatter.
    #[error("{windows} windows, and {KNOWN_MIN} are needed to tell a change from scatter")]
    TooFewWindows { windows: usize },
    /// None of the counts that figures are made of.
    #[error("no count of the figures that are followed (`weir profile methods`: phases)")]
    NotCounted,
    /// Figures are absent in most windows.
    #[error("the figures are known in {known} windows at most, and {KNOWN_MIN} are needed")]
    TooFewKnown {
        /// Windows in which the figure is known that is known most often.
        known: usize,
    },
}

#[derive(Clone, Debug, Serialize)]
pub struct FollowedFigure {
    pub figure: PhaseFigure,
    pub known_windows: usize,
    /// Windows in which it is absent: not counted, refused, or nothing happened.
    pub absent_windows: usize,
    /// Whether changes were looked for: it is known often enough.
    pub is_searched: bool,
    /// Windows of a moving mean.
    pub mean_windows: usize,
    /// The moving mean: the beginning of the window in its middle, and the mean of those that are known.
    pub moving_mean: Vec<(Nanos, f64)>,
    pub outlook: Outlook,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phase {
    /// Its first window, from 1.
    pub first_window: usize,
    pub windows: usize,
    pub from: Nanos,
    pub to: Nanos,
    /// Phases that are alike have the same number, from 1.
    pub cluster: usize,
    /// What changed as it began, the surest first; nothing in the first phase.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<PhaseChange>,
    /// Means of the figures over it.
    pub means: BTreeMap<PhaseFigure, f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Phases {
    /// Phases in order; one where nothing changes.
    pub phases: Vec<Phase>,
    /// Probability that a figure without any change shows one.
    pub significance: f64,
    /// Windows that are taken together, so that changes shorter than four times as many are not seen.
    pub block_windows: usize,
    /// Places between windows at which time is missing.
    pub gaps: usize,
    pub figures: Vec<FollowedFigure>,
}

/// Finds the phases of a subject.
///
/// # Errors
/// There is too little to look at.
pub fn phases(windows: &[Window], followed: &Followed) -> Result<Phases, NoPhases> {
    let figures = &followed.figures;
    if windows.len() < KNOWN_MIN {
        let windows = windows.len();
        return Err(NoPhases::TooFewWindows { windows });
    }
    let known = |one: &FigureValues| one.values.iter().flatten().count();
    let most = figures
        .iter()
        .map(known)
        .max()
        .ok_or(NoPhases::NotCounted)?;
    let search = PhaseSearch::new(figures, windows.len());
    if search.figures().next().is_none() {
        return Err(NoPhases::TooFewKnown { known: most });
    }
    let phases = described(windows, figures, &search);
    let last = phases.last().map_or(0, |phase| phase.first_window - 1);
    let adjoining = regular::adjoining(windows);
    let one = |values: &FigureValues| {
        let known_windows = known(values);
        let (mean_windows, moving_mean) = moving_mean(windows, &values.values);
        FollowedFigure {
            figure: values.figure,
            known_windows,
            absent_windows: windows.len() - known_windows,
            is_searched: search.figures().any(|figure| figure == values.figure),
            mean_windows,
            moving_mean,
            outlook: outlook::outlook(windows, values, &adjoining, last),
        }
    };
    Ok(Phases {
        significance: SIGNIFICANCE,
        block_windows: search.block,
        gaps: regular::gaps(windows),
        figures: figures.iter().map(one).collect(),
        phases,
    })
}

fn described(windows: &[Window], figures: &[FigureValues], search: &PhaseSearch) -> Vec<Phase> {
    let starts = search.starts(figures);
    let firsts: Vec<usize> = std::iter::once(0)
        .chain(starts.iter().map(|start| start.window))
        .collect();
    let mut changes = std::iter::once(Vec::new()).chain(starts.into_iter().map(|s| s.changes));
    let mut phases: Vec<Phase> = Vec::new();
    for (number, first) in firsts.iter().enumerate() {
        let end = firsts.get(number + 1).copied().unwrap_or(windows.len());
        let own = windows.get(*first..end).unwrap_or_default();
        let (Some(from), Some(to)) = (own.first(), own.last()) else {
            continue;
        };
        phases.push(Phase {
            first_window: first + 1,
            windows: end - first,
            from: from.from,
            to: to.to,
            cluster: number + 1,
            changes: changes.next().unwrap_or_default(),
            means: figures::means(figures, *first, end),
        });
    }
    let clusters = likeness::clusters(&phases, figures);
    for (phase, cluster) in phases.iter_mut().zip(clusters) {
        phase.cluster = cluster;
    }
    phases
}

/// Points of a moving mean.
const MEAN_POINTS_MAX: usize = 120;
/// Windows of a moving mean, at least.
const MEAN_WINDOWS_MIN: usize = 5;

/// Windows of the mean, and its points: evenly spread over the recording, none where all windows are absent.
fn moving_mean(windows: &[Window], values: &[Option<f64>]) -> (usize, Vec<(Nanos, f64)>) {
    let apart = windows.len().div_ceil(MEAN_POINTS_MAX).max(1);
    let reach = (MEAN_WINDOWS_MIN / 2).max(apart);
    let points = windows.iter().enumerate().step_by(apart);
    let points = points.filter_map(|(place, window)| {
        let high = (place + reach + 1).min(values.len());
        let near = values.get(place.saturating_sub(reach)..high)?;
        let known: Vec<f64> = near.iter().flatten().copied().collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        mean.is_finite().then_some((window.from, mean))
    });
    (2 * reach + 1, points.collect())
}
