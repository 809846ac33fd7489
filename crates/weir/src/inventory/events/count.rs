// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir events --count`: bytes that went to and from CXL memory while a command ran.

use super::cli::EventsArgs;
use crate::cli::exit::{Exit, print, print_json};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::fmt::Write as _;
use std::process::Command;
use weir_core::{Bytes, Missing};
use weir_figures::text::{harmless, whole_percent};
use weir_linux::Roots;
use weir_linux::pmu::{self, Counting, Origin, Target};

/// A device, a group of one, or all there is.
#[derive(Serialize)]
struct CountRow {
    device: String,
    group: u32,
    node: Option<u32>,
    reads: Result<Origin, Missing>,
    writes: Result<Origin, Missing>,
    read_bytes: Result<u64, Missing>,
    write_bytes: Result<u64, Missing>,
    /// Part of the time that the events counted; below 1 the bytes are scaled.
    running_ratio: f64,
}

/// Counts.
///
/// # Errors
/// Nothing can be counted here, perf is refused, the command cannot be started.
pub fn count(args: &EventsArgs, roots: &Roots) -> Result<Exit> {
    let targets = pmu::here(roots, &args.devices.nodes(roots)?);
    if targets.is_empty() {
        bail!("this machine cannot count CXL traffic: `weir events` says what is missing");
    }
    let open = targets
        .into_iter()
        .map(Target::open)
        .collect::<Result<Vec<Counting>, Missing>>();
    let counting = open.map_err(|why| anyhow::anyhow!("cannot count: {why}"))?;
    let Some((program, arguments)) = args.command.split_first() else {
        bail!("a command is missing: weir events --count -- sleep 1");
    };
    let status = Command::new(program).args(arguments).status();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    let rows: Vec<CountRow> = counting.into_iter().map(row).collect();
    if args.json {
        print_json(&rows)?;
    } else {
        print(&page(&rows))?;
    }
    Ok(if status.success() {
        Exit::Done
    } else {
        Exit::Finding
    })
}

fn row(mut counting: Counting) -> CountRow {
    let bytes = counting.read();
    let target = counting.target;
    CountRow {
        device: target.device,
        group: target.group,
        node: target.node,
        reads: target.reads,
        writes: target.writes,
        read_bytes: bytes.read,
        write_bytes: bytes.write,
        running_ratio: bytes.running_ratio,
    }
}

fn page(rows: &[CountRow]) -> String {
    let mut out = String::new();
    let amount = |bytes: &Result<u64, Missing>| {
        bytes
            .as_ref()
            .map_or_else(|why| format!("({why})"), |bytes| Bytes(*bytes).to_string())
    };
    for row in rows {
        let node = row
            .node
            .map_or_else(|| "no known node".into(), |node| format!("node{node}"));
        let scaled = match row.running_ratio {
            ratio if ratio < 1.0 => {
                format!("; scaled: counted {} of the time", whole_percent(ratio))
            }
            _ => String::new(),
        };
        // Writing into a String cannot fail.
        let _ = writeln!(
            out,
            "{} group {} on {node}: read {}, written {}{scaled}",
            harmless(&row.device),
            row.group,
            harmless(&amount(&row.read_bytes)),
            harmless(&amount(&row.write_bytes))
        );
    }
    out
}
