// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `weir` command: the only place where all parts meet. Reading order:
//!
//! * [`cli`] the arguments, their meaning ([`cli::quantities`], [`cli::settings`]), exit codes: 0 done, 1
//!   finding, 2 trouble;
//! * [`run`] the daemon: observe → step → apply → publish; how a platform is opened, and what `weir reset`
//!   puts back;
//! * [`probe`] latency of devices while it runs, by loads of its own;
//! * [`recordings`] every tick kept in a file, shown again, and exported;
//! * [`top`], [`explain`] commands for operators; they read what the daemon publishes and compute nothing but
//!   layout ([`output`]);
//! * [`inventory`] what this machine has: `weir doctor`, `weir topology`, `weir events`, and which nodes are
//!   CXL memory;
//! * [`calibrate`] the knee of a device, measured here and kept for `run`;
//! * [`bench`] what the loop costs, over a machine made of files;
//! * [`groups`] monitoring groups: made, listed, resized, and workloads put into them;
//! * [`profile`] where accesses wait, by what perf counted;
//! * [`sim`] scenarios on a simulated host, and models of devices.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod bench;
mod calibrate;
mod cli;
mod explain;
mod groups;
mod inventory;
mod output;
mod probe;
mod profile;
mod recordings;
#[cfg(test)]
mod reference_tests;
mod run;
mod sim;
mod top;

use clap::FromArgMatches;
use cli::{Cli, Command};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let matches = cli::numbers::command()
        .try_get_matches_from(&words)
        .unwrap_or_else(|error| cli::renamed::explained(error, &words).exit());
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let roots = run::open_platform::roots(cli.root.as_deref());
    cli::exit::code(match &cli.command {
        Command::Run(args) => run::run(args, &roots),
        Command::Record(args) => recordings::record::record(args, &roots),
        Command::Replay(args) => recordings::replay::replay(args),
        Command::Export(args) => recordings::export::export(args),
        Command::Top(args) => top::top(args, &roots),
        Command::Doctor(args) => inventory::doctor::doctor(args, &roots),
        Command::Explain(args) => explain::explain(args, &roots),
        Command::Reset(args) => run::reset::reset(args, &roots),
        Command::Calibrate(args) => calibrate::calibrate(args, &roots),
        Command::Bench(args) => bench::bench(args),
        Command::Topology(args) => inventory::topology::topology(args, &roots),
        Command::Events(args) => inventory::events::events(args, &roots),
        Command::Groups(args) => groups::groups(args, &roots),
        Command::Profile(args) => profile::profile(args, &roots),
        Command::Sim(args) => sim::sim(args),
    })
}
