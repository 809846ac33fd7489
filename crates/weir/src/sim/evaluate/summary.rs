// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first thing on the page: what was to be shown, and whether it was, with where to read on. Each section
//! leaves its part in the lab.

use super::lab::{Lab, heads, text, words};
use serde::Serialize;
use weir_report::{Cell, CellKind, Part, Section, Table};

/// What was to be shown, and what came out.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// What.
    pub what: String,
    /// What it should be.
    pub aim: String,
    /// What it is.
    pub measured: String,
    /// Whether that is as it should be; nothing where there is no aim but to tell it.
    pub is_met: Option<bool>,
    /// The section with the rest.
    pub section: &'static str,
}

impl Lab {
    /// Leaves a line for the summary.
    pub fn show(
        &mut self,
        section: &'static str,
        what: impl Into<String>,
        aim: impl Into<String>,
        measured: impl Into<String>,
        is_met: impl Into<Option<bool>>,
    ) {
        self.shown.push(Shown {
            what: what.into(),
            aim: aim.into(),
            measured: measured.into(),
            is_met: is_met.into(),
            section,
        });
    }
}

/// All of it.
pub fn summary(lab: &Lab) -> Section {
    let rows = lab.shown.iter().map(row).collect();
    Section {
        id: "summary".into(),
        title: "In short".into(),
        parts: vec![
            text(
                "What this page is to show, and whether it does. What is missed is told in its section, with the reason as far as it is known.",
            ),
            Part::Table(Table {
                title: "Aims".into(),
                heads: heads(&["", "aim", "measured", "", "in"]),
                rows,
            }),
        ],
    }
}

fn row(shown: &Shown) -> Vec<Cell> {
    let verdict = match shown.is_met {
        Some(true) => Cell::new("✓ met", CellKind::Met),
        Some(false) => Cell::new("✗ missed", CellKind::Missed),
        None => Cell::new("told", CellKind::Words),
    };
    vec![
        Cell::new(&shown.what, CellKind::Long),
        Cell::new(&shown.aim, CellKind::Long),
        Cell::new(&shown.measured, CellKind::Long),
        verdict,
        words(shown.section),
    ]
}
