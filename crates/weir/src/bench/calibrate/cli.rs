// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir calibrate`.

use crate::cli::CountersName;
use crate::cli::devices::{DeviceNode, checked};
use crate::cli::quantities::{Size, Span};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use weir_bench::Mix;
use weir_linux::Roots;

/// `weir calibrate`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct CalibrateArgs {
    /// The device, as `weir doctor` calls it: cxl0, or weir_cxl0 [default: the only one]. Or node:N: take
    /// this node for CXL memory, whatever the machine says; may be given several times
    #[arg(long, value_name = "NAME|node:N")]
    pub device: Vec<String>,

    /// The node to take memory of [default: the device's with most free memory]
    #[arg(long, value_name = "N")]
    pub node: Option<u32>,

    /// How many threads load the device; one more measures latency [default: a thread for each other core
    /// near it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,

    /// What the threads do
    #[arg(long, value_enum, default_value = "reads")]
    pub mix: MixName,

    /// Memory of the node to use, at most half of what is free [default: 64MiB a thread, at most a quarter of
    /// what is free]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub memory: Option<Size>,

    /// How long it may take
    #[arg(
        long,
        value_name = "TIME",
        default_value = "60s",
        allow_negative_numbers = true
    )]
    pub max_duration: Span,

    /// Where device traffic is read
    #[arg(long, value_enum, default_value = "auto")]
    pub counters: CountersName,

    /// Keep the result although others use the device meanwhile
    #[arg(long)]
    pub allow_other_traffic: bool,

    /// Keep the profile in this file, and not where `weir run --set-point knee` reads it
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl CalibrateArgs {
    /// Nodes that the operator declares to be CXL memory.
    ///
    /// # Errors
    /// One is no node, does not exist, or is given twice.
    pub fn nodes(&self, roots: &Roots) -> Result<Vec<u32>> {
        let nodes = self.device.iter().filter(|name| is_node(name));
        let nodes = nodes.map(|name| name.parse::<DeviceNode>());
        let nodes = nodes.collect::<Result<Vec<_>, String>>();
        checked(
            &nodes.map_err(|why| anyhow::anyhow!("--device: {why}"))?,
            roots,
        )
    }

    /// The node to use, where one is named: by `--node`, or as the only `--device node:N`.
    pub fn node(&self) -> Option<u32> {
        let mut nodes = self.device.iter().filter_map(|name| name.parse().ok());
        let only = nodes.next().filter(|_| nodes.next().is_none());
        self.node.or(only.map(|DeviceNode(node)| node))
    }

    /// The device that `--device` names.
    ///
    /// # Errors
    /// Several were.
    pub fn device_name(&self) -> Result<Option<&str>> {
        let names: Vec<&str> = self.device.iter().map(String::as_str).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !is_node(name)).collect();
        match names[..] {
            [] => Ok(None),
            [name] => Ok(Some(name)),
            _ => bail!(
                "--device: one device at a time, and {} are named",
                names.len()
            ),
        }
    }
}

fn is_node(name: &str) -> bool {
    name.starts_with("node:")
}

const HELP: &str = "\
Loads the device step by step up to its capacity, for up to --max-duration: other users of it are slow
meanwhile. The result is kept in /var/lib/weir/devices, for `weir run --limit --set-point knee*0.9`.

Examples:
  weir calibrate
  weir calibrate --device cxl1 --mix 2:1 --max-duration 3min
  weir calibrate --json --out /tmp/cxl0.toml | jq .knee

Exit codes: 0 the knee is found and kept, 1 it is not (the output says why), 2 trouble.";

/// What the loading threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MixName {
    /// Reads only
    Reads,
    /// Two lines read for each written
    #[value(name = "2:1")]
    TwoToOne,
    /// As many lines written as read
    #[value(name = "1:1")]
    OneToOne,
    /// Non-temporal stores, which read nothing
    NtWrites,
}

impl MixName {
    /// The mix of the loading threads.
    pub fn mix(self) -> Mix {
        match self {
            MixName::Reads => Mix::Reads,
            MixName::TwoToOne => Mix::TwoToOne,
            MixName::OneToOne => Mix::OneToOne,
            MixName::NtWrites => Mix::NtWrites,
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            MixName::Reads => "reads",
            MixName::TwoToOne => "2:1",
            MixName::OneToOne => "1:1",
            MixName::NtWrites => "nt-writes",
        }
    }
}
