// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reason beside every `null`.

use crate::interference::document::{InterferenceCell, InterferenceDocument};
use anyhow::{Context, Result};
use serde_json::Value;

/// Stands where a value is `null` without a reason.
const NO_REASON: &str = "not recorded by what made this result";
/// Stands where storage and programs have no width.
const NO_WIDTH: &str = "only memory streams have one";

/// The document with a reason for every `null`: of a cell in its `missing`, of the plan in the document's. A
/// number that is not finite becomes `null` in JSON and needs one too.
///
/// # Errors
/// The document cannot be written as JSON.
pub fn explained(document: &InterferenceDocument) -> Result<InterferenceDocument> {
    let mut whole = document.clone();
    for cell in &mut whole.cells {
        explain_cell(cell)?;
    }
    let plan = serde_json::to_value(&whole.plan).context("the plan")?;
    for name in nulls("plan", &plan) {
        whole.missing.entry(name).or_insert(NO_REASON.into());
    }
    Ok(whole)
}

/// The document as it is written: with a reason for every `null`, and a newline at its end.
///
/// # Errors
/// As [`explained`].
pub fn json(document: &InterferenceDocument) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(&explained(document)?).context("the result")?;
    text.push(b'\n');
    Ok(text)
}

fn explain_cell(cell: &mut InterferenceCell) -> Result<()> {
    let value = serde_json::to_value(&*cell).context("a cell")?;
    let fields = value.as_object().into_iter().flatten();
    let of_cell = fields
        .filter(|(name, _)| *name != "sweep" && *name != "missing")
        .flat_map(|(name, value)| nulls(name, value));
    for name in of_cell.collect::<Vec<_>>() {
        if !is_explained(cell, &name) {
            let reason = if name.ends_with(".width_bytes") {
                NO_WIDTH
            } else {
                NO_REASON
            };
            cell.missing.insert(name, reason.into());
        }
    }
    let points = value["sweep"].as_array().into_iter().flatten().enumerate();
    for (place, point) in points {
        let fields = point.as_object().into_iter().flatten();
        let of_point = fields.flat_map(|(name, value)| nulls(name, value));
        for name in of_point {
            let own = format!("sweep.{place}.{name}");
            // What no cell can have, its points have not either.
            if !is_explained(cell, &own) && !is_explained(cell, &name) {
                cell.missing.insert(own, NO_REASON.into());
            }
        }
    }
    Ok(())
}

/// Whether `missing` has a name, or a group that it belongs to.
fn is_explained(cell: &InterferenceCell, name: &str) -> bool {
    let groups = name.match_indices('.').map(|(at, _)| &name[..at]);
    groups.chain([name]).any(|n| cell.missing.contains_key(n))
}

/// Dotted names of the nulls in a value.
fn nulls(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Null => vec![name.to_owned()],
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(part, value)| nulls(&format!("{name}.{part}"), value))
            .collect(),
        _ => Vec::new(),
    }
}
