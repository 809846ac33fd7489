// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir sim`: scenarios on a simulated host, without any hardware.
//!
//! ```text
//! cli ─► builtin ─► choice ─► batch ─► results ─► table, JSON, report (weir-report)
//!        (which    (what       (weir-sim,  └─► bounds
//!         scenario) controls)   all CPUs)
//!                     └─────► record ─► a recording ─► the screen of `weir top`
//! ```
//!
//! Models that run by themselves are commands of the program for researchers ([`crate::cli::lab`]).
//!
//! Nothing here touches this machine: no clock and no counter of it is read but to tell how fast a run was,
//! and no file is written but where `--out` and `--record` say.

pub mod batch;
mod bounds;
pub mod builtin_scenarios;
pub mod cli;
pub mod controllers;
mod fairness;
mod record;
pub mod results;
pub mod table;

use crate::cli::exit::{Exit, print, print_json};
use anyhow::Result;
use batch::Batch;
use builtin_scenarios::Loaded;
use cli::{SimArgs, SimCommand};
use controllers::Choice;
use serde::Serialize;
use std::fmt::Write;
use std::time::Instant;
use weir_figures::text::harmless;
use weir_report::ScenarioInfo;
use weir_report::results::Results;

/// Runs the scenario.
///
/// # Errors
/// The scenario is wrong or does not exist, a name is not known, there is nothing to check, or a file cannot
/// be written.
pub fn sim(args: &SimArgs) -> Result<Exit> {
    if let Some(command) = &args.command {
        return match command {
            SimCommand::Dram(words) => words.run("dram"),
            SimCommand::Interference(words) => words.run("interference"),
            SimCommand::Type2(words) => words.run("type2"),
        };
    }
    let Some(name) = &args.scenario else {
        return list(args.json);
    };
    let loaded = builtin_scenarios::load(name)?;
    if args.print {
        print(&loaded.text)?;
        return Ok(Exit::Done);
    }
    let mut choices = controllers::choose(&args.backend, &args.policy, &loaded.scenario)?;
    let seeds: Vec<u64> = (0..u64::from(args.seeds))
        .map(|n| args.seed.wrapping_add(n))
        .collect();
    if args.top {
        return on_screen(args, &loaded, &choices, &seeds);
    }
    let subject = results::subject(&loaded, args.seed)?;
    if args.check {
        bounds::can_be_checked(&subject, &choices, &loaded.scenario.name)?;
    }
    if args.observe {
        choices.iter_mut().for_each(Choice::observe);
    }
    let begun = Instant::now();
    let recorded = match &args.record {
        Some(path) => record::record(&loaded, &choices, &seeds, path, |run, seed, ticks| {
            let path = harmless(&path.to_string_lossy());
            eprintln!("recorded in {path}: {run}, seed {seed}, {ticks} ticks");
        })?,
        None => Vec::new(),
    };
    if args.observe {
        // Without limits there is nothing to compare.
        return Ok(Exit::Done);
    }
    let batch = batch::run_rest(&loaded, &choices, &seeds, recorded)?;
    let results = results::with_origin(batch.results(), args.seed, begun.elapsed());
    if let Some(out) = &args.out {
        let command = command(args, name);
        for file in weir_report::write_with(out, &subject, &results, &[command])? {
            eprintln!("wrote {}", harmless(&file.display().to_string()));
        }
    }
    if args.json {
        // One seed gives one text, whenever and wherever.
        print_json(&weir_report::explained(&results.reproducible())?)?;
        if args.check {
            eprint!("{}", weir_report::bounds_text(&subject, &results));
        }
    } else {
        print(&shown(&batch, &subject, &results))?;
    }
    let checks = weir_report::checks(&subject, &results);
    let missed = args.check && checks.iter().any(|check| !check.is_met());
    Ok(if missed { Exit::Finding } else { Exit::Done })
}

/// On the screen of `weir top`; in the file that was named, else in one that is gone afterwards.
fn on_screen(args: &SimArgs, loaded: &Loaded, choices: &[Choice], seeds: &[u64]) -> Result<Exit> {
    let dir = tempfile::tempdir()?;
    let path = args.record.clone();
    let path = path.unwrap_or_else(|| dir.path().join("simulated.weir"));
    record::record(loaded, choices, seeds, &path, |_, _, _| ())?;
    record::show(&path)
}

/// Most runs that stand beside each other.
const RUNS_BESIDE: usize = 4;

/// Few runs as live runs are shown; more of them, or several seeds, in a table with a row each.
fn shown(batch: &Batch, subject: &ScenarioInfo, results: &Results) -> String {
    if results.runs.len() <= RUNS_BESIDE && batch.of(0).count() == 1 {
        return weir_report::terminal(subject, results);
    }
    format!(
        "{}{}{}",
        table::table(batch),
        weir_report::origin_text(results),
        weir_report::ending(subject, results),
    )
}

/// A scenario that is built in.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: String,
}

fn list(json: bool) -> Result<Exit> {
    let mut all = Vec::new();
    for name in builtin_scenarios::names() {
        let about = builtin_scenarios::load(name)?.scenario.about;
        all.push(Listed { name, about });
    }
    if json {
        print_json(&all)?;
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    let width = all.iter().map(|one| one.name.len()).max().unwrap_or(0);
    for Listed { name, about } in all {
        let line = format!("{name:width$}  {about}");
        let line = weir_figures::text::wrap(&line, weir_figures::COLUMNS, width + 2);
        let _ = writeln!(text, "{line}");
    }
    print(&text)?;
    Ok(Exit::Done)
}

/// The command line that gives the same figures.
fn command(args: &SimArgs, name: &str) -> weir_report::Command {
    let mut line = format!("weir sim {}", weir_report::quoted(name));
    let _ = write!(
        line,
        " --backend {}",
        weir_report::quoted(&args.backend.join(","))
    );
    if !args.policy.is_empty() {
        let names: Vec<&str> = args.policy.iter().map(|p| p.policy().name()).collect();
        let _ = write!(line, " --policy {}", names.join(","));
    }
    let _ = write!(line, " --seed {} --seeds {}", args.seed, args.seeds);
    weir_report::Command {
        what: "These runs were made by".into(),
        line,
    }
}
