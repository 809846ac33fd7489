// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a comparison: three heat maps for each target of backgrounds, and what else differs.

use crate::interference::comparison::{ComparedCell, Comparison, FactDifference};
use crate::interference::document::{InterferenceCell, InterferenceDocument};
use crate::interference::grid::blocks;
use crate::interference::page::{heat, heat_cell, heat_keys, heat_of};
use crate::interference::sweep_plot::sweep_plot;
use crate::interference::words;
use weir_figures::text::{NONE, line};
use weir_figures::{Cell, CellKind, Document, Part, Section, Table, html};
use weir_figures::{Heat, HeatCell};

/// The page as HTML: one file that loads nothing. `comparison` must be that of `a` and `b`.
#[must_use]
pub fn comparison_page(
    a: &InterferenceDocument,
    b: &InterferenceDocument,
    comparison: &Comparison,
) -> String {
    let mut sections = vec![maps(a, b, comparison)];
    sections.push(Section::new(
        "cells",
        "All common cells",
        vec![Part::Table(all_cells(comparison))],
    ));
    let only = [
        ("only-a", "Only in A", &comparison.only_in_a),
        ("only-b", "Only in B", &comparison.only_in_b),
    ];
    for (id, title, list) in only.into_iter().filter(|(.., list)| !list.is_empty()) {
        sections.push(Section::new(id, title, vec![Part::Words(list.join("; "))]));
    }
    sections.push(Section::new(
        "facts",
        "What else differs",
        facts(comparison),
    ));
    let doubts = [("A", a), ("B", b)]
        .into_iter()
        .flat_map(|(name, document)| {
            document.caveats.iter().map(move |c| {
                (
                    format!("{name}: {}", line(&c.figure, 100)),
                    line(&c.reason, 500),
                )
            })
        });
    let doubts: Vec<_> = doubts.collect();
    if !doubts.is_empty() {
        sections.push(Section::new(
            "caveats",
            "What is not to be trusted",
            vec![Part::Facts(doubts)],
        ));
    }
    let about = |name: &str, document: &InterferenceDocument| {
        format!(
            "{name}: {}, {}.",
            words::machine(document),
            words::origin(document)
        )
    };
    html(&Document {
        title: "Interference, A and B".into(),
        about: vec![about("A", a), about("B", b)],
        answer: vec![comparison.sentence()],
        sections,
    })
}

fn maps(a: &InterferenceDocument, b: &InterferenceDocument, comparison: &Comparison) -> Section {
    let about = "Of each target of backgrounds three matrices: the victim's change of bandwidth in A, in B, and B's \
        bandwidth together ÷ alone against A's. A difference is hatched where the intervals of A and B have a ratio in \
        common, or one is not known. It leads to both sweeps.";
    let mut parts = vec![Part::Words(about.into()), Part::HeatKey(heat_keys())];
    let cells = &comparison.cells;
    let pairs: Vec<_> = cells.iter().map(ComparedCell::pair).collect();
    for block in blocks(&pairs) {
        let target = line(&block.target, 20);
        let of_a = |i: usize| side(&a.cells[cells[i].indices.0]);
        let of_b = |i: usize| side(&b.cells[cells[i].indices.1]);
        let of_both = |i: usize| difference(&cells[i], i);
        let map = |title: String, cell: &dyn Fn(usize) -> HeatCell| {
            vec![Part::Heat(heat_of(&block, title, cell))]
        };
        parts.push(Part::Title(format!("Beside {target}")));
        parts.push(Part::Beside(vec![
            map("A".into(), &of_a),
            map("B".into(), &of_b),
            map("from A to B".into(), &of_both),
        ]));
    }
    for (i, cell) in cells.iter().enumerate() {
        parts.push(Part::Choice {
            id: format!("cell-{i}"),
            title: words::pair(&cell.victim, &cell.background),
            parts: card(a, b, cell),
            back: "matrices".into(),
        });
    }
    Section::new("matrices", "The matrices", parts)
}

/// A cell of one side: narrow, so that three maps fit beside each other.
fn side(cell: &InterferenceCell) -> HeatCell {
    let mut narrow = heat_cell(cell, None);
    if cell.ratio_low.and(cell.ratio_high).is_some() {
        narrow.below = words::half_width(cell.ratio_low, cell.ratio_high);
    }
    narrow
}

fn difference(cell: &ComparedCell, index: usize) -> HeatCell {
    let (heat, number) = match (cell.change_ratio, cell.ratio_a.and(cell.ratio_b)) {
        (Some(ratio), _) => (heat(ratio), words::change_percent(cell.change_ratio)),
        // No change is relative to a victim that was blocked completely.
        (None, Some(b)) if b > 0.0 => (Heat::Up(3), "from 0".into()),
        (None, Some(_)) => (Heat::Even, "both 0".into()),
        (None, None) => (Heat::Even, "?".into()),
    };
    let below = match cell.class_changed {
        Some(true) => "another class",
        _ if cell.differs == Some(true) => "differs",
        _ if cell.differs == Some(false) => "not certain",
        _ => "not known",
    };
    HeatCell {
        heat,
        is_hatched: cell.differs != Some(true),
        says: format!(
            "{}: {number}, {below}",
            words::pair(&cell.victim, &cell.background)
        ),
        number,
        below: below.into(),
        leads_to: Some(format!("cell-{index}")),
    }
}

fn card(a: &InterferenceDocument, b: &InterferenceDocument, cell: &ComparedCell) -> Vec<Part> {
    let sides = [
        ("A", &a.cells[cell.indices.0]),
        ("B", &b.cells[cell.indices.1]),
    ];
    let mut parts = Vec::new();
    for (name, side) in sides {
        parts.push(Part::Words(format!(
            "{name}: {}: {}",
            words::pair(&side.victim, &side.background),
            words::summary(side)
        )));
        let title = format!("{name}: change by the number of threads");
        parts.extend(sweep_plot(&title, &side.sweep).map(Part::Picture));
    }
    parts
}

fn all_cells(comparison: &Comparison) -> Table {
    let heads = [
        "victim",
        "background",
        "A, %",
        "interval",
        "B, %",
        "interval",
        "differs",
        "class",
    ];
    let row = |cell: &ComparedCell| {
        let differs = match cell.differs {
            Some(true) => Cell::new("yes", CellKind::Missed),
            Some(false) => Cell::new("not certain", CellKind::Faint),
            None => Cell::new("not known", CellKind::Faint),
        };
        let class = match cell.class_changed {
            Some(true) => format!(
                "{} → {}",
                words::classes(&cell.class_a),
                words::classes(&cell.class_b)
            ),
            _ => words::classes(&cell.class_a),
        };
        vec![
            Cell::words(words::brief(&cell.victim)),
            Cell::words(words::brief(&cell.background)),
            Cell::number(words::change(cell.ratio_a)),
            Cell::new(
                words::interval(cell.ratio_low_a, cell.ratio_high_a),
                CellKind::Faint,
            ),
            Cell::number(words::change(cell.ratio_b)),
            Cell::new(
                words::interval(cell.ratio_low_b, cell.ratio_high_b),
                CellKind::Faint,
            ),
            differs,
            Cell::long(class),
        ]
    };
    Table {
        title: String::new(),
        heads: heads.map(String::from).into(),
        rows: comparison.cells.iter().map(row).collect(),
    }
}

fn facts(comparison: &Comparison) -> Vec<Part> {
    if comparison.facts.is_empty() {
        return vec![Part::Words(
            "Machines and plans state the same facts.".into(),
        )];
    }
    let stated = |value: &Option<String>| value.as_deref().map_or(NONE.into(), |v| line(v, 200));
    let row = |fact: &FactDifference| {
        vec![
            Cell::words(line(&fact.fact, 80)),
            Cell::long(stated(&fact.a)),
            Cell::long(stated(&fact.b)),
        ]
    };
    vec![Part::Table(Table::new(
        "",
        &["fact", "A", "B"],
        comparison.facts.iter().map(row),
    ))]
}
