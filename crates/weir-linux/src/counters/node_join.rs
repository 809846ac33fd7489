// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which node a group of counters is of: by the node's number that its driver gives, by its address, or
//! because nothing else is possible. Never by order: high-bandwidth memory may be the first node, and a group
//! the second. Where nothing joins them, the operator has to name the nodes (`--device node:N`).

use super::{class_devices, read_node, read_number};
use crate::inventory::cxl::node_of;
use crate::inventory::numa::{MemoryNode, memory_nodes};
use crate::kernel::parse::decimal;
use crate::options::Roots;
use std::collections::BTreeMap;
use std::path::Path;
use weir_core::seam::topology::Fact;
use weir_core::{Missing, NodeId};

/// The fact that says that counts belong to no node.
const NAME: &str = "cxl.counters.nodes";

/// The nodes of a dump with `count` lines. `nodes` are CXL memory; where `--device` named them, they are in
/// its order, and there is one for each line.
///
/// # Errors
/// There are several ways, or none.
pub(super) fn by_elimination(count: u32, nodes: &[MemoryNode]) -> Result<&[MemoryNode], Missing> {
    let is_said = nodes.len() > 1 && nodes.iter().all(|node| node.is_named);
    match usize::try_from(count) {
        Ok(1) if nodes.len() == 1 => Ok(nodes),
        Ok(count) if is_said && nodes.len() == count => Ok(nodes),
        _ => Err(Missing::NotSupported(format!(
            "the counters do not say of which node they are: {count} groups, and {}",
            match nodes {
                [] => "no node is CXL memory".to_owned(),
                [only] => format!("one node of CXL memory, {}", only.id),
                nodes => {
                    let names: Vec<String> = nodes.iter().map(|n| n.id.to_string()).collect();
                    format!("{} nodes of CXL memory, {}", nodes.len(), names.join(", "))
                }
            }
        ))),
    }
}

/// A fact that says it, with the option that names the nodes.
pub(super) fn not_joined(why: Missing, count: u32, nodes: &[MemoryNode]) -> Fact {
    let example: Vec<String> = match nodes {
        [] => vec!["--device node:N".into()],
        nodes => nodes
            .iter()
            .map(|n| format!("--device node:{}", n.id.0))
            .collect(),
    };
    Fact {
        name: NAME.into(),
        value: Err(why),
        next_move: Some(format!(
            "say which node each of the {count} groups is of, in the order of the groups: {}",
            example.join(" ")
        )),
    }
}

/// The same of a figure of perf that is of no single node.
pub(super) fn not_of_one_node(device: &str, nodes: &[MemoryNode]) -> Fact {
    let names: Vec<String> = nodes.iter().map(|n| n.id.to_string()).collect();
    let here = match nodes {
        [] => "no node is CXL memory".to_owned(),
        _ => format!("here are {}", names.join(", ")),
    };
    Fact {
        name: NAME.into(),
        value: Err(Missing::NotSupported(format!(
            "the events of {device} are of no single node: {here}"
        ))),
        next_move: Some("where one node has all the traffic, name it: --device node:N".into()),
    }
}

/// Nodes with memory and without CPUs.
pub(super) fn numbers(roots: &Roots) -> Vec<u32> {
    let nodes = memory_nodes(roots, &[]).map(|(nodes, _)| nodes);
    let nodes = nodes.unwrap_or_default();
    nodes.iter().map(|node| node.id.0).collect()
}

/// By the address of a group, where its driver gives no node.
pub(super) fn by_address(roots: &Roots, group: &Path, nodes: &[u32]) -> Option<NodeId> {
    let text = crate::kernel::files::read_path(&group.join("base")).ok()?;
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let base = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => decimal(text.as_bytes()).ok()?,
    };
    node_of(roots, base, nodes).map(NodeId)
}

/// Nodes that groups of a driver are of, each with a device's name.
pub(crate) fn named_nodes(roots: &Roots, nodes: &[u32]) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    for (number, dir) in class_devices(&roots.sys.join("class/weir_cxl")) {
        let count = read_number(&dir.join("group_count")).unwrap_or(0);
        for index in 0..count.min(super::GROUP_COUNT_MAX.into()) {
            let group = dir.join(format!("group{index}"));
            let node = read_node(&group).or_else(|| by_address(roots, &group, nodes));
            if let Some(node) = node {
                let name = format!("weir_cxl{number}");
                found.entry(node.0).or_insert(name);
            }
        }
    }
    found
}
