// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The worst that was found, in one sentence.

use crate::interference::document::{InterferenceCell, InterferenceDocument};
use crate::interference::words;
use weir_figures::text::number;

/// The worst influence, in one sentence; without one, what is known instead. Ends with a full stop.
#[must_use]
pub fn worst(document: &InterferenceDocument) -> String {
    let cells = &document.cells;
    let shown = cells
        .iter()
        .filter(|cell| cell.interferes == Some(true))
        .filter_map(|cell| {
            cell.ratio
                .filter(|r| r.is_finite())
                .map(|ratio| (cell, ratio))
        });
    let taken = shown
        .clone()
        .filter(|(_, ratio)| *ratio < 1.0)
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let given = shown.max_by(|a, b| a.1.total_cmp(&b.1));
    match (taken, given) {
        (Some((cell, ratio)), _) => takes(cell, ratio),
        (None, Some((cell, ratio))) => format!(
            "The worst: nothing is taken; {} gives {} % more of {} to {}.",
            words::in_sentence(&cell.background),
            number((ratio - 1.0) * 100.0),
            figure(cell),
            words::in_sentence(&cell.victim),
        ),
        (None, None) => without(cells),
    }
}

fn takes(cell: &InterferenceCell, ratio: f64) -> String {
    let range = match (cell.ratio_low, cell.ratio_high) {
        (Some(low), Some(high)) if high - low > 1e-9 => format!(
            " ({} to {} %)",
            number((1.0 - high) * 100.0),
            number((1.0 - low) * 100.0)
        ),
        _ => String::new(),
    };
    let longer = match (cell.alone.latency_ns, cell.together.latency_ns) {
        (Some(alone), Some(together)) if alone > 0.0 && together.is_finite() => {
            format!(
                "; its latency is {} times that alone",
                number(together / alone)
            )
        }
        _ => String::new(),
    };
    format!(
        "The worst: {} takes {} %{range} of {} of {}{longer}.",
        words::in_sentence(&cell.background),
        number((1.0 - ratio) * 100.0),
        figure(cell),
        words::in_sentence(&cell.victim),
    )
}

/// What the ratio compares.
fn figure(cell: &InterferenceCell) -> &'static str {
    if cell.alone.bytes_per_sec.is_some() {
        "the bandwidth"
    } else {
        "the operations per second"
    }
}

fn without(cells: &[InterferenceCell]) -> String {
    let unknown = cells
        .iter()
        .filter(|cell| cell.interferes.is_none())
        .count();
    match (cells.len(), unknown) {
        (0, _) => "The worst: nothing was measured.".into(),
        (_, 0) => "The worst: no background takes more than 5 % of any victim's bandwidth.".into(),
        (all, unknown) => format!(
            "The worst: no influence is certain, and of {unknown} of {all} cells it is not known whether there is one."
        ),
    }
}
