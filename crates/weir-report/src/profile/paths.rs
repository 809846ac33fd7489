// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both maps of where data comes from, side by side and never added: loads by where they were found, and
//! lines by supplier. Each says what its shares are parts of.

use super::words::{SupplierKind, amount, cell, known_cell, look, tail};
use crate::picture::paint::Fonts;
use crate::picture::stack::AreaStyle;
use crate::picture::strips::{Strip, StripKind, Strips, strips};
use weir_core::Role;
use weir_core::window::role::{Stage, Target};
use weir_figures::Hatch;
use weir_figures::Picture;
use weir_figures::text::{NONE, percent};
use weir_figures::{Cell, Part, Table};
use weir_profile::path_map::{PathCell, PathRow};
use weir_profile::report::Subject;

/// Subjects that have strips of their own.
pub const SUBJECTS_SHOWN: usize = 8;

/// A fall that is said: lines before ÷ lines after.
const FALL_MIN: f64 = 1.1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// Retired load and store instructions, by where they found their data.
    Loads,
    /// Requests for lines, by supplier.
    Lines,
}

impl MapKind {
    fn rows(self, subject: &Subject) -> &[PathRow] {
        match self {
            MapKind::Loads => &subject.figures.path_map.loads,
            MapKind::Lines => &subject.figures.path_map.lines,
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            MapKind::Loads => "Loads by where they were found (instructions)",
            MapKind::Lines => "Lines by supplier (requests)",
        }
    }
}

/// How a cell is drawn: supplier by ink, place by hatch.
fn cell_look(role: Role) -> AreaStyle {
    let kind = match role.stage {
        Stage::L1d | Stage::FillBuffer | Stage::L2 | Stage::StoreBuffer => SupplierKind::Caches,
        _ => SupplierKind::of(role.target),
    };
    let is_cache = matches!(role.target, Target::Own) && role.stage == Stage::SuperQueue;
    match role.target {
        Target::DramRemote | Target::CxlRemote => (kind.ink(), Hatch::Falling),
        Target::RemoteCache => (kind.ink(), Hatch::Crossed),
        Target::Snc => (kind.ink(), Hatch::Rising),
        _ if is_cache => look(Stage::Llc, kind),
        _ if role.stage == Stage::L1d => (kind.ink(), Hatch::Plain),
        _ if role.stage == Stage::SuperQueue => (kind.ink(), Hatch::Plain),
        _ => look(role.stage, kind),
    }
}

/// Strips of a map: one for each path of each subject that has a share, with a word before the name of each.
pub fn picture(map: MapKind, subjects: &[(String, &Subject)], fonts: &Fonts) -> Option<Picture> {
    let mut kinds: Vec<StripKind> = Vec::new();
    let mut all: Vec<Strip> = Vec::new();
    for (name, subject) in subjects {
        for row in map.rows(subject) {
            let known =
                |cell: &PathCell| Some((cell.share.as_ref().ok()?.value, cell.place, cell.role));
            let known: Vec<_> = row.cells.iter().filter_map(known).collect();
            if known.iter().all(|(share, _, _)| *share <= 0.0) {
                continue;
            }
            let parts = known.into_iter().map(|(share, place, role)| {
                let kind = StripKind {
                    name: place.to_owned(),
                    look: cell_look(role),
                };
                let at = kinds.iter().position(|one| one.name == kind.name);
                let at = at.unwrap_or_else(|| {
                    kinds.push(kind);
                    kinds.len() - 1
                });
                (at, share)
            });
            let parts = parts.collect();
            all.push(Strip {
                name: format!("{name} · {}", row.path.0.word()),
                parts,
                note: total(row),
            });
        }
    }
    (!all.is_empty()).then(|| {
        let title = map.title().to_owned();
        strips(
            &Strips {
                title,
                kinds,
                strips: all,
            },
            fonts,
        )
    })
}

/// The whole that the shares of a row are parts of, as a number: a share without it misleads.
fn total(row: &PathRow) -> String {
    let rates = row
        .cells
        .iter()
        .filter_map(|cell| cell.per_sec.as_ref().ok());
    let rates: Vec<f64> = rates.map(|figure| figure.value).collect();
    let counts = row.cells.iter().filter_map(|cell| cell.count.as_ref().ok());
    let count: f64 = counts.map(|figure| figure.value).sum();
    if rates.is_empty() {
        format!("of {}", amount(count))
    } else {
        format!("of {}/s", amount(rates.iter().sum()))
    }
}

/// The table of a map, for one subject.
pub fn table(map: MapKind, subject: &Subject) -> Table {
    let row = |of: &PathRow, cell_of: &PathCell| -> Vec<Cell> {
        let share = cell_of.share.as_ref().ok();
        let share = share.map_or(NONE.into(), |share| {
            format!("{} %", percent(share.value, false))
        });
        vec![
            Cell::words(format!("{} · {}", of.path.0.word(), cell_of.place)),
            cell(&cell_of.count),
            cell(&cell_of.per_sec),
            Cell::number(share),
            known_cell(&cell_of.count),
        ]
    };
    let mut rows = Vec::new();
    for of in map.rows(subject) {
        let is_counted =
            |cell: &&PathCell| !matches!(&cell.count, Ok(figure) if figure.value == 0.0);
        rows.extend(of.cells.iter().filter(is_counted).map(|cell| row(of, cell)));
        let shares = of.cells.iter().find_map(|cell| cell.share.as_ref().ok());
        if let Some(whole) = shares.and_then(|share| share.share_of.as_ref()) {
            rows.push(vec![
                Cell::words(format!("{}: shares are of", of.path.0.word())),
                Cell::number(""),
                Cell::number(""),
                Cell::number(""),
                Cell::long(whole.clone()),
            ]);
        }
    }
    Table::new(
        format!("{}: {}", subject.name, map.title()),
        &[
            "path · place",
            "count",
            "a second",
            "share",
            "how it is known",
        ],
        rows,
    )
}

/// Both maps: pictures of the subjects that come first, and tables of each of them.
pub fn parts(subjects: &[&Subject], fonts: &Fonts) -> Vec<Part> {
    let shown: Vec<(String, &Subject)> = subjects
        .iter()
        .take(SUBJECTS_SHOWN)
        .map(|subject| (tail(&subject.name, 24), *subject))
        .collect();
    let mut parts = vec![Part::Words(
        "Two maps that must not be added. The first counts instructions that retired, the second requests for lines, \
         speculative ones and prefetches too: eight loads may find one line, and a line that was prefetched has no \
         load. At the right of each strip stands what its shares are of."
            .into(),
    )];
    for map in [MapKind::Loads, MapKind::Lines] {
        match picture(map, &shown, fonts) {
            Some(picture) => parts.push(Part::Picture(picture)),
            None => parts.push(Part::Words(format!("{}: not counted.", map.title()))),
        }
    }
    parts.extend(falls(subjects));
    for (_, subject) in &shown {
        let maps = [MapKind::Loads, MapKind::Lines];
        let tables: Vec<Part> = maps
            .iter()
            .map(|map| table(*map, subject))
            .filter(|table| !table.rows.is_empty())
            .map(Part::Table)
            .collect();
        if !tables.is_empty() {
            parts.push(Part::Details {
                summary: format!("Tables of both maps, {}", subject.name),
                parts: tables,
            });
        }
    }
    let left = subjects.len().saturating_sub(shown.len());
    if left > 0 {
        parts.push(Part::Words(format!(
            "{left} more workloads have maps in report.json: those shown stall most."
        )));
    }
    parts
}

/// Falls that a share hides.
fn falls(subjects: &[&Subject]) -> Vec<Part> {
    let all = subjects.iter().take(SUBJECTS_SHOWN).flat_map(|subject| {
        let large = subject.hidden_falls.iter().filter(|(_, fall)| fall.fall_ratio >= FALL_MIN);
        large.take(3).map(|(window, fall)| {
            Part::Words(format!(
                "{}, window {window}: fewer lines from CXL memory than in the one before (÷ {:.2}), although its \
                 share of some paths rose.",
                subject.name, fall.fall_ratio
            ))
        })
    });
    all.collect()
}
