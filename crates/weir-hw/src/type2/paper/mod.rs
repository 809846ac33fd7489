// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of the paper beside the model's.
//!
//! A figure is *fitted* if its ratio was used to choose a stage of the profile, else *predicted*. *Assumed*
//! is a figure that rests on a stage chosen after a picture of the paper, so that it is neither.

mod accesses;
mod host_accesses;
mod offloading;
mod table_three;
mod transfers;

pub use accesses::write_sweep;
pub use table_three::{StateCell, TableCache, TablePlace, table_three};

use crate::type2::time::Type2Profile;

named! {
    /// How the model comes to a figure.
    FigureKind {
        /// It was used to choose stages.
        Fitted = "fitted",
        /// It was not.
        Predicted = "predicted",
        /// A stage was chosen near it.
        Assumed = "assumed",
    }
}

named! {
    /// Unit of a figure.
    FigureUnit {
        /// Change against what it is compared with, percent.
        Percent = "%",
        /// Times as much.
        Times = "times",
        /// Nanoseconds.
        Ns = "ns",
        /// 10⁹ bytes per second.
        GbPerSec = "GB/s",
        /// The unit of Table IV.
        TableUnits = "a.u.",
        /// Accesses.
        Accesses = "accesses",
        /// Bytes.
        Bytes = "bytes",
    }
}

/// A figure of the paper and the model's.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedFigure {
    /// Section or table of the paper.
    pub section: &'static str,
    /// What it is.
    pub what: String,
    /// Unit.
    pub unit: FigureUnit,
    /// Lowest value that the paper gives; none if it gives no bound below.
    pub paper_low: Option<f64>,
    /// Highest value.
    pub paper_high: Option<f64>,
    /// The model's.
    pub ours: f64,
    /// How it comes to it.
    pub kind: FigureKind,
    /// Deviation that is allowed, in the unit.
    pub tolerance: f64,
    /// Why it misses, where it does.
    pub note: &'static str,
}

impl ComparedFigure {
    /// How far it lies outside of the paper's range, in the unit; 0 inside.
    pub fn deviation(&self) -> f64 {
        let below = self.paper_low.map_or(0.0, |low| (self.ours - low).min(0.0));
        let above = self
            .paper_high
            .map_or(0.0, |high| (self.ours - high).max(0.0));
        below + above
    }

    /// Whether the deviation is allowed.
    pub fn is_met(&self) -> bool {
        self.deviation().abs() <= self.tolerance + 1e-9
    }
}

/// Makes figures of one section.
struct Figures {
    section: &'static str,
    found: Vec<ComparedFigure>,
}

impl Figures {
    fn new(section: &'static str) -> Self {
        Figures {
            section,
            found: Vec::new(),
        }
    }

    /// A change against `base`, percent, between two bounds of the paper.
    fn change(
        &mut self,
        what: &str,
        paper: (f64, f64),
        (ours, base): (f64, f64),
        (kind, tolerance): (FigureKind, f64),
    ) {
        let percent = (ours / base - 1.0) * 100.0;
        let bounds = (Some(paper.0), Some(paper.1));
        self.figure(
            what,
            FigureUnit::Percent,
            bounds,
            percent,
            (kind, tolerance),
        );
    }

    fn figure(
        &mut self,
        what: &str,
        unit: FigureUnit,
        (paper_low, paper_high): (Option<f64>, Option<f64>),
        ours: f64,
        (kind, tolerance): (FigureKind, f64),
    ) {
        self.found.push(ComparedFigure {
            section: self.section,
            what: what.to_owned(),
            unit,
            paper_low,
            paper_high,
            ours,
            kind,
            tolerance,
            note: "",
        });
    }

    /// Why the last figure misses; dropped where it does not.
    fn note(&mut self, why: &'static str) {
        if let Some(last) = self.found.last_mut().filter(|last| !last.is_met()) {
            last.note = why;
        }
    }
}

/// All figures, in the order of the paper.
pub fn compared(profile: &Type2Profile) -> Vec<ComparedFigure> {
    let mut all = accesses::device_to_host(profile);
    all.extend(accesses::device_to_device(profile));
    all.extend(host_accesses::host_to_device(profile));
    all.extend(transfers::transfers(profile));
    all.extend(offloading::offloading(profile));
    all
}
