// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir sim evaluate`: chapter 6 of the thesis on the simulated machine, the thesis's controllers and ours,
//! and what lies beyond it. One page that needs nothing else, every figure as JSON, every series as CSV.
//!
//! ```text
//! lab (runs, made once) ─► device, estimate, bandwidth, latency, costs, beyond, live, bounds, knee, … ─► page
//! printed, measured (each figure of both) ┘                                 └► why (deviations)
//! causes (runs with one assumption varied) ─────────────────────────────────────┘
//! ```

mod ablation;
mod bandwidth;
mod bounds;
mod causes;
mod context;
mod costs;
mod deviations;
mod device;
mod estimate;
mod extra_scenarios;
mod knee;
mod latency;
mod limits;
mod live;
mod measured;
mod overhead;
mod processes;
mod published_figures;
mod sensitivity;
mod shortcuts;
mod speed;
mod spread;
mod summary;

use super::cli::EvaluateArgs;
use crate::cli::exit::{Exit, print, print_json};
use crate::output::text::harmless;
use anyhow::{Context, Result};
use context::Lab;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use weir_report::{Document, Part, Section};

/// What makes a section.
type Make = fn(&mut Lab) -> Result<Section>;

/// In the order of the page.
const SECTIONS: [(&str, Make); 18] = [
    ("device model", device::device),
    ("6.2 estimation", estimate::estimate),
    ("6.3 bandwidth", bandwidth::limit),
    ("6.3.1 idle system", bandwidth::idle),
    ("6.3.2 unequal readers", bandwidth::asymmetric),
    ("spread", spread::spread),
    ("6.4 limits", limits::limits),
    ("6.5 latency", latency::latency),
    ("6.6 CPU cost", costs::cost),
    ("6.7 throughput", costs::throughput),
    ("6.8 overhead", overhead::overhead),
    ("weir's aims", costs::promises),
    ("step of load", extra_scenarios::step),
    ("beyond the thesis", extra_scenarios::beyond),
    ("live testbed", live::live),
    ("bounds", bounds::bounds),
    ("knee", knee::knee),
    ("ablation", ablation::ablation),
];

/// Runs everything and writes it.
///
/// # Errors
/// A run cannot be made, or a file cannot be written: naming it.
pub fn evaluate(args: &EvaluateArgs) -> Result<Exit> {
    // Before minutes of work: can anything be written at all?
    let out = &args.out;
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut lab = Lab::new(args)?;
    eprintln!("── tested causes");
    causes::test(&mut lab).context("tested causes")?;
    let mut sections = Vec::new();
    for (n, (name, make)) in SECTIONS.iter().enumerate() {
        eprintln!("── {} of {}: {name}", n + 1, SECTIONS.len() + 1);
        sections.push(make(&mut lab).with_context(|| format!("section {name}"))?);
    }
    deviations::is_whole(&lab)?;
    deviations::show(&mut lab);
    let after = sections.iter().position(|s| s.id == "aims");
    sections.insert(after.unwrap_or(sections.len()), causes::section(&mut lab));
    sections.push(speed::speed(&mut lab));
    sections.insert(0, summary::summary(&lab));
    let figures = figures(&lab)?;
    write(out, &lab, &figures, sections)?;
    eprintln!(
        "wrote {}",
        harmless(&out.join("index.html").display().to_string())
    );
    if args.json {
        print_json(&figures)?;
        eprint!("{}", summary::closing(&lab));
    } else {
        print(&summary::closing(&lab))?;
    }
    let has_missed = args.check && !summary::is_met(&lab);
    Ok(if has_missed {
        Exit::Finding
    } else {
        Exit::Done
    })
}

/// Everything as one JSON object.
fn figures(lab: &Lab) -> Result<Value> {
    let mut scenarios = serde_json::Map::new();
    for (name, batch) in lab.batches() {
        let results = weir_report::explained(&batch.results())?;
        scenarios.insert(name.clone(), serde_json::to_value(&results)?);
    }
    Ok(json!({
        "seeds": lab.seeds,
        "is_quick": lab.is_quick,
        "summary": lab.shown,
        "compared_with_thesis": lab.compared,
        "figures": lab.figures,
        "scenarios": scenarios,
    }))
}

fn write(out: &Path, lab: &Lab, figures: &Value, mut sections: Vec<Section>) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(figures)?;
    text.push(b'\n');
    weir_report::put(out, "evaluation.json", &text)?;
    for (name, csv) in &lab.files {
        weir_report::put(out, name, csv.as_bytes())?;
    }
    for section in &sections {
        let pictures = section.parts.iter().filter_map(|part| match part {
            Part::Picture(picture) => Some(picture),
            _ => None,
        });
        for (n, picture) in pictures.enumerate() {
            let name = format!("{}-{}.png", section.id, n + 1);
            weir_report::put(out, &name, &weir_report::png(picture, &lab.fonts)?)?;
        }
    }
    sections.push(shortcuts::section());
    sections.push(files(lab));
    let page = weir_report::html(&Document {
        title: "CXL bandwidth control, evaluated on a simulated machine".into(),
        about: about(lab),
        sections,
    });
    weir_report::put(out, "index.html", page.as_bytes())?;
    Ok(())
}

fn about(lab: &Lab) -> Vec<String> {
    let mut about = vec![
        "Chapter 6 of the thesis \"CXL bandwidth control\" (KIT, 2025): its controllers and weir's on the same simulated machine, 20 cores with 40 hardware \
         threads and an FPGA device of about 10 GiB/s. Names: thesis-scx, thesis-scx-vtime and thesis-scx-throttle are its schedulers (5.4.1), thesis-cgroups and \
         thesis-cgroups-simple its loops in user space (5.4.2); cpu-max is weir with limits in that file, sched-ext and sched-ext-full are weir with its own scheduler, in partial and in full mode. No parameter was fitted for a single controller."
            .to_owned(),
        "A simulator may know less than reality: its shortcuts are listed at the end. Where ours lies more than 10 % from a printed figure, \
         assumptions were varied one at a time; what comes nearest stands below the table, and what nothing explains is listed as such."
            .to_owned(),
        format!("{}. weir {}.", seeds(&lab.seeds), env!("CARGO_PKG_VERSION")),
    ];
    if lab.is_quick {
        about.push("This is a quick evaluation: runs are shorter than the scenarios say. It shows that everything works; do not quote it.".to_owned());
    }
    about
}

/// `Seed 1`, `Seeds 1 to 3`: they follow each other.
fn seeds(seeds: &[u64]) -> String {
    match seeds {
        [first, .., last] => format!("Seeds {first} to {last}"),
        [only] => format!("Seed {only}"),
        [] => "No seeds".into(),
    }
}

fn files(lab: &Lab) -> Section {
    let names: Vec<&str> = lab.files.keys().map(String::as_str).collect();
    Section {
        id: "files".into(),
        title: "Files".into(),
        parts: vec![
            context::text(
                "evaluation.json has every figure of this page; the pictures lie beside it as PNG. Every series as CSV (single users of a device as means of a second, of the first seed, and \
                       only where there are at most 24):",
            ),
            context::text(names.join(", ")),
            context::command("weir sim evaluate"),
        ],
    }
}
