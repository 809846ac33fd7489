// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a page shows of the runs of a scenario: bounds, figures, how they were made.

use crate::Command;
use crate::checks::{bounds_table, checks, compared_runs, verdict};
use crate::origin::{circumstances, facts};
use crate::results::Results;
use crate::run_rows::closing::closing;
use crate::run_rows::{self, starting_ms};
use crate::terminal::table::of_runs;
use weir_figures::text::line;
use weir_figures::{Document, Part, Picture, Section};
use weir_scenario::ScenarioInfo;

/// Where there are more runs than this, the table shows no changes: it would be wider than a page.
const CHANGES_RUNS_MAX: usize = 4;

/// The page. Of the two pictures the browser shows the one that its window has space for.
pub fn document(
    subject: &ScenarioInfo,
    results: &Results,
    pictures: [Picture; 2],
    commands: &[Command],
) -> Document {
    let mut picture = vec![Part::Fitted(pictures)];
    if results.runs.iter().any(|r| starting_ms(r).is_some()) {
        let starting = "Until “weir begins” weir itself was starting, on CPUs some hundred times slower than a \
                        server’s, and limited nothing.";
        picture.push(Part::Words(starting.into()));
    }
    let about = [line(&subject.about, 2000), circumstances(subject, results)];
    Document {
        title: results.scenario.clone(),
        about: about
            .into_iter()
            .filter(|words| !words.is_empty())
            .collect(),
        answer: vec![closing(results)],
        sections: vec![
            Section::new("picture", "Bandwidth over time", picture),
            bounds(subject, results),
            Section::new("figures", "Figures", figures(results)),
            Section::new(
                "origin",
                "How this was made",
                how(subject, results, commands),
            ),
        ],
    }
}

fn bounds(subject: &ScenarioInfo, results: &Results) -> Section {
    let checks = checks(subject, results);
    let mut parts = Vec::new();
    if !checks.is_empty() {
        parts.extend(compared_runs(subject, results).map(Part::Words));
        parts.push(Part::Table(bounds_table(&checks, ["measured", "bound"])));
    }
    Section::new("bounds", format!("Bounds: {}", verdict(&checks)), parts)
}

fn figures(results: &Results) -> Vec<Part> {
    let (rows, gaps) = run_rows::rows(results);
    let has_changes = results.runs.len() <= CHANGES_RUNS_MAX;
    let table = of_runs(results, &rows, (has_changes, str::to_owned));
    let gaps = gaps.iter();
    let gaps = gaps.map(|gap| format!("{}: {}: {}", gap.run, gap.rows, gap.reason));
    let caveats = run_rows::caveats(results).into_iter();
    let caveats = caveats.map(|(figures, why)| format!("{figures}: {why}"));
    let mut parts = vec![Part::Table(table)];
    for (title, list) in [
        ("Not known (–)", gaps.collect::<Vec<_>>()),
        ("Not to be trusted (*)", caveats.collect()),
    ] {
        if !list.is_empty() {
            parts.extend([Part::Title(title.into()), Part::List(list)]);
        }
    }
    parts
}

fn how(subject: &ScenarioInfo, results: &Results, commands: &[Command]) -> Vec<Part> {
    let facts = facts(results).into_iter();
    let facts = facts.map(|(name, value)| (name.to_string(), value));
    let mut parts = vec![Part::Facts(facts.collect())];
    for command in commands {
        parts.push(Part::Words(command.what.clone()));
        parts.push(Part::Command(command.line.clone()));
    }
    parts.push(Part::Details {
        summary: "Scenario".into(),
        parts: vec![Part::Command(subject.toml.clone())],
    });
    let files = [
        ("summary.json", "all figures"),
        ("series.csv", "bandwidth over time"),
        ("bandwidth.png", "the picture"),
    ];
    let files = files.map(|(file, what)| (file.into(), what.into()));
    parts.push(Part::Files(files.into()));
    parts
}
