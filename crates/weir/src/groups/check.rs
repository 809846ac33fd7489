// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir groups acpi --check OVERLAY`: did the kernel take the tables, and did it make of them what they
//! say? Each memory domain must be one node of its own with all its blocks, at the distances of the SLIT
//! and with the figures of the HMAT.

use super::acpi::{read_bounded, read_table, tables_dir};
use super::cli::AcpiArgs;
use crate::cli::exit::{Exit, print, print_json};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use weir_acpi::hmat::{DataType, Hmat};
use weir_acpi::slit::Slit;
use weir_acpi::srat::Srat;
use weir_acpi::{Firmware, Kind, Table, cpio};
use weir_figures::text::size;
use weir_figures::{Cell, Setting, Table as Rows, terminal_table};
use weir_linux::{Nodes, Roots};

#[derive(Serialize)]
struct CheckReport {
    as_written: bool,
    groups: Vec<CheckRow>,
    findings: Vec<String>,
}

/// A memory-only domain, and the node it became.
#[derive(Serialize)]
struct CheckRow {
    domain: u32,
    node: Option<u32>,
    size_bytes: u64,
    /// In blocks that the kernel has, online or not.
    present_bytes: u64,
}

/// Checks.
///
/// # Errors
/// The overlay or a table in use cannot be read.
pub fn check(args: &AcpiArgs, overlay: &Path, roots: &Roots) -> Result<Exit> {
    let bytes = read_bounded(overlay, cpio::OVERLAY_BYTES_MAX)
        .with_context(|| format!("cannot read {}", overlay.display()))?;
    let wanted = cpio::unpack(&bytes).with_context(|| overlay.display().to_string())?;
    let dir = tables_dir(args, roots);
    let mut findings = Vec::new();
    let mut in_use: BTreeMap<&str, Table> = BTreeMap::new();
    for kind in Kind::ALL {
        in_use.extend(read_table(&dir, kind)?.map(|table| (kind.signature(), table)));
    }
    for table in &wanted {
        findings.extend(not_taken(table, in_use.get(table.kind().signature())));
    }
    let mut groups = Vec::new();
    // What the kernel made of other tables says nothing about these.
    if findings.is_empty() {
        let take = |kind: Kind| in_use.get(kind.signature()).cloned();
        let Some(srat) = take(Kind::Srat) else {
            bail!(
                "{} has no SRAT: this is no overlay with groups",
                overlay.display()
            );
        };
        let firmware = Firmware::read(srat, take(Kind::Slit), take(Kind::Hmat))?;
        let nodes = Nodes::read(roots)?;
        groups = compare(&firmware, &nodes, &mut findings);
    }
    let report = CheckReport {
        as_written: findings.is_empty(),
        groups,
        findings,
    };
    if args.json {
        print_json(&report)?;
    } else {
        print(&page(&report))?;
    }
    Ok(if report.as_written {
        Exit::Done
    } else {
        Exit::Finding
    })
}

fn not_taken(wanted: &Table, used: Option<&Table>) -> Option<String> {
    let name = wanted.kind().signature();
    let used = match used {
        Some(used) if used == wanted => return None,
        Some(used) => used,
        None => return Some(format!("the kernel runs without an {name}")),
    };
    let why = if used.oem() != wanted.oem() {
        "it is of another maker: the overlay was made for another machine"
    } else if used.oem_revision() >= wanted.oem_revision() {
        "the kernel runs with one of the same or a higher OEM revision: the firmware has been updated; \
         make the overlay again"
    } else {
        "the kernel did not take it: is the overlay the first initrd, is the kernel locked down (Secure \
         Boot), does it have CONFIG_ACPI_TABLE_UPGRADE? `dmesg | grep -i 'table upgrade'` shows it"
    };
    Some(format!("{name} is not the overlay's: {why}"))
}

/// All domains with memory: where they are, what they should be, what they are.
fn compare(firmware: &Firmware, nodes: &Nodes, findings: &mut Vec<String>) -> Vec<CheckRow> {
    let Some(block_bytes) = nodes.block_bytes else {
        findings.push("this kernel does not list memory blocks (CONFIG_MEMORY_HOTPLUG)".into());
        return Vec::new();
    };
    let groups = firmware.srat.memory_only();
    let mut at: BTreeMap<u32, u32> = BTreeMap::new();
    for domain in firmware.srat.processors() {
        let near = blocks(&firmware.srat, domain, block_bytes).find_map(|b| nodes.of_block(b));
        at.extend(near.map(|node| (domain, node)));
    }
    let mut rows = Vec::new();
    for domain in &groups {
        let row = place(&firmware.srat, nodes, *domain, block_bytes, findings);
        if let Some(node) = row.node {
            if let Some((other, _)) = at.iter().find(|(_, n)| **n == node) {
                findings.push(format!("domains {other} and {domain} are one node, {node}"));
            }
            at.insert(*domain, node);
        }
        rows.push(row);
    }
    if let Some(slit) = &firmware.slit {
        distances(slit, nodes, &at, findings);
    }
    if let Some(hmat) = &firmware.hmat {
        for domain in &groups {
            figures(hmat, nodes, *domain, at.get(domain).copied(), findings);
        }
    }
    rows
}

/// Blocks that lie in a domain with all their bytes.
fn blocks(srat: &Srat, domain: u32, block_bytes: u64) -> impl Iterator<Item = u64> {
    srat.memory(domain).into_iter().flat_map(move |span| {
        let first = span.base_bytes.div_ceil(block_bytes);
        first..(span.end_bytes() / block_bytes).max(first)
    })
}

fn place(
    srat: &Srat,
    nodes: &Nodes,
    domain: u32,
    block_bytes: u64,
    findings: &mut Vec<String>,
) -> CheckRow {
    let size_bytes = srat.memory(domain).iter().map(|s| s.length_bytes).sum();
    let mut found: BTreeSet<u32> = BTreeSet::new();
    let mut missing = 0_u64;
    let mut present_bytes = 0;
    for block in blocks(srat, domain, block_bytes) {
        match nodes.of_block(block) {
            Some(node) => {
                found.insert(node);
                present_bytes += block_bytes;
            }
            None => missing += block_bytes,
        }
    }
    if missing > 0 {
        findings.push(format!(
            "domain {domain}: {} of {} are not there as ordinary memory; see `daxctl list`, `lsmem`",
            size(missing),
            size(size_bytes)
        ));
    }
    if found.len() > 1 {
        findings.push(format!("domain {domain} is several nodes: {found:?}"));
    }
    let node = found.first().copied();
    if let Some(node) = node.and_then(|id| nodes.get(id))
        && node.has_cpus
    {
        findings.push(format!(
            "domain {domain} is node {}, which has CPUs",
            node.id
        ));
    }
    CheckRow {
        domain,
        node,
        size_bytes,
        present_bytes,
    }
}

fn distances(slit: &Slit, nodes: &Nodes, at: &BTreeMap<u32, u32>, findings: &mut Vec<String>) {
    for (from, from_node) in at {
        for (to, to_node) in at {
            let wanted = slit.distance(*from, *to).map(u32::from);
            let found = nodes
                .get(*from_node)
                .and_then(|n| n.distances.get(to_node).copied());
            if wanted.is_some() && wanted != found {
                findings.push(format!(
                    "from node {from_node} to node {to_node} it is {}, and the SLIT says {}",
                    number(found.map(u64::from)),
                    number(wanted.map(u64::from))
                ));
            }
        }
    }
}

fn figures(hmat: &Hmat, nodes: &Nodes, domain: u32, node: Option<u32>, findings: &mut Vec<String>) {
    let Some(node) = node.and_then(|id| nodes.get(id)) else {
        return;
    };
    let reach = &node.reach;
    for (figure, name, found) in [
        (
            DataType::ReadLatency,
            "read latency (ns)",
            reach.read_latency_ns,
        ),
        (
            DataType::WriteLatency,
            "write latency (ns)",
            reach.write_latency_ns,
        ),
        (
            DataType::ReadBandwidth,
            "read bandwidth (MB/s)",
            reach.read_bandwidth_mb_per_sec,
        ),
        (
            DataType::WriteBandwidth,
            "write bandwidth (MB/s)",
            reach.write_bandwidth_mb_per_sec,
        ),
    ] {
        let wanted = hmat.best(figure, domain);
        if wanted.is_some() && wanted != found {
            findings.push(format!(
                "node {}: {name} is {}, and the HMAT says {}",
                node.id,
                number(found),
                number(wanted)
            ));
        }
    }
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(|| "not known".to_owned(), |n| n.to_string())
}

fn page(report: &CheckReport) -> String {
    let rows = report.groups.iter().map(|row| {
        let node = row.node.map_or("no node".into(), |n| format!("node {n}"));
        vec![
            Cell::words(format!("domain {}", row.domain)),
            Cell::words(node),
            Cell::number(size(row.present_bytes)),
            Cell::number(size(row.size_bytes)),
        ]
    });
    let mut page = match &report.groups[..] {
        [] => String::new(),
        _ => {
            let table = Rows::new("", &["group", "", "there", "of"], rows);
            terminal_table(&table, Setting::WIDE)
        }
    };
    // Writing into a String cannot fail, here and below.
    for finding in &report.findings {
        let _ = writeln!(page, "✗ {finding}");
    }
    if report.as_written {
        page += "✓ the kernel runs with these tables, and made of them what they say\n";
    }
    page
}
