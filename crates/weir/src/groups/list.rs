// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir groups list`: the nodes with memory and without CPUs.

use super::cli::ListArgs;
use super::size;
use crate::exit::{Exit, print, print_json};
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write as _;
use weir_core::Description;
use weir_linux::{By, Node, Nodes, Reach, Roots};

#[derive(Serialize)]
struct Report {
    block_bytes: Option<u64>,
    groups: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    node: u32,
    size_bytes: u64,
    used_bytes: u64,
    /// From the nearest node with CPUs.
    distance: Option<u32>,
    reach: Reach,
    /// Groups of access counters on this node.
    counters: Vec<String>,
}

/// Lists.
///
/// # Errors
/// The nodes cannot be read.
pub fn list(args: &ListArgs, roots: &Roots) -> Result<Exit> {
    let nodes = Nodes::read(roots)?;
    let counters = weir_linux::describe(roots, By::Cgroup);
    let with_cpus: Vec<u32> = nodes
        .nodes
        .iter()
        .filter(|n| n.has_cpus)
        .map(|n| n.id)
        .collect();
    let groups = nodes
        .nodes
        .iter()
        .filter(|n| !n.has_cpus && n.total_bytes > 0);
    let report = Report {
        block_bytes: nodes.block_bytes,
        groups: groups
            .map(|node| row(node, &with_cpus, &counters))
            .collect(),
    };
    if args.json {
        print_json(&report)?;
    } else {
        print(&page(&report))?;
    }
    Ok(Exit::Done)
}

fn row(node: &Node, with_cpus: &[u32], counters: &Description) -> Row {
    let near = with_cpus.iter().filter_map(|cpu| node.distances.get(cpu));
    let counted = counters
        .groups
        .iter()
        .filter(|g| g.node.is_some_and(|n| n.0 == node.id));
    Row {
        node: node.id,
        size_bytes: node.total_bytes,
        used_bytes: node.total_bytes.saturating_sub(node.free_bytes),
        distance: near.min().copied(),
        reach: node.reach,
        counters: counted.map(|group| group.id.to_string()).collect(),
    }
}

fn page(report: &Report) -> String {
    if report.groups.is_empty() {
        return "no group: no node has memory and no CPUs. `weir groups acpi` splits a device into groups\n".into();
    }
    let mut page =
        String::from("group        size        used  distance  latency  bandwidth   counters\n");
    for row in &report.groups {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".into());
        let latency = row.reach.read_latency_ns.map(|ns| format!("{ns} ns"));
        let bandwidth = row
            .reach
            .read_bandwidth_mb_per_sec
            .map(|mb| format!("{mb} MB/s"));
        let counters = match &row.counters[..] {
            [] => "–".to_owned(),
            all => all.join(" "),
        };
        // Writing into a String cannot fail.
        let _ = writeln!(
            page,
            "node{:<4} {:>9}  {:>10}  {:>8}  {:>7}  {:>9}   {counters}",
            row.node,
            size(row.size_bytes),
            size(row.used_bytes),
            or_dash(row.distance.map(|d| d.to_string())),
            or_dash(latency),
            or_dash(bandwidth),
        );
    }
    page
}
