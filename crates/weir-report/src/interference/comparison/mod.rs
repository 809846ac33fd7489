// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two results, cell by cell: which differ beyond their intervals, whose class changed, and what else differs
//! between the machines.

pub mod alone;
pub mod facts;
pub mod page;
pub mod placement;
pub mod terminal;

use crate::interference::class::InfluenceClass;
use crate::interference::document::{
    InterferenceCell, InterferenceDocument, InterferenceStream, World,
};
use crate::interference::grid::{Precision, StreamPair};
use crate::interference::words;
use crate::results::Caveat;
use alone::AloneDifference;
use anyhow::{Result, bail};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What `kind` says in such a document.
const KIND: &str = "weir-interference-comparison";
/// The version of its keys.
const VERSION: u32 = 1;
/// Ratios this close, relative, are equal: they were rounded.
const ROUNDING: f64 = 1e-9;

/// Two results compared. Differences are from A to B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub kind: &'static str,
    pub version: u32,
    pub a: ComparedSide,
    pub b: ComparedSide,
    /// Cells of both, in the order of A.
    pub cells: Vec<ComparedCell>,
    /// How many of them differ beyond their intervals.
    pub differing: usize,
    /// Streams of which the rate alone is not the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alone: Vec<AloneDifference>,
    pub changed_classes: usize,
    /// Cells that only A has, in words.
    pub only_in_a: Vec<String>,
    /// Cells that only B has, in words.
    pub only_in_b: Vec<String>,
    /// What differs between the machines and plans.
    pub facts: Vec<FactDifference>,
    /// A sentence where hosts ran the CPUs on other cores, so that the two are not one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedSide {
    pub machine: String,
    /// Where its figures come from.
    pub world: World,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date_utc: Option<String>,
    /// What stood in the way of a clean measurement.
    pub caveats: Vec<Caveat>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedCell {
    /// The victim of A; that of B may have other threads or another width.
    pub victim: InterferenceStream,
    pub background: InterferenceStream,
    /// Ratio of A, and the ends of its interval.
    pub ratio_a: Option<f64>,
    pub ratio_low_a: Option<f64>,
    pub ratio_high_a: Option<f64>,
    /// Ratio of B, and the ends of its interval.
    pub ratio_b: Option<f64>,
    pub ratio_low_b: Option<f64>,
    pub ratio_high_b: Option<f64>,
    /// Ratio of B ÷ ratio of A.
    pub change_ratio: Option<f64>,
    /// Whether the intervals have no ratio in common; null where one has no interval.
    pub differs: Option<bool>,
    pub class_a: Vec<InfluenceClass>,
    pub class_b: Vec<InfluenceClass>,
    /// Whether no class of A is one of B; null where a side has none.
    pub class_changed: Option<bool>,
    /// Why a value is null, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
    /// Indices in both documents.
    #[serde(skip)]
    indices: (usize, usize),
    /// What streams are told apart by.
    #[serde(skip)]
    precision: Precision,
}

/// A fact that is not the same in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FactDifference {
    /// Its dotted name in the document.
    pub fact: String,
    /// The value in A; null where A does not state it.
    pub a: Option<String>,
    /// The value in B; null where B does not state it.
    pub b: Option<String>,
}

/// Compare two results. Cells are one where victim and background are, whatever the width and number of
/// threads, unless a result has several of them.
///
/// # Errors
/// The results have no cell in common.
pub fn compare(a: &InterferenceDocument, b: &InterferenceDocument) -> Result<Comparison> {
    let precision = Precision::least(&[&a.cells, &b.cells]);
    let of_b: BTreeMap<_, usize> = keys(b, precision).into_iter().zip(0..).collect();
    let keys_of_a = keys(a, precision);
    let common = placement::common(a, b);
    let cells: Vec<ComparedCell> = keys_of_a
        .iter()
        .enumerate()
        .filter_map(|(i, key)| of_b.get(key).map(|j| (i, *j)))
        .map(|(i, j)| compared([&a.cells[i], &b.cells[j]], (i, j), precision, common))
        .collect();
    if cells.is_empty() {
        bail!(
            "the results of {} and {} have no cell in common: measure the same streams on both, with --ops",
            words::machine(a),
            words::machine(b)
        );
    }
    let all_of_a: BTreeSet<_> = keys_of_a.iter().collect();
    let only = |document: &InterferenceDocument, has: &dyn Fn(usize) -> bool| -> Vec<String> {
        let others = document.cells.iter().enumerate().filter(|(i, _)| !has(*i));
        others
            .map(|(_, c)| words::pair(&c.victim, &c.background))
            .collect()
    };
    let keys_of_b = keys(b, precision);
    let count = |is: &dyn Fn(&ComparedCell) -> bool| cells.iter().filter(|c| is(c)).count();
    Ok(Comparison {
        kind: KIND,
        version: VERSION,
        a: side(a),
        b: side(b),
        differing: count(&|cell| cell.differs == Some(true)),
        alone: alone::differences(&cells, [&a.cells, &b.cells]),
        changed_classes: count(&|cell| cell.class_changed == Some(true)),
        only_in_a: only(a, &|i| of_b.contains_key(&keys_of_a[i])),
        only_in_b: only(b, &|i| all_of_a.contains(&keys_of_b[i])),
        facts: facts::differences(a, b),
        placement: placement::words(a, b, common),
        cells,
    })
}

fn keys(document: &InterferenceDocument, precision: Precision) -> Vec<StreamPair> {
    document
        .cells
        .iter()
        .map(|cell| precision.key(cell))
        .collect()
}

fn side(document: &InterferenceDocument) -> ComparedSide {
    ComparedSide {
        machine: words::machine(document),
        world: document.world,
        date_utc: document.date_utc.clone(),
        caveats: document.caveats.clone(),
    }
}

/// Two cells beside each other. They differ where their intervals have no ratio in common, and not where the
/// ratios differ: two runs of the same machine do that.
fn compared(
    [a, b]: [&InterferenceCell; 2],
    indices: (usize, usize),
    precision: Precision,
    round_trips_ns: Option<[f64; 2]>,
) -> ComparedCell {
    let (a, b) = match round_trips_ns {
        Some([of_a, of_b]) => (placement::at(a, of_a), placement::at(b, of_b)),
        None => (a.clone(), b.clone()),
    };
    let [a, b] = [&a, &b];
    let mut missing = BTreeMap::new();
    for (side, cell) in [("a", a), ("b", b)] {
        let values = [
            ("ratio", cell.ratio),
            ("ratio_low", cell.ratio_low),
            ("ratio_high", cell.ratio_high),
        ];
        for (name, _) in values.iter().filter(|(_, value)| value.is_none()) {
            let reason = cell
                .missing
                .get(*name)
                .or_else(|| cell.missing.get("ratio"));
            let reason = reason.map_or("no reason recorded", String::as_str);
            missing.insert(format!("{name}_{side}"), reason.to_owned());
        }
    }
    let change_ratio = a
        .ratio
        .zip(b.ratio)
        .filter(|(a, _)| *a > 0.0)
        .map(|(a, b)| b / a);
    let differs = interval(a)
        .zip(interval(b))
        .map(|(a, b)| a.1 < b.0 * (1.0 - ROUNDING) || b.1 < a.0 * (1.0 - ROUNDING));
    let class_changed = (!a.class.is_empty() && !b.class.is_empty())
        .then(|| !a.class.iter().any(|class| b.class.contains(class)));
    let absent = "a side does not have what is compared";
    let why_no_change = match a.ratio.and(b.ratio) {
        Some(_) => "the ratio of A is 0",
        None => absent,
    };
    for (name, is_null, why) in [
        ("change_ratio", change_ratio.is_none(), why_no_change),
        ("differs", differs.is_none(), absent),
        ("class_changed", class_changed.is_none(), absent),
    ] {
        if is_null {
            missing.insert(name.into(), why.into());
        }
    }
    ComparedCell {
        victim: a.victim.clone(),
        background: a.background.clone(),
        ratio_a: a.ratio,
        ratio_low_a: a.ratio_low,
        ratio_high_a: a.ratio_high,
        ratio_b: b.ratio,
        ratio_low_b: b.ratio_low,
        ratio_high_b: b.ratio_high,
        change_ratio,
        differs,
        class_a: a.class.clone(),
        class_b: b.class.clone(),
        class_changed,
        missing,
        indices,
        precision,
    }
}

fn interval(cell: &InterferenceCell) -> Option<(f64, f64)> {
    cell.ratio_low.zip(cell.ratio_high)
}

impl ComparedCell {
    /// Victim and background without what need not be the same in both.
    fn pair(&self) -> StreamPair {
        (
            self.precision.stream(&self.victim),
            self.precision.stream(&self.background),
        )
    }

    /// How great the change is, up or down. From nothing to anything it is greater than any other.
    fn change_size(&self) -> f64 {
        match (self.change_ratio, self.ratio_a.and(self.ratio_b)) {
            (Some(ratio), _) => ratio.max(1e-300).ln().abs(),
            (None, Some(_)) => f64::INFINITY,
            (None, None) => 0.0,
        }
    }
}

impl Comparison {
    /// Cells that differ, and of which a stream has another rate alone.
    #[must_use]
    pub fn differing_of_other_streams(&self) -> usize {
        let is_other = |stream| self.alone.iter().any(|one| one.stream == stream);
        let of_other = |cell: &&ComparedCell| {
            let (victim, background) = cell.pair();
            cell.differs == Some(true) && (is_other(victim) || is_other(background))
        };
        self.cells.iter().filter(of_other).count()
    }

    /// What differs most, in one sentence. Ends with a full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        let unknown = self.cells.iter().filter(|c| c.differs.is_none()).count();
        let mut text = format!(
            "Of {} common cells, {} differ beyond their intervals and {} have another class",
            self.cells.len(),
            self.differing,
            self.changed_classes
        );
        if unknown > 0 {
            text += &format!("; {unknown} cannot be compared");
        }
        let differing = self.cells.iter().filter(|c| c.differs == Some(true));
        if let Some(alone) = alone::words(&self.alone, self.differing_of_other_streams()) {
            text += &format!(". {alone}");
        }
        if let Some(placement) = &self.placement {
            text += &format!(". {placement}");
        }
        match differing.max_by(|x, y| x.change_size().total_cmp(&y.change_size())) {
            Some(cell) => format!(
                "{text}. The greatest difference: {} beside {}, {} % in A and {} % in B.",
                words::brief(&cell.victim),
                words::brief(&cell.background),
                words::change(cell.ratio_a),
                words::change(cell.ratio_b)
            ),
            None => text + ".",
        }
    }
}
