// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the sections of the evaluation share: runs that are made once, and everything that is written.

use super::super::batch::{self, Batch, Made};
use super::super::builtin::{self, Loaded};
use super::super::choice::{self, Choice};
use super::super::cli::EvaluateArgs;
use super::super::results::subject;
use super::super::table::range;
use super::summary::Shown;
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;
use weir_report::results::Run;
use weir_report::{Cell, CellKind, Fonts, Part, Picture};
use weir_sim::Histogram;
use weir_sim::scenario::Role;

/// With more users of a device than this, single ones are not written as CSV: a hundred would be 10 MB.
const WORKLOADS_MAX: usize = 24;
/// Windows of 100 ms that a line of a single workload's CSV is the mean of.
const WINDOWS_A_LINE: usize = 10;
/// Time before and of measuring in a quick evaluation, in seconds, at most.
const QUICK_SEC: (f64, f64) = (6.0, 6.0);

/// One of our figures beside a printed one.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Table or figure of the thesis.
    pub printed_in: &'static str,
    /// Who controlled.
    pub backend: String,
    /// Which figure, with its unit as last word.
    pub figure: &'static str,
    /// Lowest of the seeds.
    pub lowest: f64,
    /// Mean of the seeds.
    pub mean: f64,
    /// Highest of the seeds.
    pub highest: f64,
    /// What the thesis printed.
    pub printed: f64,
    /// Mean ÷ printed − 1.
    pub deviation_ratio: f64,
}

/// The runs and everything that is written.
pub struct Lab {
    /// Fonts of pictures.
    pub fonts: Fonts,
    /// The seeds of every scenario.
    pub seeds: Vec<u64>,
    /// Runs are shorter.
    pub is_quick: bool,
    batches: BTreeMap<String, Rc<Batch>>,
    /// Everything that was compared with the thesis.
    pub compared: Vec<Compared>,
    /// Figures of sections that are not runs of a scenario.
    pub figures: BTreeMap<&'static str, Value>,
    /// Figures that have an aim: scenario, and what a bound on the same figure is called.
    aims: BTreeSet<(String, &'static str)>,
    /// What the page shows, for its summary.
    pub shown: Vec<Shown>,
    /// CSV by file name.
    pub files: BTreeMap<String, String>,
}

impl Lab {
    /// Nothing run yet.
    ///
    /// # Errors
    /// The built-in font is broken.
    pub fn new(args: &EvaluateArgs) -> Result<Self> {
        let count = if args.quick { 1 } else { u64::from(args.seeds) };
        Ok(Lab {
            fonts: Fonts::load()?,
            seeds: (1..=count).collect(),
            is_quick: args.quick,
            batches: BTreeMap::new(),
            compared: Vec::new(),
            aims: BTreeSet::new(),
            shown: Vec::new(),
            figures: BTreeMap::new(),
            files: BTreeMap::new(),
        })
    }

    /// The scenario, shortened in a quick evaluation.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn scenario(&self, name: &str) -> Result<Loaded> {
        let mut loaded = builtin::named(name)
            .with_context(|| format!("the scenario {name} is not built in"))??;
        if self.is_quick {
            let control = &mut loaded.scenario.control;
            control.settle_sec = control.settle_sec.min(QUICK_SEC.0);
            control.measure_sec = control.measure_sec.min(QUICK_SEC.1);
        }
        Ok(loaded)
    }

    /// Runs of a scenario with everybody who controls.
    ///
    /// # Errors
    /// As [`batch::run`].
    pub fn all(&mut self, name: &str) -> Result<Rc<Batch>> {
        let scenario = self.scenario(name)?.scenario;
        self.batch(name, &choice::all(&scenario))
    }

    /// Runs of a scenario. Asked for again, the same runs.
    ///
    /// # Errors
    /// As [`batch::run`].
    pub fn batch(&mut self, name: &str, choices: &[Choice]) -> Result<Rc<Batch>> {
        if let Some(batch) = self.batches.get(name) {
            return Ok(Rc::clone(batch));
        }
        let loaded = self.scenario(name)?;
        let mut batch = batch::run(&loaded, choices, &self.seeds, shed)?;
        let csv = weir_report::series(&batch.results());
        self.files.insert(format!("series-{name}.csv"), csv);
        if let Some(csv) = workloads_csv(&batch) {
            self.files.insert(format!("workloads-{name}.csv"), csv);
        }
        batch.runs.iter_mut().for_each(slim);
        let batch = Rc::new(batch);
        self.batches.insert(name.to_owned(), Rc::clone(&batch));
        Ok(batch)
    }

    /// A figure of a scenario is held to an aim of the page, and has its one verdict there.
    pub fn aim(&mut self, scenario: &str, bound: &'static str) {
        self.aims.insert((scenario.to_owned(), bound));
    }

    /// Whether a figure is held to an aim, by what a bound on it is called.
    pub fn has_aim(&self, scenario: &str, bound: &str) -> bool {
        self.aims.iter().any(|(s, b)| s == scenario && *b == bound)
    }

    /// All scenarios that were run.
    pub fn batches(&self) -> impl Iterator<Item = (&String, &Rc<Batch>)> {
        self.batches.iter()
    }

    /// Bandwidth over time of the first seed, a panel for each of those who control.
    ///
    /// # Errors
    /// A device profile does not exist.
    pub fn bandwidth(&self, batch: &Batch) -> Result<Part> {
        let loaded = Loaded {
            scenario: batch.scenario.clone(),
            text: String::new(),
        };
        let seed = self.seeds[0];
        let mut results = batch.with_seed(seed);
        // Panels are named by policy; here the back end tells them apart.
        for (run, choice) in results.runs.iter_mut().zip(&batch.choices) {
            if run.policy != "none" {
                run.policy.clone_from(&choice.label);
            }
        }
        let subject = subject(&loaded, seed)?;
        let picture = weir_report::bandwidth_picture(&subject, &results, &self.fonts);
        Ok(Part::Picture(picture))
    }

    /// Compares with a printed figure; returns cells for ours, the printed one and the deviation.
    pub fn compare(&mut self, with: Printed, values: Option<[f64; 3]>) -> [Cell; 3] {
        let printed = Cell::new(format!("{:.*}", with.decimals, with.value), CellKind::Faint);
        let Some([lowest, mean, highest]) = values else {
            let none = || Cell::new("–", CellKind::Number);
            return [none(), printed, none()];
        };
        let deviation_ratio = mean / with.value - 1.0;
        self.compared.push(Compared {
            printed_in: with.printed_in,
            backend: with.backend.to_owned(),
            figure: with.figure,
            lowest,
            mean,
            highest,
            printed: with.value,
            deviation_ratio,
        });
        let kind = if deviation_ratio.abs() > 0.1 {
            CellKind::Missed
        } else {
            CellKind::Met
        };
        [
            number(mean, with.decimals),
            printed,
            Cell::new(signed_percent(deviation_ratio), kind),
        ]
    }
}

/// A printed figure.
pub struct Printed<'a> {
    /// Table or figure of the thesis.
    pub printed_in: &'static str,
    /// Who controlled.
    pub backend: &'a str,
    /// Which figure, with its unit as last word.
    pub figure: &'static str,
    /// The figure.
    pub value: f64,
    /// How many decimals are shown.
    pub decimals: usize,
}

/// Lowest, mean and highest of the seeds of one choice.
pub fn over_seeds(
    batch: &Batch,
    choice: usize,
    of: impl Fn(&Made) -> Option<f64>,
) -> Option<[f64; 3]> {
    range(batch.of(choice).map(of))
}

/// The same of a result.
pub fn of_run(batch: &Batch, choice: usize, of: impl Fn(&Run) -> Option<f64>) -> Option<[f64; 3]> {
    range(batch.of(choice).map(|made| of(&made.run)))
}

/// A cell with words.
pub fn words(text: impl Into<String>) -> Cell {
    Cell::new(text, CellKind::Words)
}

/// A cell with a number; a value that is not there is a dash.
pub fn number(value: impl Into<Option<f64>>, decimals: usize) -> Cell {
    let text = match value.into() {
        Some(value) if value.is_finite() => plain(value, decimals),
        _ => "–".into(),
    };
    Cell::new(text, CellKind::Number)
}

fn plain(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let is_nothing = text.trim_start_matches(['-', '0', '.']).is_empty();
    if is_nothing {
        return text.replace('-', "");
    }
    text.replace('-', "−")
}

/// `+3.1 %`.
pub fn signed_percent(ratio: f64) -> String {
    if ratio.abs() < 5e-4 {
        return "0.0 %".into();
    }
    format!("{:+.1} %", ratio * 1e2).replace('-', "−")
}

/// Heads of a table.
pub fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Words and pictures are parts too.
pub fn text(words: impl Into<String>) -> Part {
    Part::Words(words.into())
}

/// A picture as a part.
pub fn picture(picture: Picture) -> Part {
    Part::Picture(picture)
}

/// A command as a part.
pub fn command(line: impl Into<String>) -> Part {
    Part::Command(line.into())
}

/// What neither a page nor a file shows is not kept: who does not use a device, single workloads of a crowd, and how long
/// each waited.
fn shed(made: &mut Made) {
    let workloads = &mut made.measures.workloads;
    workloads.retain(|w| matches!(w.role, Role::Heavy | Role::Light));
    if workloads.len() > WORKLOADS_MAX {
        workloads.clear();
    }
    workloads.shrink_to_fit();
    for workload in workloads {
        workload.waits = Histogram::default();
    }
}

/// What no page shows is not kept once the files are made: of single workloads pages show those that are limited.
pub fn slim(made: &mut Made) {
    let workloads = &mut made.measures.workloads;
    workloads.retain(|w| w.role == Role::Heavy);
    workloads.shrink_to_fit();
}

/// Each user of a device over time, first seed; nothing where there are too many.
fn workloads_csv(batch: &Batch) -> Option<String> {
    let mut csv = String::from("backend,workload,at_ms,bytes_per_sec,cpus,limit_cpus\n");
    for (i, choice) in batch.choices.iter().enumerate() {
        let made = batch.of(i).next()?;
        let workloads = &made.measures.workloads;
        if workloads.is_empty() || workloads.len() > WORKLOADS_MAX {
            return None;
        }
        for workload in workloads {
            let windows = made.measures.series.len();
            for from in (0..windows).step_by(WINDOWS_A_LINE) {
                let within = from..(from + WINDOWS_A_LINE).min(windows);
                let _ = writeln!(
                    csv,
                    "{},{},{},{},{},{}",
                    choice.label,
                    workload.name,
                    made.measures.series[from].at_ms,
                    mean(&workload.bytes_per_sec, within.clone(), 0),
                    mean(&workload.cpus, within.clone(), 4),
                    mean(&workload.limit_cpus, within, 4),
                );
            }
        }
    }
    Some(csv)
}

/// Mean of the values that are finite; nothing where none is.
fn mean(values: &[f64], within: std::ops::Range<usize>, decimals: usize) -> String {
    let inside = within.filter_map(|n| values.get(n).copied());
    let known: Vec<f64> = inside.filter(|v| v.is_finite()).collect();
    if known.is_empty() {
        return String::new();
    }
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    format!("{mean:.decimals$}")
}
