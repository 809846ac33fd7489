// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir sim dram`.

use clap::Args;
use std::fmt::Display;
use std::str::FromStr;
use weir::lab::perhaps;
use weir::lab::whole;
use weir_dram::{AddressMapping, OrderKind, PagePolicy};

/// `weir sim dram`.
#[derive(Debug, Args)]
#[command(after_help = DRAM_HELP)]
pub struct DramArgs {
    /// The part: ddr4-3200, ddr5-4800, lpddr2-1066, or the path of a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "ddr4-3200")]
    pub profile: String,

    /// How addresses are laid over banks: RoBaRaCoCh, ChRaBaRoCo, MOP4CLXOR
    #[arg(long, value_name = "NAME", default_value = "RoBaRaCoCh", value_parser = mapping)]
    pub mapping: AddressMapping,

    /// Which waiting request goes first: fcfs, fr-fcfs, row-hit-first, fr-fcfs-cap, fr-lvtf, fq, atlas,
    /// par-bs, bliss, rates
    #[arg(long, value_name = "NAME", default_value = "fr-fcfs", value_parser = order)]
    pub order: OrderKind,

    /// Entries of the read queue, and of the write queue
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = entries)]
    pub queue: u32,

    /// Entries of a queue for each bank behind these two, as DRAMsim3 has them; --order is then theirs
    #[arg(long, value_name = "N", value_parser = entries, conflicts_with = "order")]
    pub bank_queue: Option<u32>,

    /// What becomes of a row after its use: open, closed, or a number of column commands after which it is
    /// closed
    #[arg(long, value_name = "NAME|N", default_value = "open", value_parser = page)]
    pub page: PagePolicy,

    /// Addresses: seq, rand, seq4, seqrand, rand64pair, or the path of a trace
    #[arg(long, value_name = "NAME|FILE", default_value = "seq")]
    pub trace: String,

    /// Part of the requests of a made pattern that are writes, 0 to 100
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub writes: Option<u32>,

    /// How many requests [default: 1000000, or those of the file]
    #[arg(long, value_name = "N", value_parser = requests)]
    pub requests: Option<u64>,

    /// Seed of a made pattern, not 0 [default: that of the peers' traces]
    #[arg(long, value_name = "N", value_parser = seed)]
    pub seed: Option<u64>,

    /// Print one JSON object (docs/reference/dram.md)
    #[arg(long)]
    pub json: bool,
}

const DRAM_HELP: &str = "\
Examples:
  weir sim dram                                        DDR4-3200, sequential reads
  weir sim dram --trace rand --writes 20 --queue 128
  weir sim dram --profile ddr5-4800 --mapping MOP4CLXOR --trace seqrand --json
  weir sim dram --profile my.toml --trace app.trace    a part and a trace of your own

A request is offered each clock, so that the figures are those of a saturated channel. Requests per second
are those that the model itself handles in a second of CPU time.

Exit codes: 0 done, 2 trouble.";

/// A name of a list, or what was perhaps meant.
fn named<T>(text: &str, what: &str, known: &[&str], found: Option<T>) -> Result<T, String> {
    found.ok_or_else(|| {
        let meant = perhaps(text, known);
        format!(
            "no {what} has this name{meant}: use one of {}",
            known.join(", ")
        )
    })
}

fn mapping(text: &str) -> Result<AddressMapping, String> {
    let known = AddressMapping::ALL.map(|(name, _)| name);
    named(text, "mapping", &known, AddressMapping::named(text))
}

fn order(text: &str) -> Result<OrderKind, String> {
    let known = OrderKind::ALL.map(|(name, _)| name);
    named(text, "order", &known, OrderKind::named(text))
}

fn within<T>(text: &str, least: T, most: T) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number: T = whole(text)?;
    if (&least..=&most).contains(&&number) {
        return Ok(number);
    }
    Err(format!("{least} to {most} is allowed"))
}

fn entries(text: &str) -> Result<u32, String> {
    within(text, 2, 4096)
}

fn percent(text: &str) -> Result<u32, String> {
    within(text, 0, 100)
}

fn requests(text: &str) -> Result<u64, String> {
    within(text, 1, 10_000_000_000)
}

fn seed(text: &str) -> Result<u64, String> {
    within(text, 1, u64::MAX)
}

fn page(text: &str) -> Result<PagePolicy, String> {
    match text {
        "open" => Ok(PagePolicy::Open),
        "closed" => Ok(PagePolicy::Closed),
        number => match within(number, 1, 65_536) {
            Ok(most) => Ok(PagePolicy::Capped(most)),
            Err(_) => Err("use open, closed, or a number of column commands, 1 to 65536".into()),
        },
    }
}
