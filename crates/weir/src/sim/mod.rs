// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir sim`: scenarios on a simulated host, without any hardware.
//!
//! ```text
//! cli ─► builtin ─► choice ─► batch ─► results ─► table, JSON, report (weir-report)
//!        (which    (who        (weir-sim,
//!         scenario) controls)   all CPUs)
//! ```
//!
//! [`device`] asks the device model alone; [`evaluate`] repeats the thesis's evaluation.
//! Nothing here touches this machine: no clock and no counter of it is read but to tell how fast a run was, and no
//! file is written but where `--out` says.

mod batch;
pub mod builtin;
mod choice;
pub mod cli;
mod device;
mod evaluate;
mod judged;
mod results;
mod table;

use crate::exit::{Exit, print, print_json};
use crate::text::harmless;
use anyhow::Result;
use batch::Batch;
use builtin::Loaded;
use cli::{ScenarioArgs, SimArgs};
use std::fmt::Write;
use std::time::Instant;
use weir_report::results::Results;
use weir_report::{Check, Subject};

/// Runs what was asked for.
///
/// # Errors
/// The scenario is wrong or does not exist, a name is not known, or a file cannot be written.
pub fn sim(args: &SimArgs) -> Result<Exit> {
    match &args.what {
        Some(cli::What::Device(args)) => device::device(args),
        Some(cli::What::Evaluate(args)) => evaluate::evaluate(args),
        None => scenario(&args.scenario),
    }
}

fn scenario(args: &ScenarioArgs) -> Result<Exit> {
    let Some(name) = &args.scenario else {
        return list();
    };
    let loaded = builtin::load(name)?;
    let choices = choice::choose(&args.backend, &args.policy, &loaded.scenario)?;
    let seeds: Vec<u64> = (0..u64::from(args.seeds))
        .map(|n| args.seed.wrapping_add(n))
        .collect();
    let subject = results::subject(&loaded, args.seed)?;
    let begun = Instant::now();
    let batch = batch::run(&loaded, &choices, &seeds)?;
    let results = results::with_origin(batch.results(), args.seed, begun.elapsed());
    if let Some(out) = &args.out {
        let command = command(args, name);
        for file in weir_report::write_with(out, &subject, &results, &[command])? {
            eprintln!("wrote {}", harmless(&file.display().to_string()));
        }
    }
    let judged = judged(&batch, &subject, &seeds);
    if args.json {
        // One seed gives one text, whenever and wherever.
        print_json(&weir_report::explained(&results.reproducible())?)?;
    } else {
        print(&(shown(&batch, &subject, &results) + &bounds(&judged)))?;
    }
    let missed = args.check && judged.iter().any(|(_, c)| c.iter().any(|c| !c.passed));
    Ok(if missed { Exit::Finding } else { Exit::Done })
}

/// Most runs that stand beside each other.
const RUNS_BESIDE: usize = 4;

/// Few runs as live runs are shown; more of them, or several seeds, in a table with a row each.
fn shown(batch: &Batch, subject: &Subject, results: &Results) -> String {
    if results.runs.len() <= RUNS_BESIDE && batch.of(0).count() == 1 {
        return weir_report::terminal(subject, results);
    }
    let sentence = weir_report::closing(&batch.with_seed(subject.seed));
    let sentence = format!("Seed {}: {sentence}", subject.seed);
    format!(
        "{}\n\n{}{}",
        weir_report::wrap(&sentence, weir_report::COLUMNS, 0),
        table::table(batch),
        weir_report::origin_text(results),
    )
}

fn list() -> Result<Exit> {
    let mut text = String::new();
    let width = builtin::names().iter().map(|n| n.len()).max().unwrap_or(0);
    for name in builtin::names() {
        let Loaded { scenario, .. } = builtin::load(name)?;
        let _ = writeln!(text, "{name:width$}  {}", scenario.about);
    }
    print(&text)?;
    Ok(Exit::Done)
}

/// The bounds of the scenario, for each seed; empty where nothing can be compared.
fn judged(batch: &Batch, subject: &Subject, seeds: &[u64]) -> Vec<(u64, Vec<Check>)> {
    let of = |seed: &u64| {
        let results = batch.with_seed(*seed);
        (*seed, judged::weir_checks(subject, &results))
    };
    let has_pair = batch.choices.iter().any(|c| c.backend == "none")
        && batch.choices.iter().any(|c| c.policy != "none");
    if has_pair {
        seeds.iter().map(of).collect()
    } else {
        Vec::new()
    }
}

/// All bounds for the first seed, and for each other one what it misses.
fn bounds(judged: &[(u64, Vec<Check>)]) -> String {
    let Some((first, checks)) = judged.first() else {
        return String::new();
    };
    if checks.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\nBounds, seed {first}:\n{}",
        weir_report::checks_table(checks)
    );
    for (seed, checks) in &judged[1..] {
        let missed = checks.iter().filter(|c| !c.passed);
        let missed: Vec<&str> = missed.map(|c| c.name.as_str()).collect();
        let _ = match missed.as_slice() {
            [] => writeln!(text, "seed {seed}: all met"),
            names => writeln!(text, "seed {seed}: missed: {}", names.join("; ")),
        };
    }
    text
}

/// The command line that gives the same figures.
fn command(args: &ScenarioArgs, name: &str) -> weir_report::Command {
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
