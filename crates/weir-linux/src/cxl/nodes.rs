// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes with memory and without CPUs, and what of the bus they are.

use super::{Fabric, Node, Region};
use crate::counters::Counters;
use crate::options::Roots;
use crate::topology::Topology;
use weir_core::Missing;

pub(super) fn add(roots: &Roots, fabric: &mut Fabric) {
    let found = match Topology::probe(roots).memory_nodes {
        Ok(found) => found,
        Err(why) => return fabric.problems.push(why),
    };
    let groups = Counters::probe(roots, &found, None);
    let counted = |number: u32| {
        let on = |group: &&weir_core::topology::Group| {
            // Without counters every node is a group of which nothing is known.
            group.node.is_some_and(|node| node.0 == number) && groups.are_counted()
        };
        groups
            .groups
            .iter()
            .filter(on)
            .map(|group| group.id.to_string())
            .collect()
    };
    for node in found {
        let id = node.id.0;
        let is_here = |region: &&Region| region.dax.iter().any(|dax| dax.node == Ok(id));
        let regions: Vec<&Region> = fabric.regions.iter().filter(is_here).collect();
        let unknown = || {
            Missing::NotSupported(format!(
                "no dax device of a region names node {id}: firmware placed its memory, or it is none of CXL"
            ))
        };
        let of_node = |region: &&Region| {
            let dax = region.dax.iter().filter(|dax| dax.node == Ok(id));
            dax.map(|dax| dax.name.clone()).collect::<Vec<_>>()
        };
        let mut devices: Vec<String> = Vec::new();
        for target in regions.iter().flat_map(|region| &region.targets) {
            devices.extend(
                target
                    .device
                    .iter()
                    .filter(|d| !devices.contains(d))
                    .cloned()
                    .collect::<Vec<_>>(),
            );
        }
        let known = |names: Vec<String>| {
            if names.is_empty() {
                Err(unknown())
            } else {
                Ok(names)
            }
        };
        fabric.nodes.push(Node {
            id,
            size_bytes: match node.size_bytes.0 {
                0 => Err(Missing::Lost(format!("node{id}/meminfo has no size"))),
                bytes => Ok(bytes),
            },
            dax: regions.iter().flat_map(of_node).collect(),
            regions: known(regions.iter().map(|region| region.name.clone()).collect()),
            devices: known(devices),
            counters: counted(id),
        });
    }
}
