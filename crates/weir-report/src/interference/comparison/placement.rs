// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where hosts ran the CPUs of virtual machines. Results of two placements are compared at one that both
//! have.

use crate::interference::class::InfluenceClass;
use crate::interference::document::{InterferenceCell, InterferenceDocument, PlacementPoint};

/// The fact that says how far CPUs are from each other in a virtual machine, in nanoseconds there and back.
pub const ROUND_TRIP_FACT: &str = "cpu_round_trip_ns";
/// Round trips that differ by this much show two placements.
pub const APART_RATIO: f64 = 1.5;

fn is_apart(one: f64, other: f64) -> bool {
    one.max(other) >= APART_RATIO * one.min(other)
}

/// Round trip of the repetitions that cells use.
fn own(document: &InterferenceDocument) -> Option<f64> {
    document.machine.facts.get(ROUND_TRIP_FACT)?.parse().ok()
}

/// Placements of a document, with the least number of repetitions that a cell has in them.
fn all(document: &InterferenceDocument) -> Vec<(f64, u32)> {
    let mut found: Vec<(f64, u32)> = Vec::new();
    for point in document.cells.iter().flat_map(|cell| &cell.placements) {
        match found.iter_mut().find(|(ns, _)| *ns == point.round_trip_ns) {
            Some((_, least)) => *least = (*least).min(point.repeats),
            None => found.push((point.round_trip_ns, point.repeats)),
        }
    }
    found
}

/// Round trips of A and B to compare at, where their cells use two placements: those that both have, with the
/// most repetitions. Nothing where cells use one placement, or no placement is in both.
pub fn common(a: &InterferenceDocument, b: &InterferenceDocument) -> Option<[f64; 2]> {
    if !is_apart(own(a)?, own(b)?) {
        return None;
    }
    let of_b = all(b);
    let pairs = all(a)
        .into_iter()
        .flat_map(|one| of_b.iter().map(move |other| (one, *other)));
    let alike = pairs.filter(|(one, other)| !is_apart(one.0, other.0));
    let most = alike.max_by_key(|(one, other)| one.1.min(other.1))?;
    Some([most.0.0, most.1.0])
}

/// A cell of the repetitions of a placement. Nothing is known of one that has none there.
pub fn at(cell: &InterferenceCell, round_trip_ns: f64) -> InterferenceCell {
    let found = cell
        .placements
        .iter()
        .find(|point| point.round_trip_ns == round_trip_ns);
    let point = found.copied().unwrap_or(PlacementPoint {
        round_trip_ns,
        ratio: None,
        ratio_low: None,
        ratio_high: None,
        repeats: 0,
    });
    let mut cell = cell.clone();
    (cell.ratio, cell.ratio_low, cell.ratio_high) =
        (point.ratio, point.ratio_low, point.ratio_high);
    cell.repeats = point.repeats;
    cell.class = match (point.ratio_low.zip(point.ratio_high), point.ratio) {
        (Some((low, high)), _) => InfluenceClass::between(low, high),
        (None, Some(ratio)) => vec![InfluenceClass::of(ratio)],
        (None, None) => Vec::new(),
    };
    if point.ratio.is_none() {
        let why = "too few repetitions in the placement of CPUs that both results have";
        cell.missing.insert("ratio".into(), why.into());
    }
    cell
}

/// What is to be said where hosts ran the CPUs on other cores. No full stop.
pub fn words(
    a: &InterferenceDocument,
    b: &InterferenceDocument,
    common: Option<[f64; 2]>,
) -> Option<String> {
    let (of_a, of_b) = (own(a)?, own(b)?);
    if !is_apart(of_a, of_b) {
        return None;
    }
    let moved = format!(
        "Hosts ran the CPUs on other cores: a line took {of_a:.0} ns between them and back in A and {of_b:.0} ns in B"
    );
    Some(match common {
        Some([at, _]) => {
            format!("{moved}; all cells here are of repetitions near {at:.0} ns, which both have")
        }
        None => format!("{moved}, and no placement is in both, so that these are two machines"),
    })
}
