// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What streams move alone in both results. A stream that has another rate alone is another device, or the
//! same one at another time: a disk of a virtual machine, a throttled CPU. Its cells are not a repetition of
//! each other.

use super::ComparedCell;
use crate::interference::document::{InterferenceCell, InterferenceStream};
use crate::interference::words;
use serde::Serialize;
use weir_core::units::geometric_mean;

/// Rates alone that are further apart, one ÷ the other, are not those of one device.
const APART_RATIO: f64 = 1.1;
/// Streams that a sentence names.
const NAMED: usize = 2;

/// A stream that moves another amount alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AloneDifference {
    pub stream: InterferenceStream,
    /// Rate alone in B ÷ rate alone in A. Mean over the cells of which it is the victim.
    pub change_ratio: f64,
}

/// Those further apart than [`APART_RATIO`], in the order of the cells. `all` are the cells of A and B.
pub(super) fn differences(
    cells: &[ComparedCell],
    all: [&[InterferenceCell]; 2],
) -> Vec<AloneDifference> {
    let mut found: Vec<(InterferenceStream, Vec<f64>)> = Vec::new();
    for cell in cells {
        let Some(ratio) = change(&all[0][cell.indices.0], &all[1][cell.indices.1]) else {
            continue;
        };
        let key = cell.pair().0;
        match found.iter_mut().find(|(stream, _)| *stream == key) {
            Some((_, ratios)) => ratios.push(ratio),
            None => found.push((key, vec![ratio])),
        }
    }
    let difference = |(stream, ratios): (InterferenceStream, Vec<f64>)| {
        let change_ratio = geometric_mean(ratios)?;
        let is_apart = change_ratio.max(1.0 / change_ratio) > APART_RATIO;
        is_apart.then_some(AloneDifference {
            stream,
            change_ratio,
        })
    };
    found.into_iter().filter_map(difference).collect()
}

/// B ÷ A of the victim alone; nothing where a side does not know it, or moved nothing, or no number holds it.
fn change(a: &InterferenceCell, b: &InterferenceCell) -> Option<f64> {
    let rate = |cell: &InterferenceCell| {
        let alone = &cell.alone;
        let rate = alone.bytes_per_sec.or(alone.ops_per_sec);
        rate.filter(|rate| rate.is_finite() && *rate > 0.0)
    };
    let ratio = rate(b)? / rate(a)?;
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// In one sentence without its full stop, with the number of cells that differ and have such a stream.
/// Nothing where all streams are alike.
pub(super) fn words(alone: &[AloneDifference], differing: usize) -> Option<String> {
    let mut names: Vec<String> = alone
        .iter()
        .take(NAMED)
        .map(|one| {
            format!(
                "{} ({})",
                words::brief(&one.stream),
                words::change_percent(Some(one.change_ratio))
            )
        })
        .collect();
    if alone.len() > NAMED {
        names.push(format!("{} more", alone.len() - NAMED));
    }
    let (last, others) = names.split_last()?;
    let list = match others {
        [] => last.clone(),
        _ => format!("{} and {last}", others.join(", ")),
    };
    let cells = match differing {
        0 => "none of the cells that differ has".into(),
        1 => "one of the cells that differ has".into(),
        count => format!("{count} of the cells that differ have"),
    };
    Some(format!(
        "Alone B has another rate of {list}: another device, or another time of it; {cells} such a stream"
    ))
}
