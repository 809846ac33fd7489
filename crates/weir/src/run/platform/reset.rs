// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir reset`: restores what a killed weir process changed. weir-linux does the work and finds out whether
//! a weir process is alive (its lock ends with the process, however that ends). This module makes the report.

use crate::cli::exit::{Exit, print, print_json};
use anyhow::{Context, Result};
use clap::Args;
use std::fmt::Write;
use weir_core::WorkloadId;
use weir_figures::text;
use weir_linux::{NotRestored, ResetReport, Roots};

/// `weir reset`.
#[derive(Debug, Args)]
#[command(after_help = RESET_HELP)]
pub struct ResetArgs {
    /// Restore even though a weir seems to be running (it will set its limits again)
    #[arg(long)]
    pub force: bool,

    /// Print what was done as JSON
    #[arg(long)]
    pub json: bool,
}

const RESET_HELP: &str = "\
Restores the value that cpu.max had before weir changed it, from weir's journal. A value that
another program changed since stays, and is named.

Exit codes: 0 all is restored, 1 a value that another program changed stays, 2 something failed.

Example:
  weir reset                after weir was killed and its limits stayed";

/// Restores limits from the journal.
///
/// # Errors
/// A weir process is running and `--force` was not given; the journal cannot be trusted or read.
pub fn reset(args: &ResetArgs, roots: &Roots) -> Result<Exit> {
    let report = if args.force {
        weir_linux::reset_even_if_running(roots).context("nothing was reset")?
    } else {
        weir_linux::reset(roots).context("nothing was reset (--force does it all the same)")?
    };
    if args.json {
        print_json(&report)?;
    } else {
        print(&page(&report))?;
    }
    Ok(match () {
        () if !report.is_clean() => Exit::Trouble,
        () if !report.left_alone.is_empty() => Exit::Finding,
        () => Exit::Done,
    })
}

fn page(report: &ResetReport) -> String {
    if report.is_empty() {
        return "no limit of weir's is left: nothing to do\n".to_owned();
    }
    let mut out = String::new();
    let name = |id: &WorkloadId| text::harmless(id.as_str());
    let groups: [(&str, &Vec<WorkloadId>); 3] = [
        ("restored", &report.restored),
        ("already as it was", &report.unchanged),
        ("gone, and its limit with it", &report.vanished),
    ];
    // Writing into a String cannot fail, here and below.
    for (what, ids) in groups {
        for id in ids {
            let _ = writeln!(out, "{what}: {}", name(id));
        }
    }
    let others: [(&str, &Vec<NotRestored>); 2] = [
        ("left alone", &report.left_alone),
        ("NOT restored", &report.failed),
    ];
    for (what, list) in others {
        for entry in list {
            let why = text::harmless(&entry.why);
            let _ = writeln!(out, "{what}: {} ({why})", name(&entry.workload));
        }
    }
    for problem in &report.problems {
        let _ = writeln!(out, "problem: {}", text::harmless(problem));
    }
    let _ = writeln!(
        out,
        "{} restored, {} unchanged, {} gone, {} left alone, {} failed",
        report.restored.len(),
        report.unchanged.len(),
        report.vanished.len(),
        report.left_alone.len(),
        report.failed.len()
    );
    if !report.failed.is_empty() {
        out += "what failed stays in the journal: run `weir reset` again\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_each_result() {
        let entry = |id: &str, why: &str| NotRestored {
            workload: WorkloadId::new(id),
            why: why.into(),
        };
        let report = ResetReport {
            restored: vec![WorkloadId::new("/a\u{1b}[2J")],
            failed: vec![entry("/b", "read-only")],
            left_alone: vec![entry("/c", "max 100000 was set since")],
            problems: vec!["line 3 is cut short".into()],
            ..ResetReport::default()
        };
        let page = page(&report);
        for part in [
            "restored: /a\\u{1b}[2J",
            "NOT restored: /b (read-only)",
            "left alone: /c",
            "line 3",
            "1 restored, 0 unchanged, 0 gone, 1 left alone, 1 failed",
            "run `weir reset` again",
        ] {
            assert!(page.contains(part), "{part:?} is not in {page}");
        }
        assert!(super::page(&ResetReport::default()).contains("nothing to do"));
    }
}
