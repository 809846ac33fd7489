// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine: online CPUs and NUMA nodes (kernel, `Documentation/ABI/stable/sysfs-devices-node`).
//!
//! CXL memory that is online as system RAM is a node with memory and without CPUs. The converse does
//! not hold: which of those are CXL memory is decided by evidence ([`crate::inventory::cxl`]).

use super::cxl::{Classified, Fabric, classified};
use crate::kernel::files::read_path;
use crate::kernel::parse::sysfs::{list, node_size};
use crate::options::Roots;
use std::io;
use std::path::{Path, PathBuf};
use weir_core::{Bytes, Missing, NodeId};

/// A node with memory and without CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryNode {
    pub(crate) id: NodeId,
    pub(crate) size_bytes: Bytes,
    /// `--device` names it.
    pub(crate) is_named: bool,
}

pub(crate) struct Topology {
    pub(crate) cpu_count: Result<u32, Missing>,
    pub(crate) memory_nodes: Result<Vec<MemoryNode>, Missing>,
    /// All nodes with memory and without CPUs, each with its verdict.
    pub(crate) classified: Vec<Classified>,
    pub(crate) fabric: Fabric,
}

impl Topology {
    /// `named` are nodes of CXL memory by `--device`: they keep its order.
    pub(crate) fn probe(roots: &Roots, named: &[u32]) -> Self {
        let found = classified(roots, named);
        let memory_nodes = found.as_ref().map_err(Clone::clone);
        let memory_nodes = memory_nodes.map(|(_, classified)| {
            let cxl = classified
                .iter()
                .filter(|classified| classified.verdict.is_cxl);
            let mut nodes: Vec<MemoryNode> = cxl.map(|classified| classified.node).collect();
            nodes.sort_by_key(|node| named.iter().position(|n| *n == node.id.0));
            nodes
        });
        let (fabric, classified) = found.unwrap_or_default();
        Topology {
            cpu_count: online_count(roots),
            memory_nodes,
            classified,
            fabric,
        }
    }

    /// CPUs online; where that is not known, what the standard library makes of it, at least 1.
    pub(crate) fn cpus_or_guess(&self) -> u32 {
        let guess = || std::thread::available_parallelism().map_or(1, usize::from);
        let known = self.cpu_count.as_ref().ok().copied();
        known.unwrap_or_else(|| u32::try_from(guess()).unwrap_or(1))
    }
}

/// A failure to read `path`, as a reason.
pub(crate) fn missing(path: &Path, error: &io::Error) -> Missing {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => Missing::NotPermitted(text),
        io::ErrorKind::NotFound => Missing::NotSupported(text),
        _ => Missing::Lost(text),
    }
}

pub(crate) fn online(roots: &Roots) -> Result<Vec<u32>, Missing> {
    read_list(&online_path(roots))
}

fn online_path(roots: &Roots) -> PathBuf {
    roots.sys.join("devices/system/cpu/online")
}

/// How many they are: at least the one that weir runs on.
pub(crate) fn online_count(roots: &Roots) -> Result<u32, Missing> {
    match online(roots)?.len() {
        0 => Err(Missing::Lost(format!(
            "{}: it lists no CPU",
            online_path(roots).display()
        ))),
        count => Ok(u32::try_from(count).unwrap_or(u32::MAX)),
    }
}

fn read_list(path: &Path) -> Result<Vec<u32>, Missing> {
    let text = read_path(path).map_err(|e| missing(path, &e))?;
    list(&text).map_err(|e| Missing::Lost(format!("{}: {e}", path.display())))
}

/// Numbers of nodes that have memory, ascending.
///
/// # Errors
/// sysfs does not list them.
pub fn nodes_with_memory(roots: &Roots) -> Result<Vec<u32>, Missing> {
    read_list(&roots.sys.join("devices/system/node/has_memory"))
}

/// Nodes with memory that have no CPUs or are among `named`, and the nodes with CPUs, ascending.
///
/// # Errors
/// sysfs does not list them.
pub(crate) fn memory_nodes(
    roots: &Roots,
    named: &[u32],
) -> Result<(Vec<MemoryNode>, Vec<u32>), Missing> {
    let nodes = roots.sys.join("devices/system/node");
    let with_memory = nodes_with_memory(roots)?;
    let with_cpus = read_list(&nodes.join("has_cpu"))?;
    let wanted = with_memory
        .into_iter()
        .filter(|node| !with_cpus.contains(node) || named.contains(node));
    let node = |id: u32| {
        let path = nodes.join(format!("node{id}/meminfo"));
        // A size that cannot be read is 0: it only weighs groups that share a node.
        let size = read_path(&path)
            .ok()
            .and_then(|text| node_size(&text).ok())
            .unwrap_or(0);
        MemoryNode {
            id: NodeId(id),
            size_bytes: Bytes(size),
            is_named: named.contains(&id),
        }
    };
    Ok((wanted.map(node).collect(), with_cpus))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn nodes_with_memory_and_without_cpus() {
        let fake = Fake::new();
        fake.write("sys/devices/system/node/has_memory", "0-2\n");
        fake.write(
            "sys/devices/system/node/node2/meminfo",
            "Node 2 MemTotal: 4 kB\n",
        );
        let seen = Topology::probe(&fake.roots(), &[]).memory_nodes.unwrap();
        let seen: Vec<_> = seen.iter().map(|n| (n.id.0, n.size_bytes.0)).collect();
        assert_eq!(seen, [(1, 512 << 20), (2, 4096)]);
    }

    #[test]
    fn absences_have_reasons() {
        let fake = Fake::new();
        fake.write("sys/devices/system/node/has_memory", "0-zwei\n");
        fake.remove("sys/devices/system/cpu/online");
        let seen = Topology::probe(&fake.roots(), &[]);
        assert!(matches!(seen.memory_nodes, Err(Missing::Lost(_))));
        assert!(matches!(seen.cpu_count, Err(Missing::NotSupported(_))));
        assert!(seen.cpus_or_guess() >= 1);
    }
}
