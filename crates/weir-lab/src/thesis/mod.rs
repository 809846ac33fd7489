// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-lab thesis`: chapter 6 of the thesis on the simulated machine, the thesis's controllers and ours,
//! and what lies beyond it. One page that needs nothing else, every figure as JSON, every series as CSV.
//!
//! ```text
//! context (runs, made once) ─► device, estimate, bandwidth, latency, costs, live, bounds, knee, … ─► page
//! published_figures, measured (each figure of both) ┘                  └► deviations
//! causes (runs with one assumption varied) ─────────────────────────────────┘
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

use anyhow::{Context, Result};
use clap::Args;
use context::EvalContext;
use serde_json::{Value, json};
use std::path::PathBuf;
use weir::lab::{Exit, print, print_json};
use weir_figures::text::harmless;
use weir_figures::{Document, Part, Section};
use weir_report::OutputDir;

/// `weir-lab thesis`.
#[derive(Debug, Args)]
#[command(after_help = THESIS_HELP)]
pub struct ThesisArgs {
    /// Where page, figures and series go
    #[arg(long, default_value = "out/evaluate", value_name = "DIR")]
    pub out: PathBuf,

    /// How many seeds each scenario is run with
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub seeds: u16,

    /// One seed and shorter runs: to see whether all of it works, not to quote figures from
    #[arg(long)]
    pub quick: bool,

    /// Exit with 1 if an aim of the page or a bound of a scenario is missed
    #[arg(long, conflicts_with = "quick")]
    pub check: bool,

    /// Print evaluation.json on stdout too
    #[arg(long)]
    pub json: bool,
}

const THESIS_HELP: &str = "\
Examples:
  weir-lab thesis                            into out/evaluate: index.html, evaluation.json, CSV
  weir-lab thesis --seeds 10 --out today
  weir-lab thesis --quick                    one seed, shorter: does it all work?";

type Make = fn(&mut EvalContext) -> Result<Section>;

/// Sections in the order of the page.
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
pub fn evaluate(args: &ThesisArgs) -> Result<Exit> {
    // Asked before minutes of work: can anything be written at all?
    let out = OutputDir::open_or_make(&args.out)?;
    let mut context = EvalContext::new(args)?;
    eprintln!("── tested causes");
    causes::test(&mut context).context("tested causes")?;
    let mut sections = Vec::new();
    for (n, (name, make)) in SECTIONS.iter().enumerate() {
        eprintln!("── {} of {}: {name}", n + 1, SECTIONS.len() + 1);
        sections.push(make(&mut context).with_context(|| format!("section {name}"))?);
    }
    deviations::is_whole(&context)?;
    deviations::show(&mut context);
    let after = sections.iter().position(|s| s.id == "aims");
    sections.insert(
        after.unwrap_or(sections.len()),
        causes::section(&mut context),
    );
    sections.push(speed::speed(&mut context));
    sections.insert(0, summary::summary(&context));
    let figures = figures(&context)?;
    write(&out, &context, &figures, sections)?;
    eprintln!(
        "wrote {}",
        harmless(&args.out.join("index.html").display().to_string())
    );
    if args.json {
        print_json(&figures)?;
        eprint!("{}", summary::closing(&context));
    } else {
        print(&summary::closing(&context))?;
    }
    let has_missed = args.check && !summary::is_met(&context);
    Ok(if has_missed {
        Exit::Finding
    } else {
        Exit::Done
    })
}

/// Everything as one JSON object.
fn figures(context: &EvalContext) -> Result<Value> {
    let mut scenarios = serde_json::Map::new();
    for (name, batch) in context.batches() {
        let results = weir_report::explained(&batch.results())?;
        scenarios.insert(name.clone(), serde_json::to_value(&results)?);
    }
    Ok(json!({
        "seeds": context.seeds,
        "is_quick": context.is_quick,
        "summary": context.shown,
        "compared_with_thesis": context.compared,
        "figures": context.figures,
        "scenarios": scenarios,
    }))
}

fn write(
    out: &OutputDir,
    context: &EvalContext,
    figures: &Value,
    mut sections: Vec<Section>,
) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(figures)?;
    text.push(b'\n');
    out.put("evaluation.json", &text)?;
    for (name, csv) in &context.files {
        out.put(name, csv.as_bytes())?;
    }
    for section in &sections {
        let pictures = section.parts.iter().filter_map(|part| match part {
            Part::Picture(picture) => Some(picture),
            _ => None,
        });
        for (n, picture) in pictures.enumerate() {
            let name = format!("{}-{}.png", section.id, n + 1);
            out.put(&name, &weir_report::png(picture, &context.fonts)?)?;
        }
    }
    sections.push(shortcuts::section());
    sections.push(files(context));
    let page = weir_figures::html(&Document {
        title: "CXL bandwidth control, evaluated on a simulated machine".into(),
        about: about(context),
        answer: Vec::new(),
        sections,
    });
    out.put("index.html", page.as_bytes())?;
    Ok(())
}

fn about(context: &EvalContext) -> Vec<String> {
    let mut about = vec![
        "Chapter 6 of the thesis \"CXL bandwidth control\" (KIT, 2025): its controllers and weir's on the same simulated machine, 20 cores with 40 hardware \
         threads and an FPGA device of about 10 GiB/s. Names: thesis-scx, thesis-scx-vtime and thesis-scx-throttle are its schedulers (5.4.1), thesis-cgroups and \
         thesis-cgroups-simple its loops in user space (5.4.2); cpu-max is weir with limits in that file, sched-ext and sched-ext-full are weir with its own scheduler, in partial and in full mode. No parameter was fitted for a single controller."
            .to_owned(),
        "A simulator may know less than reality: its shortcuts are listed at the end. Where ours lies more than 10 % from a printed figure, \
         assumptions were varied one at a time; what comes nearest stands below the table, and what nothing explains is listed as such."
            .to_owned(),
        format!("{}. weir {}.", seeds(&context.seeds), env!("CARGO_PKG_VERSION")),
    ];
    if context.is_quick {
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

fn files(context: &EvalContext) -> Section {
    let names: Vec<&str> = context.files.keys().map(String::as_str).collect();
    Section::new(
        "files",
        "Files",
        vec![
            context::text(
                "evaluation.json has every figure of this page; the pictures lie beside it as PNG. Every series as CSV (single users of a device as means of a second, of the first seed, and \
                       only where there are at most 24):",
            ),
            context::text(names.join(", ")),
            context::command("weir-lab thesis"),
        ],
    )
}
