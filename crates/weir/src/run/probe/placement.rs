// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the probe of one device has its memory, and on which CPU it runs.

use crate::bench::calibrate::placement::nearest_with_cpus;
use std::fmt;
use std::io::ErrorKind;
use weir_bench::chase::{BATCH_LOADS, WARM_LOADS, can_flush_lines};
use weir_bench::{BenchError, Buffer, LINE_BYTES, Ring};
use weir_core::{Bytes, Missing};
use weir_linux::{Node, Nodes, Roots};

/// Enough for all banks of a device to be met; what makes lines come from it is that they are given up.
const RING_BYTES: u64 = 16 << 20;
/// A node must have so many times that free: on a node that runs full the kernel may kill a process.
pub const PART_OF_FREE: u64 = 4;
/// Loads of one batch, the untimed ones among them.
pub const LOADS: u32 = WARM_LOADS + BATCH_LOADS;
/// The part of a CPU's time that a probe may take.
pub const TIME_PART: f64 = 0.01;
/// About the time of a load from an idle device, in ns. It is used for a figure in a message only.
const USUAL_NS: f64 = 300.0;
const SEED: u64 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub cpu: u32,
    /// The node that is loaded from.
    pub node: u32,
    /// How much of it is taken.
    pub bytes: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb_per_sec = TIME_PART / (USUAL_NS * 1e-9) * LINE_BYTES as f64 / 1e6;
        write!(
            f,
            "cpu{} loads from {} of node{}: {LOADS} lines at a time, at most {:.0} % of the CPU's time for all devices, \
             {mb_per_sec:.1} MB/s at {USUAL_NS:.0} ns a load",
            self.cpu,
            Bytes(self.bytes),
            self.node,
            TIME_PART * 100.0
        )
    }
}

/// Takes memory of one of these nodes, the one with most free, for a CPU that is next to it.
///
/// # Errors
/// No node is online, none has enough free memory, the kernel gives none, or there is no CPU.
pub fn take(roots: &Roots, numbers: &[u32], allowed: &[u32]) -> Result<(Ring, Place), Missing> {
    can_flush_lines().map_err(|why| Missing::NotSupported(why.to_string()))?;
    let nodes = Nodes::read(roots).map_err(|why| Missing::Lost(why.to_string()))?;
    let node = node(&nodes, numbers)?;
    let place = Place {
        cpu: cpu(&nodes, node, allowed)?,
        node: node.id,
        bytes: RING_BYTES,
    };
    let bytes = usize::try_from(RING_BYTES).unwrap_or(usize::MAX);
    let buffer = Buffer::on_node(bytes, node.id).map_err(refused)?;
    Ok((Ring::new(buffer, SEED), place))
}

fn node<'a>(nodes: &'a Nodes, numbers: &[u32]) -> Result<&'a Node, Missing> {
    let online = numbers.iter().filter_map(|number| nodes.get(*number));
    let Some(node) = online.max_by_key(|node| node.free_bytes) else {
        let why = "no node of the device is online: bring its memory online as system RAM";
        return Err(Missing::NotSupported(why.into()));
    };
    if node.free_bytes < PART_OF_FREE * RING_BYTES {
        return Err(Missing::NotSupported(format!(
            "node{} has {} free: the probe takes {}, where {} are free",
            node.id,
            Bytes(node.free_bytes),
            Bytes(RING_BYTES),
            Bytes(PART_OF_FREE * RING_BYTES)
        )));
    }
    Ok(node)
}

/// The last of those near the node: interrupts are mostly answered by the first.
fn cpu(nodes: &Nodes, node: &Node, allowed: &[u32]) -> Result<u32, Missing> {
    let near = nearest_with_cpus(nodes, node).map(|near| &near.cpus[..]);
    let near = near.unwrap_or_default();
    let chosen = allowed.iter().rfind(|cpu| near.contains(cpu));
    let chosen = chosen.or(allowed.last()).copied();
    chosen.ok_or_else(|| Missing::NotPermitted("weir may run on no CPU".into()))
}

/// What the machine refused, as a reason.
pub fn refused(why: BenchError) -> Missing {
    let text = why.to_string();
    match why {
        BenchError::Memory { answer, .. } | BenchError::Cpu { answer, .. }
            if answer.kind() == ErrorKind::PermissionDenied =>
        {
            Missing::NotPermitted(text)
        }
        BenchError::Elsewhere { .. } => Missing::Lost(text),
        _ => Missing::NotSupported(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn of(id: u32, cpus: &[u32], free_mib: u64, distances: &[(u32, u32)]) -> Node {
        Node {
            id,
            has_cpus: !cpus.is_empty(),
            cpus: cpus.to_vec(),
            total_bytes: free_mib << 20,
            free_bytes: free_mib << 20,
            distances: distances.iter().copied().collect::<BTreeMap<_, _>>(),
            reach: weir_linux::Reach::default(),
            blocks: Vec::new(),
        }
    }

    fn machine() -> Nodes {
        Nodes {
            block_bytes: None,
            nodes: vec![
                of(0, &[0, 1], 9999, &[(0, 10), (1, 20), (2, 40), (3, 40)]),
                of(1, &[2, 3], 9999, &[(0, 20), (1, 10), (2, 20), (3, 20)]),
                of(2, &[], 63, &[(0, 40), (1, 20)]),
                of(3, &[], 64, &[(0, 40), (1, 20)]),
            ],
        }
    }

    #[test]
    fn the_fullest_node_is_left_alone_and_a_near_cpu_is_taken() {
        let nodes = machine();
        let node = node(&nodes, &[2, 3]).unwrap();
        assert_eq!(node.id, 3);
        assert_eq!(cpu(&nodes, node, &[0, 1, 2, 3]), Ok(3));
        assert_eq!(cpu(&nodes, node, &[0, 2]), Ok(2));
        assert_eq!(cpu(&nodes, node, &[0, 1]), Ok(1), "far is better than not");
    }

    #[test]
    fn what_is_lacking_is_named() {
        let nodes = machine();
        let few = node(&nodes, &[2]).unwrap_err().to_string();
        assert!(few.contains("node2 has 63.00 MiB free"), "{few}");
        let none = node(&nodes, &[7]).unwrap_err().to_string();
        assert!(none.contains("no node of the device is online"), "{none}");
        let near = nodes.get(3).unwrap();
        assert!(matches!(
            cpu(&nodes, near, &[]),
            Err(Missing::NotPermitted(_))
        ));
    }

    #[test]
    fn what_it_costs_is_said() {
        let place = Place {
            cpu: 3,
            node: 2,
            bytes: RING_BYTES,
        };
        let said = place.to_string();
        assert!(
            said.contains("at most 1 %") && said.contains("2.1 MB/s"),
            "{said}"
        );
    }
}
