// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The matrix of waits at each stage that workloads share: a row waits while requests of the columns are
//! served.

use super::words::{amount, known, stage_words, tail, time};
use crate::picture::matrix::{Matrix, MatrixRow, fill_ink, matrix};
use weir_core::window::role::Stage;
use weir_figures::Picture;
use weir_figures::text::number;
use weir_figures::{Cell, CellKind, Part, Table};
use weir_figures::{FULLEST, Ink};
use weir_profile::culprit::{StageWaits, Waits};
use weir_profile::report::Report;

/// Rows and columns that have names; all others are one.
const NAMES_MAX: usize = 12;
/// Characters of a name in the picture.
const NAME_CHARS: usize = 22;

/// A row: the workload, the nanoseconds that its requests wait, and the part of each column.
struct WaitLine {
    name: String,
    waiting_ns: f64,
}

/// The matrix of a stage, with at most [`NAMES_MAX`] names each way.
struct Waiting {
    rows: Vec<WaitLine>,
    columns: Vec<(String, f64)>,
}

impl Waiting {
    fn new(stage: &StageWaits) -> Waiting {
        let mut rows: Vec<WaitLine> = stage
            .rows
            .iter()
            .map(|row| WaitLine {
                name: row.workload.clone(),
                waiting_ns: row.waiting_ns.value.max(0.0),
            })
            .collect();
        rows.sort_by(|a, b| b.waiting_ns.total_cmp(&a.waiting_ns));
        if rows.len() > NAMES_MAX {
            let rest = rows.split_off(NAMES_MAX);
            rows.push(WaitLine {
                name: format!("{} others", rest.len()),
                waiting_ns: rest.iter().map(|row| row.waiting_ns).sum(),
            });
        }
        let blame = stage.behind.iter();
        let mut columns: Vec<(String, f64)> =
            blame.map(|one| (one.workload.clone(), one.share)).collect();
        if columns.len() > NAMES_MAX {
            let rest = columns.split_off(NAMES_MAX);
            let share = rest.iter().map(|one| one.1).sum();
            columns.push((format!("{} others", rest.len()), share));
        }
        Waiting { rows, columns }
    }

    fn most_ns(&self) -> f64 {
        let shares = self.columns.iter().map(|one| one.1);
        let share = shares.fold(0.0, f64::max);
        let waits = self.rows.iter().map(|row| row.waiting_ns);
        waits.fold(0.0, f64::max) * share
    }
}

fn is_waited_at(stage: &StageWaits) -> bool {
    let waiting: f64 = stage.rows.iter().map(|row| row.waiting_ns.value).sum();
    waiting > 0.0 && !stage.behind.is_empty() && stage.wait_ratio.value >= 0.01
}

fn stage_name(word: &str) -> &str {
    let stage = Stage::ALL.iter().find(|stage| stage.word() == word);
    stage.map_or(word, |stage| stage_words(*stage))
}

fn picture(stage: &StageWaits, length_ns: Option<f64>) -> Picture {
    let waiting = Waiting::new(stage);
    let most = waiting.most_ns();
    let row = |row: &WaitLine| {
        let cells = waiting.columns.iter().map(|(_, share)| {
            let ns = row.waiting_ns * share;
            let part = if most > 0.0 { ns / most } else { 0.0 };
            (part, time(ns))
        });
        let note = length_ns.map_or_else(
            || time(row.waiting_ns),
            |length| format!("= {} requests waiting", number(row.waiting_ns / length)),
        );
        MatrixRow {
            name: tail(&row.name, NAME_CHARS),
            cells: cells.collect(),
            note,
        }
    };
    matrix(&Matrix {
        title: format!("Waits at the {}", stage.shown(stage_name(stage.stage))),
        axes: "each row's requests wait so long in all, while those of the column above are served"
            .into(),
        columns: waiting
            .columns
            .iter()
            .map(|one| tail(&one.0, NAME_CHARS))
            .collect(),
        rows: waiting.rows.iter().map(row).collect(),
    })
}

fn shade(part: f64) -> CellKind {
    match fill_ink(part) {
        Ink::Fill(level) => CellKind::Shaded(level.min(FULLEST)),
        _ => CellKind::Number,
    }
}

fn table(stage: &StageWaits) -> Table {
    let waiting = Waiting::new(stage);
    let most = waiting.most_ns();
    let row = |row: &WaitLine| -> Vec<Cell> {
        let cells = waiting.columns.iter().map(|(_, share)| {
            let ns = row.waiting_ns * share;
            Cell::new(time(ns), shade(if most > 0.0 { ns / most } else { 0.0 }))
        });
        [Cell::words(row.name.clone())]
            .into_iter()
            .chain(cells)
            .chain([Cell::number(time(row.waiting_ns))])
            .collect()
    };
    let shares = waiting
        .columns
        .iter()
        .map(|(_, share)| Cell::number(format!("{:.0} %", share * 100.0)));
    let shares = [Cell::words("part of what is served")]
        .into_iter()
        .chain(shares)
        .chain([Cell::number("100 %")]);
    let heads = waiting.columns.iter().map(|(name, _)| name.clone());
    Table {
        title: String::new(),
        heads: ["waits ↓ while served →".to_owned()]
            .into_iter()
            .chain(heads)
            .chain(["in all".to_owned()])
            .collect(),
        rows: waiting
            .rows
            .iter()
            .map(row)
            .chain([shares.collect()])
            .collect(),
    }
}

/// One line for each stage.
fn stages(waits: &Waits) -> Table {
    let row = |stage: &StageWaits| -> Vec<Cell> {
        vec![
            Cell::words(stage.shown(stage_name(stage.stage))),
            Cell::number(number(stage.wait_ratio.value)),
            Cell::number(amount(stage.waiting.value.max(0.0))),
            Cell::long(known(&stage.waiting)),
        ]
    };
    Table::new(
        "",
        &[
            "shared stage",
            "waiting ÷ idle residence",
            "requests that wait, on average",
            "how it is known",
        ],
        waits.stages.iter().map(row),
    )
}

pub fn parts(report: &Report) -> Vec<Part> {
    let waits = match &report.waits {
        Ok(waits) => waits,
        Err(why) => return vec![Part::Words(format!("Not known: {why}."))],
    };
    let bottleneck = match waits.bottleneck() {
        Some(stage) => format!(
            "The bottleneck is the {}.",
            stage.shown(stage_name(stage.stage))
        ),
        None => "No bottleneck: nothing waits for 30 % of its idle residence or more.".into(),
    };
    let mut parts = vec![
        Part::Words(bottleneck),
        Part::Words(
            "While a request waits at a stage, each unit of service given there is charged to the workload that gets \
             it, by the lines that it moves. A workload waits for itself too."
                .into(),
        ),
        Part::Table(stages(waits)),
    ];
    let length_ns = report.length_ns.map(|length| length.0 as f64);
    for stage in waits.stages.iter().filter(|stage| is_waited_at(stage)) {
        parts.push(Part::Picture(picture(stage, length_ns)));
        parts.push(Part::Details {
            summary: format!(
                "Table of the waits at the {}",
                stage.shown(stage_name(stage.stage))
            ),
            parts: vec![Part::Table(table(stage))],
        });
    }
    parts
}
