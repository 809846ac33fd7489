// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir sim type2`.

use clap::Args;
use std::path::PathBuf;
use weir_type2::engines::lz4::Positions;
use weir_type2::protocol::Fault;
use weir_type2::{Bias, CacheState, DeviceOp, HostOp, LineHome};

/// `weir sim type2`.
#[derive(Debug, Args)]
#[command(after_help = TYPE2_HELP)]
pub struct Type2Args {
    /// Follow one access: of the accelerator NC-P, NC-rd, NC-wr, CO-rd, CO-wr, CS-rd; of a core ld, nt-ld,
    /// st, nt-st, flush, demote
    #[arg(long, value_name = "OP", value_parser = operation)]
    pub op: Option<Operation>,

    /// Memory that the line lies in: host or device [default: host for the accelerator, device for a core]
    #[arg(long, value_name = "NAME", requires = "op", value_parser = memory)]
    pub memory: Option<LineHome>,

    /// Mode of the region of device memory: host or device
    #[arg(long, value_name = "NAME", requires = "op", default_value = "host", value_parser = bias)]
    pub bias: Bias,

    /// State of the line in HMC or DMC before: I, S, E, M
    #[arg(long, value_name = "STATE", requires = "op", default_value = "I", value_parser = state)]
    pub device_cache: CacheState,

    /// State of the line in the LLC before: I, S, E, M
    #[arg(long, value_name = "STATE", requires = "op", default_value = "I", value_parser = state)]
    pub llc: CacheState,

    /// Accesses of the burst that gives the bandwidth
    #[arg(long, value_name = "N", requires = "op", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub count: u32,

    /// Explore every interleaving of the two agents, and print the number of states or a shortest way to what
    /// is broken
    #[arg(long, conflicts_with_all = ["op", "out", "profile"])]
    pub explore: bool,

    /// Memory of each explored line, with commas: host, device [default: each alone]
    #[arg(long, value_name = "NAME,…", requires = "explore", value_delimiter = ',', value_parser = memory)]
    pub lines: Vec<LineHome>,

    /// Break a rule of the explored protocol; `list` says which there are
    #[arg(long, value_name = "NAME", requires = "explore", value_parser = fault)]
    pub fault: Option<Break>,

    /// Read stages from this file instead of the built-in agilex7-type2
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,

    /// Print all figures as one JSON object (docs/reference/type2.md)
    #[arg(long)]
    pub json: bool,

    /// Write a page with all figures into this directory: index.html and figures.json; with --engine, the
    /// engine's bytes into this file
    #[arg(long, value_name = "PATH", conflicts_with = "op")]
    pub out: Option<PathBuf>,

    /// Run an engine of the accelerator on a file, page by page: its bytes go to stdout or --out, its clocks
    /// to stderr, or to stdout with --out
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["op", "explore", "profile"])]
    pub engine: Option<Engine>,

    /// Positions that lz4-encode looks up in a clock: 1, 2, 4 or 8
    #[arg(long, value_name = "N", requires = "engine", default_value = "4", value_parser = positions)]
    pub positions: Positions,

    /// What the engine reads; compare takes two
    #[arg(value_name = "FILE", requires = "engine")]
    pub files: Vec<PathBuf>,
}

const TYPE2_HELP: &str = "\
Examples:
  weir sim type2                                    the paper's tables beside the model's
  weir sim type2 --out out/type2                    the same as a page: out/type2/index.html
  weir sim type2 --op NC-wr --llc S                 one access, stage by stage
  weir sim type2 --op CO-wr --memory device --device-cache S --bias device --count 512
  weir sim type2 --op ld --device-cache M           a core reads what the DMC has modified
  weir sim type2 --explore                          every interleaving over one line
  weir sim type2 --explore --lines host,device      over two
  weir sim type2 --explore --fault snoop-passes-go  a message chart of what then goes wrong
  weir sim type2 --engine xxh64 FILE | xxd          eight bytes a page: its hash
  weir sim type2 --engine compare A B --out RESULT --json
  weir sim type2 --engine lz4-encode FILE | lz4 -d  a block; of more than one page a frame, as lz4 reads it

Each figure says whether it was fitted or is predicted. Nothing on this machine is touched.

Exit codes: 0 done, 1 the explored protocol breaks a rule, 2 trouble.";

/// An engine of the accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// XXH64, seed 0.
    Xxh64,
    /// First differing byte, and order.
    Compare,
    /// Pages to LZ4 blocks.
    Lz4Encode,
    /// LZ4 blocks to pages.
    Lz4Decode,
}

impl Engine {
    /// The engine as the command line spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Xxh64 => "xxh64",
            Engine::Compare => "compare",
            Engine::Lz4Encode => "lz4-encode",
            Engine::Lz4Decode => "lz4-decode",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Device(DeviceOp),
    Host(HostOp),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// Nothing: list what can be broken.
    List,
    Rule(Fault),
}

fn named<T: Copy>(
    what: &str,
    text: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, String> {
    let found = all
        .iter()
        .find(|one| name(**one).eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        format!("no {what} is called so: use one of {}", names.join(", "))
    })
}

fn operation(text: &str) -> Result<Operation, String> {
    let device = DeviceOp::ALL.iter().map(|op| Operation::Device(*op));
    let host = HostOp::ALL.iter().map(|op| Operation::Host(*op));
    let all: Vec<Operation> = device.chain(host).collect();
    named("operation", text, &all, |op| match op {
        Operation::Device(op) => op.name(),
        Operation::Host(op) => op.name(),
    })
}

fn memory(text: &str) -> Result<LineHome, String> {
    named("memory", text, LineHome::ALL, |home| match home {
        LineHome::HostMemory => "host",
        LineHome::DeviceMemory => "device",
    })
}

fn bias(text: &str) -> Result<Bias, String> {
    named("mode", text, Bias::ALL, Bias::name)
}

fn state(text: &str) -> Result<CacheState, String> {
    named("state", text, CacheState::ALL, CacheState::name)
}

fn positions(text: &str) -> Result<Positions, String> {
    match text {
        "1" => Ok(Positions::One),
        "2" => Ok(Positions::Two),
        "4" => Ok(Positions::Four),
        "8" => Ok(Positions::Eight),
        _ => Err("the encoder is built for 1, 2, 4 or 8".into()),
    }
}

fn fault(text: &str) -> Result<Break, String> {
    if text == "list" {
        return Ok(Break::List);
    }
    named("rule", text, Fault::ALL, Fault::name).map(Break::Rule)
}
