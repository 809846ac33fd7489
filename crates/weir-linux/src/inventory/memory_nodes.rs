// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NUMA nodes as memory: how large, how full, how far, which blocks (kernel,
//! `Documentation/ABI/stable/sysfs-devices-node` and `…/testing/sysfs-devices-memory`). For people's
//! commands, not for the loop: it reads a file for nearly everything it says.

use crate::error::LinuxError;
use crate::kernel::files::read_path;
use crate::kernel::parse::sysfs::{list, node_figure, node_size};
use crate::kernel::parse::{decimal, words};
use crate::options::Roots;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// What firmware says of the path to a node, from the CPUs next to it (`access0/initiators`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Reach {
    pub read_latency_ns: Option<u64>,
    pub write_latency_ns: Option<u64>,
    /// Bandwidth of reads, in 10^6 bytes per second.
    pub read_bandwidth_mb_per_sec: Option<u64>,
    /// Bandwidth of writes, in 10^6 bytes per second.
    pub write_bandwidth_mb_per_sec: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: u32,
    pub has_cpus: bool,
    /// The CPUs that are online.
    pub cpus: Vec<u32>,
    /// Memory that the kernel manages: less than its blocks come to, by what the kernel keeps.
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// Distances to the nodes that are online, itself among them.
    pub distances: BTreeMap<u32, u32>,
    /// What firmware says of the way there.
    pub reach: Reach,
    /// Numbers of its memory blocks that are present, ascending: block n begins at n × block size.
    pub blocks: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// In what pieces memory can be taken in and out; nothing where the kernel cannot.
    pub block_bytes: Option<u64>,
    /// Nodes that are online, ascending.
    pub nodes: Vec<Node>,
}

impl Nodes {
    /// Reads them.
    ///
    /// # Errors
    /// There is no sysfs of nodes, or a file of it is not what it should be.
    pub fn read(roots: &Roots) -> Result<Self, LinuxError> {
        let dir = roots.sys.join("devices/system/node");
        let online = numbers(&dir.join("online"))?;
        let with_cpus = numbers(&dir.join("has_cpu"))?;
        let node = |id: &u32| node(&dir.join(format!("node{id}")), *id, &online, &with_cpus);
        let nodes = online.iter().map(node).collect::<Result<_, _>>()?;
        let size = roots.sys.join("devices/system/memory/block_size_bytes");
        Ok(Nodes {
            block_bytes: optional(&size)?
                .and_then(|text| hexadecimal(&text))
                .filter(|bytes| bytes.is_power_of_two()),
            nodes,
        })
    }

    pub fn get(&self, id: u32) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    pub fn of_block(&self, block: u64) -> Option<u32> {
        let owner = self
            .nodes
            .iter()
            .find(|n| n.blocks.binary_search(&block).is_ok());
        owner.map(|node| node.id)
    }
}

fn node(dir: &Path, id: u32, online: &[u32], with_cpus: &[u32]) -> Result<Node, LinuxError> {
    let meminfo = read(&dir.join("meminfo"))?;
    let distances = read(&dir.join("distance"))?;
    let distances = words(&distances).filter_map(|w| u32::try_from(decimal(w).ok()?).ok());
    Ok(Node {
        id,
        has_cpus: with_cpus.contains(&id),
        cpus: match optional(&dir.join("cpulist"))? {
            Some(text) => list(&text).unwrap_or_default(),
            None => Vec::new(),
        },
        total_bytes: node_size(&meminfo).unwrap_or(0),
        free_bytes: node_figure(&meminfo, b"MemFree:").unwrap_or(0),
        distances: online.iter().copied().zip(distances).collect(),
        reach: reach(&dir.join("access0/initiators"))?,
        blocks: blocks(dir)?,
    })
}

pub(crate) fn reach(dir: &Path) -> Result<Reach, LinuxError> {
    let number = |name: &str| -> Result<Option<u64>, LinuxError> {
        let text = optional(&dir.join(name))?;
        Ok(text.and_then(|text| decimal(text.trim_ascii()).ok()))
    };
    Ok(Reach {
        read_latency_ns: number("read_latency")?,
        write_latency_ns: number("write_latency")?,
        read_bandwidth_mb_per_sec: number("read_bandwidth")?,
        write_bandwidth_mb_per_sec: number("write_bandwidth")?,
    })
}

/// Most memory blocks of a node: 128 TiB of 128 MiB.
const BLOCK_COUNT_MAX: usize = 1 << 20;

/// The links `memoryN` in a node's directory.
pub(crate) fn blocks(dir: &Path) -> Result<Vec<u64>, LinuxError> {
    let entries = std::fs::read_dir(dir).map_err(|e| LinuxError::io("list", dir, e))?;
    let mut found = Vec::new();
    for entry in entries.take(BLOCK_COUNT_MAX) {
        let name = entry
            .map_err(|e| LinuxError::io("list", dir, e))?
            .file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("memory"));
        // `memory_side_cache` and others begin the same.
        found.extend(number.and_then(|n| decimal(n.as_bytes()).ok()));
    }
    found.sort_unstable();
    Ok(found)
}

pub(crate) fn hexadecimal(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    u64::from_str_radix(text, 16).ok()
}

fn read(path: &Path) -> Result<Vec<u8>, LinuxError> {
    read_path(path).map_err(|e| LinuxError::io("read", path, e))
}

fn optional(path: &Path) -> Result<Option<Vec<u8>>, LinuxError> {
    match read_path(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(LinuxError::io("read", path, e)),
    }
}

fn numbers(path: &Path) -> Result<Vec<u32>, LinuxError> {
    list(&read(path)?).map_err(|wanted| {
        let answer = io::Error::new(io::ErrorKind::InvalidData, wanted.to_string());
        LinuxError::io("understand", path, answer)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn machine() -> Fake {
        let fake = Fake::new();
        fake.write("sys/devices/system/node/online", "0-1\n");
        fake.write("sys/devices/system/memory/block_size_bytes", "8000000\n");
        for (id, distance) in [(0, "10 20\n"), (1, "20 10\n")] {
            let dir = format!("sys/devices/system/node/node{id}");
            fake.write(format!("{dir}/distance"), distance);
            fake.write(format!("{dir}/cpulist"), ["0-1,4\n", "\n"][id]);
            let meminfo = format!("Node {id} MemTotal: 524288 kB\nNode {id} MemFree:   1024 kB\n");
            fake.write(format!("{dir}/meminfo"), &meminfo);
            for block in [0, 1] {
                fake.write(format!("{dir}/memory{}/state", 2 * id + block), "online\n");
            }
            fake.write(format!("{dir}/memory_side_cache/index1/size"), "1\n");
        }
        let reach = "sys/devices/system/node/node1/access0/initiators";
        fake.write(format!("{reach}/read_latency"), "250\n");
        fake
    }

    #[test]
    fn nodes_say_what_they_are() {
        let nodes = Nodes::read(&machine().roots()).unwrap();
        assert_eq!(nodes.block_bytes, Some(128 << 20));
        let node = nodes.get(1).unwrap();
        assert_eq!((node.total_bytes, node.free_bytes), (512 << 20, 1 << 20));
        assert_eq!(node.distances, BTreeMap::from([(0, 20), (1, 10)]));
        assert_eq!(node.blocks, [2, 3]);
        assert!(!node.has_cpus && nodes.nodes[0].has_cpus);
        assert_eq!(
            (&nodes.nodes[0].cpus[..], node.cpus.len()),
            (&[0, 1, 4][..], 0)
        );
        assert_eq!(node.reach.read_latency_ns, Some(250));
        assert_eq!(node.reach.write_latency_ns, None);
        assert_eq!((nodes.of_block(1), nodes.of_block(4)), (Some(0), None));
    }

    #[test]
    fn a_broken_file_is_named() {
        let fake = machine();
        fake.write("sys/devices/system/node/online", "0-\n");
        let said = Nodes::read(&fake.roots()).unwrap_err().to_string();
        assert!(said.contains("node/online"), "{said}");
    }
}
