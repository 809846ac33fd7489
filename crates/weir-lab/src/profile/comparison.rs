// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An estimate of weir-profile beside its truth. A comparison sees what a profiler sees (counts by
//! role) and the truth, and nothing else of the machine.

use crate::server::TruthDocument;
use weir_profile::WindowFile;

pub struct ComparedRun {
    pub seed: u64,
    pub file: WindowFile,
    /// Counts of the same machine with next to no load.
    pub idle: WindowFile,
    pub truth: TruthDocument,
}

/// An estimate with its truth.
#[derive(Clone, Debug)]
pub struct ComparedFigure {
    /// What the figure is about: subject and role, or subject and culprit.
    pub of: String,
    /// The estimate, or the reason why there is none.
    pub estimate: Result<f64, String>,
    /// The truth, in the same unit.
    pub truth: f64,
    /// What a difference is divided by: the truth for relative errors, 1 for absolute ones.
    pub scale: f64,
}

impl ComparedFigure {
    /// The error, 0 or more; nothing without an estimate.
    pub fn error(&self) -> Option<f64> {
        let estimate = self.estimate.as_ref().ok()?;
        Some((estimate - self.truth).abs() / self.scale)
    }
}

/// Mean errors that are aimed at, by how was counted.
#[derive(Clone, Copy, Debug)]
pub struct Aims {
    /// All events all the time.
    pub all: f64,
    /// Sets of events in turns.
    pub turns: f64,
    /// Occupancies shared out over home agents.
    pub spread: f64,
}

/// A kind of figure that is compared. An estimator gets a row by an entry in [`super::COMPARISONS`].
pub struct Comparison {
    /// Its name, in tables and JSON.
    pub name: &'static str,
    /// What the specification aims at, where it does.
    pub aims: Option<Aims>,
    /// All figures of a run that are worth judging.
    pub figures: fn(&ComparedRun) -> Vec<ComparedFigure>,
}
