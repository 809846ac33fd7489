// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runs on a machine: workloads in TOML. Each CPU of a workload runs the same program on memory of its
//! own; workloads share no line.

use crate::machine::Machine;
use crate::machine::check;
use garde::Validate;
use serde::{Deserialize, Serialize};
use weir_description::{DescriptionError, from_to, in_range};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct Workloads {
    /// The workloads, in the order of their numbers.
    #[garde(dive)]
    pub workload: Vec<Workload>,
}

/// A program on some CPUs, a DMA agent, or both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    #[garde(skip)]
    pub name: String,
    #[serde(default)]
    #[garde(skip)]
    pub cpus: Vec<u16>,
    /// Ways of the last-level cache that its lines may take, as a bit mask. Left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(skip)]
    pub llc_ways: Option<u32>,
    /// When it starts, microseconds.
    #[serde(default)]
    #[garde(custom(from_to(0.0, 1e9)))]
    pub start_us: f64,
    /// When it ends, microseconds. Left out: with the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(self.start_us, 1e9)))]
    pub end_us: Option<f64>,
    /// Its memory. Each CPU has areas of its own, of this size.
    #[garde(dive)]
    pub area: Vec<MemoryArea>,
    /// What it does, one after the other, and again from the first.
    #[serde(default)]
    #[garde(dive)]
    pub phase: Vec<Phase>,
    /// Pages that change their place.
    #[serde(default)]
    #[garde(dive)]
    pub page_move: Vec<PageMove>,
    /// A device that writes into its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub dma: Option<DmaFigures>,
}

/// Memory that is accessed in one way. Its pages (4 KiB) lie in DRAM unless said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct MemoryArea {
    /// Its name, unique in the workload.
    #[garde(skip)]
    pub name: String,
    #[garde(custom(from_to(0.0625, 4.0 * 1024.0 * 1024.0)))]
    pub kib: f64,
    /// Part of its pages on the CXL device.
    #[serde(default)]
    #[garde(custom(from_to(0.0, 1.0)))]
    pub cxl_part: f64,
    /// Part of its pages on the other socket's DRAM.
    #[serde(default)]
    #[garde(custom(from_to(0.0, part_left(self.cxl_part))))]
    pub remote_part: f64,
    /// Number of the CXL device.
    #[serde(default)]
    #[garde(skip)]
    pub device: usize,
    /// Part of its DRAM pages that belong to another cluster of the socket.
    #[serde(default)]
    #[garde(custom(from_to(0.0, part_left(self.cxl_part + self.remote_part))))]
    pub other_cluster_part: f64,
}

/// What a program does for a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// How long, microseconds. Left out: until the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(0.001, 1e9)))]
    pub for_us: Option<f64>,
    /// Instructions a cycle without any wait for memory.
    #[serde(default = "default_ipc")]
    #[garde(custom(from_to(0.01, 16.0)))]
    pub ipc: f64,
    /// At most so many megabytes (10⁶) of lines a second and CPU; between them the program spins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(0.001, 1e7)))]
    pub mb_per_sec: Option<f64>,
    /// What it accesses, by weight.
    #[garde(dive)]
    pub mix: Vec<AccessMix>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct AccessMix {
    /// Part of the accesses, against the other mixes of the phase.
    #[serde(default = "one")]
    #[garde(custom(from_to(0.0001, 1e6)))]
    pub weight: f64,
    #[garde(skip)]
    pub area: String,
    #[garde(skip)]
    pub pattern: Pattern,
    #[serde(default)]
    #[garde(skip)]
    pub kind: AccessKind,
    #[serde(default)]
    #[garde(custom(from_to(0, 100_000)))]
    pub gap: u32,
    /// Loads or stores of one line, one after the other.
    #[serde(default = "one_each")]
    #[garde(custom(from_to(1, 64)))]
    pub per_line: u32,
    /// A load needs the result of the load so many before it, of this mix: 1 is a pointer chase, 4 are four
    /// of them at once. 0: none does.
    #[serde(default)]
    #[garde(custom(from_to(0, 16)))]
    pub chains: u32,
    /// Part of the loads of which that is true.
    #[serde(default = "one")]
    #[garde(custom(from_to(0.0, 1.0)))]
    pub dependence: f64,
    /// For [`Pattern::Random`]: the lines in a row that are accessed from each place on.
    #[serde(default = "one_each")]
    #[garde(custom(from_to(1, 100_000)))]
    pub run_lines: u32,
    /// Part of the area, from its beginning, that is hot.
    #[serde(default)]
    #[garde(custom(from_to(0.0, 1.0)))]
    pub hot_part: f64,
    /// Part of the accesses that go there.
    #[serde(default)]
    #[garde(custom(from_to(0.0, 1.0)))]
    pub hot_probability: f64,
}

/// Order of the lines that a mix accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One after the other, from the start again at the end.
    Stream,
    Random,
    /// All lines once in an order that no prefetcher sees, then again.
    Cycle,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessKind {
    #[default]
    Load,
    /// Stores, which read the line first.
    Store,
    /// A load, then a store to the same line.
    Update,
    /// Non-temporal stores of the whole line.
    NtStore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageHome {
    Dram,
    /// DRAM of the other socket.
    Remote,
    Cxl,
}

/// Pages that change their place at one moment. The copies cost nothing, and lines still in a cache stay
/// there under the old address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct PageMove {
    /// When, microseconds.
    #[garde(custom(from_to(0.0, 1e9)))]
    pub at_us: f64,
    #[garde(skip)]
    pub area: String,
    /// First page, as a part of the area.
    #[serde(default)]
    #[garde(custom(from_to(0.0, 1.0)))]
    pub from_part: f64,
    /// Page after the last one, as a part of the area.
    #[serde(default = "one")]
    #[garde(custom(from_to(self.from_part, 1.0)))]
    pub to_part: f64,
    #[garde(skip)]
    pub to: PageHome,
}

/// A device that writes lines one after the other into an area of the workload's first CPU (or its own).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct DmaFigures {
    #[garde(skip)]
    pub area: String,
    /// Megabytes (10⁶) a second.
    #[garde(custom(from_to(0.001, 1e7)))]
    pub mb_per_sec: f64,
    /// Lines on their way at most.
    #[garde(custom(from_to(1, 1024)))]
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

/// What is left of an area. A part that is too large is the one to be named, not the next one.
fn part_left(taken: f64) -> f64 {
    (1.0 - taken).max(0.0)
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
        in_range(self, origin)?;
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

    pub fn names(&self) -> Vec<String> {
        self.workload.iter().map(|w| w.name.clone()).collect()
    }
}
