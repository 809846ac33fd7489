// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Beyond the thesis: every built-in scenario that no section of its chapter uses, and the step of load.

use super::context::{EvalContext, command, number, of_run, text};
use anyhow::Result;
use weir::lab::batch::Batch;
use weir::lab::builtin_scenarios;
use weir::lab::controllers::{self, Choice};
use weir::lab::table::{COLUMNS, Cells, range};
use weir_figures::{Cell, Part, Section, Table};

/// Scenarios that have sections of their own.
const ELSEWHERE: [&str; 9] = [
    "thesis-limit",
    "thesis-idle",
    "thesis-asymmetric",
    "thesis-latency",
    "thesis-estimate",
    "thesis-writes",
    "neighbour",
    "step",
    "live-fio-stress",
];
/// Workloads from which on a run takes seconds, and only some controllers are compared.
const MANY: u32 = 500;

/// All scenarios that have no section of their own.
pub fn beyond(context: &mut EvalContext) -> Result<Section> {
    let mut parts = vec![text(
        "Experiments that the thesis does not have. Each scenario with every controller; with a thousand workloads only without control, \
         with the thesis's better loop and with weir. Little's bound holds for readers that always have a block under way: where they wait \
         between blocks (rates, pauses), p99 ÷ bound may be far below 1.",
    )];
    for name in builtin_scenarios::names() {
        if ELSEWHERE.contains(&name) {
            continue;
        }
        let scenario = context.scenario(name)?.scenario;
        let count: u32 = scenario.workloads.iter().map(|w| w.count).sum();
        let few = ["none", "thesis-cgroups", "cpu-max"];
        let mut choices: Vec<Choice> = controllers::all(&scenario);
        choices.retain(|c| count < MANY || few.contains(&c.name));
        let batch = context.batch(name, &choices)?;
        parts.push(Part::Table(figures(&batch)));
        parts.push(context.bandwidth(&batch)?);
        let names: Vec<&str> = choices.iter().map(|c| c.name).collect();
        let names = if count < MANY {
            "all".into()
        } else {
            names.join(",")
        };
        parts.push(command(format!(
            "weir sim {name} --backend {names} --seeds 3"
        )));
    }
    Ok(Section::new("beyond", "Beyond the thesis", parts))
}

/// The same columns as `weir sim SCENARIO` prints, means over the seeds.
fn figures(batch: &Batch) -> Table {
    let mut names = vec![String::new()];
    let mut rows: Vec<Vec<_>> = batch
        .choices
        .iter()
        .map(|c| vec![Cell::words(&c.label)])
        .collect();
    for column in &COLUMNS {
        let Some(Cells { unit, cells }) = column.cells(batch) else {
            continue;
        };
        names.push(format!("{}, {unit}", column.name));
        for (row, cell) in rows.iter_mut().zip(cells) {
            let text = cell.map_or("–".into(), |[_, mean, _]| mean);
            row.push(Cell::number(text));
        }
    }
    Table {
        title: format!("{}: {}", batch.scenario.name, batch.scenario.about),
        heads: names,
        rows,
    }
}

const STEP: &str = "A step of load";

/// The load goes from idle to overload at once.
pub fn step(context: &mut EvalContext) -> Result<Section> {
    let batch = context.all("step")?;
    let begins = batch
        .scenario
        .workloads
        .iter()
        .map(|w| w.start_ms)
        .max()
        .unwrap_or(0);
    let mut rows = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let settled = batch
            .of(i)
            .filter(|made| made.run.settle_ms.is_some())
            .count();
        let after = of_run(&batch, i, |r| Some(r.settle_ms? / 1e3));
        let over = of_run(&batch, i, |r| Some(r.overshoot_ratio? * 1e2));
        let first = peak(&batch, i, begins);
        if choice.name == "cpu-max" {
            context.show(
                STEP,
                "step of load to 2.5 times the set-point",
                "time to within 5 % and overshoot, for each",
                told(after, first, over),
                None,
            );
        }
        rows.push(vec![
            Cell::words(&choice.label),
            number(after.map(|v| v[0]), 1),
            number(after.map(|v| v[1]), 1),
            number(after.map(|v| v[2]), 1),
            number(first, 1),
            number(over.map(|v| v[1]), 1),
            Cell::words(format!("{settled} of {}", batch.of(i).count())),
        ]);
    }
    let table = after_the_step(rows);
    let parts = vec![
        text(format!(
            "Five readers begin at {} s on a machine where control already runs: from idle to twice the set-point and more. Settled is the time from \
             which on every mean over 2 s stays within 5 % of the set-point until the end, counted from the step. The mean over 2 s looks ahead, so a \
             controller that needs a second or less may show 0.",
            begins as f64 / 1e3
        )),
        Part::Table(table),
        context.bandwidth(&batch)?,
        command("weir sim step --backend all --seeds 3"),
    ];
    Ok(Section::new("step", STEP, parts))
}

fn after_the_step(rows: Vec<Vec<Cell>>) -> Table {
    Table::new(
        "After the step",
        &[
            "",
            "settles, s: lowest",
            "mean",
            "highest",
            "highest 500 ms after the step, % over",
            "after settling, % over",
            "runs that settle",
        ],
        rows,
    )
}

/// How weir takes the step, in words.
fn told(after: Option<[f64; 3]>, first: Option<f64>, later: Option<[f64; 3]>) -> String {
    let one = |v: Option<f64>| v.map_or("–".into(), |v| format!("{v:.1}").replace('-', "−"));
    let mean = |v: Option<[f64; 3]>| one(v.map(|v| v[1]));
    format!(
        "weir: {} s, {} % over in the first 500 ms, {} % later",
        mean(after),
        one(first),
        mean(later)
    )
}

/// Highest mean over 500 ms from the step on, above the set-point, in percent; mean of the seeds.
fn peak(batch: &Batch, choice: usize, begins_ms: u64) -> Option<f64> {
    let of = |made: &weir::lab::batch::Made| {
        let points = made
            .run
            .series
            .iter()
            .filter(|p| p.at_ms >= begins_ms as f64);
        let rates: Vec<f64> = points.map(|p| p.bytes_per_sec).collect();
        let means = rates.windows(5).map(|w| w.iter().sum::<f64>() / 5.0);
        let highest = means.fold(0.0, f64::max);
        Some((highest / made.run.set_point_bytes_per_sec - 1.0) * 1e2)
    };
    range(batch.of(choice).map(of)).map(|r| r[1])
}
