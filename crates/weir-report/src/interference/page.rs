// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a matrix: heat maps whose cells lead to their sweeps, and all that one must know to believe
//! them.

use crate::interference::cell_card::{bandwidth, cell_parts};
use crate::interference::class::InfluenceClass;
use crate::interference::document::{InterferenceCell, InterferenceDocument, World};
use crate::interference::grid::{GridBlock, Precision, blocks, column_name};
use crate::interference::words;
use crate::interference::worst::worst;
use weir_figures::text::{NONE, line, plain_number};
use weir_figures::{Cell, CellKind, Document, Part, Section, Table, html};
use weir_figures::{Heat, HeatCell, HeatMap, HeatRow};

/// Characters of a reason.
const REASON: usize = 500;

/// The page as HTML: one file that loads nothing.
#[must_use]
pub fn page(document: &InterferenceDocument) -> String {
    let mut sections = vec![matrix(document)];
    if !document.cells.is_empty() {
        sections.push(Section::new(
            "cells",
            "All cells",
            vec![Part::Table(all_cells(document))],
        ));
    }
    if !document.missing.is_empty() {
        let rows = document
            .missing
            .iter()
            .map(|(name, why)| (line(name, 100), line(why, REASON)));
        sections.push(Section::new(
            "missing",
            "What is not there",
            vec![Part::Facts(rows.collect())],
        ));
    }
    if !document.caveats.is_empty() {
        let doubts = document
            .caveats
            .iter()
            .map(|c| (line(&c.figure, 100), line(&c.reason, REASON)));
        sections.push(Section::new(
            "caveats",
            "What is not to be trusted",
            vec![Part::Facts(doubts.collect())],
        ));
    }
    sections.push(Section::new(
        "machine",
        "The machine",
        vec![Part::Facts(machine(document))],
    ));
    sections.push(plan(document));
    html(&Document {
        title: format!("Interference on {}", words::machine(document)),
        about: vec![format!("{}.", words::capital(&words::origin(document)))],
        answer: vec![worst(document), counts(&document.cells)],
        sections,
    })
}

fn counts(cells: &[InterferenceCell]) -> String {
    let count = |which: Option<bool>| cells.iter().filter(|c| c.interferes == which).count();
    format!(
        "Of {} cells, {} interfere, {} have no influence, and of {} it is not known.",
        cells.len(),
        count(Some(true)),
        count(Some(false)),
        count(None)
    )
}

fn matrix(document: &InterferenceDocument) -> Section {
    let about = "A cell is the change of the victim's bandwidth beside a background, in %, with its 95 % interval. \
        Victims are rows, backgrounds columns. A cell leads to all that is known of it, below the matrix.";
    let mut parts = vec![Part::Words(about.into()), Part::HeatKey(heat_keys())];
    let precision = Precision::least(&[&document.cells]);
    let pairs: Vec<_> = document.cells.iter().map(|c| precision.key(c)).collect();
    let maps = blocks(&pairs).into_iter().map(|block| {
        let title = format!("Beside {}", words::target(document, &block.target));
        let cell = |index: usize| heat_cell(&document.cells[index], Some(format!("cell-{index}")));
        vec![Part::Heat(heat_of(&block, title, &cell))]
    });
    // More than two with intervals have no place beside each other.
    let maps: Vec<Vec<Part>> = maps.collect();
    parts.extend(maps.chunks(2).map(|two| Part::Beside(two.to_vec())));
    for (index, cell) in document.cells.iter().enumerate() {
        parts.push(Part::Choice {
            id: format!("cell-{index}"),
            title: words::pair(&cell.victim, &cell.background),
            parts: cell_parts(cell),
            back: "matrix".into(),
        });
    }
    Section::new("matrix", "The matrix", parts)
}

/// A block as a heat map.
pub fn heat_of(block: &GridBlock, title: String, cell: &dyn Fn(usize) -> HeatCell) -> HeatMap {
    let rows = block
        .victims
        .iter()
        .zip(&block.cells)
        .map(|(victim, cells)| HeatRow {
            name: words::stream(victim),
            cells: cells.iter().map(|index| index.map(cell)).collect(),
        });
    HeatMap {
        title,
        columns: block.backgrounds.iter().map(column_name).collect(),
        rows: rows.collect(),
    }
}

pub fn heat_cell(cell: &InterferenceCell, leads_to: Option<String>) -> HeatCell {
    let number = match cell.ratio {
        Some(_) => words::change_percent(cell.ratio),
        None => "?".into(),
    };
    let below = match (cell.ratio_low, cell.ratio_high) {
        (Some(_), Some(_)) => words::interval(cell.ratio_low, cell.ratio_high),
        _ if cell.ratio.is_some() => "no interval".into(),
        _ => "not measured".into(),
    };
    let says = format!(
        "{}: {number}, {}",
        words::pair(&cell.victim, &cell.background),
        words::finding(cell)
    );
    HeatCell {
        heat: cell.ratio.map_or(Heat::Even, heat),
        is_hatched: cell.interferes.is_none(),
        number,
        below,
        leads_to,
        says,
    }
}

pub fn heat(ratio: f64) -> Heat {
    match InfluenceClass::of(ratio) {
        InfluenceClass::DeepSuppression => Heat::Down(3),
        InfluenceClass::ModerateSuppression => Heat::Down(2),
        InfluenceClass::MildSuppression => Heat::Down(1),
        InfluenceClass::None => Heat::Even,
        InfluenceClass::MildPromotion => Heat::Up(1),
        InfluenceClass::ModeratePromotion => Heat::Up(2),
        InfluenceClass::DeepPromotion => Heat::Up(3),
    }
}

/// What colours mean, from worst to best, and what hatches mean.
pub fn heat_keys() -> Vec<HeatCell> {
    let key = |heat: Heat, is_hatched: bool, number: &str| HeatCell {
        heat,
        is_hatched,
        number: number.into(),
        below: String::new(),
        leads_to: None,
        says: String::new(),
    };
    vec![
        key(Heat::Down(3), false, "below −40 %"),
        key(Heat::Down(2), false, "−40 to −10 %"),
        key(Heat::Down(1), false, "−10 to −5 %"),
        key(Heat::Even, false, "within 5 %"),
        key(Heat::Up(1), false, "+5 to +10 %"),
        key(Heat::Up(2), false, "+10 to +40 %"),
        key(Heat::Up(3), false, "above +40 %"),
        key(Heat::Even, true, "hatched: not known"),
    ]
}

fn all_cells(document: &InterferenceDocument) -> Table {
    let heads = [
        "victim",
        "background",
        "alone",
        "together",
        "change",
        "95 % interval",
        "repetitions",
        "finding",
    ];
    let row = |cell: &InterferenceCell| {
        vec![
            Cell::words(words::brief(&cell.victim)),
            Cell::words(words::brief(&cell.background)),
            Cell::number(amount(cell, false)),
            Cell::number(amount(cell, true)),
            Cell::number(words::change_percent(cell.ratio)),
            Cell::new(
                words::interval(cell.ratio_low, cell.ratio_high),
                CellKind::Faint,
            ),
            Cell::new(cell.repeats.to_string(), CellKind::Faint),
            Cell::long(words::finding(cell)),
        ]
    };
    Table {
        title: String::new(),
        heads: heads.map(String::from).into(),
        rows: document.cells.iter().map(row).collect(),
    }
}

/// The figure that the ratio belongs to.
fn amount(cell: &InterferenceCell, is_together: bool) -> String {
    let figures = if is_together {
        &cell.together
    } else {
        &cell.alone
    };
    match cell.alone.bytes_per_sec {
        None => figures
            .ops_per_sec
            .map_or(NONE.into(), |ops| format!("{} /s", plain_number(ops))),
        Some(_) => bandwidth(figures.bytes_per_sec),
    }
}

fn machine(document: &InterferenceDocument) -> Vec<(String, String)> {
    let machine = &document.machine;
    let mut facts = vec![
        ("CPU or machine".to_owned(), words::machine(document)),
        ("CPUs".to_owned(), machine.cpus.to_string()),
    ];
    let named = |(name, value): (&String, &String)| (line(name, 60), line(value, REASON));
    facts.extend(machine.targets.iter().map(named));
    facts.extend(machine.facts.iter().map(named));
    facts
}

fn plan(document: &InterferenceDocument) -> Section {
    let plan = &document.plan;
    let mut facts = vec![
        ("seed".to_owned(), plan.seed.to_string()),
        (
            "repetitions at most".to_owned(),
            plan.repeats_max.to_string(),
        ),
        (
            "repetitions end at".to_owned(),
            format!(
                "± {} % (half of the 95 % interval)",
                plain_number(plan.half_width_ratio * 100.0)
            ),
        ),
    ];
    if let Some(seconds) = plan.seconds {
        facts.insert(
            0,
            (
                "one measurement".into(),
                format!("{} s", plain_number(seconds)),
            ),
        );
    }
    let levers = plan
        .levers
        .iter()
        .map(|(name, value)| (line(name, 60), plain_number(*value)));
    facts.extend(levers);
    facts.push(("weir".into(), line(&document.weir_version, 60)));
    let method = "Alone, together and the other alone are measured in random order inside each repetition. The effect \
        is the logarithm of together ÷ alone, paired by repetition, by the estimator of Hodges and Lehmann. A cell \
        interferes if its interval excludes no change after Holm's correction over all cells, and has no influence if \
        all of its interval lies within 5 %. The greatest effect of a sweep has an interval that holds for all thread \
        counts at once.";
    let model = "The model computes each cell once; its intervals have no width. The form `events` draws its lines at \
        random, so that its figures change a little with the seed; the intervals do not hold that.";
    let method = match document.world {
        World::Sim => model,
        World::Machine | World::Vm => method,
    };
    let parts = vec![
        Part::Command(line(&plan.command, 2000)),
        Part::Facts(facts),
        Part::Words(method.into()),
    ];
    Section::new("plan", "How this was made", parts)
}
