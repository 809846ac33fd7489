// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scenario: a machine, what runs on it, how it is looked at, and what is wrong with it.

pub mod what_if;

use crate::machine::{Machine, Workload, Workloads};
use crate::pmu::CountingPlan;
use crate::{Server, ServerWindow};
use serde::{Deserialize, Serialize};
use weir_description::DescriptionError;

#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub name: String,
    pub about: String,
    /// The machine, with the scenario's changes.
    pub machine: Machine,
    pub workloads: Workloads,
    pub run: RunFigures,
    /// What is counted. Left out of the file: all events all the time, which no real machine can do.
    pub plan: Option<CountingPlan>,
    /// What is wrong, to compare findings with.
    pub causes: Vec<CauseLabel>,
}

/// How long a run takes and how it is cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFigures {
    pub windows: u32,
    /// Length of one, microseconds.
    pub window_us: f64,
    /// Time before the first one, microseconds.
    #[serde(default)]
    pub warm_up_us: f64,
    /// The last-level cache begins with the lines of areas that are visited at random.
    #[serde(default)]
    pub is_warm: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CauseLabel {
    /// What, by the name of [`crate::random::Cause`] or in the scenario's own words.
    pub kind: String,
    pub victim: String,
    /// Workloads that cause it, the strongest first; empty if none does.
    #[serde(default)]
    pub culprits: Vec<String>,
    /// First window in which it is so.
    #[serde(default)]
    pub from_window: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    name: String,
    about: String,
    /// Name of a built-in machine.
    machine: String,
    /// Figures that replace the machine's.
    #[serde(default)]
    change: toml::Table,
    run: RunFigures,
    workload: Vec<Workload>,
    plan: Option<CountingPlan>,
    #[serde(default)]
    cause: Vec<CauseLabel>,
}

/// Replaces what `changes` names, table by table; entries of arrays of tables by their position.
fn merge(figures: &mut toml::Value, changes: toml::Value) {
    match (figures, changes) {
        (toml::Value::Table(figures), toml::Value::Table(changes)) => {
            for (key, change) in changes {
                match figures.get_mut(&key) {
                    Some(figure) => merge(figure, change),
                    None => drop(figures.insert(key, change)),
                }
            }
        }
        (toml::Value::Array(figures), toml::Value::Array(changes)) => {
            for (n, change) in changes.into_iter().enumerate() {
                match figures.get_mut(n) {
                    Some(figure) => merge(figure, change),
                    None => figures.push(change),
                }
            }
        }
        (figure, change) => *figure = change,
    }
}

impl Scenario {
    /// Reads a scenario from TOML. `origin` names the text in errors.
    ///
    /// # Errors
    /// The text is no TOML, a key is unknown or missing, a figure is out of range, the machine is unknown.
    pub fn parse(text: &str, origin: &str) -> Result<Scenario, DescriptionError> {
        let file: ScenarioFile =
            toml::from_str(text).map_err(|error| DescriptionError::syntax(origin, &error))?;
        let machine = changed(&file.machine, file.change, origin)?;
        let workloads = Workloads {
            workload: file.workload,
        };
        workloads.check(&machine, origin)?;
        let run = &file.run;
        let is_sound = run.windows > 0 && run.window_us > 0.0 && run.warm_up_us >= 0.0;
        let simulated_us = f64::from(run.windows) * run.window_us + run.warm_up_us;
        if !is_sound || simulated_us > 1e7 {
            return Err(DescriptionError::Value {
                origin: origin.to_owned(),
                key: "run".to_owned(),
                value: format!(
                    "{} windows of {} µs after {} µs",
                    run.windows, run.window_us, run.warm_up_us
                ),
                allowed: "at least one window, and 10 s of simulated time at most".to_owned(),
            });
        }
        for cause in &file.cause {
            for name in cause.culprits.iter().chain([&cause.victim]) {
                workloads.number(name)?;
            }
        }
        Ok(Scenario {
            name: file.name,
            about: file.about,
            machine,
            workloads,
            run: file.run,
            plan: file.plan,
            causes: file.cause,
        })
    }

    /// A server at the beginning of the scenario's first window.
    ///
    /// # Errors
    /// As [`Server::new`] and [`Server::count`].
    pub fn server(&self, seed: u64) -> Result<Server, DescriptionError> {
        let mut server = Server::new(&self.machine, &self.workloads, seed)?;
        match &self.plan {
            Some(plan) => server.count(plan)?,
            None => server.count(&CountingPlan::everything(&self.machine))?,
        }
        if self.run.is_warm {
            server.warm();
        }
        server.run(self.run.warm_up_us * 1000.0);
        Ok(server)
    }

    /// Runs it: all windows in order.
    ///
    /// # Errors
    /// As [`Scenario::server`].
    pub fn run(&self, seed: u64) -> Result<Vec<ServerWindow>, DescriptionError> {
        let mut server = self.server(seed)?;
        let window_ns = self.run.window_us * 1000.0;
        Ok((0..self.run.windows)
            .map(|_| server.window(window_ns))
            .collect())
    }
}

/// A built-in machine with changes. Its text is read again, so that machines have one reader.
fn changed(name: &str, changes: toml::Table, origin: &str) -> Result<Machine, DescriptionError> {
    let refused = |problem: String| DescriptionError::Syntax {
        origin: origin.to_owned(),
        problem: format!("[change]: {problem}"),
    };
    let machine = Machine::named(name)?;
    let mut value = toml::Value::try_from(machine).map_err(|error| refused(error.to_string()))?;
    merge(&mut value, toml::Value::Table(changes));
    let text = toml::to_string(&value).map_err(|error| refused(error.to_string()))?;
    let machine: Machine = toml::from_str(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let before = text.get(..at).unwrap_or_default();
        let line = text.lines().nth(before.matches('\n').count());
        refused(format!("{}: {}", error.message(), line.unwrap_or_default()))
    })?;
    machine.check(origin)?;
    Ok(machine)
}
