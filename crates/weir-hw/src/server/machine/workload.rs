// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runs on a machine: workloads in TOML. Each CPU of a workload runs the same program on memory of its
//! own; workloads share no line.

use crate::description::DescriptionError;
use crate::server::machine::Machine;
use crate::server::machine::check;
use serde::{Deserialize, Serialize};

/// All workloads of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workloads {
    /// In the order of their numbers.
    pub workload: Vec<Workload>,
}

/// A program on some CPUs, a DMA agent, or both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name, unique.
    pub name: String,
    /// CPUs that run it.
    #[serde(default)]
    pub cpus: Vec<u16>,
    /// Ways of the last-level cache that its lines may take, as a bit mask. Left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llc_ways: Option<u32>,
    /// When it starts, microseconds.
    #[serde(default)]
    pub start_us: f64,
    /// When it ends, microseconds. Left out: with the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_us: Option<f64>,
    /// Its memory. Each CPU has areas of its own, of this size.
    pub area: Vec<MemoryArea>,
    /// What it does, one after the other, and again from the first.
    #[serde(default)]
    pub phase: Vec<Phase>,
    /// Pages that change their place.
    #[serde(default)]
    pub page_move: Vec<PageMove>,
    /// A device that writes into its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dma: Option<DmaFigures>,
}

/// Memory that is accessed in one way. Its pages (4 KiB) lie in DRAM unless said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryArea {
    /// Its name, unique in the workload.
    pub name: String,
    /// Size, KiB.
    pub kib: f64,
    /// Part of its pages on the CXL device.
    #[serde(default)]
    pub cxl_part: f64,
    /// Part of its pages on the other socket's DRAM.
    #[serde(default)]
    pub remote_part: f64,
    /// Number of the CXL device.
    #[serde(default)]
    pub device: usize,
    /// Part of its DRAM pages that belong to another cluster of the socket.
    #[serde(default)]
    pub other_cluster_part: f64,
}

/// What a program does for a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// How long, microseconds. Left out: until the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_us: Option<f64>,
    /// Instructions a cycle without any wait for memory.
    #[serde(default = "default_ipc")]
    pub ipc: f64,
    /// At most so many megabytes (10⁶) of lines a second and CPU; between them the program spins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mb_per_sec: Option<f64>,
    /// What it accesses, by weight.
    pub mix: Vec<AccessMix>,
}

/// Accesses of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessMix {
    /// Part of the accesses, against the other mixes of the phase.
    #[serde(default = "one")]
    pub weight: f64,
    /// Name of the area.
    pub area: String,
    /// Order of the lines.
    pub pattern: Pattern,
    /// What is done with each.
    #[serde(default)]
    pub kind: AccessKind,
    /// Instructions between two accesses.
    #[serde(default)]
    pub gap: u32,
    /// Loads or stores of one line, one after the other.
    #[serde(default = "one_each")]
    pub per_line: u32,
    /// A load needs the result of the load so many before it, of this mix: 1 is a pointer chase, 4 are four
    /// of them at once. 0: none does.
    #[serde(default)]
    pub chains: u32,
    /// Part of the loads of which that is true.
    #[serde(default = "one")]
    pub dependence: f64,
    /// Of [`Pattern::Random`]: lines in a row from each place on.
    #[serde(default = "one_each")]
    pub run_lines: u32,
    /// Part of the area, from its beginning, that is hot.
    #[serde(default)]
    pub hot_part: f64,
    /// Part of the accesses that go there.
    #[serde(default)]
    pub hot_probability: f64,
}

/// Order of the lines that a mix accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One after the other, from the start again at the end.
    Stream,
    /// Any line, equally likely.
    Random,
    /// All lines once in an order that no prefetcher sees, then again.
    Cycle,
}

/// What is done with a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessKind {
    /// Loads.
    #[default]
    Load,
    /// Stores, which read the line first.
    Store,
    /// A load, then a store to the same line.
    Update,
    /// Non-temporal stores of the whole line.
    NtStore,
}

/// Where pages move to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageHome {
    /// DRAM of the socket.
    Dram,
    /// DRAM of the other socket.
    Remote,
    /// The area's CXL device.
    Cxl,
}

/// Pages that change their place at one moment. The copies cost nothing, and lines still in a cache stay
/// there under the old address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageMove {
    /// When, microseconds.
    pub at_us: f64,
    /// Name of the area.
    pub area: String,
    /// First page, as a part of the area.
    #[serde(default)]
    pub from_part: f64,
    /// Page after the last one, as a part of the area.
    #[serde(default = "one")]
    pub to_part: f64,
    /// Where they go.
    pub to: PageHome,
}

/// A device that writes lines one after the other into an area of the workload's first CPU (or its own).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DmaFigures {
    /// Name of the area.
    pub area: String,
    /// Megabytes (10⁶) a second.
    pub mb_per_sec: f64,
    /// Lines on their way at most.
    pub outstanding: u32,
}

fn default_ipc() -> f64 {
    4.0
}

fn one() -> f64 {
    1.0
}

fn one_each() -> u32 {
    1
}

impl Workloads {
    /// Reads workloads from TOML and checks them against a machine. `origin` names the text in errors.
    ///
    /// # Errors
    /// The text is no TOML, a key is unknown or missing, a figure is out of range, or a CPU is not there or
    /// taken twice.
    pub fn parse(
        text: &str,
        machine: &Machine,
        origin: &str,
    ) -> Result<Workloads, DescriptionError> {
        let workloads: Workloads =
            toml::from_str(text).map_err(|error| DescriptionError::syntax(origin, &error))?;
        workloads.check(machine, origin)?;
        Ok(workloads)
    }

    /// Checks all ranges, and that the machine has what the workloads need.
    ///
    /// # Errors
    /// Names the key, its value and what is allowed.
    pub fn check(&self, machine: &Machine, origin: &str) -> Result<(), DescriptionError> {
        check::workloads(self, machine, origin)
    }

    /// Number of the workload with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn number(&self, name: &str) -> Result<usize, DescriptionError> {
        let found = self.workload.iter().position(|w| w.name == name);
        found.ok_or_else(|| DescriptionError::Unknown {
            kind: "workload",
            name: name.to_owned(),
            names: self.names().join(", "),
        })
    }

    /// Names in the order of their numbers.
    pub fn names(&self) -> Vec<String> {
        self.workload.iter().map(|w| w.name.clone()).collect()
    }
}
