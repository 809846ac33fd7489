// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line as a whole: which commands there are. The arguments of each stand in its room.

pub mod advice;
#[cfg(test)]
mod package_tests;
#[cfg(test)]
mod reference_tests;

use crate::bench::calibrate::cli::CalibrateArgs;
use crate::bench::cli::BenchArgs;
use crate::bench::hardware::cli::VerifyHardwareArgs;
use crate::cli::numbers::with_signs;
use crate::explain::cli::ExplainArgs;
use crate::groups::cli::GroupsArgs;
use crate::inventory::cli::{DoctorArgs, TopologyArgs};
use crate::inventory::events::cli::EventsArgs;
use crate::profile::cli::ProfileArgs;
use crate::recordings::cli::{ExportArgs, RecordArgs, ReplayArgs};
use crate::run::platform::reset::ResetArgs;
use crate::run::service::liveness::HealthArgs;
use crate::run::settings::args::RunArgs;
use crate::sim::cli::SimArgs;
use crate::top::cli::TopArgs;
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;

/// The command line, with numbers that may be negative.
pub fn command() -> clap::Command {
    with_signs(Cli::command())
}

/// The first line of `--help`: without it clap takes the package's description.
const ABOUT: &str = "weir keeps CXL memory below the point where its latency rises steeply";

/// The command.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about = ABOUT, max_term_width = 100, after_help = TOP_HELP)]
pub struct Cli {
    /// Read a tree below this directory instead of the real /sys, /proc and /run.
    #[arg(long, global = true, hide = true, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const TOP_HELP: &str = "\
Start with `weir doctor` (what this machine can do), then `weir top` (workloads and what they move),
then `weir calibrate` (the device's knee) and `weir run --limit --set-point 'knee*0.9'`.

A workload is slow: `weir explain NAME`, then `weir profile`.
Figures of the past: `weir record`, then `weir export`.

No CXL memory at hand: `weir sim thesis-limit --top` shows weir at work on a simulated host.

Exit codes: 0 done, 2 trouble. 1 is a finding of calibrate, doctor, events --count, export, groups,
health, profile, replay --check, reset, sim or verify-hardware: the help of that command says which.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure the use of the device by workload, and with --limit hold it at the set-point
    Run(RunArgs),
    /// Observe (or limit) like `run`, and keep every tick in a file
    Record(RecordArgs),
    /// Show a recorded run again, or what another controller would have done
    Replay(ReplayArgs),
    /// Figures of a recording for other programs: CSV, Parquet, JSON lines, InfluxDB lines
    Export(ExportArgs),
    /// A live table of devices and workloads
    Top(TopArgs),
    /// What this machine can do, what is missing, and what to do about it
    Doctor(DoctorArgs),
    /// Find the bandwidth above which a device's latency rises steeply
    Calibrate(CalibrateArgs),
    /// Measure what memory and storage traffic do to each other, and compare such results
    Bench(BenchArgs),
    /// Measure on this machine what weir promises, and write a file to send
    VerifyHardware(VerifyHardwareArgs),
    /// Which workloads are limited, since when, how much and why
    Explain(ExplainArgs),
    /// Is the weir that runs here alive? For probes
    Health(HealthArgs),
    /// Restore what a killed weir left limited
    Reset(ResetArgs),
    /// Monitoring groups: make, list and resize them, put workloads into them
    Groups(GroupsArgs),
    /// What belongs to what: nodes, regions, CXL devices, ports, counters
    Topology(TopologyArgs),
    /// Performance counters of CXL traffic, and which of them this machine has
    Events(EventsArgs),
    /// Where accesses wait: figures and findings of what perf counted
    Profile(ProfileArgs),
    /// Try it without hardware: scenarios on a simulated host
    Sim(SimArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn limit_is_a_switch_that_can_be_switched_off() {
        let limit = |args: &[&str]| match Cli::try_parse_from(args).unwrap().command {
            Command::Run(run) => run.how.limit,
            other => panic!("{other:?}"),
        };
        assert_eq!(limit(&["weir", "run"]), None);
        assert_eq!(limit(&["weir", "run", "--limit"]), Some(true));
        assert_eq!(limit(&["weir", "run", "--limit=false"]), Some(false));
        assert_eq!(limit(&["weir", "run", "--limit", "--json"]), Some(true));
    }
}
