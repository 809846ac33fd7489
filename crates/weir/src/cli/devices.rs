// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--device node:N`: nodes that the operator declares to be CXL memory.

use crate::cli::failure::Unavailable;
use anyhow::{Result, anyhow, bail};
use clap::Args;
use serde::Deserialize;
use std::str::FromStr;
use weir_core::Description;
use weir_figures::text;
use weir_linux::{Roots, nodes_with_memory};

/// A node of CXL memory, as `node:2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct DeviceNode(pub u32);

impl FromStr for DeviceNode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("node:").and_then(|n| n.parse().ok());
        let wanted = || {
            "a node of CXL memory is wanted, such as node:2 (`weir topology` lists nodes; without --device \
             weir takes all devices that it finds)"
                .into()
        };
        number.map(DeviceNode).ok_or_else(wanted)
    }
}

impl TryFrom<String> for DeviceNode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Arguments that all commands about devices have.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(transparent)]
pub struct NodeArgs {
    /// Take this node for CXL memory, whatever the machine says, and no other that no counter driver names;
    /// may be given several times. Where counters do not name nodes: one for each group, in the order of the
    /// groups
    #[arg(long, value_name = "node:N")]
    pub device: Vec<DeviceNode>,
}

impl NodeArgs {
    /// Their numbers.
    ///
    /// # Errors
    /// As [`checked`].
    pub fn nodes(&self, roots: &Roots) -> Result<Vec<u32>> {
        checked(&self.device, roots)
    }
}

/// Numbers of nodes that can be CXL memory here.
///
/// # Errors
/// One is given twice, has no memory, or does not exist.
pub fn checked(devices: &[DeviceNode], roots: &Roots) -> Result<Vec<u32>> {
    let mut nodes = Vec::new();
    if devices.is_empty() {
        return Ok(nodes);
    }
    let here = nodes_with_memory(roots)
        .map_err(|why| anyhow!("--device: the nodes of this machine are not known: {why}"))?;
    for DeviceNode(node) in devices {
        if !here.contains(node) {
            let names: Vec<String> = here.iter().map(|n| format!("node:{n}")).collect();
            return Err(Unavailable::Node(format!(
                "--device node:{node}: there is no such node with memory; this machine has {}",
                names.join(", ")
            ))
            .into());
        }
        if nodes.contains(node) {
            bail!("--device node:{node} is given twice");
        }
        nodes.push(*node);
    }
    Ok(nodes)
}

/// The fact that says that counters belong to no node.
pub const NODES: &str = "cxl.counters.nodes";

/// What is missing so that traffic can be attributed to workloads.
pub fn lacks(machine: &Description) -> impl Iterator<Item = String> + '_ {
    let facts = machine.facts.iter().filter(|fact| fact.name == NODES);
    facts.filter_map(|fact| {
        let why = fact.value.as_ref().err()?;
        let next_move = fact.next_move.as_ref().map(|next| format!("; {next}"));
        let next_move = next_move.unwrap_or_default();
        let line = format!("no workload has bytes: {why}{next_move}");
        Some(text::harmless(&line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_named_as_node_colon_number() {
        assert_eq!("node:12".parse(), Ok(DeviceNode(12)));
        for bad in [
            "12",
            "node12",
            "node:",
            "node:-1",
            "node:4294967296",
            "cxl0",
        ] {
            let said = bad.parse::<DeviceNode>().unwrap_err();
            assert!(said.contains("node:2"), "{bad}: {said}");
        }
    }

    #[test]
    fn only_nodes_with_memory_can_be_named() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::beneath(dir.path());
        assert_eq!(checked(&[], &roots).unwrap(), [0; 0]);
        let refused = |nodes: &[u32]| {
            let devices: Vec<_> = nodes.iter().map(|n| DeviceNode(*n)).collect();
            checked(&devices, &roots).unwrap_err().to_string()
        };
        assert!(refused(&[1]).contains("has_memory"));
        let nodes = dir.path().join("sys/devices/system/node");
        std::fs::create_dir_all(&nodes).unwrap();
        std::fs::write(nodes.join("has_memory"), "0,2-3\n").unwrap();
        assert!(refused(&[1]).contains("node:0, node:2, node:3"));
        assert!(refused(&[2, 2]).contains("twice"));
        let devices = [DeviceNode(3), DeviceNode(2)];
        assert_eq!(
            checked(&devices, &roots).unwrap(),
            [3, 2],
            "the order is kept"
        );
    }
}
