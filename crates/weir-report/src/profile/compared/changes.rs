// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What changed between two recordings: figures as rows, workloads as columns, with intervals.

use crate::profile::Reported;
use crate::profile::words::{amount, tail};
use std::collections::BTreeMap;
use weir_core::Role;
use weir_figures::text::NONE;
use weir_figures::{Cell, Part, Table};
use weir_profile::diff::{DiffFigure, DiffRow, DiffSide, DiffVerdict};
use weir_profile::report::Report;

/// Subjects that are columns.
const COLUMNS_MAX: usize = 8;
/// Figures that are rows.
const ROWS_MAX: usize = 40;
/// Rows of the table of all changes.
const CHANGES_MAX: usize = 300;

fn is_changed(row: &DiffRow) -> bool {
    !matches!(row.verdict, DiffVerdict::NotDistinguishable { .. })
}

/// How much a figure changed, for the order: what came or went is at the end.
fn extent(row: &DiffRow) -> f64 {
    match row.verdict {
        DiffVerdict::Changed { ratio, .. } if ratio > 0.0 => ratio.ln().abs(),
        _ => 0.0,
    }
}

fn change_cell(row: Option<&&DiffRow>) -> Cell {
    let text = match row.map(|row| &row.verdict) {
        None => String::new(),
        Some(DiffVerdict::Changed { ratio, interval }) => {
            let [low, high] = interval.map(|end| format!("{end:.2}"));
            format!("× {ratio:.2} ({low} to {high})")
        }
        Some(DiffVerdict::NotDistinguishable { .. }) => "=".into(),
        Some(DiffVerdict::Appeared) => "came".into(),
        Some(DiffVerdict::Vanished) => "went".into(),
    };
    Cell::number(text)
}

/// Subjects of one side only.
fn only(one: &Report, other: &Report) -> Vec<String> {
    let names = one.subjects.iter().map(|subject| subject.name.clone());
    let is_alone = |name: &String| !other.subjects.iter().any(|subject| subject.name == *name);
    names.filter(is_alone).collect()
}

pub fn parts(sides: [&Reported; 2], rows: &[DiffRow]) -> Vec<Part> {
    let [before, after] = sides.map(|side| side.report);
    let (gone, new) = (only(before, after), only(after, before));
    let said = |letter: &str, names: &[String]| {
        let shown: Vec<String> = names.iter().take(COLUMNS_MAX).cloned().collect();
        let more = match names.len().saturating_sub(COLUMNS_MAX) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let text = format!("Only in {letter}: {}{more}.", shown.join(", "));
        (!names.is_empty()).then_some(Part::Words(text))
    };
    let only_one = [said("A", &gone), said("B", &new)];
    let mut parts: Vec<Part> = only_one.into_iter().flatten().collect();
    // That each figure of a workload came or went with it says nothing more.
    let is_of_both = |row: &&DiffRow| !gone.contains(&row.subject) && !new.contains(&row.subject);
    let rows: Vec<&DiffRow> = rows.iter().filter(is_of_both).collect();
    parts.extend(changes_of_both(&rows));
    parts
}

fn changes_of_both(rows: &[&DiffRow]) -> Vec<Part> {
    let mut per_subject: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| is_changed(row)) {
        *per_subject.entry(&row.subject).or_default() += 1;
    }
    let mut subjects: Vec<(&str, usize)> = per_subject.into_iter().collect();
    subjects.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    if subjects.is_empty() {
        let text = "No figure differs by more than the scatter of the windows allows.";
        return vec![Part::Words(text.into()), all_changes(rows)];
    }
    let left = subjects.len().saturating_sub(COLUMNS_MAX);
    subjects.truncate(COLUMNS_MAX);
    let mut figures: BTreeMap<(Role, DiffFigure), Vec<&DiffRow>> = BTreeMap::new();
    for row in rows
        .iter()
        .copied()
        .filter(|row| subjects.iter().any(|(name, _)| *name == row.subject))
    {
        figures.entry((row.role, row.figure)).or_default().push(row);
    }
    let mut figures: Vec<Vec<&DiffRow>> = figures.into_values().collect();
    figures.retain(|of| of.iter().any(|row| is_changed(row)));
    let most = |of: &Vec<&DiffRow>| of.iter().map(|row| extent(row)).fold(0.0, f64::max);
    figures.sort_by(|a, b| most(b).total_cmp(&most(a)));
    let row = |of: &Vec<&DiffRow>| -> Vec<Cell> {
        let name = of.first().map_or(String::new(), |row| row.name());
        let cells = subjects
            .iter()
            .map(|(name, _)| change_cell(of.iter().find(|row| row.subject == *name)));
        [Cell::words(name)].into_iter().chain(cells).collect()
    };
    let heads = subjects.iter().map(|(name, _)| tail(name, 40));
    let others = match left {
        0 => String::new(),
        left => format!("; {left} more subjects changed too"),
    };
    vec![
        Part::Words(format!(
            "B ÷ A, with an interval of 99 % from the scatter of the windows; = is not distinguishable. The {} figures \
             that changed most, of {}{others}.",
            figures.len().min(ROWS_MAX),
            figures.len(),
        )),
        Part::Table(Table {
            title: String::new(),
            heads: ["figure".to_owned()].into_iter().chain(heads).collect(),
            rows: figures.iter().take(ROWS_MAX).map(row).collect(),
        }),
        all_changes(rows),
    ]
}

/// Means and scatter of both sides.
fn all_changes(rows: &[&DiffRow]) -> Part {
    let side = |side: &Option<DiffSide>| match side {
        None => Cell::number(NONE),
        Some(side) => Cell::number(format!(
            "{} ± {}",
            amount(side.mean),
            amount(side.deviation)
        )),
    };
    let row = |row: &&DiffRow| -> Vec<Cell> {
        vec![
            Cell::words(format!("{}: {}", row.subject, row.name())),
            side(&row.before),
            side(&row.after),
            Cell::long(row.verdict.said()),
        ]
    };
    let changed = rows.iter().copied().filter(|row| is_changed(row));
    let changed: Vec<&DiffRow> = changed.collect();
    let mut parts = vec![Part::Table(Table::new(
        "",
        &[
            "figure",
            "A, mean ± deviation",
            "B, mean ± deviation",
            "B ÷ A",
        ],
        changed.iter().take(CHANGES_MAX).map(row),
    ))];
    let left = changed.len().saturating_sub(CHANGES_MAX);
    if left > 0 {
        parts.push(Part::Words(format!("{left} more are in diff.json.")));
    }
    Part::Details {
        summary: format!("Both sides of the {} figures that changed", changed.len()),
        parts,
    }
}
