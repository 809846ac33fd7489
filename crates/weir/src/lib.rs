// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `weir` command, the only place where all parts meet; the program is one call of `main`. Reading order:
//!
//! * `commands` which commands there are; the arguments of each stand in its room (`run::cli`);
//! * `cli` values and their meaning (`cli::quantities`), how they are written for people (`cli::output`),
//!   exit codes: 0 done, 1 finding, 2 trouble;
//! * `run` the daemon: observe → step → apply → publish; how a platform is opened, what `weir reset` puts
//!   back, and the latency of devices by loads of its own (`run::probe`);
//! * `recordings` every tick kept in a file, shown again, and exported;
//! * `top`, `explain` commands for operators; they read what the daemon publishes and compute nothing but
//!   layout (`cli::output`);
//! * `inventory` what this machine has: `weir doctor`, `weir topology`, `weir events`, and which nodes are
//!   CXL memory;
//! * `bench` what is measured here by loads of weir's own: the knee of a device, kept for `run`
//!   (`bench::calibrate`), what streams of traffic do to each other, and what weir promises
//!   (`bench::hardware`);
//! * `groups` monitoring groups: made, listed, resized, and workloads put into them;
//! * `profile` where accesses wait, by what this machine or perf counted;
//! * `sim` scenarios on a simulated host;
//! * `lab` what the researchers' program (weir-lab) has in common with this one;
//! * `input` what reads bytes of others, for the programs that make such bytes up (`crates/weir/fuzz`).
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod bench;
mod cli;
mod commands;
mod explain;
mod groups;
mod inventory;

mod profile;
mod recordings;
mod run;
mod sim;
mod top;

use clap::FromArgMatches;
use commands::{Cli, Command};
use std::ffi::OsString;
use std::process::ExitCode;

/// What the researchers' program (weir-lab) has in common with the command: the loop that it measures, the
/// runs of the simulator that it repeats, and how both are printed. No API for other programs.
pub mod lab {
    pub use crate::cli::exit::{Exit, code, print, print_json};
    pub use crate::cli::numbers::{whole, with_signs};
    pub use crate::cli::output::suggestion::perhaps;
    pub use crate::cli::quantities::Span;
    pub use crate::commands::command;
    pub use crate::recordings::simulated::BEGAN_UNIX_MS;
    pub use crate::run::make_run_dir;
    pub use crate::run::platform::policy_name;
    pub use crate::run::screens::changes::ChangeLog;
    pub use crate::run::screens::publish::Publisher;
    pub use crate::run::sink::Sinks;
    pub use crate::run::tick::Loop;
    pub use crate::run::tick::self_cost::{Stages, process_cpu};
    pub use crate::sim::{batch, builtin_scenarios, controllers, results, table};

    /// Reports of `weir profile`, and how they and their files are written.
    pub mod profile {
        pub use crate::profile::cli::{MethodName, ShownArgs};
        pub use crate::profile::{exit_of, new_file, show_report, shown, write_new};
    }
}

/// What reads settings, arguments and requests, for the programs that try it on bytes made up by a fuzzer
/// (`crates/weir/fuzz`). No API for other programs.
pub mod input {
    pub use crate::cli::quantities::{LimitedWeight, Rate, SetPoint, Size, Span};
    pub use crate::commands::{Cli, advice};
    pub use crate::recordings::moment::Moment;
    pub use crate::run::metrics::pages::MetricsPages;
    pub use crate::run::page::{Audience, reply as page_reply};
    pub use crate::run::serve::http::access::Access;
    pub use crate::run::serve::http::{Reply, Source, answer_to};
    pub use crate::run::settings::Settings;
    pub use crate::run::settings::args::LoopArgs;
}

/// What the program does: its arguments and its exit code are the process's.
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    // Started by `weir run`, and no command of operators.
    if words
        .get(1)
        .is_some_and(|word| word == run::serve::child::WORD)
    {
        return run::serve::child::main();
    }
    let matches = commands::command()
        .try_get_matches_from(&words)
        .unwrap_or_else(|error| commands::advice::advised(error, &words).exit());
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let roots = run::platform::roots(cli.root.as_deref());
    cli::exit::code(
        "weir",
        match &cli.command {
            Command::Run(args) => run::run(args, &roots),
            Command::Record(args) => recordings::record::record(args, &roots),
            Command::Replay(args) => recordings::replay::replay(args),
            Command::Export(args) => recordings::export::export(args),
            Command::Top(args) => top::top(args, &roots),
            Command::Doctor(args) => inventory::doctor::doctor(args, &roots),
            Command::Health(args) => run::service::liveness::health(args, &roots),
            Command::Explain(args) => explain::explain(args, &roots),
            Command::Reset(args) => run::platform::reset::reset(args, &roots),
            Command::Calibrate(args) => bench::calibrate::calibrate(args, &roots),
            Command::Bench(args) => bench::bench(args, &roots),
            Command::VerifyHardware(args) => bench::hardware::verify_hardware(args, &roots),
            Command::Topology(args) => inventory::topology::topology(args, &roots),
            Command::Events(args) => inventory::events::events(args, &roots),
            Command::Groups(args) => groups::groups(args, &roots),
            Command::Profile(args) => profile::profile(args, &roots),
            Command::Sim(args) => sim::sim(args),
        },
    )
}
