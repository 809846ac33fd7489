// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How fast all of this was, on the machine that made it. The only figures that differ from time to time.

use super::context::{EvalContext, command, number, text};
use serde_json::json;
use weir_figures::{Cell, Part, Section, Table};

/// Simulated seconds per second of each scenario.
pub fn speed(context: &mut EvalContext) -> Section {
    let mut rows = Vec::new();
    let mut figures = serde_json::Map::new();
    let mut shown = Vec::new();
    for (name, batch) in context.batches() {
        let scenario = &batch.scenario;
        let workloads: u32 = scenario.workloads.iter().map(|w| w.count * w.threads).sum();
        let speeds: Vec<f64> = batch
            .runs
            .iter()
            .map(|m| m.measures.simulated_sec / m.took_sec)
            .collect();
        let events: u64 = batch.runs.iter().map(|m| m.measures.events).sum();
        let took: f64 = batch.runs.iter().map(|m| m.took_sec).sum();
        let slowest = speeds.iter().copied().fold(f64::INFINITY, f64::min);
        let mut sorted = speeds.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied();
        rows.push(vec![
            Cell::words(name),
            number(f64::from(workloads), 0),
            number(f64::from(scenario.cpu_count()), 0),
            number(median, 0),
            number(slowest, 0),
            number(events as f64 / took / 1e6, 2),
        ]);
        shown.extend(told(name, median.unwrap_or(0.0)));
        figures.insert(
            name.clone(),
            json!({
                "threads": workloads, "cpus": scenario.cpu_count(),
                "simulated_sec_per_sec_median": median, "simulated_sec_per_sec_slowest": slowest,
                "events_per_sec": events as f64 / took,
            }),
        );
    }
    for (what, aim, told) in shown {
        // A wall clock says something of this machine, and decides nothing.
        context.show("Speed", what, aim, told, None);
    }
    context.figures.insert("speed", figures.into());
    let parts = vec![
        text(
            "Wall-clock speed of each run while as many others ran as there are CPUs; other programs on the machine count too. The aim for the thesis's machine is 100.",
        ),
        Part::Table(table(rows)),
        command("weir-lab thesis"),
    ];
    Section::new("speed", "Speed", parts)
}

/// What the summary says of a scenario's speed: what, what is hoped for, measured.
type Told = (&'static str, &'static str, String);

fn told(scenario: &str, median: f64) -> Option<Told> {
    let measured = format!("{median:.0} s per s, median of all controllers");
    match scenario {
        "thesis-limit" => Some((
            "speed, thesis's machine",
            "about 100 simulated seconds per second",
            measured,
        )),
        "thousand" => Some(("speed, 1000 workloads", "how it scales", measured)),
        _ => None,
    }
}

fn table(rows: Vec<Vec<Cell>>) -> Table {
    Table::new(
        "Simulated seconds per second",
        &[
            "",
            "threads of workloads",
            "CPUs",
            "median",
            "slowest",
            "million events/s",
        ],
        rows,
    )
}
