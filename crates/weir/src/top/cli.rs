// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir top`.

use crate::cli::WorkloadsName;
use crate::cli::devices::NodeArgs;
use clap::Args;
use std::path::PathBuf;

/// `weir top`.
#[derive(Debug, Args)]
#[command(after_help = TOP_COMMAND_HELP)]
pub struct TopArgs {
    /// Print one table and end; this is also what happens when stdout is not a terminal
    #[arg(long)]
    pub once: bool,

    /// Print one snapshot as JSON and end
    #[arg(long)]
    pub json: bool,

    /// Show this snapshot file instead of the running daemon's
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,

    /// What counts as one workload, when no daemon is running
    #[arg(long, value_enum)]
    pub workloads: Option<WorkloadsName>,

    /// Which nodes are the device's, when no daemon is running.
    #[command(flatten)]
    pub devices: NodeArgs,
}

const TOP_COMMAND_HELP: &str = "\
Examples:
  weir top                  live; q quits, ? shows the keys
  weir top --once           one table on stdout
  weir top --json | jq '.plan.workloads[].bandwidth'

Shows what a running `weir run` publishes. Without one it measures by itself and changes nothing.";
