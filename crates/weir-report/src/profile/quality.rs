// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How each figure is known: counted, apportioned, modelled, or missing with its reason.

use super::words::{is_absent, known, value};
use std::mem::discriminant;
use weir_figures::{Cell, Part, Table};
use weir_profile::figure::Class;
use weir_profile::report::{NamedFigure, Report, Subject};
use weir_profile::{Figure, Refusal};

/// Subjects whose figures are listed; more are in report.json.
const SUBJECTS_MAX: usize = 16;
/// Subjects in the table of counts.
const ROWS_MAX: usize = 250;
/// Figures that miss for one reason and are named.
const NAMES_MAX: usize = 10;

/// How many figures of each kind there are.
#[derive(Default)]
struct Tally {
    counted: usize,
    apportioned: usize,
    modelled: usize,
    absent: usize,
    refused: usize,
    part_time: usize,
}

impl Tally {
    fn new(all: &[NamedFigure]) -> Tally {
        let mut tally = Tally::default();
        for one in all {
            match one.figure {
                Err(why) if is_absent(why) => tally.absent += 1,
                Err(_) => tally.refused += 1,
                Ok(figure) => {
                    let of_class = match figure.class {
                        Class::Counted => &mut tally.counted,
                        Class::Apportioned => &mut tally.apportioned,
                        Class::Modelled => &mut tally.modelled,
                    };
                    *of_class += 1;
                    let is_part = figure.running_ratio.is_some_and(|ratio| ratio < 0.995);
                    tally.part_time += usize::from(is_part);
                }
            }
        }
        tally
    }

    fn row(&self, name: &str) -> Vec<Cell> {
        let counts = [
            self.counted,
            self.apportioned,
            self.modelled,
            self.part_time,
            self.absent,
            self.refused,
        ];
        let cells = counts.iter().map(|count| Cell::number(count.to_string()));
        [Cell::words(name)].into_iter().chain(cells).collect()
    }
}

fn figures_table(all: &[NamedFigure]) -> Table {
    let is_shown = |figure: &Figure| figure.value != 0.0;
    let row = |one: &NamedFigure, figure: &Figure| -> Vec<Cell> {
        vec![
            Cell::words(one.name.clone()),
            Cell::long(one.group),
            Cell::number(value(figure)),
            Cell::long(known(figure)),
        ]
    };
    let known = all.iter().filter_map(|one| Some((one, one.figure.ok()?)));
    let rows = known
        .filter(|(_, figure)| is_shown(figure))
        .map(|(one, figure)| row(one, figure));
    Table::new(
        "Figures that are known, but for zeros",
        &["figure", "kind", "value", "how it is known"],
        rows,
    )
}

/// Figures that miss, together by the kind of their reason.
fn missing_table(all: &[NamedFigure]) -> Table {
    let mut reasons: Vec<(&Refusal, Vec<String>)> = Vec::new();
    for one in all {
        let Err(why) = one.figure else { continue };
        let name = format!("{} ({})", one.name, one.group);
        match reasons
            .iter_mut()
            .find(|(known, _)| discriminant(*known) == discriminant(why))
        {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    let rows = reasons.into_iter().map(|(why, names)| {
        let more = names.len().saturating_sub(NAMES_MAX);
        let mut shown = names
            .iter()
            .take(NAMES_MAX)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        if more > 0 {
            shown += &format!(", and {more} more");
        }
        let reason = match names.len() {
            1 => why.to_string(),
            _ => format!("such as: {why}"),
        };
        vec![
            Cell::words(reason),
            Cell::number(names.len().to_string()),
            Cell::long(shown),
        ]
    });
    Table::new(
        "Figures that miss, by reason",
        &["reason", "figures", "which"],
        rows,
    )
}

pub fn parts(report: &Report, subjects: &[&Subject]) -> Vec<Part> {
    let waits = report
        .waits
        .as_ref()
        .map(|waits| waits.named())
        .unwrap_or_default();
    let mut rows: Vec<Vec<Cell>> = subjects
        .iter()
        .take(ROWS_MAX)
        .map(|subject| Tally::new(&subject.named()).row(&subject.name))
        .collect();
    if !waits.is_empty() {
        rows.push(Tally::new(&waits).row("waits at shared stages"));
    }
    let mut parts = vec![
        Part::Words(
            "Counted: arithmetic on counts. Apportioned: a count of several workloads, shared out by another count. \
             Modelled: made by a model. A figure that contradicts itself or others is refused, with its reason. \
             `weir profile methods` explains each figure."
                .into(),
        ),
        Part::Table(Table::new("", &["subject",
                "counted",
                "apportioned",
                "modelled",
                "of these: counted for a part of the time",
                "not recorded, or nothing came",
                "refused"], rows)),
    ];
    parts.extend(disagreements(subjects));
    for subject in subjects.iter().take(SUBJECTS_MAX) {
        let all = subject.named();
        parts.push(Part::Details {
            summary: format!("Each figure of {}", subject.name),
            parts: vec![
                Part::Table(figures_table(&all)),
                Part::Table(missing_table(&all)),
            ],
        });
    }
    if !waits.is_empty() {
        parts.push(Part::Details {
            summary: "Each figure of the waits at shared stages".into(),
            parts: vec![Part::Table(figures_table(&waits))],
        });
    }
    let left = subjects.len().saturating_sub(SUBJECTS_MAX);
    if left > 0 {
        parts.push(Part::Words(format!(
            "Figures of {left} more subjects are in report.json: those listed stall most."
        )));
    }
    parts
}

/// Sources that count the same lines: whether they agree.
fn disagreements(subjects: &[&Subject]) -> Vec<Part> {
    let rows = subjects.iter().take(SUBJECTS_MAX).flat_map(|subject| {
        subject.figures.agreements.iter().map(|agreement| {
            let said = if agreement.is_agreed {
                "agree"
            } else {
                "DISAGREE"
            };
            vec![
                Cell::words(subject.name.clone()),
                Cell::long(format!("{} ÷ {}", agreement.one, agreement.other)),
                Cell::number(format!("{:.2}", agreement.ratio)),
                Cell::number(said),
            ]
        })
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    let table = Table::new(
        "Sources that count the same lines",
        &["subject", "one ÷ other", "ratio", "they"],
        rows,
    );
    (!table.rows.is_empty())
        .then_some(Part::Table(table))
        .into_iter()
        .collect()
}
