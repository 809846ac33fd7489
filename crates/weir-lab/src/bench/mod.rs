// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weir itself costs: [`iteration`] one iteration of the loop, [`recording`] a recording of a
//! simulated day.

mod fake_host;
mod iteration;
mod recording;

use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use weir::lab::{Exit, Span};

/// `weir-lab bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub what: Bench,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// One iteration of the loop over synthetic cgroups, with the CPU time of each stage
    Loop(BenchLoopArgs),
    /// A recording of a simulated host: its size, and what it costs to write, read and export
    Record(BenchRecordArgs),
}

/// `weir-lab bench record`.
#[derive(Debug, Args)]
pub struct BenchRecordArgs {
    /// Name of a scenario that is built in (`weir sim --list`), or path of a TOML file
    #[arg(default_value = "thesis-idle", value_name = "SCENARIO")]
    pub scenario: String,

    /// Simulated hours
    #[arg(long, default_value_t = 24.0, value_name = "H")]
    pub hours: f64,

    /// Time between two ticks
    #[arg(long, default_value = "1s", value_name = "TIME")]
    pub interval: Span,

    /// Observe only, instead of limiting as the scenario says
    #[arg(long)]
    pub observe: bool,

    /// Keep the recording in this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

/// `weir-lab bench loop`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_HELP)]
pub struct BenchLoopArgs {
    /// How many workloads; may be given several times [default: 10, 100, 1000, 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub workloads: Vec<u32>,

    /// How many of them, in percent, have memory on the device
    #[arg(long, default_value_t = 100, value_name = "P", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub users_percent: u32,

    /// Observe, with the balance of the device's node at each iteration, instead of limiting
    #[arg(long)]
    pub observe: bool,

    /// How many iterations are measured; medians are printed
    #[arg(long, default_value_t = 40, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=10_000))]
    pub iterations: u32,

    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

/// Measures.
///
/// # Errors
/// The files cannot be made, the loop fails over them, or there is no such scenario.
pub fn bench(args: &BenchArgs) -> Result<Exit> {
    match &args.what {
        Bench::Loop(args) => iteration::bench(args),
        Bench::Record(args) => recording::bench(args),
    }
}

const BENCH_HELP: &str = "\
The workloads are files in a temporary directory (in memory if /dev/shm is there): nothing on this
machine is limited. Reading a real cgroup costs more than reading such a file.

Example:
  weir-lab bench loop --workloads 1000";
