// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir-lab server`.

use clap::Args;
use std::path::PathBuf;
use weir::lab::profile::ShownArgs;

/// `weir-lab server`.
#[derive(Debug, Args)]
#[command(after_help = SERVER_HELP)]
pub struct ServerArgs {
    /// A built-in scenario (below), or the path of a TOML file
    pub scenario: String,

    /// Seed of all random numbers
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = weir::lab::whole::<u64>)]
    pub seed: u64,

    /// How many seeds, from --seed on, one report each
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub seeds: u16,

    /// Write the truth into this new file, a line of JSON a seed
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,

    /// Run each seed again without CXL memory, with an idle device, and without each workload, for the truth
    #[arg(long, requires = "truth")]
    pub what_if: bool,

    /// Write the file of windows that `weir profile report` reads; {seed} in its name stands for the seed
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Write what it is compared with, for `weir profile report --idle`, likewise: the machine idle and
    /// without faults, then each workload alone on it
    #[arg(long, value_name = "FILE")]
    pub idle_out: Option<PathBuf>,

    /// What it shows.
    #[command(flatten)]
    pub shown: ShownArgs,

    /// Print each report as a line of JSON, with its scenario and seed
    #[arg(long)]
    pub json: bool,
}

/// What `weir-lab server --help` says at its end.
pub const SERVER_HELP: &str = "\
Scenarios:
  1-paths, 2-stalls, 3-local-beside-cxl, 4-cxl-beside-cxl, 5-partition, 6-locality, 6-locality-ways, 7-tiering,
  8-reverse: cases with known causes
  random, healthy, busy: a machine and workloads drawn by the seed
  CAUSE:STRENGTH: likewise, with one thing wrong. Causes: device-saturated, link-reads, link-writes, link-errors,
  device-slow, tor-held, dram-contended, llc-displaced, fill-buffers-held, store-bound, prefetch-late,
  prefetch-useless, remote-socket, chains. Strengths: weak, medium, strong
  two:STRENGTH: likewise, with two of them at once, each with a victim of its own
  A+B: two sockets, each with a device: A on socket 0, B on socket 1, without traffic between them

Examples:
  weir-lab server 8-reverse
  weir-lab server random --seeds 20 --truth truth.jsonl --json > reports.jsonl
  weir-lab server device-saturated:strong+healthy
  weir-lab server tor-held:strong --out held.windows --idle-out idle.windows
  weir profile report held.windows --idle idle.windows

Nothing on this machine is touched. The same scenario and seed give the same bytes. The truth's format: \
docs/reference/profile-truth.md.

Exit codes: 0 nothing found, 1 something found, 2 trouble.";
