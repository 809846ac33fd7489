// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir verify-hardware`.

use crate::cli::devices::NodeArgs;
use crate::cli::quantities::Span;
use clap::Args;
use std::path::PathBuf;

/// `weir verify-hardware`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct VerifyHardwareArgs {
    /// Also load the machine and change things of weir's own, without asking
    #[arg(long, conflicts_with = "no_load")]
    pub yes: bool,

    /// Only read; ask nothing
    #[arg(long)]
    pub no_load: bool,

    /// How long it may take: what then was not begun is not measured
    #[arg(
        long,
        value_name = "TIME",
        default_value = "3min",
        allow_negative_numbers = true
    )]
    pub max_duration: Span,

    /// Measure only this; may be given several times. The names are in the table that is printed
    #[arg(long, value_name = "NAME")]
    pub check: Vec<String>,

    /// Which nodes are the device's.
    #[command(flatten)]
    pub devices: NodeArgs,

    /// The file that is written. One that is there is not replaced
    #[arg(long, value_name = "FILE", default_value = "weir-hardware.json")]
    pub out: PathBuf,

    /// Keep names of cgroups and of this host, and serial numbers, in the file
    #[arg(long)]
    pub with_names: bool,

    /// Print what is in the file, and no table
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Measures on this machine what weir promises, and writes one file: the machine, each figure beside
its promise, met or missed, and a reason for each that was not measured. Without --yes it asks
before it loads anything; where nothing can be asked it only reads. Limits of workloads are never
touched.

Examples:
  weir verify-hardware --no-load                    reads only
  weir verify-hardware --yes --max-duration 5min
  weir verify-hardware --yes --check known-lines --out again.json

Exit codes: 0 no promise is missed, 1 one is, 2 trouble.";
