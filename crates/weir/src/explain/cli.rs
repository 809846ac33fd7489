// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir explain`.

use crate::recordings::moment::Moment;
use clap::Args;
use std::path::PathBuf;

/// `weir explain`.
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_HELP)]
pub struct ExplainArgs {
    /// A workload's name, or a part of it; all limited workloads if left out
    pub workload: Option<String>,

    /// How many of the last changes to show
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = crate::cli::numbers::whole::<usize>)]
    pub changes: usize,

    /// Explain the last session of this recording instead of the running weir
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,

    /// This session of it, and not the last (see `weir record FILE --info`)
    #[arg(long, value_name = "N", requires = "recording")]
    pub session: Option<i64>,

    /// The state at this time: 2h after the session began, or a time with its zone, such as
    /// 2026-11-25T22:00+01:00 [default: at its end]
    #[arg(long, value_name = "TIME", requires = "recording")]
    pub at: Option<Moment>,

    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

const EXPLAIN_HELP: &str = "\
Examples:
  weir explain              all limited workloads, and the last changes
  weir explain fio          workloads with fio in their name, limited or not
  weir explain ''           all workloads
  weir explain --recording today.weir --at 30s";
