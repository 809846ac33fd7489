// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thesis's scenario with more and with less work beside the readers: where what is left of the error
//! comes from (docs/explanation/simulator.md).

use super::context::{EvalContext, number, of_run, slim};
use anyhow::{Context, Result};
use serde_json::json;
use weir::lab::batch;
use weir::lab::controllers::{self, Choice};
use weir_figures::{Part, Table};

const SCENARIO: &str = "thesis-limit";
/// The work beside, by the name it has there.
const BESIDE: &str = "stress";
/// Around the thesis's own 39.
const WORKERS: [u32; 9] = [34, 36, 37, 38, 39, 40, 42, 45, 60];
const CONTROLLERS: [&str; 2] = ["thesis-cgroups-simple", "cpu-max"];

/// RMSE by number of workers.
pub fn crowd(context: &mut EvalContext) -> Result<Part> {
    let mut loaded = context.scenario(SCENARIO)?;
    let choices: Vec<Choice> = controllers::all(&loaded.scenario)
        .into_iter()
        .filter(|c| CONTROLLERS.contains(&c.name))
        .collect();
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for count in WORKERS {
        let mut workloads = loaded.scenario.workloads.iter_mut();
        let beside = workloads.find(|w| w.name == BESIDE);
        beside
            .context("the thesis's scenario has no work beside")?
            .count = count;
        let batch = batch::run(&loaded, &choices, &context.seeds, slim)?;
        let rmse = |c: usize| of_run(&batch, c, |r| Some(r.bandwidth.rmse_ratio * 1e2));
        let all: Vec<_> = (0..choices.len()).map(rmse).collect();
        let mut row = vec![number(f64::from(count), 0)];
        row.extend(all.iter().map(|r| number(r.map(|r| r[1]), 1)));
        rows.push(row);
        let named = choices.iter().zip(&all);
        let by_name: serde_json::Map<_, _> =
            named.map(|(c, r)| (c.name.to_owned(), json!(r))).collect();
        figures.push(json!({ "workers": count, "rmse_percent": by_name }));
    }
    context.figures.insert("rmse_by_workers", figures.into());
    let mut names = vec!["workers on 40 threads".to_owned()];
    names.extend(choices.iter().map(|c| c.label.clone()));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Ok(Part::Table(Table::new(
        "RMSE in percent, by number of compute workers beside the five readers",
        &names,
        rows,
    )))
}

/// Why two aims are missed, in words.
pub fn reasons() -> Part {
    super::context::text(
        "RMSE: with the thesis's 39 workers one of 40 threads is left for five readers that need 1.65. An idle thread takes waiting tasks from its \
         sibling first, so readers gather on one core and share its window of lines; each such meeting lasts one or two windows, too short for feedback. With any other \
         number of workers it hardly happens (table below; docs/explanation/simulator.md). CPU time: on this machine no controller's limits reduce it further (6.6).",
    )
}
