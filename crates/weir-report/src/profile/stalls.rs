// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measured stalls, split by a model: over all windows of each subject, and over time of those that stall
//! most.

use super::axis::{TimeScale, moments};
use super::words::{
    SupplierKind, amount, look, path_words, stage_words, tail, target_words, value,
};
use crate::picture::stack::{Layer, TimeStack, stack};
use std::collections::BTreeMap;
use weir_core::window::role::Stage;
use weir_figures::Picture;
use weir_figures::text::NONE;
use weir_figures::{Cell, Part, Table};
use weir_figures::{Hatch, Ink};
use weir_profile::report::over_time::{OverTime, StallsOverTime};
use weir_profile::report::{Report, Subject};
use weir_profile::stalls::StallSplit;
use weir_profile::{Refusal, stalls::StallPart};

/// Layers of a picture; smaller ones are one.
const LAYERS_MAX: usize = 9;
/// A layer that is less of the time cannot be seen.
const LAYER_MIN: f64 = 0.003;
/// Nor can all of them together be seen, where they are less.
const OTHERS_MIN: f64 = 0.0005;
/// Parts in a table.
const PARTS_MAX: usize = 14;
/// Rows of the table of all workloads.
const ROWS_MAX: usize = 250;

/// A kind of supplier and a stage: what a layer shows.
type Place = (SupplierKind, Stage);

fn place_of(part: &StallPart) -> Place {
    (SupplierKind::of(part.role.target), part.role.stage)
}

fn place_words((kind, stage): Place) -> String {
    match stage {
        Stage::StoreBuffer => "store buffer".into(),
        // These have one kind of memory.
        Stage::Device | Stage::Port | Stage::M2pcie => stage_words(stage).into(),
        Stage::Imc if kind == SupplierKind::Dram => stage_words(stage).into(),
        _ => format!("{} · {}", stage_words(stage), kind.words()),
    }
}

/// Stalled cycles of each place ÷ all cycles; nothing where there is no split.
fn ratios(split: &Result<StallSplit, Refusal>) -> Option<BTreeMap<Place, f64>> {
    let split = split.as_ref().ok()?;
    let stalled = split.stalled_ratio.as_ref().ok()?.value;
    let mut all = BTreeMap::new();
    for part in &split.parts {
        *all.entry(place_of(part)).or_default() += part.share * stalled;
    }
    Some(all)
}

/// The picture of a subject over time; nothing where no span has a split.
pub fn picture(
    title: &str,
    report: &Report,
    of: &StallsOverTime,
    scale: &TimeScale,
) -> Option<Picture> {
    let spans: Vec<Option<BTreeMap<Place, f64>>> = of.of_spans.iter().map(ratios).collect();
    let known = spans.iter().flatten();
    let count = known.clone().count();
    let mut sums: BTreeMap<Place, f64> = BTreeMap::new();
    for (place, ratio) in known.flatten() {
        *sums.entry(*place).or_default() += ratio / count as f64;
    }
    let mut largest: Vec<(Place, f64)> = sums.into_iter().filter(|(_, mean)| *mean > 0.0).collect();
    largest.sort_by(|a, b| b.1.total_cmp(&a.1));
    let seen = largest
        .iter()
        .take(LAYERS_MAX)
        .filter(|(_, mean)| *mean >= LAYER_MIN)
        .count();
    let others: Vec<(Place, f64)> = largest.drain(seen..).collect();
    // Of one supplier together, so that its sum is seen.
    largest.sort_by_key(|(place, _)| *place);
    let layer = |name: String, mean: f64, look, of: &dyn Fn(&BTreeMap<Place, f64>) -> f64| Layer {
        name: format!("{:.1} %  {name}", mean * 100.0),
        look,
        values: spans.iter().map(|span| span.as_ref().map(of)).collect(),
    };
    let mut layers: Vec<Layer> = largest
        .iter()
        .map(|(place, mean)| {
            let of = |span: &BTreeMap<Place, f64>| span.get(place).copied().unwrap_or(0.0);
            layer(place_words(*place), *mean, look(place.1, place.0), &of)
        })
        .collect();
    let mean: f64 = others.iter().map(|(_, mean)| mean).sum();
    if mean >= OTHERS_MIN {
        let of = |span: &BTreeMap<Place, f64>| {
            others
                .iter()
                .map(|(place, _)| span.get(place).copied().unwrap_or(0.0))
                .sum()
        };
        let look = (Ink::Unknown, Hatch::Plain);
        layers.push(layer(
            format!("{} smaller parts", others.len()),
            mean,
            look,
            &of,
        ));
    }
    (count > 0 && !layers.is_empty()).then(|| {
        stack(&TimeStack {
            title: format!("{}{title}", tail(&of.subject, 60)),
            x: scale.axis.clone(),
            y: "stalled, % of its cycles".into(),
            layers,
            moments: moments(report, &of.subject, scale),
        })
    })
}

/// All subjects in one table, those that stall most first.
pub fn overview(subjects: &[&Subject]) -> Vec<Part> {
    let row = |subject: &&Subject| -> Vec<Cell> {
        let map = &subject.figures.path_map;
        let lines = map.cxl_lines.as_ref().map_or(NONE.into(), value);
        let share = map.cxl_share.as_ref().map_or(NONE.into(), value);
        let faster = subject
            .what_if
            .first()
            .and_then(|one| one.speedup.as_ref().ok());
        let faster = faster.map_or(NONE.into(), |figure| format!("{:.2}", figure.value));
        let [stalled, cxl, largest] = match &subject.figures.stalls {
            Err(why) => [
                NONE.to_owned(),
                NONE.to_owned(),
                format!("not split: {why}"),
            ],
            Ok(split) => [
                split.stalled_ratio.as_ref().map_or(NONE.into(), value),
                format!(
                    "{} ± {:.0}",
                    value(&split.cxl_share),
                    split.cxl_error * 100.0
                ),
                split
                    .parts
                    .first()
                    .map_or(String::new(), |part| place_words(place_of(part))),
            ],
        };
        vec![
            Cell::words(subject.name.clone()),
            Cell::number(stalled),
            Cell::number(cxl),
            Cell::number(lines),
            Cell::number(share),
            Cell::number(faster),
            Cell::long(largest),
        ]
    };
    let mut parts = vec![Part::Table(Table::new(
        "",
        &[
            "subject",
            "stalled part of its time",
            "of that for CXL memory, ± points",
            "lines from CXL memory",
            "their share of all",
            "times as fast, were CXL memory DRAM",
            "most is stalled",
        ],
        subjects.iter().take(ROWS_MAX).map(row),
    ))];
    let left = subjects.len().saturating_sub(ROWS_MAX);
    if left > 0 {
        parts.push(Part::Words(format!(
            "{left} more subjects are in report.json."
        )));
    }
    parts
}

/// Parts of the stalls over all windows.
fn split_table(subject: &Subject, split: &StallSplit) -> Table {
    let row = |part: &StallPart| -> Vec<Cell> {
        let role = part.role;
        vec![
            Cell::words(stage_words(role.stage)),
            Cell::long(path_words(role.path)),
            Cell::long(target_words(role.target)),
            Cell::number(format!("{:.1} %", part.share * 100.0)),
            Cell::number(format!("± {:.0}", part.error * 100.0)),
            Cell::number(amount(part.cycles)),
        ]
    };
    let mut rows: Vec<Vec<Cell>> = split.parts.iter().take(PARTS_MAX).map(row).collect();
    let more = split.parts.get(PARTS_MAX..).unwrap_or_default();
    if !more.is_empty() {
        let share: f64 = more.iter().map(|part| part.share).sum();
        let cycles = more.iter().map(|part| part.cycles).sum();
        rows.push(vec![
            Cell::words(format!("{} more parts", more.len())),
            Cell::long(""),
            Cell::long(""),
            Cell::number(format!("{:.1} %", share * 100.0)),
            Cell::number(""),
            Cell::number(amount(cycles)),
        ]);
    }
    Table::new(
        format!(
            "{}: {} stalled, measured",
            subject.name,
            value(&split.measured)
        ),
        &["stage", "request", "supplier", "part", "± points", "cycles"],
        rows,
    )
}

/// How much is stalled in each span, and the part of CXL memory, or why there is no split.
fn span_table(of: &StallsOverTime, scale: &TimeScale) -> Table {
    let row = |(place, split): (usize, &Result<StallSplit, Refusal>)| -> Vec<Cell> {
        let time = Cell::words(scale.words(place));
        match split {
            Err(why) => vec![
                time,
                Cell::number(NONE),
                Cell::number(NONE),
                Cell::long(why.to_string()),
            ],
            Ok(split) => vec![
                time,
                Cell::number(split.stalled_ratio.as_ref().map_or(NONE.into(), value)),
                Cell::number(format!(
                    "{} ± {:.0}",
                    value(&split.cxl_share),
                    split.cxl_error * 100.0
                )),
                Cell::long(
                    split
                        .parts
                        .first()
                        .map_or(String::new(), |part| place_words(place_of(part))),
                ),
            ],
        }
    };
    Table::new(
        "",
        &[
            scale.axis.name.as_str(),
            "stalled",
            "for CXL memory, ± points",
            "most is stalled",
        ],
        of.of_spans.iter().enumerate().map(row),
    )
}

/// Pictures and tables of those that stall most.
pub fn parts(report: &Report, over_time: &OverTime) -> Vec<Part> {
    let scale = TimeScale::new(over_time);
    let mut parts = Vec::new();
    for of in &over_time.stalls {
        parts.extend(picture("", report, of, &scale).map(Part::Picture));
        let mut tables = Vec::new();
        let subject = report.subjects.iter().find(|one| one.name == of.subject);
        if let Some((subject, Ok(split))) = subject.map(|one| (one, &one.figures.stalls)) {
            tables.push(Part::Table(split_table(subject, split)));
            tables.extend(what_if(subject));
        }
        tables.push(Part::Table(span_table(of, &scale)));
        parts.push(Part::Details {
            summary: format!("Tables of the stalls of {}", of.subject),
            parts: tables,
        });
    }
    if over_time.stalls.is_empty() {
        let why = "No stalls were split: the cores' stalls, cycles and instructions, and residences behind the \
                   last-level cache, are needed.";
        parts.push(Part::Words(why.into()));
    }
    if over_time.not_by_span > 0 {
        parts.push(Part::Words(format!(
            "Those that stall most are shown over time; {} more are in the table above.",
            over_time.not_by_span
        )));
    }
    parts
}

fn what_if(subject: &Subject) -> Option<Part> {
    let rows = subject.what_if.iter().map(|one| {
        let (shown, known) = match &one.speedup {
            Ok(figure) => (format!("{:.2}", figure.value), super::words::known(figure)),
            Err(why) => (NONE.into(), why.to_string()),
        };
        vec![
            Cell::words(one.otherwise.clone()),
            Cell::number(shown),
            Cell::long(known),
        ]
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    (!rows.is_empty()).then(|| {
        Part::Table(Table::new(
            "What if: time now ÷ time then, by the same model",
            &["if", "times as fast", "how it is known"],
            rows,
        ))
    })
}
