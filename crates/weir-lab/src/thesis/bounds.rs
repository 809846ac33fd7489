// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bounds that scenarios state, against what weir reached: one row each, as after a run of one scenario.

use super::context::{EvalContext, command, text};
use anyhow::Result;
use serde_json::json;
use weir::lab::batch::Batch;
use weir::lab::builtin_scenarios;
use weir::lab::results::subject;
use weir_figures::{Cell, CellKind, Part, Section, Table};
use weir_report::Check;

const TITLE: &str = "Bounds of the scenarios";

/// One bound of a scenario: what came out with each seed.
struct OfSeeds<'a>(Vec<&'a Check>);

impl OfSeeds<'_> {
    fn met(&self) -> usize {
        self.0.iter().filter(|check| check.is_met()).count()
    }

    fn is_met(&self) -> bool {
        self.met() == self.0.len()
    }

    fn verdict(&self) -> Cell {
        match (self.is_met(), self.met()) {
            (true, _) => Cell::new("✓ met", CellKind::Met),
            (false, 0) => Cell::new("✗ missed", CellKind::Missed),
            (false, met) => {
                let text = format!("✗ met by {met} of {}", self.0.len());
                Cell::new(text, CellKind::Missed)
            }
        }
    }
}

/// All scenarios with bounds, all seeds. A figure that has an aim has its verdict there.
pub fn bounds(context: &mut EvalContext) -> Result<Section> {
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    let (mut count, mut met) = (0, 0);
    let batches: Vec<_> = context
        .batches()
        .map(|(n, b)| (n.clone(), b.clone()))
        .collect();
    for (name, batch) in batches {
        let by_seed = checks(context, &name, &batch)?;
        for n in 0..by_seed.first().map_or(0, Vec::len) {
            let all = OfSeeds(by_seed.iter().filter_map(|checks| checks.get(n)).collect());
            let Some(check) = all.0.first() else { continue };
            let has_aim = context.has_aim(&name, &check.of.name);
            if !has_aim {
                (count, met) = (count + 1, met + usize::from(all.is_met()));
            }
            let shown: Vec<String> = all.0.iter().map(|c| c.of.value_text()).collect();
            rows.push(vec![
                Cell::words(&name),
                Cell::words(&check.run),
                Cell::words(&check.of.name),
                Cell::number(check.of.bound_text()),
                Cell::number(shown.join(", ")),
                if has_aim {
                    Cell::new("has an aim", CellKind::Faint)
                } else {
                    all.verdict()
                },
            ]);
            let measured: Vec<Option<f64>> =
                all.0.iter().map(|c| c.of.value.clone().ok()).collect();
            figures.push(json!({
                "scenario": name, "run": check.run, "bound": check.of.name, "limit": check.of.bound_text(),
                "measured": measured, "met": all.met(), "has_aim": has_aim,
            }));
        }
    }
    context.show(
        TITLE,
        "bounds that scenarios state",
        "all met",
        format!("{met} of {count}"),
        met == count,
    );
    context.figures.insert("bounds", figures.into());
    Ok(section(context, rows))
}

/// The checks of each seed; nothing for a scenario that states no bounds.
fn checks(context: &EvalContext, name: &str, batch: &Batch) -> Result<Vec<Vec<Check>>> {
    let Some(loaded) = builtin_scenarios::named(name).transpose()? else {
        return Ok(Vec::new());
    };
    let of = |seed: &u64| {
        let subject = subject(&loaded, *seed)?;
        Ok(weir_report::checks(&subject, &batch.with_seed(*seed)))
    };
    context.seeds.iter().map(of).collect()
}

fn section(context: &EvalContext, rows: Vec<Vec<Cell>>) -> Section {
    let mut about = "What scenarios state under [expect], for each run of weir, by seed. A value that is not known misses its bound. Figures that \
                     have an aim (above) are judged there alone."
        .to_owned();
    if context.is_quick {
        about.push_str(" Runs were shortened: bounds are for whole ones.");
    }
    Section::new(
        "bounds",
        TITLE,
        vec![
            text(about),
            Part::Table(Table::new(
                "Bounds, all seeds",
                &["scenario", "run", "", "bound", "measured", ""],
                rows,
            )),
            command("weir-lab thesis --check"),
        ],
    )
}
