// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Evidence beside addresses of what a node's memory is: CPUs that are offline, accelerators, drivers,
//! and the firmware's figures. None of these files must be there.

use super::places::Span;
use crate::inventory::driver_groups::named_nodes;
use crate::inventory::memory_nodes::{Reach, reach};
use crate::kernel::files::{open_root, read_long, read_path, read_start};
use crate::kernel::parse::sysfs::list;
use crate::kernel::parse::{decimal, iomem, lines, words};
use crate::options::Roots;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Longest `/proc/iomem` that is read.
const IOMEM_BYTES_MAX: usize = 4 << 20;
/// Most entries of a directory that are read.
const ENTRY_COUNT_MAX: usize = 65_536;
/// Base classes of PCI: display controllers (GPUs among them), processing accelerators.
const PCI_CLASSES: [&[u8]; 2] = [b"03", b"12"];
/// Memory that a driver brought and manages (kernel, `add_memory_driver_managed`): `System RAM (DRIVER)`.
const MANAGED: &str = "System RAM (";
/// Drivers that bring memory of any kind: of dax devices, and what a hypervisor gives.
const OF_ANY_KIND: [&str; 2] = ["System RAM (kmem)", "System RAM (virtio_mem)"];

#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Devices of a counter driver that name a node, or that have its addresses.
    pub(super) counters: BTreeMap<u32, String>,
    /// CPUs of a node that are not online.
    pub(super) offline_cpus: BTreeMap<u32, Vec<u32>>,
    /// Nodes of accelerators, with what says so.
    pub(super) accelerators: BTreeMap<u32, String>,
    /// Windows by `/proc/iomem`.
    pub(super) windows: Vec<(String, Span)>,
    /// Persistent memory by `/proc/iomem`.
    pub(super) persistent: Vec<Span>,
    /// Memory that drivers brought, other than of dax devices, with the line's name.
    pub(super) managed: Vec<(String, Span)>,
    /// The firmware's figures of the way to a node (`access0`).
    pub(super) reach: BTreeMap<u32, Reach>,
}

impl Evidence {
    /// Reads the evidence for these nodes without CPUs, beside those with CPUs.
    pub(super) fn read(roots: &Roots, without: &[u32], with_cpus: &[u32]) -> Evidence {
        let mut evidence = Evidence {
            counters: named_nodes(roots, without),
            accelerators: accelerators(roots),
            ..Evidence::default()
        };
        for node in without {
            let cpus = offline_cpus(roots, *node);
            if !cpus.is_empty() {
                evidence.offline_cpus.insert(*node, cpus);
            }
        }
        for node in without.iter().chain(with_cpus) {
            let dir = format!("devices/system/node/node{node}/access0/initiators");
            if let Ok(found) = reach(&roots.sys.join(dir)) {
                evidence.reach.insert(*node, found);
            }
        }
        evidence.take_iomem(roots);
        evidence
    }

    fn take_iomem(&mut self, roots: &Roots) {
        let Ok(dir) = open_root(&roots.proc) else {
            return;
        };
        let text = read_long(dir, "iomem", IOMEM_BYTES_MAX).unwrap_or_default();
        for range in iomem::ranges(&text) {
            let Some(span) = Span::new(range.start, range.size_bytes) else {
                continue;
            };
            let name = range.name;
            if name.starts_with("CXL Window") {
                self.windows.push((name, span));
            } else if name.starts_with("Persistent Memory") {
                self.persistent.push(span);
            } else if name.starts_with(MANAGED) && !OF_ANY_KIND.contains(&name.as_str()) {
                self.managed.push((name, span));
            }
        }
    }

    /// The fastest reads that a node with CPUs has of its own memory: MB/s.
    pub(super) fn dram_mb_per_sec(&self, with_cpus: &[u32]) -> Option<u64> {
        let of = |node: &u32| self.reach.get(node)?.read_bandwidth_mb_per_sec;
        with_cpus.iter().filter_map(of).max()
    }

    /// The shortest reads that a node with CPUs has of its own memory: ns.
    pub(super) fn dram_latency_ns(&self, with_cpus: &[u32]) -> Option<u64> {
        let of = |node: &u32| self.reach.get(node)?.read_latency_ns;
        with_cpus.iter().filter_map(of).min()
    }
}

/// A CPU keeps its node when it goes offline: as a link in the directory of either.
fn offline_cpus(roots: &Roots, node: u32) -> Vec<u32> {
    let system = roots.sys.join("devices/system");
    let of_node = system.join(format!("node/node{node}"));
    let mut found = cpus_in(&of_node);
    let cpu = system.join("cpu");
    let points = |number: &u32| {
        let link = cpu.join(format!("cpu{number}/node{node}"));
        link.symlink_metadata().is_ok()
    };
    found.extend(cpus_in(&cpu).into_iter().filter(points));
    found.sort_unstable();
    found.dedup();
    found
}

/// Numbers N of entries `cpuN`.
fn cpus_in(dir: &Path) -> Vec<u32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let digits = name.to_str()?.strip_prefix("cpu")?;
        u32::try_from(decimal(digits.as_bytes()).ok()?).ok()
    };
    entries.take(ENTRY_COUNT_MAX).filter_map(number).collect()
}

/// Nodes that firmware calls an initiator without CPUs (SRAT, generic initiator), nodes of GPUs on the PCI
/// bus, and nodes that NVIDIA's driver made of a GPU's memory (`numa_status`: the first line is `Node: N`).
fn accelerators(roots: &Roots) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    let path = roots.sys.join("devices/system/node/has_generic_initiator");
    let initiators = read_path(&path).ok().and_then(|text| list(&text).ok());
    for node in initiators.unwrap_or_default() {
        found.insert(
            node,
            "firmware says that a device with memory accesses of its own is there (has_generic_initiator)".to_owned(),
        );
    }
    found.extend(pci_accelerators(roots));
    let gpus = roots.proc.join("driver/nvidia/gpus");
    let entries = fs::read_dir(&gpus).into_iter().flatten().flatten();
    for entry in entries.take(ENTRY_COUNT_MAX) {
        let Ok(text) = read_start(&entry.path().join("numa_status")) else {
            continue;
        };
        if let Some(node) = lines(&text).next().and_then(gpu_node) {
            let name = entry.file_name().to_string_lossy().into_owned();
            found.insert(
                node,
                format!("it is the memory of the GPU {name} (numa_status)"),
            );
        }
    }
    found
}

/// Functions of PCI that compute, with the node that they are next to.
fn pci_accelerators(roots: &Roots) -> Vec<(u32, String)> {
    let entries = fs::read_dir(roots.sys.join("bus/pci/devices"));
    let entries = entries.into_iter().flatten().flatten();
    let found = entries.take(ENTRY_COUNT_MAX).filter_map(|entry| {
        let read = |name| read_path(&entry.path().join(name)).ok();
        let class = read("class")?;
        let class = class.strip_prefix(b"0x")?.get(..2)?;
        if !PCI_CLASSES.contains(&class) {
            return None;
        }
        let node = u32::try_from(decimal(&read("numa_node")?).ok()?).ok()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        Some((node, format!("the GPU or accelerator {name} is there")))
    });
    found.collect()
}

fn gpu_node(line: &[u8]) -> Option<u32> {
    let mut parts = words(line);
    let is_node = parts.next()? == b"Node:";
    let number = decimal(parts.next()?).ok()?;
    is_node.then(|| u32::try_from(number).ok())?
}
