// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-lab server`: the synthetic server counts, and the report is made of its counts as of any others.
//!
//! ```text
//! scenarios ─► weir-server-model ─┬─► counts ─► windows (role_sources) ─► report, file of windows
//!                                └─► truth ─► truth_file
//! ```
//!
//! The server knows no roles, and weir-profile no server: the truth meets the figures in [`crate::profile`].

pub mod cli;
mod idle_recording;
mod role_sources;
mod scenarios;
mod sockets;
mod truth_file;
mod windows;

pub use idle_recording::record_idle;
pub use scenarios::{ServerRuns, described};
pub use truth_file::{SpeedupTruth, TruthDocument, speedups};

use anyhow::{Context, Result, bail};
use cli::ServerArgs;
use serde::Serialize;
use sockets::{SocketRuns, record_sockets};
use std::io::Write;
use std::path::{Path, PathBuf};
use weir::lab::profile::MethodName;
use weir::lab::profile::{exit_of, new_file, show_report, shown, write_new};
use weir::lab::{Exit, print};
use weir_figures::text::harmless;
use weir_profile::WindowFile;
use weir_profile::report::{self, Report};
use weir_server_model::Scenario;

/// Word in the name of a file that stands for the seed.
const SEED_WORD: &str = "{seed}";

/// A run as a profiler sees it, and as it was.
#[derive(Clone, Debug)]
pub struct ServerRecording {
    pub file: WindowFile,
    /// The truth, window by window.
    pub truth: TruthDocument,
}

/// Runs a scenario.
///
/// # Errors
/// The scenario cannot be run: its plan does not fit the counters, a figure is out of range.
pub fn record_server(scenario: &Scenario, seed: u64) -> Result<ServerRecording> {
    let all = described(scenario.run(seed))?;
    let (counts, truths): (Vec<_>, Vec<_>) = all.into_iter().map(|w| (w.counts, w.truth)).unzip();
    let truths = truths
        .into_iter()
        .zip(&counts)
        .filter(|(_, counts)| !counts.is_lost);
    let truths = truths.map(|(truth, _)| truth).collect();
    let machine = &scenario.machine;
    let source = format!(
        "synthetic server {}, scenario {}, seed {seed}",
        machine.name, scenario.name
    );
    Ok(ServerRecording {
        file: windows::window_file(&counts, machine, &scenario.workloads, source),
        truth: TruthDocument::new(scenario, seed, truths),
    })
}

#[derive(Serialize)]
struct SeedReport<'a> {
    scenario: &'a str,
    seed: u64,
    report: &'a Report,
}

/// Does it.
///
/// # Errors
/// The scenario is wrong or does not exist, or a file cannot be written.
pub fn simulate(args: &ServerArgs) -> Result<Exit> {
    let runs = SocketRuns::named(&args.scenario)?;
    let is_several = args.seeds > 1;
    for path in [&args.out, &args.idle_out].into_iter().flatten() {
        if is_several && !path.to_string_lossy().contains(SEED_WORD) {
            bail!(
                "{} would be written for each of {} seeds: put {SEED_WORD} into its name",
                shown(path),
                args.seeds
            );
        }
    }
    let mut truth = args.truth.as_deref().map(new_file).transpose()?;
    let mut exit = Exit::Done;
    for n in 0..u64::from(args.seeds) {
        let seed = args.seed.wrapping_add(n);
        let scenarios = runs.scenarios(seed)?;
        let mut recording = record_sockets(&scenarios)?;
        for (socket, (scenario, seed)) in recording.sockets.iter_mut().zip(&scenarios) {
            if args.what_if {
                socket.truth.what_if = speedups(scenario, *seed)?;
            }
            if let (Some(file), Some(path)) = (&mut truth, &args.truth) {
                let line = serde_json::to_string(&socket.truth)? + "\n";
                let written = file.write_all(line.as_bytes());
                written.with_context(|| format!("cannot write {}", shown(path)))?;
            }
        }
        write_windows(args.out.as_deref(), &recording.file, seed)?;
        write_windows(args.idle_out.as_deref(), &recording.idle, seed)?;
        let names = scenarios.iter().map(|(scenario, _)| scenario.name.as_str());
        let name = names.collect::<Vec<_>>().join("+");
        if is_several && !args.json {
            print(&format!("\n#### {}, seed {seed}\n", harmless(&name)))?;
        }
        let files = (&recording.file, &recording.idle);
        if let Exit::Finding = report_seed(args, &name, seed, files)? {
            exit = Exit::Finding;
        }
    }
    Ok(exit)
}

fn report_seed(
    args: &ServerArgs,
    scenario: &str,
    seed: u64,
    (file, idle): (&WindowFile, &WindowFile),
) -> Result<Exit> {
    let options = report::Options {
        idle: Some(idle),
        workload: None,
        each: args.shown.each,
        pathfinder: args.shown.method == MethodName::Pathfinder,
        over_time: false,
        brief: false,
    };
    let report = report::report(file, &options);
    if args.json {
        let line = SeedReport {
            scenario,
            seed,
            report: &report,
        };
        print(&(serde_json::to_string(&line)? + "\n"))?;
        return Ok(exit_of(&report));
    }
    show_report(&report, false)
}

fn write_windows(path: Option<&Path>, file: &WindowFile, seed: u64) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let name = path.to_string_lossy().replace(SEED_WORD, &seed.to_string());
    write_new(&PathBuf::from(name), file.to_text()?.as_bytes())
}
