// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All figures of the model beside the paper's, as they are printed and written (docs/reference/type2.md).

use super::paper;
use anyhow::Result;
use serde::Serialize;
use weir_figures::{Bound, Comparison, FigureUnit};
use weir_type2::protocol::ProtocolRules;
use weir_type2::table_three::{StateCell, table_three};
use weir_type2::time::{Type2Profile, lines_into_llc};

#[derive(Debug, Serialize)]
pub struct ShownStage {
    pub name: String,
    pub ns: f64,
    /// Where that comes from.
    pub from: &'static str,
    pub why: String,
}

/// A cell of Table III, for one pair of states before.
#[derive(Debug, Serialize)]
pub struct ShownCell {
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

#[derive(Debug, Serialize)]
pub struct ShownFigure {
    pub section: String,
    pub what: String,
    pub unit: String,
    /// Least value of the paper.
    pub paper_low: Option<f64>,
    /// Largest value of the paper.
    pub paper_high: Option<f64>,
    pub ours: f64,
    /// `fitted`, `predicted` or `assumed`.
    pub kind: String,
    /// Distance from the paper's range.
    pub deviation: f64,
    /// The most that is allowed.
    pub tolerance: f64,
    pub is_met: bool,
    pub note: Option<String>,
}

/// Lines that a page's compression brings into the LLC.
#[derive(Debug, Serialize)]
pub struct LlcLines {
    /// Lines that software brings in.
    pub software: u64,
    /// Lines that the accelerator brings in with NC-rd.
    pub nc_read: u64,
    /// Lines that the accelerator brings in with CS-rd.
    pub cs_read: u64,
}

#[derive(Debug, Serialize)]
pub struct AllFigures {
    pub profile: String,
    pub machine: String,
    /// Where its figures come from.
    pub provenance: Vec<String>,
    pub stages: Vec<ShownStage>,
    /// Accelerator clocks of a page's compression.
    pub compute_clocks: u32,
    /// Where they come from; empty if the profile does not say so.
    pub compute_why: String,
    pub table_iii: Vec<ShownCell>,
    /// Sections V-A to V-D and Table IV.
    pub figures: Vec<ShownFigure>,
    pub llc_lines_per_page: LlcLines,
}

impl AllFigures {
    /// The model's figures with this profile.
    ///
    /// # Errors
    /// As [`paper::beside`].
    pub fn new(profile: &Type2Profile) -> Result<Self> {
        let stages = profile.stages.iter().map(|stage| ShownStage {
            name: stage.name.clone(),
            ns: stage.ns,
            from: stage.from.name(),
            why: stage.why.clone(),
        });
        let cells = table_three(ProtocolRules::default());
        let lines = lines_into_llc(profile);
        Ok(AllFigures {
            profile: profile.name.clone(),
            machine: profile.title.clone(),
            provenance: profile.provenance.clone(),
            stages: stages.collect(),
            compute_clocks: profile.offload.compute_clocks,
            compute_why: profile.offload.compute_why.clone(),
            table_iii: cells.iter().map(shown_cell).collect(),
            figures: paper::beside(profile)?,
            llc_lines_per_page: LlcLines {
                software: lines.software,
                nc_read: lines.nc_read,
                cs_read: lines.cs_read,
            },
        })
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
    /// The figure beside what the paper prints.
    pub fn comparison(&self) -> Comparison {
        let unit = match self.unit.as_str() {
            "%" => FigureUnit::Change,
            name => FigureUnit::named(name.to_owned()),
        };
        let low = self.paper_low.unwrap_or(f64::NEG_INFINITY);
        let range = Bound::between([low, self.paper_high.unwrap_or(f64::INFINITY)]);
        let paper = range.map_or(String::new(), |range| range.text(&unit));
        Comparison::new(&self.what, unit, Ok(self.ours))
            .within(range.map(|range| range.widened(self.tolerance)))
            .beside(paper)
            .because(self.note.clone().unwrap_or_default())
    }
}
