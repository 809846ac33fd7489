// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CXL bus with what counts on it: groups of access counters on each node, and PMUs of ports.

pub(crate) mod coverage;

use super::Counters;
use super::pmu::Machine;
use crate::inventory::cxl::{CxlMemory, CxlNode, Dax, Fabric, Region, Window, natural};
use crate::inventory::numa::MemoryNode;
use crate::options::Roots;
use coverage::coverage;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use weir_core::seam::topology::Group;
use weir_core::{Bytes, Missing, NodeId};

/// The bus, and what counts on it. As JSON one object: each node with its `counters`.
#[derive(Clone, Debug, PartialEq)]
pub struct CountedFabric {
    pub bus: Fabric,
    /// Groups of access counters, by the number of their node.
    pub counters: BTreeMap<u32, Vec<String>>,
    /// Memory devices of each node that are not counted although others of the node are.
    pub uncounted: BTreeMap<u32, Vec<String>>,
    /// PMUs of CXL ports of sockets. The kernel does not say which port has which.
    pub port_pmus: Vec<String>,
}

impl CountedFabric {
    /// Reads the bus, and which counters and PMUs it has. `named` are the nodes that `--device` names, as for
    /// [`Fabric::read_with`]. What cannot be read is among the problems.
    pub fn read(roots: &Roots, named: &[u32]) -> CountedFabric {
        let bus = Fabric::read_with(roots, named);
        let cxl: Vec<MemoryNode> = bus
            .cxl_nodes()
            .map(|node| memory_node(node, named))
            .collect();
        let counters = Counters::probe(roots, &cxl, None);
        let of_node = |node: &CxlNode| {
            let on = |group: &&Group| group.node.is_some_and(|of| of.0 == node.id);
            let groups = counters.groups.iter().filter(on);
            groups.map(|group| group.id.to_string()).collect()
        };
        let mut port_pmus = Machine::probe(roots).ports();
        port_pmus.sort_by_cached_key(|name| natural(name));
        let uncounted = coverage(&bus, &counters).into_iter();
        CountedFabric {
            uncounted: uncounted.map(|of| (of.node.0, of.uncounted)).collect(),
            // Without counters every node is a group of which nothing is known.
            counters: if counters.are_counted() {
                bus.nodes
                    .iter()
                    .map(|node| (node.id, of_node(node)))
                    .collect()
            } else {
                BTreeMap::new()
            },
            bus,
            port_pmus,
        }
    }

    pub fn counters_of(&self, node: &CxlNode) -> &[String] {
        self.counters.get(&node.id).map_or(&[], Vec::as_slice)
    }

    /// Memory devices of a node that are not counted although others of it are.
    pub fn uncounted_of(&self, node: &CxlNode) -> &[String] {
        self.uncounted.get(&node.id).map_or(&[], Vec::as_slice)
    }
}

#[derive(Serialize)]
struct CountedNode<'a> {
    #[serde(flatten)]
    node: &'a CxlNode,
    counters: &'a [String],
    uncounted: &'a [String],
}

/// The whole as JSON has it.
#[derive(Serialize)]
struct CountedObject<'a> {
    windows: &'a [Window],
    regions: &'a [Region],
    devices: &'a [CxlMemory],
    dax: &'a [Dax],
    nodes: Vec<CountedNode<'a>>,
    port_pmus: &'a [String],
    problems: &'a [Missing],
}

impl Serialize for CountedFabric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Each part of the bus is named: one that is added cannot be forgotten here.
        let Fabric {
            windows,
            regions,
            devices,
            dax,
            nodes,
            problems,
        } = &self.bus;
        let node = |node| CountedNode {
            node,
            counters: self.counters_of(node),
            uncounted: self.uncounted_of(node),
        };
        let whole = CountedObject {
            windows,
            regions,
            devices,
            dax,
            nodes: nodes.iter().map(node).collect(),
            port_pmus: &self.port_pmus,
            problems,
        };
        whole.serialize(serializer)
    }
}

fn memory_node(node: &CxlNode, named: &[u32]) -> MemoryNode {
    MemoryNode {
        id: NodeId(node.id),
        size_bytes: Bytes(*node.size_bytes.as_ref().unwrap_or(&0)),
        is_named: named.contains(&node.id),
    }
}
