// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir groups list`: the nodes of CXL memory.

use super::cli::ListArgs;
use crate::cli::exit::{Exit, print, print_json};
use anyhow::Result;
use serde::Serialize;
use weir_core::Description;
use weir_figures::text::{NONE, harmless, size};
use weir_figures::{Cell, Setting, Table, terminal_table};
use weir_linux::cxl::Fabric;
use weir_linux::{Node, Nodes, Options, Reach, Roots};

#[derive(Serialize)]
struct GroupsReport {
    block_bytes: Option<u64>,
    groups: Vec<GroupRow>,
    /// Other nodes with memory and without CPUs.
    others: Vec<OtherNode>,
}

#[derive(Serialize)]
struct OtherNode {
    node: u32,
    /// Why it is no CXL memory.
    why: String,
}

#[derive(Serialize)]
struct GroupRow {
    node: u32,
    size_bytes: u64,
    used_bytes: u64,
    /// Distance from the nearest node with CPUs.
    distance: Option<u32>,
    reach: Reach,
    /// Groups of access counters on this node.
    counters: Vec<String>,
}

/// Lists.
///
/// # Errors
/// The nodes cannot be read, or one that is named does not exist.
pub fn list(args: &ListArgs, roots: &Roots) -> Result<Exit> {
    let nodes = Nodes::read(roots)?;
    let named = args.devices.nodes(roots)?;
    let fabric = Fabric::read_with(roots, &named);
    let counters = weir_linux::describe(&Options {
        roots: roots.clone(),
        nodes: named,
        ..Options::default()
    });
    let with_cpus: Vec<u32> = nodes
        .nodes
        .iter()
        .filter(|n| n.has_cpus)
        .map(|n| n.id)
        .collect();
    let groups = nodes
        .nodes
        .iter()
        .filter(|n| n.total_bytes > 0 && is_cxl(&fabric, n));
    let others = fabric.nodes.iter().filter(|node| !node.verdict.is_cxl);
    let report = GroupsReport {
        block_bytes: nodes.block_bytes,
        groups: groups
            .map(|node| row(node, &with_cpus, &counters))
            .collect(),
        others: others
            .map(|node| OtherNode {
                node: node.id,
                why: node.verdict.words(),
            })
            .collect(),
    };
    if args.json {
        print_json(&report)?;
    } else {
        print(&page(&report))?;
    }
    Ok(Exit::Done)
}

fn row(node: &Node, with_cpus: &[u32], counters: &Description) -> GroupRow {
    let near = with_cpus.iter().filter_map(|cpu| node.distances.get(cpu));
    let counted = counters
        .groups
        .iter()
        .filter(|g| g.node.is_some_and(|n| n.0 == node.id));
    GroupRow {
        node: node.id,
        size_bytes: node.total_bytes,
        used_bytes: node.total_bytes.saturating_sub(node.free_bytes),
        distance: near.min().copied(),
        reach: node.reach,
        counters: counted.map(|group| group.id.to_string()).collect(),
    }
}

fn page(report: &GroupsReport) -> String {
    if report.groups.is_empty() {
        let page =
            "no group: no node is CXL memory. `weir groups acpi` splits a device into groups\n";
        return page.to_owned() + &others(report);
    }
    let or_dash = |value: Option<String>| Cell::number(value.unwrap_or_else(|| NONE.into()));
    let rows = report.groups.iter().map(|row| {
        let latency = row.reach.read_latency_ns.map(|ns| format!("{ns} ns"));
        let bandwidth = row.reach.read_bandwidth_mb_per_sec;
        let counters = match &row.counters[..] {
            [] => NONE.to_owned(),
            all => all.join(" "),
        };
        vec![
            Cell::words(format!("node{}", row.node)),
            Cell::number(size(row.size_bytes)),
            Cell::number(size(row.used_bytes)),
            or_dash(row.distance.map(|d| d.to_string())),
            or_dash(latency),
            or_dash(bandwidth.map(|mb| format!("{mb} MB/s"))),
            Cell::words(counters),
        ]
    });
    let heads = [
        "group",
        "size",
        "used",
        "distance",
        "latency",
        "bandwidth",
        "counters",
    ];
    terminal_table(&Table::new("", &heads, rows), Setting::WIDE) + &others(report)
}

/// A node that sysfs does not list among those with memory has no verdict.
fn is_cxl(fabric: &Fabric, node: &Node) -> bool {
    let found = fabric.nodes.iter().find(|found| found.id == node.id);
    found.map_or(!node.has_cpus, |found| found.verdict.is_cxl)
}

fn others(report: &GroupsReport) -> String {
    let line = |other: &OtherNode| format!("no group: node{}, {}\n", other.node, other.why);
    report
        .others
        .iter()
        .map(|other| harmless(line(other).trim_end()) + "\n")
        .collect()
}
