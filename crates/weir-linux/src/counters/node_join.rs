// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The node that a group of counters belongs to: by the node's number that its driver gives, by its address,
//! or because nothing else is possible. Never by order: high-bandwidth memory may be the first node, and a
//! group the second. Where nothing joins them, the operator has to name the nodes (`--device node:N`).

use crate::inventory::numa::{MemoryNode, memory_nodes};
use crate::options::Roots;
use weir_core::Missing;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::topology::Fact;

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
        next_move: Some(NextMove {
            act: Act::Deed(format!(
                "say which node each of the {count} groups is of, in the order of the groups: {}",
                example.join(" ")
            )),
            why: "the counters do not name their nodes".into(),
            needs: Precondition::Seen("--device is used in the order of the groups".into()),
        }),
    }
}

/// The fact for a figure of perf whose events do not belong to a single node.
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
        next_move: Some(NextMove {
            act: Act::Deed("name it: --device node:N".into()),
            why: "the events do not tell nodes apart".into(),
            needs: Precondition::Operator("one node has all the traffic".into()),
        }),
    }
}

/// Nodes with memory and without CPUs.
pub(super) fn numbers(roots: &Roots) -> Vec<u32> {
    let nodes = memory_nodes(roots, &[]).map(|(nodes, _)| nodes);
    let nodes = nodes.unwrap_or_default();
    nodes.iter().map(|node| node.id.0).collect()
}
