// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bounds that scenarios state, against what weir reached: one row each, as after a run of one scenario.

use super::super::builtin;
use super::super::judged::weir_checks;
use super::super::results::subject;
use super::lab::{Lab, command, heads, text, words};
use anyhow::Result;
use serde_json::json;
use weir_report::{Cell, CellKind, Part, Section, Table};

const TITLE: &str = "Bounds of the scenarios";

/// All scenarios with bounds, all seeds.
pub fn bounds(lab: &mut Lab) -> Result<Section> {
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    let batches: Vec<_> = lab.batches().map(|(n, b)| (n.clone(), b.clone())).collect();
    for (name, batch) in batches {
        let Some(loaded) = builtin::named(&name).transpose()? else {
            continue;
        };
        let mut by_seed = Vec::new();
        for seed in &lab.seeds {
            let checks = weir_checks(&subject(&loaded, *seed)?, &batch.with_seed(*seed));
            by_seed.push(checks);
        }
        let Some(first) = by_seed.first() else {
            continue;
        };
        for (n, check) in first.iter().enumerate() {
            let all = || by_seed.iter().filter_map(|checks| checks.get(n));
            let met = all().filter(|c| c.passed).count();
            let shown: Vec<String> = all().map(weir_report::Check::measured_text).collect();
            let is_met = met == by_seed.len();
            lab.missed += usize::from(!is_met);
            rows.push(vec![
                words(&name),
                words(&check.name),
                Cell::new(check.bound_text(), CellKind::Number),
                Cell::new(shown.join(", "), CellKind::Number),
                verdict(is_met, met, by_seed.len()),
            ]);
            figures.push(json!({
                "scenario": name, "bound": check.name, "limit": check.bound_text(),
                "measured": all().map(|c| c.measured.clone().ok()).collect::<Vec<_>>(), "met": met,
            }));
        }
    }
    let met = rows.len() - lab.missed;
    let count = rows.len();
    lab.show(
        TITLE,
        "bounds that scenarios state",
        "all met",
        format!("{met} of {count}"),
        met == count,
    );
    lab.figures.insert("bounds", figures.into());
    let mut about = "What scenarios state under [expect], for weir (back end cgroup), by seed. A value that is not known misses its bound.".to_owned();
    if lab.is_quick {
        about.push_str(" Runs were shortened: bounds are for whole ones.");
    }
    Ok(Section {
        id: "bounds".into(),
        title: TITLE.into(),
        parts: vec![
            text(about),
            Part::Table(Table {
                title: "Bounds, all seeds".into(),
                heads: heads(&["scenario", "", "bound", "measured", ""]),
                rows,
            }),
            command("weir sim evaluate --check"),
        ],
    })
}

fn verdict(is_met: bool, met: usize, of: usize) -> Cell {
    match (is_met, met) {
        (true, _) => Cell::new("✓ met", CellKind::Met),
        (false, 0) => Cell::new("✗ missed", CellKind::Missed),
        (false, met) => Cell::new(format!("✗ met by {met} of {of}"), CellKind::Missed),
    }
}
