// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir sim interference`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `weir sim interference`.
#[derive(Debug, Args)]
#[command(after_help = INTERFERENCE_HELP)]
pub struct InterferenceArgs {
    /// Name of a machine that is built in (--list), or path of a machine file
    #[arg(long, value_name = "NAME|FILE", default_value = "paper-b")]
    pub machine: String,

    /// Print the machines that are built in
    #[arg(long, conflicts_with_all = ["print", "pair", "lever", "out", "paper", "sensitivity", "levers"])]
    pub list: bool,

    /// Print the machine as TOML, to be changed and used from a file
    #[arg(long, conflicts_with_all = ["pair", "lever", "json", "out", "paper", "sensitivity", "levers"])]
    pub print: bool,

    /// Two streams, TARGET:OP[:THREADS[:direct|:buffered]] each, as mmem:ld:16+cxl:ntst:16. Without
    /// THREADS all of 1, 2, 4 … half of the cores are tried, and the greatest effect is the cell's. May be
    /// repeated [default: the 15 pairs of the paper, without THREADS]
    #[arg(long, value_name = "PAIR")]
    pub pair: Vec<String>,

    /// What regulates the background of each cell: quota, staggered, mba, mba-linear, mba-steps, mba-floor,
    /// smba, frequency, cat; or what the machine could have: own-pool, device-regulator-before,
    /// device-regulator-after. May be repeated; units below
    #[arg(long, value_name = "NAME=VALUE")]
    pub lever: Vec<String>,

    /// What computes: equations, or lines one by one
    #[arg(long, value_enum, default_value_t = FormName::Solver)]
    pub form: FormName,

    /// Seed of the lines one by one
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = weir::lab::whole::<u64>)]
    pub seed: u64,

    /// The paper's figures beside the model's, with bounds met or missed
    #[arg(long, conflicts_with_all = ["pair", "lever", "sensitivity", "levers"])]
    pub paper: bool,

    /// How the figures depend on trackers, buffers, latency, threads and a core's own time
    #[arg(long, conflicts_with_all = ["pair", "lever", "levers"])]
    pub sensitivity: bool,

    /// What each lever leaves of victim and background: one curve a lever
    #[arg(long, conflicts_with_all = ["pair", "lever"])]
    pub levers: bool,

    /// Exit with 1 if a bound on one of the paper's figures is missed
    #[arg(long, requires = "paper")]
    pub check: bool,

    /// Print JSON: the document of `weir bench interference` with world `sim`, or the table that was asked
    /// for
    #[arg(long)]
    pub json: bool,

    /// Write page, picture and figures into this directory: all of the above
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormName {
    /// Equations of the steady state (default)
    Solver,
    /// Each line at a time of its own, from a seed
    Events,
}

const INTERFERENCE_HELP: &str = "\
Examples:
  weir sim interference                                   the whole matrix: 15 pairs, 30 cells
  weir sim interference --pair mmem:ld:16+cxl:ntst:16     one pair, both sides
  weir sim interference --pair ssd:randwrite+cxl:ntst     over all thread counts
  weir sim interference --pair mmem:ld:16+cxl:ntst:16 --lever quota=0.0625 --json
  weir sim interference --paper                           the paper's figures beside the model's
  weir sim interference --levers                          victim kept against background kept
  weir sim interference --print > my.toml                 a machine to change (docs/reference/machine-file.md)
  weir sim interference --machine my.toml --out out/sim   a page: out/sim/index.html

Targets: mmem (DRAM), cxl, ssd. Ops of memory: ld, ld-chase, st, st-clwb, ntst, movdir64b (into the target),
movdir64b-from (out of it), copy, rep-movsb, ld-flush. Ops of the SSD: randread, randwrite, read, write.

Values of levers: quota part of the time, 0 to 1; staggered threads at a time; mba 0 to 1 by the machine's law,
mba-linear, mba-steps, mba-floor by this law; smba bytes per second; frequency GHz; cat part of the ways;
own-pool trackers; device-regulator-before and device-regulator-after bytes per second.

Nothing on this machine is touched. Exit codes: 0 done, 1 a bound was missed (with --check), 2 trouble.";
