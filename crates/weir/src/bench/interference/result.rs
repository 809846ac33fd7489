// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The document, and where it is written.

use super::super::cli::BenchInterferenceArgs;
use super::cells::{HALF_WIDTH_RATIO, PairSamples, cells};
use super::cross_check::ToolCheck;
use super::plan::TimePlan;
use super::site::{BenchSite, disk};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use weir_bench::storage::IoTarget;
use weir_figures::text::harmless;
use weir_files::Folder;
use weir_linux::Roots;
use weir_report::interference::document::{
    InterferenceDocument, InterferenceMachine, InterferencePlan, KIND, VERSION, World,
};
use weir_report::results::Caveat;

/// What a document is made of.
pub struct Parts<'a> {
    pub args: &'a BenchInterferenceArgs,
    pub roots: &'a Roots,
    pub site: &'a BenchSite,
    /// What played the SSD.
    pub disk: Option<&'a IoTarget>,
    pub begun: SystemTime,
    pub time: TimePlan,
    pub cpu_model: &'a str,
    pub facts: BTreeMap<String, String>,
    pub caveats: Vec<Caveat>,
    pub missing: BTreeMap<String, String>,
    pub samples: &'a [PairSamples],
    pub checks: &'a [ToolCheck],
}

pub fn document(parts: &Parts<'_>) -> InterferenceDocument {
    let site = parts.site;
    let mut targets = BTreeMap::from([("mmem".to_owned(), format!("node{}", site.mmem))]);
    if let Ok(node) = site.cxl {
        targets.insert("cxl".into(), format!("node{node}"));
    }
    if let Some(target) = parts.disk {
        targets.insert("ssd".into(), disk::described(parts.roots, target));
    }
    let mut facts = parts.facts.clone();
    facts.insert("thread_mib".into(), (site.thread_bytes >> 20).to_string());
    let probe = site
        .cpus
        .probe
        .map_or_else(|| "none left".into(), |cpu| format!("cpu{cpu}"));
    facts.insert("latency_cpu".into(), probe);
    for check in parts.checks {
        facts.insert(format!("cross_check.{}", check.name), check.words());
    }
    InterferenceDocument {
        kind: KIND.into(),
        version: VERSION,
        weir_version: env!("CARGO_PKG_VERSION").into(),
        world: World::Machine,
        date_utc: weir_report::date_utc(parts.begun),
        machine: InterferenceMachine {
            name: harmless(parts.cpu_model),
            cpus: u32::try_from(weir_bench::cpu::allowed().map_or(0, |cpus| cpus.len()))
                .unwrap_or(0),
            targets,
            facts,
        },
        plan: InterferencePlan {
            command: command(),
            seed: parts.args.seed,
            seconds: Some(parts.time.seconds),
            repeats_max: parts.time.repeats,
            half_width_ratio: HALF_WIDTH_RATIO,
            levers: BTreeMap::new(),
        },
        cells: cells(parts.samples, parts.args.seed),
        caveats: parts.caveats.clone(),
        missing: parts.missing.clone(),
    }
}

fn command() -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| weir_report::quoted(&word.to_string_lossy()));
    std::iter::once("weir".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Looks whether a result can be written there, before anything is measured.
///
/// # Errors
/// It cannot.
pub fn check_directory(out: &Path) -> Result<()> {
    let name = || harmless(&out.display().to_string());
    let out = Folder::open_or_make(out).with_context(|| format!("--out {}", name()))?;
    out.nameless()
        .with_context(|| format!("--out {}: no file can be made there", name()))?;
    Ok(())
}

/// Writes result and page.
///
/// # Errors
/// A file cannot be written.
pub fn write(out: &Path, document: &InterferenceDocument) -> Result<Vec<PathBuf>> {
    let json = weir_report::interference::json(document)?;
    let page = weir_report::interference::page(document).into_bytes();
    super::super::write_files(out, &[("result.json", json), ("index.html", page)])
}
