// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-eval`, the program for researchers: it repeats the thesis's evaluation on the simulator, studies
//! parts of weir there, draws curves of device models, and measures what weir itself costs. Reading order:
//!
//! * [`cli`] the commands;
//! * [`thesis`] chapter 6 of the thesis and more experiments, as one page;
//! * [`ablation`], [`controllers`], [`light_users`] studies of one scenario, as a table;
//! * [`device`] a device model alone;
//! * [`profile`] the profiler against the truth of the synthetic server;
//! * [`bench`] the loop and recordings.
#![forbid(unsafe_code)]

mod ablation;
mod bench;
mod cli;
mod controllers;
mod device;
mod light_users;
mod profile;
mod random;
#[cfg(test)]
mod reference_tests;
mod thesis;

use clap::{CommandFactory, FromArgMatches};
use cli::{Cli, Command};
use std::process::ExitCode;
use weir::eval::{code, with_signs};

fn main() -> ExitCode {
    let matches = with_signs(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    code(
        "weir-eval",
        match &cli.command {
            Command::Thesis(args) => thesis::evaluate(args),
            Command::Ablation(args) => ablation::ablation(args),
            Command::Controllers(args) => controllers::controllers(args),
            Command::LightUsers(args) => light_users::light_users(args),
            Command::Random(args) => random::check_all(args),
            Command::Profile(args) => profile::profile(args),
            Command::ProfileDay(args) => profile::day::profile_day(args),
            Command::Device(args) => device::device(args),
            Command::Bench(args) => bench::bench(args),
        },
    )
}
