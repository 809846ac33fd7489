// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All figures of the model beside the paper's, as they are printed and written (docs/reference/type2.md).

use serde::Serialize;
use weir_hw::type2::paper::{ComparedFigure, StateCell, compared, table_three};
use weir_hw::type2::protocol::ProtocolRules;
use weir_hw::type2::time::{Type2Profile, lines_into_llc};

/// A stage of the profile.
#[derive(Debug, Serialize)]
pub struct ShownStage {
    /// Its name.
    pub name: String,
    /// Its length.
    pub ns: f64,
    /// Where that comes from.
    pub from: &'static str,
    /// By what.
    pub why: String,
}

/// A cell of Table III, for one pair of states before.
#[derive(Debug, Serialize)]
pub struct ShownCell {
    /// Operation.
    pub op: &'static str,
    /// `HMC` or `LLC`.
    pub cache: &'static str,
    /// Where the access found the line.
    pub place: &'static str,
    /// State before, in the HMC.
    pub hmc_before: &'static str,
    /// State before, in the LLC.
    pub llc_before: &'static str,
    /// What the paper has in the cell.
    pub paper: &'static str,
    /// State after, in `cache`.
    pub ours: &'static str,
    /// Whether the paper allows it.
    pub is_met: bool,
}

/// A figure.
#[derive(Debug, Serialize)]
pub struct ShownFigure {
    /// Section or table.
    pub section: &'static str,
    /// What it is.
    pub what: String,
    /// Unit.
    pub unit: &'static str,
    /// Least value of the paper.
    pub paper_low: Option<f64>,
    /// Largest value of the paper.
    pub paper_high: Option<f64>,
    /// The model's.
    pub ours: f64,
    /// `fitted`, `predicted` or `assumed`.
    pub kind: &'static str,
    /// Distance from the paper's range.
    pub deviation: f64,
    /// The most that is allowed.
    pub tolerance: f64,
    /// Whether it is.
    pub is_met: bool,
    /// Why it misses.
    pub note: Option<&'static str>,
}

/// Lines that a page's compression brings into the LLC.
#[derive(Debug, Serialize)]
pub struct LlcLines {
    /// By software.
    pub software: u64,
    /// By the accelerator with NC-rd.
    pub nc_read: u64,
    /// By the accelerator with CS-rd.
    pub cs_read: u64,
}

/// Everything.
#[derive(Debug, Serialize)]
pub struct AllFigures {
    /// Name of the profile.
    pub profile: String,
    /// Its machine.
    pub machine: String,
    /// Where its figures come from.
    pub provenance: Vec<String>,
    /// Its stages.
    pub stages: Vec<ShownStage>,
    /// Accelerator clocks of a page's compression.
    pub compute_clocks: u32,
    /// Where they come from; empty if the profile does not say so.
    pub compute_why: String,
    /// Table III.
    pub table_iii: Vec<ShownCell>,
    /// Sections V-A to V-D and Table IV.
    pub figures: Vec<ShownFigure>,
    /// Lines into the LLC.
    pub llc_lines_per_page: LlcLines,
}

impl AllFigures {
    /// Computes them.
    pub fn new(profile: &Type2Profile) -> Self {
        let stages = profile.stages.iter().map(|stage| ShownStage {
            name: stage.name.clone(),
            ns: stage.ns,
            from: stage.from.name(),
            why: stage.why.clone(),
        });
        let cells = table_three(ProtocolRules::default());
        let lines = lines_into_llc(profile);
        AllFigures {
            profile: profile.name.clone(),
            machine: profile.title.clone(),
            provenance: profile.provenance.clone(),
            stages: stages.collect(),
            compute_clocks: profile.offload.compute_clocks,
            compute_why: profile.offload.compute_why.clone(),
            table_iii: cells.iter().map(shown_cell).collect(),
            figures: compared(profile).iter().map(shown_figure).collect(),
            llc_lines_per_page: LlcLines {
                software: lines.software,
                nc_read: lines.nc_read,
                cs_read: lines.cs_read,
            },
        }
    }
}

fn shown_cell(cell: &StateCell) -> ShownCell {
    ShownCell {
        op: cell.op.name(),
        cache: cell.cache.name(),
        place: cell.place.name(),
        hmc_before: cell.before.0.name(),
        llc_before: cell.before.1.name(),
        paper: cell.paper,
        ours: cell.ours.name(),
        is_met: cell.is_met(),
    }
}

fn shown_figure(figure: &ComparedFigure) -> ShownFigure {
    ShownFigure {
        section: figure.section,
        what: figure.what.clone(),
        unit: figure.unit.name(),
        paper_low: figure.paper_low,
        paper_high: figure.paper_high,
        ours: figure.ours,
        kind: figure.kind.name(),
        deviation: figure.deviation(),
        tolerance: figure.tolerance,
        is_met: figure.is_met(),
        note: (!figure.note.is_empty()).then_some(figure.note),
    }
}

impl AllFigures {
    /// The clocks of Table IV, and where they come from.
    pub fn compute(&self) -> String {
        let why = match self.compute_why.as_str() {
            "" => "the profile does not say from where",
            why => why,
        };
        format!("{} clocks a page ({why})", self.compute_clocks)
    }
}

impl ShownCell {
    /// The change of the cache's state.
    pub fn change(&self) -> String {
        let before = match self.cache {
            "HMC" => self.hmc_before,
            _ => self.llc_before,
        };
        format!("{before}→{}", self.ours)
    }
}

impl ShownFigure {
    /// The paper's value or range.
    pub fn paper(&self) -> String {
        match (self.paper_low, self.paper_high) {
            (Some(low), Some(high)) if low == high => self.number(low),
            (Some(low), Some(high)) => format!("{} to {}", self.number(low), self.number(high)),
            (Some(low), None) => format!("≥ {}", self.number(low)),
            (None, Some(high)) => format!("≤ {}", self.number(high)),
            (None, None) => "–".into(),
        }
    }

    /// A number in the figure's unit, with its sign if it is a change.
    pub fn number(&self, value: f64) -> String {
        match self.unit {
            "%" => format!("{:+.1}", value + 0.0),
            "ns" | "bytes" | "accesses" => format!("{value:.0}"),
            _ => format!("{value:.2}"),
        }
    }

    /// The deviation, in points or in the unit.
    pub fn shown_deviation(&self) -> String {
        match self.deviation.abs() < 0.005 {
            true => "0".into(),
            false => format!("{:+.2}", self.deviation),
        }
    }
}
