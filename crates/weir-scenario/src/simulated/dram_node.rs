// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DRAM nodes and disks of a simulated machine.

use serde::Deserialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    #[default]
    Cxl,
    /// A DRAM channel of the host.
    Dram,
}

/// In which order a memory controller serves its sources (`weir_dram::order`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryOrder {
    /// First come, first served.
    Fcfs,
    /// First ready, first come: what controllers do.
    #[default]
    FrFcfs,
    /// The DRFQS thesis's: the source with the lowest rank; ranks come from its scheduler.
    FrLvtf,
    /// weir's: rates, which the back end `drfq` brings; without it they are the workloads' weights.
    Rates,
}

/// In which order a CXL device serves its monitoring groups. It does not learn the core or the workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupOrder {
    /// First come, first served: what devices do.
    #[default]
    Fcfs,
    /// Each group has its rate, which the back end `drfq` brings; without it all have the same.
    Rates,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DramNode {
    /// Its order, unless the back end brings another.
    pub order: MemoryOrder,
    /// Entries of the read queue, and of the write queue.
    pub entries: u32,
    /// Where an address lies, by name (`docs/reference/dram.md`).
    pub mapping: String,
}

impl Default for DramNode {
    fn default() -> Self {
        DramNode {
            order: MemoryOrder::default(),
            entries: 64,
            mapping: "RoBaRaCoCh".into(),
        }
    }
}

/// A disk that moves blocks by itself, one at a time; others wait in line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Bytes per second while it moves a block, if the memory keeps up.
    pub bytes_per_sec: f64,
    /// Lines that it has out.
    #[serde(default = "lines_out")]
    pub lines_out: u32,
}

fn lines_out() -> u32 {
    64
}
