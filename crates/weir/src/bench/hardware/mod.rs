// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir verify-hardware`: what weir promises, measured on this machine, as one file to send. Reading order:
//! [`check`] what a check is, the checks ([`inventory`], [`known_lines`], [`latency`], [`kernel`]),
//! [`features`] what has none, [`report`] what comes of it, [`names`] what is left out of the file.

mod check;
pub mod cli;
mod features;
mod inventory;
mod kernel;
mod known_lines;
mod latency;
mod names;
mod report;
mod site;

use crate::bench::calibrate::{check_no_limits, watch};
use crate::cli::exit::{Exit, print, print_json};
use crate::cli::output::suggestion::perhaps;
use anyhow::{Context, Result, bail};
use check::{HardwareCheck, Harm};
use cli::VerifyHardwareArgs;
use report::{HardwareRow, PromiseVerdict};
use site::HardwareSite;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use weir_core::Missing;
use weir_figures::text::harmless;
use weir_files::{Access, NewFile};
use weir_linux::Roots;

/// All of them, those that only read first: a machine that must not be loaded is described all the same.
const CHECKS: [&dyn HardwareCheck; 12] = [
    &inventory::NodesProven,
    &inventory::DevicesCounted,
    &inventory::EventsEncode,
    &inventory::BpfReads,
    &kernel::TickCost,
    &kernel::LeaseRestored,
    &kernel::SchedulerLoads,
    &kernel::CpuMaxHolds,
    &known_lines::KnownLines,
    &known_lines::SourcesAgree,
    &latency::LatencyTwoWays,
    &latency::KneeFound,
];

/// Measures.
///
/// # Errors
/// There is no such check or node, or the file cannot be written.
pub fn verify_hardware(args: &VerifyHardwareArgs, roots: &Roots) -> Result<Exit> {
    let checks = chosen(&args.check)?;
    let nodes = args.devices.nodes(roots)?;
    let file = ready(&args.out)?;
    let refused = refusal(args, &checks, roots);
    let stop = watch()?;
    let mut site = HardwareSite::new(roots, nodes, args.max_duration.0, stop);
    let rows: Vec<HardwareRow> = checks
        .iter()
        .map(|check| measured(*check, &mut site, refused.as_ref()))
        .collect();
    let of_all: Vec<&str> = CHECKS.iter().map(|check| check.promise().feature).collect();
    let unchecked = features::unchecked(&of_all);
    let document = report::document(&site, &rows, &unchecked, args.with_names)?;
    keep(file, &args.out, &document)?;
    if args.json {
        print_json(&document)?;
    } else {
        let name = args.out.display().to_string();
        print(&report::page(&rows, unchecked.len(), &name))?;
    }
    Ok(match report::count(&rows, PromiseVerdict::Missed) {
        0 => Exit::Done,
        _ => Exit::Finding,
    })
}

fn chosen(names: &[String]) -> Result<Vec<&'static dyn HardwareCheck>> {
    let known: Vec<&str> = CHECKS.iter().map(|check| check.name()).collect();
    if let Some(wrong) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!(
            "--check {}: there is no such check{}; there are {}",
            harmless(wrong),
            perhaps(wrong, &known),
            known.join(", ")
        );
    }
    let is_chosen =
        |check: &&dyn HardwareCheck| names.is_empty() || names.iter().any(|n| n == check.name());
    Ok(CHECKS.into_iter().filter(|c| is_chosen(c)).collect())
}

/// Why nothing is loaded or changed, if so.
fn refusal(
    args: &VerifyHardwareArgs,
    checks: &[&dyn HardwareCheck],
    roots: &Roots,
) -> Option<Missing> {
    if checks.iter().all(|check| check.harm() == Harm::Reads) {
        return None;
    }
    let no = |why: &str| Some(Missing::NotPermitted(why.into()));
    if args.no_load {
        return no("--no-load was given");
    }
    if let Err(why) = check_no_limits(&roots.run) {
        return no(&why.to_string());
    }
    if args.yes {
        return None;
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return no(
            "it loads the machine or changes something, and nothing could be asked: give --yes",
        );
    }
    if is_agreed(args) {
        None
    } else {
        no("the answer was no")
    }
}

/// Asks on the terminal.
fn is_agreed(args: &VerifyHardwareArgs) -> bool {
    let limit = args.max_duration.0.as_secs();
    let question = format!(
        "May weir load CPUs and the CXL device, for up to {limit} s in all (other users of the device are slow \
         meanwhile), and make an empty cgroup and load its scheduler for a moment? [y/N] "
    );
    let mut out = io::stderr();
    // A terminal that cannot be written has no answer either.
    let _ = write!(out, "{question}").and_then(|()| out.flush());
    let mut line = String::new();
    let _ = io::stdin().lock().read_line(&mut line);
    matches!(line.trim(), "y" | "Y" | "yes")
}

fn measured(
    check: &dyn HardwareCheck,
    site: &mut HardwareSite,
    refused: Option<&Missing>,
) -> HardwareRow {
    let refused = refused.filter(|_| check.harm() != Harm::Reads);
    if let Some(why) = refused.cloned().or_else(|| site.end()) {
        return HardwareRow::of(check, Err(why));
    }
    // A closed stderr is no reason to stop.
    let _ = writeln!(io::stderr(), "{} …", check.name());
    let figure = check.measure(site);
    HardwareRow::of(check, figure)
}

/// A new file beside the place of the last, before anything is measured.
fn ready(path: &Path) -> Result<NewFile> {
    let shown = harmless(&path.display().to_string());
    if path.symlink_metadata().is_ok() {
        bail!("{shown} is there already: give another name with --out FILE");
    }
    weir_files::begin(path, Access::OwnerWrites)
        .with_context(|| format!("cannot write {shown}: say where with --out FILE"))
}

fn keep(mut file: NewFile, path: &Path, document: &serde_json::Value) -> Result<()> {
    let shown = || format!("cannot write {}", harmless(&path.display().to_string()));
    serde_json::to_writer_pretty(&mut file, document).with_context(shown)?;
    writeln!(file).with_context(shown)?;
    file.place().with_context(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The page's words in one line.
    fn page(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_promise_is_where_it_says() {
        let features = features::on_hardware();
        let mut names = BTreeSet::new();
        for check in CHECKS {
            let (name, promise) = (check.name(), check.promise());
            assert!(names.insert(name), "{name} is there twice");
            assert!(
                page(promise.page).contains(promise.quote),
                "{name}: {} does not say {:?}",
                promise.page,
                promise.quote
            );
            assert!(
                features.iter().any(|f| f.starts_with(promise.feature)),
                "{name}: docs/maturity.md has no row {:?} that was never on hardware",
                promise.feature
            );
        }
    }
}
