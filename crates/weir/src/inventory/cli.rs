// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir doctor` and `weir topology`.

use crate::cli::WorkloadsName;
use crate::cli::devices::NodeArgs;
use clap::Args;
use std::path::PathBuf;

/// `weir doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub struct DoctorArgs {
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,

    /// What would count as one workload
    #[arg(long, value_enum)]
    pub workloads: Option<WorkloadsName>,

    /// Which nodes are the device's.
    #[command(flatten)]
    pub devices: NodeArgs,
    /// Examine with the settings of this file: do the names in it fit a workload?
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Does this pattern for `weir run --exclude` fit a workload? May be given several times
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
}

const DOCTOR_HELP: &str = "\
Examples:
  weir doctor               facts, reasons for what is missing, next moves
  weir doctor --json | jq '.lacking'
  weir doctor --config /etc/weir.toml           and whether the names in it fit a workload

Exit codes: 0 weir can limit here, 1 something needed for --limit is missing, 2 trouble.";

/// `weir topology`.
#[derive(Debug, Args)]
#[command(after_help = TOPOLOGY_HELP)]
pub struct TopologyArgs {
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,

    /// Which nodes are the device's.
    #[command(flatten)]
    pub devices: NodeArgs,
}

const TOPOLOGY_HELP: &str = "\
A link that is not known says why. Nothing is guessed. Each node says whether it is CXL memory, and by what
evidence.

Examples:
  weir topology
  weir topology --json | jq '.nodes[] | {id, verdict, devices}'

Exit codes: 0 done, 2 trouble.";
