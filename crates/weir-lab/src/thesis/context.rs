// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the sections of the evaluation share: runs that are made once, and everything that is written.

use super::ThesisArgs;
use super::causes::{Cause, Tested};
use super::measured;
use super::published_figures::{self, Printed};
use super::summary::Shown;
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;
use weir::lab::batch::{self, Batch, Made};
use weir::lab::builtin_scenarios::{self, Loaded};
use weir::lab::controllers::{self, Choice};
use weir::lab::results::subject;
use weir::lab::table::range;
pub use weir_figures::decimals as number;
use weir_figures::text::{NONE, signed_percent};
use weir_figures::{Cell, CellKind, Part, Picture};
use weir_report::Fonts;
use weir_report::results::Run;
use weir_scenario::simulated::Role;
use weir_sim::{Backend, ControllerKind, Histogram, SimError};

/// What is within this ratio of a printed figure is near.
pub const NEAR: f64 = 0.1;
/// Users of a device up to which single ones are written as CSV: a hundred would be 10 MB.
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
    pub backend: String,
    /// Which figure, with its unit as last word.
    pub figure: &'static str,
    /// Lowest, mean and highest of the seeds; nothing where no run gives the figure.
    pub lowest: Option<f64>,
    pub mean: Option<f64>,
    pub highest: Option<f64>,
    /// What the thesis printed.
    pub printed: f64,
    /// Mean ÷ printed − 1.
    pub deviation_ratio: Option<f64>,
    /// Why it cannot be compared: it is not modelled, or the simulator was given it.
    pub not_compared: Option<&'static str>,
    /// What was found of a deviation of more than 10 %.
    pub cause: Option<Cause>,
}

impl Compared {
    /// More than 10 % from the printed figure.
    pub fn is_far(&self) -> bool {
        self.not_compared.is_none() && self.deviation_ratio.is_none_or(|off| off.abs() > NEAR)
    }
}

/// The runs and everything that is written.
pub struct EvalContext {
    pub fonts: Fonts,
    /// The seeds of every scenario.
    pub seeds: Vec<u64>,
    pub is_quick: bool,
    batches: BTreeMap<String, Rc<Batch>>,
    /// Everything that was compared with the thesis.
    pub compared: Vec<Compared>,
    /// What came out where an assumption was varied.
    pub tested: Vec<Tested>,
    /// How much limits change with other readings of the text, by assumption.
    pub limit_readings: Vec<(&'static str, Vec<Value>)>,
    /// Back ends of weir that are refused in a scenario, and why.
    pub refused: BTreeMap<String, String>,
    /// Figures of sections that are not runs of a scenario.
    pub figures: BTreeMap<&'static str, Value>,
    /// Figures that have an aim: scenario, and what a bound on the same figure is called.
    aims: BTreeSet<(String, &'static str)>,
    /// What the page shows, for its summary.
    pub shown: Vec<Shown>,
    /// CSV by file name.
    pub files: BTreeMap<String, String>,
}

impl EvalContext {
    /// Nothing run yet.
    ///
    /// # Errors
    /// The built-in font is broken.
    pub fn new(args: &ThesisArgs) -> Result<Self> {
        let count = if args.quick { 1 } else { u64::from(args.seeds) };
        Ok(EvalContext {
            fonts: Fonts::load()?,
            seeds: (1..=count).collect(),
            is_quick: args.quick,
            batches: BTreeMap::new(),
            compared: Vec::new(),
            tested: Vec::new(),
            limit_readings: Vec::new(),
            refused: BTreeMap::new(),
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
        let mut loaded = builtin_scenarios::named(name)
            .with_context(|| format!("the scenario {name} is not built in"))??;
        if self.is_quick {
            let control = &mut loaded.scenario.control;
            control.settle_sec = control.settle_sec.min(QUICK_SEC.0);
            control.measure_sec = control.measure_sec.min(QUICK_SEC.1);
        }
        Ok(loaded)
    }

    /// Runs of a scenario with everything that controls: the thesis's six and weir; in the thesis's own
    /// scenarios weir's scheduler as well, in both modes, unless it is refused there.
    ///
    /// # Errors
    /// As [`batch::run`].
    pub fn all(&mut self, name: &str) -> Result<Rc<Batch>> {
        let loaded = self.scenario(name)?;
        let mut choices = controllers::all(&loaded.scenario);
        if name.starts_with("thesis-") && !self.batches.contains_key(name) {
            let of = |backend| Choice::of(ControllerKind::weir_with(backend, &loaded.scenario));
            let partial = of(Backend::SchedExt);
            match self.refusal(&loaded, &partial)? {
                Some(why) => {
                    self.refused.insert(name.to_owned(), why);
                }
                None => choices.push(partial),
            }
            choices.push(of(Backend::SchedExtFull));
        }
        self.batch(name, &choices)
    }

    /// Why a back end is refused in a scenario, if it is.
    fn refusal(&self, loaded: &Loaded, choice: &Choice) -> Result<Option<String>> {
        match weir_sim::run(&loaded.scenario, &choice.variant, self.seeds[0]) {
            Ok(_) => Ok(None),
            Err(refused @ SimError::Refused { .. }) => Ok(Some(refused.to_string())),
            Err(other) => Err(other.into()),
        }
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
        self.files
            .insert(format!("series-{name}.csv"), series_csv(&batch));
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

    pub fn batches(&self) -> impl Iterator<Item = (&String, &Rc<Batch>)> {
        self.batches.iter()
    }

    /// Bandwidth over time of the first seed, a panel for each controller.
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

    /// A figure of ours; where the thesis prints it for this back end, beside the printed one with the
    /// deviation.
    pub fn beside(
        &mut self,
        batch: &Batch,
        choice: usize,
        printed_in: &str,
        figure: &str,
        decimals: usize,
    ) -> [Cell; 3] {
        let values = measured::value(batch, choice, figure);
        match published_figures::find(printed_in, batch.choices[choice].name, figure) {
            Some(printed) => self.compare(printed, values),
            None => [
                number(values.map(|v| v[1]), decimals),
                Cell::words(""),
                Cell::words(""),
            ],
        }
    }

    /// Notes a printed figure that cannot be compared, with the reason; ours beside it, if there is one.
    pub fn not_compared(&mut self, with: Printed, mean: Option<f64>, why: &'static str) {
        self.compared.push(Compared {
            printed_in: with.printed_in,
            backend: with.backend.to_owned(),
            figure: with.figure,
            lowest: None,
            mean,
            highest: None,
            printed: with.value,
            deviation_ratio: None,
            not_compared: Some(why),
            cause: None,
        });
    }

    /// Compares with a printed figure; returns cells for ours, the printed one and the deviation.
    pub fn compare(&mut self, with: Printed, values: Option<[f64; 3]>) -> [Cell; 3] {
        let printed = Cell::new(format!("{:.*}", with.decimals, with.value), CellKind::Faint);
        let off = values.map(|[_, mean, _]| mean / with.value - 1.0);
        self.compared.push(Compared {
            printed_in: with.printed_in,
            backend: with.backend.to_owned(),
            figure: with.figure,
            lowest: values.map(|v| v[0]),
            mean: values.map(|v| v[1]),
            highest: values.map(|v| v[2]),
            printed: with.value,
            deviation_ratio: off,
            not_compared: None,
            cause: None,
        });
        let deviation = match off {
            Some(off) if off.abs() <= NEAR => Cell::new(signed_percent(off), CellKind::Met),
            Some(off) => Cell::new(signed_percent(off), CellKind::Missed),
            None => Cell::number(NONE),
        };
        [
            number(values.map(|v| v[1]), with.decimals),
            printed,
            deviation,
        ]
    }
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

/// Words and pictures are parts too.
pub fn text(words: impl Into<String>) -> Part {
    Part::Words(words.into())
}

pub fn picture(picture: Picture) -> Part {
    Part::Picture(picture)
}

pub fn command(line: impl Into<String>) -> Part {
    Part::Command(line.into())
}

/// Drops what neither a page nor a file shows: workloads that use no device, single workloads of a crowd, and
/// the wait of each.
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

/// What no page shows is not kept once the files are made: of single workloads pages show those that are
/// limited.
pub fn slim(made: &mut Made) {
    let workloads = &mut made.measures.workloads;
    workloads.retain(|w| w.role == Role::Heavy);
    workloads.shrink_to_fit();
}

/// Bandwidth over time of all runs. A part of a byte says nothing.
fn series_csv(batch: &Batch) -> String {
    let mut csv = String::from("backend,seed,at_ms,bytes_per_sec\n");
    for made in &batch.runs {
        let (label, seed) = (&batch.choices[made.choice].label, made.run.seed);
        for point in &made.run.series {
            let _ = writeln!(
                csv,
                "{label},{seed},{:.0},{:.0}",
                point.at_ms, point.bytes_per_sec
            );
        }
    }
    csv
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
