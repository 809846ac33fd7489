// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir groups resize`: device memory from group to group, block by block; and `--check`, which proves
//! that no block is in two of them.

use super::acpi::read_bounded;
use super::cli::ResizeArgs;
use crate::cli::exit::{Exit, print, print_json};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use weir_figures::text::size;
use weir_figures::{Cell, Setting, Table, terminal_table};
use weir_linux::Roots;
use weir_linux::virtual_copies::{
    Layout, Map, MemoryBlocks, MemorySysfs, MovedBlocks, Owner, Refusal, resize as carry_out,
};

/// Patience is kept in whole seconds.
const PATIENCE_MIN: Duration = Duration::from_secs(1);
const LAYOUT_BYTES_MAX: usize = 64 * 1024;

#[derive(Serialize)]
struct Page {
    complete: bool,
    block_bytes: u64,
    groups: Vec<ResizeRow>,
    free_bytes: u64,
    violations: Vec<String>,
    moved: Vec<MovedBlocks>,
    refused: Vec<Refusal>,
}

#[derive(Serialize)]
struct ResizeRow {
    node: u32,
    size_bytes: u64,
}

/// Resizes, or only checks.
///
/// # Errors
/// The layout is not known, the kernel cannot do it, or a block is online twice.
pub fn resize(args: &ResizeArgs, roots: &Roots) -> Result<Exit> {
    let layout = read_layout(&args.alias_map)?;
    let page = if args.check {
        let kernel = MemorySysfs::open(roots)?;
        is_possible(&layout, &kernel, &args.alias_map)?;
        let map = Map::read(&kernel, &layout)?;
        page(&map, map.violations().is_empty(), vec![], vec![])
    } else {
        if args.offline_timeout.0 < PATIENCE_MIN {
            bail!("--offline-timeout: at least 1s");
        }
        let mut kernel = MemorySysfs::open_to_act(roots, args.offline_timeout.0)?;
        is_possible(&layout, &kernel, &args.alias_map)?;
        let wanted: Vec<(u32, u64)> = args.sizes.iter().map(|s| (s.node, s.bytes)).collect();
        if let Some(twice) = wanted.iter().enumerate().find_map(|(at, (node, _))| {
            wanted
                .iter()
                .skip(at + 1)
                .any(|(n, _)| n == node)
                .then_some(node)
        }) {
            bail!("node {twice} is given twice");
        }
        let report = carry_out(&mut kernel, &layout, &wanted)?;
        page(&report.map, report.complete, report.moved, report.refused)
    };
    if args.json {
        print_json(&page)?;
    } else {
        print(&text(&page))?;
    }
    Ok(if page.complete {
        Exit::Done
    } else {
        Exit::Finding
    })
}

/// Checks that this kernel's blocks fit the copies. An error names the file.
fn is_possible(layout: &Layout, kernel: &impl MemoryBlocks, path: &Path) -> Result<()> {
    let found = layout.blocks(kernel.block_bytes());
    found.with_context(|| path.display().to_string())?;
    Ok(())
}

/// Reads the alias map. It decides which blocks come online, so only root may be able to write it.
fn read_layout(path: &Path) -> Result<Layout> {
    let name = path.display();
    let meta = std::fs::metadata(path).with_context(|| {
        format!(
            "cannot read {name}, the file with the places of the copies of device memory (see --help)"
        )
    })?;
    let me = rustix::process::geteuid().as_raw();
    if (meta.uid() != me && meta.uid() != 0) || meta.mode() & 0o022 != 0 {
        bail!(
            "{name} is not used: users other than root can write to it; check it, then chown root, chmod go-w"
        );
    }
    let bytes =
        read_bounded(path, LAYOUT_BYTES_MAX).with_context(|| format!("cannot read {name}"))?;
    if bytes.len() > LAYOUT_BYTES_MAX {
        bail!("{name} is longer than {LAYOUT_BYTES_MAX} bytes");
    }
    let text = String::from_utf8(bytes).with_context(|| format!("{name} is no text"))?;
    toml::from_str(&text).with_context(|| name.to_string())
}

fn page(map: &Map, complete: bool, moved: Vec<MovedBlocks>, refused: Vec<Refusal>) -> Page {
    let rows = map.nodes.iter().zip(map.counts());
    let free = map.owners.iter().filter(|o| **o == Owner::Free).count();
    Page {
        complete,
        block_bytes: map.block_bytes,
        groups: rows
            .map(|(node, count)| ResizeRow {
                node: *node,
                size_bytes: count * map.block_bytes,
            })
            .collect(),
        free_bytes: free as u64 * map.block_bytes,
        violations: map.violations(),
        moved,
        refused,
    }
}

fn text(page: &Page) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail, here and below.
    for moved in &page.moved {
        let what = if moved.online { "got" } else { "gave" };
        let _ = writeln!(
            out,
            "node {} {what} memory{} ({}, {:.0} ms)",
            moved.node,
            moved.block,
            size(page.block_bytes),
            moved.took_ms
        );
    }
    for refusal in &page.refused {
        let _ = writeln!(
            out,
            "✗ node {}, memory{}: {}",
            refusal.node, refusal.block, refusal.why
        );
    }
    let row = |name: String, bytes| vec![Cell::words(name), Cell::number(size(bytes))];
    let groups = page.groups.iter();
    let groups = groups.map(|group| row(format!("node {}", group.node), group.size_bytes));
    let rows = groups.chain([row("free".into(), page.free_bytes)]);
    out += &terminal_table(&Table::new("", &["", ""], rows), Setting::PLAIN);
    for violation in &page.violations {
        let _ = writeln!(out, "✗ {violation}");
    }
    if page.violations.is_empty() {
        out += "✓ no block of device memory is online twice\n";
    }
    if !page.complete && page.violations.is_empty() {
        out += "not all sizes were reached: end or move the processes that use these blocks, and try again\n";
    }
    out
}
