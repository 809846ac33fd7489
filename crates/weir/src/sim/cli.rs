// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir sim`.

use crate::cli::PolicyName;
use crate::cli::lab::LabWords;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `weir sim`.
#[derive(Debug, Args)]
#[command(after_help = SIM_HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct SimArgs {
    /// A model by itself, instead of a scenario
    #[command(subcommand)]
    pub command: Option<SimCommand>,

    /// Name of a scenario that is built in (--list), or path of a TOML file
    #[arg(value_name = "SCENARIO", required_unless_present = "list")]
    pub scenario: Option<String>,

    /// Print the names of the scenarios that are built in, and what they show
    #[arg(long, conflicts_with = "scenario")]
    pub list: bool,

    /// Print the scenario as TOML, to be changed and run from a file
    #[arg(long, conflicts_with_all = ["list", "policy", "backend", "seed", "seeds", "check", "json", "out", "top", "record", "observe"])]
    pub print: bool,

    /// Show weir at work on the simulated host, on the screen of `weir top`
    #[arg(long, conflicts_with_all = ["list", "seeds", "check", "json", "out"])]
    pub top: bool,

    /// Keep what weir sees and does in this file, as `weir record` does: a new one, or a recording that gets
    /// one session more for each run of weir
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub record: Option<PathBuf>,

    /// With --record: weir observes and sets no limit, so that the recording shows the overload
    #[arg(long, requires = "record", conflicts_with_all = ["top", "check", "json", "out"])]
    pub observe: bool,

    /// How weir splits the set-point; several with commas [default: the scenario's]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub policy: Vec<PolicyName>,

    /// What controls, one run each: none, cpu-max (weir), sched-ext (weir with its scheduler for limited
    /// tasks), sched-ext-served (the same where the kernel serves limited tasks better), sched-ext-full
    /// (weir's scheduler for all ordinary tasks), sched-ext-polled and sched-ext-full-polled (the same where
    /// weir reads the counters for its scheduler), or all but sched-ext. drfq shares out CPUs, DRAM and CXL
    /// together; drfq-source and drfq-target are its scheduler and its rates of memory controllers alone, and
    /// thesis-drfqs is the scheduler of the DRFQS thesis. In a build with the thesis's
    /// controllers also thesis-scx, thesis-scx-vtime, thesis-scx-throttle, thesis-cgroups,
    /// thesis-cgroups-simple, thesis-monitor (watches only)
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "none,cpu-max"
    )]
    pub backend: Vec<String>,

    /// Seed of all random numbers
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = crate::cli::numbers::whole::<u64>)]
    pub seed: u64,

    /// How many seeds, from --seed on: means and ranges are shown
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub seeds: u16,

    /// Exit with 1 if a bound that the scenario states is missed, with 2 if there is nothing to check
    #[arg(long)]
    pub check: bool,

    /// Print all figures as one JSON object (docs/reference/results.md)
    #[arg(long)]
    pub json: bool,

    /// Write report, picture, figures and series into this directory, as live runs do
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Models that run by themselves, in the program for researchers.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// A DRAM channel at command level: bandwidth, row hits and latency of a trace (weir-lab dram)
    #[command(disable_help_flag = true)]
    Dram(LabWords),

    /// What streams of memory and storage traffic do to each other: DRAM, CXL memory, SSD (weir-lab
    /// interference)
    #[command(disable_help_flag = true)]
    Interference(LabWords),

    /// A CXL Type-2 device: its coherence, checked, and its times beside the paper's (weir-lab type2)
    #[command(disable_help_flag = true)]
    Type2(LabWords),
}

const SIM_HELP: &str = "\
Examples:
  weir sim --list                             what is built in
  weir sim thesis-limit                       without control, and with weir
  weir sim thesis-limit --top                 weir at work on the screen; ? shows the keys
  weir sim thesis-limit --record demo.weir    then weir replay, export, explain --recording
  weir sim step --record o.weir --observe     an overload, to try weir explain on
  weir sim thesis-limit --backend all         both of weir's back ends
  weir sim thesis-limit --policy max-min,drf --seeds 5
  weir sim thesis-limit --print > my.toml     a scenario to change
  weir sim my.toml --json | jq '.runs[].bandwidth'
  weir sim thesis-limit --out out/sim         a page to read: out/sim/index.html
  weir sim interference                       which stream takes bandwidth from which
  weir sim dram --trace rand --writes 20      a DRAM channel by itself
  weir sim type2                              a Type-2 device, without a scenario

Nothing on this machine is touched. The same scenario and seed give the same figures, bit for bit.

Exit codes: 0 done, 1 a bound of the scenario was missed (with --check), 2 trouble,
or nothing to check.";
