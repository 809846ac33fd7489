// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine: online CPUs and NUMA nodes (kernel, `Documentation/ABI/stable/sysfs-devices-node`).
//!
//! CXL memory that is online as system RAM is a node with memory and without CPUs. The converse does
//! not hold (high-bandwidth memory and persistent memory can look the same), so where a counter
//! driver names the nodes of its groups, only those count.

use crate::files::read_path;
use crate::options::Roots;
use crate::parse::sysfs::{list, node_size};
use std::io;
use std::path::Path;
use weir_core::{Bytes, Missing, NodeId};

/// A node with memory and without CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryNode {
    pub(crate) id: NodeId,
    pub(crate) size_bytes: Bytes,
}

/// What sysfs says of CPUs and nodes.
pub(crate) struct Topology {
    pub(crate) cpu_count: Result<u32, Missing>,
    pub(crate) memory_nodes: Result<Vec<MemoryNode>, Missing>,
}

impl Topology {
    pub(crate) fn probe(roots: &Roots) -> Self {
        let cpus = online(roots);
        let cpu_count = cpus.map(|cpus| u32::try_from(cpus.len()).unwrap_or(u32::MAX));
        Topology {
            cpu_count,
            memory_nodes: memory_nodes(roots),
        }
    }

    /// CPUs online; where that is not known, what the standard library makes of it, at least 1.
    pub(crate) fn cpus_or_guess(&self) -> u32 {
        let guess = || std::thread::available_parallelism().map_or(1, usize::from);
        let known = self.cpu_count.as_ref().ok().copied().filter(|n| *n > 0);
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

/// CPUs that are online.
pub(crate) fn online(roots: &Roots) -> Result<Vec<u32>, Missing> {
    read_list(&roots.sys.join("devices/system/cpu/online"))
}

fn read_list(path: &Path) -> Result<Vec<u32>, Missing> {
    let text = read_path(path).map_err(|e| missing(path, &e))?;
    list(&text).map_err(|e| Missing::Lost(format!("{}: {e}", path.display())))
}

fn memory_nodes(roots: &Roots) -> Result<Vec<MemoryNode>, Missing> {
    let nodes = roots.sys.join("devices/system/node");
    let with_memory = read_list(&nodes.join("has_memory"))?;
    let with_cpus = read_list(&nodes.join("has_cpu"))?;
    let without = with_memory
        .into_iter()
        .filter(|node| !with_cpus.contains(node));
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
        }
    };
    Ok(without.map(node).collect())
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
        let seen = Topology::probe(&fake.roots()).memory_nodes.unwrap();
        let seen: Vec<_> = seen.iter().map(|n| (n.id.0, n.size_bytes.0)).collect();
        assert_eq!(seen, [(1, 512 << 20), (2, 4096)]);
    }

    #[test]
    fn absences_have_reasons() {
        let fake = Fake::new();
        fake.write("sys/devices/system/node/has_memory", "0-zwei\n");
        fake.remove("sys/devices/system/cpu/online");
        let seen = Topology::probe(&fake.roots());
        assert!(matches!(seen.memory_nodes, Err(Missing::Lost(_))));
        assert!(matches!(seen.cpu_count, Err(Missing::NotSupported(_))));
        assert!(seen.cpus_or_guess() >= 1);
    }
}
