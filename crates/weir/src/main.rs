// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `weir` command: the only place where all parts meet. Reading order:
//!
//! * [`cli`] the arguments, [`amounts`] and [`settings`] their meaning, [`host`] how the platform is
//!   opened;
//! * [`devices`] `--device`: which nodes are CXL memory, whatever the machine says;
//! * [`run`] the daemon: observe → step → apply → publish;
//! * [`probe`] latency of devices while it runs, by loads of its own;
//! * [`recordings`] every tick kept in a file, shown again, and exported;
//! * [`top`], [`explain`], [`doctor`], [`reset`] commands for operators; they read what the daemon
//!   publishes and compute nothing but layout ([`text`], [`words`]);
//! * [`calibrate`] the knee of a device, measured here and kept for `run`;
//! * [`bench`] what the loop costs, over a machine made of files ([`fake`]);
//! * [`groups`] monitoring groups: made, listed, resized, and workloads put into them;
//! * [`profile`] where accesses wait, by what perf counted;
//! * [`topology`] what belongs to what, and [`events`] performance counters of CXL traffic;
//! * [`sim`] scenarios on a simulated host, and models of devices;
//! * [`exit`] exit codes: 0 done, 1 finding, 2 trouble.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod amounts;
mod bench;
mod calibrate;
mod cli;
mod devices;
mod doctor;
mod events;
mod exit;
mod explain;
mod fake;
mod groups;
mod host;
mod numbers;
mod probe;
mod profile;
mod recordings;
#[cfg(test)]
mod reference_tests;
mod reset;
mod run;
mod settings;
mod sim;
mod text;
mod top;
mod topology;
mod words;

use clap::FromArgMatches;
use cli::{Cli, Command};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let matches = numbers::command()
        .try_get_matches_from(&words)
        .unwrap_or_else(|error| cli::renamed::explained(error, &words).exit());
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let roots = host::roots(cli.root.as_deref());
    exit::code(match &cli.command {
        Command::Run(args) => run::run(args, &roots),
        Command::Record(args) => recordings::record::record(args, &roots),
        Command::Replay(args) => recordings::replay::replay(args),
        Command::Export(args) => recordings::export::export(args),
        Command::Top(args) => top::top(args, &roots),
        Command::Doctor(args) => doctor::doctor(args, &roots),
        Command::Explain(args) => explain::explain(args, &roots),
        Command::Reset(args) => reset::reset(args, &roots),
        Command::Calibrate(args) => calibrate::calibrate(args, &roots),
        Command::Bench(args) => bench::bench(args),
        Command::Topology(args) => topology::topology(args, &roots),
        Command::Events(args) => events::events(args, &roots),
        Command::Groups(args) => groups::groups(args, &roots),
        Command::Profile(args) => profile::profile(args, &roots),
        Command::Sim(args) => sim::sim(args),
    })
}
