// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CXL bus with what counts on it: groups of access counters on each node, and PMUs of ports.

use super::Counters;
use super::pmu::Machine;
use crate::inventory::cxl::{CxlNode, Fabric, natural};
use crate::inventory::numa::MemoryNode;
use crate::options::Roots;
use weir_core::seam::topology::Group;
use weir_core::{Bytes, NodeId};

/// Reads the bus, and which counters and PMUs it has. `named` are the nodes that `--device` names, as for
/// [`Fabric::read_with`]. What cannot be read is among the problems.
pub fn read_fabric(roots: &Roots, named: &[u32]) -> Fabric {
    let mut fabric = Fabric::read_with(roots, named);
    let cxl: Vec<MemoryNode> = fabric
        .cxl_nodes()
        .map(|node| memory_node(node, named))
        .collect();
    let counters = Counters::probe(roots, &cxl, None);
    // Without counters every node is a group of which nothing is known.
    if counters.are_counted() {
        for node in &mut fabric.nodes {
            let on = |group: &&Group| group.node.is_some_and(|of| of.0 == node.id);
            let groups = counters.groups.iter().filter(on);
            node.counters = groups.map(|group| group.id.to_string()).collect();
        }
    }
    fabric.port_pmus = Machine::probe(roots).ports();
    fabric.port_pmus.sort_by_cached_key(|name| natural(name));
    fabric
}

fn memory_node(node: &CxlNode, named: &[u32]) -> MemoryNode {
    MemoryNode {
        id: NodeId(node.id),
        size_bytes: Bytes(*node.size_bytes.as_ref().unwrap_or(&0)),
        is_named: named.contains(&node.id),
    }
}
