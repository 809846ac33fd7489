// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Thesis 6.3, 6.3.1 and 6.3.2: is the bandwidth held?

use super::context::{Compared, EvalContext, command, number, of_run, picture, text};
use super::deviations;
use super::limits::cpu_limits;
use super::measured::{self, heavy};
use super::processes;
use super::published_figures;
use anyhow::Result;
use weir::lab::batch::Batch;
use weir_core::units::GIB;
use weir_figures::{Cell, Part, Section, Table};
use weir_report::plot;

const BANDWIDTH: &str = "6.3 Is the bandwidth held?";

/// A row for each controller: ours beside the printed figures.
fn table_2(context: &mut EvalContext, batch: &Batch) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let mut row = vec![Cell::words(&choice.label)];
        for figure in published_figures::figures("table 2") {
            row.extend(context.beside(batch, i, "table 2", figure, 2));
        }
        rows.push(row);
    }
    rows
}

/// Table 2 and figures 9 and 10.
pub fn limit(context: &mut EvalContext) -> Result<Section> {
    let batch = context.all("thesis-limit")?;
    let rows = table_2(context, &batch);
    let table = Table::new(
        "Table 2: bandwidth in GiB/s, ours beside the thesis's",
        &[
            "", "mean", "thesis", "", "stddev", "thesis", "", "RMSE", "thesis", "", "Q1", "thesis",
            "", "Q3", "thesis", "",
        ],
        rows,
    );
    let mut parts = vec![
        text(
            "Five fio readers of 4 MiB blocks and 39 stress-ng workers on 40 hardware threads, to be held at 4 GiB/s. \
              Figures of the measured time (20 to 55 s), means over the seeds. Windows of 100 ms; the thesis's are fio's, \
              of a length it does not state, and its standard deviations depend on that length.",
        ),
        Part::Table(table),
    ];
    parts.extend(refused(context, "thesis-limit"));
    parts.push(text(shown(context, &batch)));
    parts.extend(deviations::of(context, "table 2"));
    parts.push(context.bandwidth(&batch)?);
    parts.extend(processes::figure_10(context, &batch));
    parts.push(command("weir sim thesis-limit --backend all --seeds 3"));
    Ok(Section::new("bandwidth", BANDWIDTH, parts))
}

/// That weir's scheduler in partial mode is not among the controllers, and why.
pub fn refused(context: &EvalContext, scenario: &str) -> Option<Part> {
    let why = context.refused.get(scenario)?;
    Some(text(format!(
        "weir's scheduler in partial mode (sched-ext) has no row, for weir refuses it here. {why}"
    )))
}

/// Leaves what the summary says; returns the order in words.
fn shown(context: &mut EvalContext, batch: &Batch) -> String {
    let (is_same, said) = order(batch);
    let is_mean = |c: &&Compared| c.figure == "mean_gib_per_sec" && c.printed_in == "table 2";
    let means = context.compared.iter().filter(is_mean);
    let near = |c: &&Compared| !c.is_far();
    let (count, near) = (means.clone().count(), means.filter(near).count());
    context.show(
        BANDWIDTH,
        "thesis's controllers: mean bandwidth",
        "each within 10 % of table 2",
        format!("{near} of {count}"),
        near == count,
    );
    context.show(
        BANDWIDTH,
        "thesis's controllers: order by bandwidth",
        "as in table 2",
        if is_same { "the same" } else { "another" },
        is_same,
    );
    said
}

/// Figure 11 of the thesis.
pub fn idle(context: &mut EvalContext) -> Result<Section> {
    let batch = context.all("thesis-idle")?;
    let mut rows = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let stddev = of_run(&batch, i, |r| Some(r.bandwidth.stddev_bytes_per_sec / GIB));
        let mut row = vec![Cell::words(&choice.label)];
        row.extend(context.beside(&batch, i, "figure 11", "mean_gib_per_sec", 2));
        row.push(number(stddev.map(|s| s[1]), 2));
        rows.push(row);
    }
    let table = Table::new(
        "Figure 11: bandwidth in GiB/s without other work",
        &["", "mean", "thesis, about", "", "stddev"],
        rows,
    );
    let mut parts = vec![
        text(
            "The same readers alone. A scheduler that only prefers other tasks has none to prefer; limits of CPU time still act.",
        ),
        Part::Table(table),
    ];
    parts.extend(refused(context, "thesis-idle"));
    parts.extend(deviations::of(context, "figure 11"));
    parts.push(context.bandwidth(&batch)?);
    parts.push(command("weir sim thesis-idle --backend all --seeds 3"));
    Ok(Section::new("idle", "6.3.1 On an idle system", parts))
}

/// Figure 12 of the thesis.
pub fn asymmetric(context: &mut EvalContext) -> Result<Section> {
    let batch = context.all("thesis-asymmetric")?;
    let mut rows = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let readers: Vec<String> = batch.of(i).next().map_or(Vec::new(), |made| {
            heavy(made).map(|w| w.name.clone()).collect()
        });
        for (n, reader) in readers.into_iter().enumerate() {
            let label = if n == 0 { choice.label.as_str() } else { "" };
            let mut row = vec![Cell::words(label), Cell::words(&reader)];
            row.extend(unequal(context, &batch, i, &reader));
            rows.push(row);
        }
    }
    let table = Table::new(
        "Figure 12: CPU use and limit, in CPUs",
        &[
            "",
            "reader",
            "GiB/s",
            "used",
            "thesis, about",
            "",
            "limit",
            "thesis, about",
            "",
        ],
        rows,
    );
    let mut parts = vec![
        text(
            "Two readers that want 1 and 3 GiB/s, to be held at 3 GiB/s together. The larger one is to be cut.",
        ),
        Part::Table(table),
    ];
    parts.extend(refused(context, "thesis-asymmetric"));
    parts.extend(deviations::of(context, "figure 12"));
    parts.push(picture(plot(
        &cpu_limits(&batch, "Figure 12: CPU use and limits, first seed"),
        &context.fonts,
    )));
    parts.push(command(
        "weir sim thesis-asymmetric --backend all --seeds 3",
    ));
    Ok(Section::new("asymmetric", "6.3.2 Unequal readers", parts))
}

/// Bandwidth, CPU use and limit of one reader over the measured time, beside the thesis's.
fn unequal(context: &mut EvalContext, batch: &Batch, choice: usize, reader: &str) -> Vec<Cell> {
    let rate = measured::of_series(batch, choice, reader, |w| &w.bytes_per_sec);
    let mut cells = vec![number(rate.map(|r| r[1] / GIB), 2)];
    for which in ["used_cpus", "limit_cpus"] {
        let figure = format!("{reader}_{which}");
        cells.extend(context.beside(batch, choice, "figure 12", &figure, 2));
    }
    cells
}

/// The variants of table 2 in the thesis's order, and whether ours fall in it: a step is `>`, one that is
/// smaller than the seeds' spread is `≈`, and one the other way round is `<`.
fn order(batch: &Batch) -> (bool, String) {
    let mean = |name: &str| {
        let at = batch.choices.iter().position(|c| c.name == name)?;
        of_run(batch, at, |r| Some(r.bandwidth.mean_bytes_per_sec))
    };
    let mut printed = published_figures::column("table 2", "mean_gib_per_sec");
    printed.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut said = printed.first().map_or("", |p| p.0).to_owned();
    let mut is_same = true;
    for pair in printed.windows(2) {
        let sign = match mean(pair[0].0).zip(mean(pair[1].0)) {
            Some((a, b)) => step(a, b),
            None => "?",
        };
        is_same &= [">", "≈"].contains(&sign);
        said = format!("{said} {sign} {}", pair[1].0);
    }
    let verdict = if is_same { "in" } else { "not in" };
    let said = format!(
        "By mean bandwidth the six come {verdict} the thesis's order: {said} (≈: the difference is smaller than the range of the seeds)."
    );
    (is_same, said)
}

/// The step from one mean to the next, each with the range of its seeds.
fn step(a: [f64; 3], b: [f64; 3]) -> &'static str {
    let range = (a[2] - a[0]).max(b[2] - b[0]);
    match a[1] - b[1] {
        difference if difference.abs() <= range => "≈",
        difference if difference > 0.0 => ">",
        _ => "<",
    }
}
