// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir events`.

use crate::cli::devices::NodeArgs;
use clap::Args;

/// `weir events`.
#[derive(Debug, Args)]
#[command(after_help = EVENTS_HELP)]
pub struct EventsArgs {
    /// Only this family, in full; the names are in the list
    #[arg(long, value_name = "NAME")]
    pub family: Option<String>,

    /// Count all of this machine's CXL traffic while a command runs: weir events --count -- sleep 1
    #[arg(long, requires = "command", conflicts_with = "family")]
    pub count: bool,

    /// The command to count for
    #[arg(last = true, requires = "count", value_name = "COMMAND")]
    pub command: Vec<String>,

    /// Which nodes are the device's.
    #[command(flatten)]
    pub devices: NodeArgs,

    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

const EVENTS_HELP: &str = "\
Each event has the PMUs of this machine that can count it, or the reason why none can.

Examples:
  weir events                              families, and the events this machine has
  weir events --family granite-rapids      all of one family, on any machine
  weir events --count -- sleep 1           bytes of each device in a second
  weir events --json | jq '.families[].events[].perf'

Exit codes: 0 done, 1 the command failed (with --count), 2 trouble.";
