// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What belongs to what, from a NUMA node to the wires (kernel,
//! `Documentation/ABI/testing/sysfs-bus-cxl` and `…/sysfs-bus-dax`):
//!
//! ```text
//! node ─┬─ dax device ─ region ─┬─ window (root decoder) ─ host bridges
//!       │                       └─ endpoint decoders ─ memory device ─ root port ─ host bridge
//!       └─ memory blocks: addresses in regions and windows    └─ PMU, access counters
//! ```
//!
//! Modules: [`read`] and [`dax`] (what sysfs says), [`places`] (addresses of nodes), [`evidence`] (CPUs,
//! accelerators, drivers, firmware), [`classification`] (which nodes are CXL memory), [`nodes`] and
//! [`devices`] (links), [`advice`] and [`blocks`] (the next moves).
//!
//! A link that is not known has its reason; nothing is guessed from sizes or from numbers that happen to be
//! equal. For people's commands, not for the loop. Every path hangs from sysfs: a link that leads out
//! of it is a problem, and so is whatever is too long, no text, or in a circle.

mod advice;
mod blocks;
mod classification;
mod dax;
mod devices;
mod evidence;
mod nodes;
mod places;
mod read;
mod sysfs;

pub(crate) use advice::{UnusedMemory, unused_memory};
pub use classification::{MemoryKind, NodeVerdict};
pub(crate) use nodes::{Classified, classified};
pub(crate) use places::node_of;
pub(crate) use sysfs::natural;

use serde::Serialize;
use weir_core::Missing;

/// A value, or why it is not known.
pub type Known<T> = Result<T, Missing>;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Fabric {
    /// Address windows that firmware gave to CXL, in the order of their names.
    pub windows: Vec<Window>,
    /// Regions: what of a window is memory, and of which devices.
    pub regions: Vec<Region>,
    pub devices: Vec<CxlMemory>,
    /// Dax devices that are made of no region.
    pub dax: Vec<Dax>,
    /// Nodes with memory and without CPUs, CXL memory or not.
    pub nodes: Vec<CxlNode>,
    pub problems: Vec<Missing>,
}

/// A window (root decoder).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window {
    /// The kernel's name for it, such as `decoder0.0`.
    pub name: String,
    /// Where it begins, host-physical.
    pub start: Known<u64>,
    pub size_bytes: Known<u64>,
    /// Host bridges that it is spread over.
    pub bridges: Known<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Region {
    /// The kernel's name for it, such as `region0`.
    pub name: String,
    pub window: Known<String>,
    /// Whether its devices decode its addresses.
    pub is_committed: Known<bool>,
    /// Where it begins, host-physical. A region that is being set up has no address.
    pub start: Known<u64>,
    /// Its length; 0 while it is being set up.
    pub size_bytes: Known<u64>,
    /// `ram` or `pmem`.
    pub mode: Known<String>,
    /// Bytes at a time from each device of the interleave.
    pub granularity_bytes: Known<u64>,
    pub targets: Vec<DecoderTarget>,
    pub dax: Vec<Dax>,
}

/// A device's part in a region.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecoderTarget {
    pub decoder: Known<String>,
    pub device: Known<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dax {
    /// The kernel's name for it, such as `dax0.0`.
    pub name: String,
    /// What it is made of.
    pub of: DaxParent,
    /// The device above it: `region0`, `hmem.0`, `ndbus0`.
    pub parent: Known<String>,
    /// Where it begins, host-physical.
    pub start: Known<u64>,
    pub size_bytes: Known<u64>,
    /// The node its memory is, or would be, as system RAM.
    pub node: Known<u32>,
    /// What it is bound to: `kmem` makes it system RAM, `device_dax` a file in `/dev`.
    pub driver: Known<String>,
}

/// What a dax device is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DaxParent {
    Region,
    /// Memory that firmware marked for a special purpose (`hmem`): CXL memory, or high-bandwidth memory.
    SoftReserved,
    /// Persistent memory (`ndbus`, libnvdimm).
    PersistentMemory,
    Other,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CxlMemory {
    /// The kernel's name for it, such as `mem0`.
    pub name: String,
    pub serial: Known<u64>,
    /// Volatile memory of the device, in bytes.
    pub ram_bytes: Known<u64>,
    pub pmem_bytes: Known<u64>,
    /// The node of the nearest CPUs.
    pub cpu_node: Known<u32>,
    pub pci: Known<String>,
    /// The root port it hangs below.
    pub root_port: Known<String>,
    /// The host bridge it hangs below.
    pub bridge: Known<String>,
    /// Its endpoint: without one the kernel has not put it into the tree of ports.
    pub endpoint: Known<String>,
    /// Regions it has a part in.
    pub regions: Vec<String>,
    /// Whether its memory is in use: as a region, or set up by firmware. `false` only where sysfs proves it.
    pub is_in_use: Known<bool>,
    pub pmus: Vec<String>,
    /// Access counters of the same PCI function.
    pub counters: Vec<String>,
}

/// A node with memory and without CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CxlNode {
    pub id: u32,
    pub size_bytes: Known<u64>,
    /// Whether it is CXL memory, and what says so.
    pub verdict: NodeVerdict,
    /// Dax devices that this memory belongs to.
    pub dax: Vec<String>,
    /// Windows that its memory lies in.
    pub windows: Vec<String>,
    /// Regions that this memory belongs to, or why none is known.
    pub regions: Known<Vec<String>>,
    /// Devices that this memory belongs to, or why none is known.
    pub devices: Known<Vec<String>>,
}

impl Fabric {
    /// Reads it. What cannot be read is among the problems.
    pub fn read(roots: &crate::Roots) -> Fabric {
        Fabric::read_with(roots, &[])
    }

    /// The same where `--device` names the nodes of CXL memory: those in `named`, by number, and others only
    /// if a counter driver names them. Empty leaves it to the evidence.
    pub fn read_with(roots: &crate::Roots, named: &[u32]) -> Fabric {
        match read::bus(roots) {
            Ok(mut bus) => {
                if let Err(why) = nodes::add(roots, named, &mut bus) {
                    bus.fabric.problems.push(why);
                }
                bus.fabric
            }
            Err(why) => Fabric {
                problems: vec![why],
                ..Fabric::default()
            },
        }
    }

    pub fn cxl_nodes(&self) -> impl Iterator<Item = &CxlNode> {
        self.nodes.iter().filter(|node| node.verdict.is_cxl)
    }
}

#[cfg(test)]
mod links_tests;
#[cfg(test)]
mod machines_tests;
#[cfg(test)]
mod tests;
