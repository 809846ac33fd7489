// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir bench`.

use super::interference::names::{NodeRole, PairName, StreamOperation};
use crate::cli::quantities::Size;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `weir bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What is measured or compared.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// The measurements.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// What streams of memory and storage traffic do to each other, alone and together
    Interference(Box<BenchInterferenceArgs>),
    /// Two results of interference: cells that differ, classes that changed, machines' differences
    Compare(CompareArgs),
}

/// How I/Os of an SSD stream reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IoPath {
    /// Past the page cache
    Direct,
    /// Through the page cache
    Buffered,
    /// Each operation in both ways
    Both,
}

impl IoPath {
    /// Whether direct, for each way.
    pub fn ways(self) -> &'static [bool] {
        match self {
            IoPath::Direct => &[true],
            IoPath::Buffered => &[false],
            IoPath::Both => &[true, false],
        }
    }
}

/// `weir bench interference`.
#[derive(Debug, Args)]
#[command(after_help = INTERFERENCE_HELP)]
pub struct BenchInterferenceArgs {
    /// End within five minutes: one number of threads, and as many repetitions as there is time for
    #[arg(long)]
    pub quick: bool,

    /// Measure these two streams and no others: mmem:ld+cxl:ntst, mmem:st:4+ssd:randread:1 with numbers of
    /// threads. May be given several times
    #[arg(long, value_name = "TARGET:OP[:N]+TARGET:OP[:N]", conflicts_with_all = ["ops", "victim_run", "background_run"])]
    pub pair: Vec<PairName>,

    /// Operations of the matrix, with commas. Memory: ld, ld-chase, st, st-clwb, ntst, movdir64b,
    /// movdir64b-from, copy, rep-movsb, ld-flush. Storage: randread, randwrite, read, write
    #[arg(
        long,
        value_name = "OP,…",
        value_delimiter = ',',
        default_value = "ld,st,ntst,randread,randwrite"
    )]
    pub ops: Vec<StreamOperation>,

    /// Threads of each stream at most [default: half of the cores, less one that measures latency]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,

    /// Put threads on both siblings of a core too
    #[arg(long)]
    pub siblings: bool,

    /// Bytes of one access to memory: 8, 16, 32 or 64 [default: the widest of the CPU]
    #[arg(long, value_name = "N", value_parser = width)]
    pub width: Option<u32>,

    /// How long one measurement lasts, in seconds [default: 1; with --quick what there is time for]
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub seconds: Option<f64>,

    /// Repetitions of a pair at most; they end when the interval is ± 2 %
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=200))]
    pub repeats: u32,

    /// Seed of the order of measurements
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::cli::numbers::whole::<u64>)]
    pub seed: u64,

    /// The node of a target: mmem=0, cxl=2 [default: the node with CPUs, and a node of CXL memory that
    /// `weir topology` shows]
    #[arg(long, value_name = "TARGET=N")]
    pub node: Vec<NodeRole>,

    /// Memory of each thread [default: 64 MiB, or what makes all four times the last-level cache]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub memory: Option<Size>,

    /// Where the SSD's file is made (a directory, or the name of a file that is not there), or a block
    /// device, which is only read [default: a directory on a real disk]
    #[arg(long, value_name = "PATH")]
    pub ssd: Option<PathBuf>,

    /// Write to this block device, which --ssd names too: ALL ITS DATA IS LOST. Not if it is in use
    #[arg(long, value_name = "DEVICE", requires = "ssd")]
    pub write_device: Option<PathBuf>,

    /// Size of the SSD's file
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1GiB",
        allow_negative_numbers = true
    )]
    pub ssd_size: Size,

    /// Bytes of one I/O
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "4KiB",
        allow_negative_numbers = true
    )]
    pub block: Size,

    /// I/Os in flight for each thread
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub depth: u32,

    /// How I/Os reach the SSD
    #[arg(long, value_enum, default_value = "direct")]
    pub ssd_io: IoPath,

    /// The node of the I/O buffers [default: that of mmem]
    #[arg(long, value_name = "N", value_parser = crate::cli::numbers::whole::<u32>)]
    pub io_node: Option<u32>,

    /// A command as the victim, judged by the figure that it prints (a rate: more is better)
    #[arg(long, value_name = "COMMAND", requires = "figure")]
    pub victim_run: Option<String>,

    /// Where the figure stands in the output: the last match of this expression, or its first group
    #[arg(long, value_name = "REGEX", requires = "victim_run")]
    pub figure: Option<String>,

    /// A command as the background
    #[arg(long, value_name = "COMMAND")]
    pub background_run: Option<String>,

    /// Measure the machine by mbw, stress-ng and fio too, where they are installed, and print their figures
    /// beside weir's
    #[arg(long)]
    pub cross_check: bool,

    /// Measure although other programs load the machine
    #[arg(long)]
    pub force: bool,

    /// Print the result as JSON (docs/reference/results.md)
    #[arg(long)]
    pub json: bool,

    /// Write the result and its page into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

fn width(text: &str) -> Result<u32, String> {
    let found = text.parse().ok().filter(|n| [8, 16, 32, 64].contains(n));
    found.ok_or_else(|| "it is 8, 16, 32 or 64".into())
}

fn seconds(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|n| (0.01..=3600.0).contains(n));
    found.ok_or_else(|| "it is 0.01 to 3600".into())
}

const INTERFERENCE_HELP: &str = "\
Examples:
  weir bench interference --quick --out out/quick      a page within five minutes
  weir bench interference --pair mmem:ld+cxl:ntst --json
  weir bench interference --ssd /var/tmp --ops ld,ntst,randread --ssd-io both
  weir bench interference --node cxl=1 --width 32
  weir bench interference --victim-run 'redis-benchmark -t get -q' --figure 'GET: ([0-9.]+)'

Each pair is measured alone and together, in random order, until the interval is narrow. What this machine
lacks is named in the result. The SSD's file has no name and is gone when weir ends, however it ends.

Exit codes: 0 done, 2 trouble, or stopped before all was measured.";

/// `weir bench compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_HELP)]
pub struct CompareArgs {
    /// A result (result.json), or its directory
    #[arg(value_name = "A")]
    pub a: PathBuf,

    /// Another
    #[arg(value_name = "B")]
    pub b: PathBuf,

    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,

    /// Write the comparison and its page into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const COMPARE_HELP: &str = "\
Example:
  weir bench compare out/monday out/tuesday

Exit codes: 0 done, 2 trouble.";
