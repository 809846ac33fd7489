// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What belongs to what, from a NUMA node to the wires (kernel,
//! `Documentation/ABI/testing/sysfs-bus-cxl` and `…/sysfs-bus-dax`):
//!
//! ```text
//! node ─ dax device ─ region ─┬─ window (root decoder) ─ host bridges
//!                             └─ endpoint decoders ─ memory device ─ root port ─ host bridge
//!                                                          └─ PMU, access counters
//! ```
//!
//! A link that is not known has its reason; nothing is guessed from sizes or from numbers that happen to be
//! equal. For people's commands, not for the loop. Every path hangs from sysfs: a link that leads out
//! of it is a problem, and so is whatever is too long, no text, or in a circle.

mod nodes;
mod read;
mod sysfs;

use serde::Serialize;
use weir_core::Missing;

/// A value, or why it is not known.
pub type Known<T> = Result<T, Missing>;

/// Everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Fabric {
    /// Address windows that firmware gave to CXL, in the order of their names.
    pub windows: Vec<Window>,
    /// Regions: what of a window is memory, and of which devices.
    pub regions: Vec<Region>,
    /// Memory devices.
    pub devices: Vec<Memory>,
    /// Nodes with memory and without CPUs.
    pub nodes: Vec<Node>,
    /// PMUs of CXL ports of sockets. The kernel does not say which port has which.
    pub port_pmus: Vec<String>,
    /// What could not be read.
    pub problems: Vec<Missing>,
}

/// A window (root decoder).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window {
    /// As the kernel calls it: `decoder0.0`.
    pub name: String,
    /// Where it begins, host-physical.
    pub start: Known<u64>,
    /// Its length.
    pub size_bytes: Known<u64>,
    /// Host bridges that it is spread over.
    pub bridges: Known<Vec<String>>,
}

/// A region.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Region {
    /// As the kernel calls it: `region0`.
    pub name: String,
    /// The window it lies in.
    pub window: Known<String>,
    /// Where it begins, host-physical.
    pub start: Known<u64>,
    /// Its length.
    pub size_bytes: Known<u64>,
    /// `ram` or `pmem`.
    pub mode: Known<String>,
    /// Bytes at a time from each device in turn.
    pub granularity_bytes: Known<u64>,
    /// Its parts in the order in which they take turns.
    pub targets: Vec<Target>,
    /// Dax devices made of it.
    pub dax: Vec<Dax>,
}

/// A device's part in a region.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    /// The decoder in the device.
    pub decoder: Known<String>,
    /// The device.
    pub device: Known<String>,
}

/// A dax device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dax {
    /// As the kernel calls it: `dax0.0`.
    pub name: String,
    /// Its length.
    pub size_bytes: Known<u64>,
    /// The node its memory is, or would be, as system RAM.
    pub node: Known<u32>,
}

/// A memory device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// As the kernel calls it: `mem0`.
    pub name: String,
    /// Its serial number.
    pub serial: Known<u64>,
    /// Volatile memory.
    pub ram_bytes: Known<u64>,
    /// Persistent memory.
    pub pmem_bytes: Known<u64>,
    /// The node whose CPUs are nearest.
    pub cpu_node: Known<u32>,
    /// Its PCI function.
    pub pci: Known<String>,
    /// The root port it hangs below.
    pub root_port: Known<String>,
    /// The host bridge it hangs below.
    pub bridge: Known<String>,
    /// Its endpoint: without one the kernel has not put it into the tree of ports.
    pub endpoint: Known<String>,
    /// Regions it has a part in.
    pub regions: Vec<String>,
    /// PMUs of the device.
    pub pmus: Vec<String>,
    /// Access counters of the same PCI function.
    pub counters: Vec<String>,
}

/// A node with memory and without CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Its memory.
    pub size_bytes: Known<u64>,
    /// Dax devices whose memory it is.
    pub dax: Vec<String>,
    /// Regions whose memory it is, or why none is known.
    pub regions: Known<Vec<String>>,
    /// Devices whose memory it is, or why none is known.
    pub devices: Known<Vec<String>>,
    /// Groups of access counters on it.
    pub counters: Vec<String>,
}

impl Fabric {
    /// Reads it. What cannot be read is among the problems.
    pub fn read(roots: &crate::Roots) -> Fabric {
        read::fabric(roots)
    }
}

#[cfg(test)]
mod tests;
