// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-lab`, the program for researchers: models of hardware by themselves, the thesis's evaluation
//! repeated on the simulator, studies of parts of weir, and what weir itself costs. The program is one call
//! of `main`. Reading order:
//!
//! * [`cli`] the commands;
//! * [`thesis`] chapter 6 of the thesis and more experiments, as one page;
//! * [`studies`] of one scenario or device, as a table;
//! * [`dram`] a channel of memory, [`interference`] what streams of traffic do to each other, [`type2`] a
//!   CXL Type-2 device, [`server`] a whole server with its counters and the truth;
//! * [`profile`] the profiler against the truth of the synthetic server;
//! * [`random`] the controller on scenarios by chance;
//! * [`bench`] the loop and recordings.
#![forbid(unsafe_code)]

mod bench;
mod cli;
mod dram;
mod interference;
mod papers;
mod profile;
mod random;
#[cfg(test)]
mod reference_tests;
pub mod server;
mod studies;
mod thesis;
mod type2;

use clap::{CommandFactory, FromArgMatches};
use cli::{Cli, Command};
use std::process::ExitCode;
use weir::lab::{code, with_signs};

/// What the program does: its arguments and its exit code are the process's.
pub fn main() -> ExitCode {
    let matches = with_signs(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    code(
        "weir-lab",
        match &cli.command {
            Command::Thesis(args) => thesis::evaluate(args),
            Command::Ablation(args) => studies::ablation::ablation(args),
            Command::Controllers(args) => studies::controllers::controllers(args),
            Command::LightUsers(args) => studies::light_users::light_users(args),
            Command::Random(args) => random::check_all(args),
            Command::Profile(args) => profile::profile(args),
            Command::ProfileDay(args) => profile::day::profile_day(args),
            Command::Device(args) => studies::device::device(args),
            Command::Dram(args) => dram::dram(args),
            Command::Interference(args) => interference::interference(args),
            Command::Type2(args) => type2::type2(args),
            Command::Server(args) => server::simulate(args),
            Command::Bench(args) => bench::bench(args),
        },
    )
}
