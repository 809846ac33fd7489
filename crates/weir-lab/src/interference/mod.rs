// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir sim interference`: what streams of memory and storage traffic do to each other, by the model of
//! weir-hw's host path.
//!
//! ```text
//! machine file ─┐                  ┌─ matrix ─► document ─┐
//! pair, lever ──┴─► ask (weir-hw) ─┼─ paper ──────────────┼─► tables, JSON, page
//!                                  ├─ sensitivity ────────┤
//!                                  └─ trade (levers) ─────┘
//! ```

mod ask;
pub mod cli;
mod document;
mod matrix;
mod page;
mod pair;
mod paper;
mod sensitivity;
mod tables;
#[cfg(test)]
mod tests;
mod trade;

use anyhow::{Context, Result, anyhow, bail};
use ask::PathModel;
use cli::{FormName, InterferenceArgs};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use weir::lab::builtin_scenarios::{one_line, read_at_most};
use weir::lab::{Exit, print, print_json};
use weir_figures::text::harmless;
use weir_figures::{Bound, Comparison};
use weir_hw::host_path::{HostMachine, Lever};
use weir_report::Fonts;
use weir_report::interference as shown;
use weir_report::interference::document::InterferenceDocument;

/// What `--paper`, `--sensitivity` and `--levers` print as JSON.
#[derive(Serialize)]
struct ModelTable<'a, T: Serialize> {
    kind: &'static str,
    version: u32,
    machine: &'a str,
    table: T,
}

/// Longest machine file, bytes.
const FILE_MAX: u64 = 1 << 16;

/// Runs it.
///
/// # Errors
/// The machine, a pair or a lever is wrong, or a file cannot be written.
pub fn interference(args: &InterferenceArgs) -> Result<Exit> {
    if args.list {
        return list(args.json);
    }
    let (machine, text) = load(&args.machine)?;
    if args.print {
        print(&text)?;
        return Ok(Exit::Done);
    }
    let model = PathModel {
        machine,
        form: args.form,
        seed: args.seed,
    };
    if let Some(out) = &args.out {
        return write(args, &model, out);
    }
    if args.paper {
        return paper(args, &model);
    }
    if args.sensitivity {
        let table = sensitivity::sensitivity(&model)?;
        return show(args, &model, "sensitivity", &table, tables::sensitivity);
    }
    if args.levers {
        let table = trade::trade(&model)?;
        return show(args, &model, "levers", &table, tables::trade);
    }
    let document = matrix(args, &model)?;
    if args.json {
        print_json(&shown::explained(&document)?)?
    } else {
        print(&shown::terminal(&document))?
    }
    Ok(Exit::Done)
}

fn show<T: Serialize>(
    args: &InterferenceArgs,
    model: &PathModel,
    what: &str,
    table: &T,
    text: fn(&T) -> String,
) -> Result<Exit> {
    if args.json {
        print_json(&of_kind(model, what, table))?
    } else {
        print(&text(table))?
    }
    Ok(Exit::Done)
}

fn of_kind<'a, T: Serialize>(model: &'a PathModel, what: &str, table: T) -> ModelTable<'a, T> {
    let kind = match what {
        "paper" => "weir-interference-paper",
        "sensitivity" => "weir-interference-sensitivity",
        _ => "weir-interference-levers",
    };
    ModelTable {
        kind,
        version: 1,
        machine: &model.machine.name,
        table,
    }
}

fn paper(args: &InterferenceArgs, model: &PathModel) -> Result<Exit> {
    let rows = paper::rows(model)?;
    if args.json {
        print_json(&of_kind(model, "paper", paper_json(&rows)))?
    } else {
        print(&tables::paper(&rows))?
    }
    let missed = rows.iter().any(Comparison::is_missed);
    Ok(if args.check && missed {
        Exit::Finding
    } else {
        Exit::Done
    })
}

/// A figure of the paper in JSON.
#[derive(Serialize)]
struct PaperFigureJson<'a> {
    name: &'a str,
    paper: &'a str,
    ours: Option<f64>,
    unit: &'a str,
    low: Option<f64>,
    high: Option<f64>,
    met: Option<bool>,
    why: &'a str,
}

impl PaperFigureJson<'_> {
    fn new(row: &Comparison) -> PaperFigureJson<'_> {
        let [low, high] = row.bound.map_or([None; 2], Bound::ends);
        PaperFigureJson {
            name: &row.name,
            paper: &row.reference,
            ours: row.value.as_ref().ok().copied(),
            unit: row.unit.name(),
            low,
            high,
            met: row.is_met(),
            why: &row.why,
        }
    }
}

fn paper_json(rows: &[Comparison]) -> Vec<PaperFigureJson<'_>> {
    rows.iter().map(PaperFigureJson::new).collect()
}

/// A machine by the name of one that is built in, or by the path of its file; with its text.
fn load(name: &str) -> Result<(HostMachine, String)> {
    if let Some(text) = HostMachine::text(name) {
        let machine = HostMachine::named(name).map_err(|error| anyhow!("{error}"))?;
        return Ok((machine, text.to_owned()));
    }
    let path = Path::new(name);
    let is_path = name.ends_with(".toml") || name.contains('/') || path.is_file();
    if !is_path {
        bail!(
            "no machine is called `{}`: use one of {}, or the path of a TOML file",
            harmless(name),
            HostMachine::names().join(", ")
        );
    }
    let text = read_at_most(path, FILE_MAX)
        .with_context(|| format!("cannot read the machine file {}", harmless(name)))?;
    match HostMachine::parse(&text, name) {
        Ok(machine) => Ok((machine, text)),
        Err(error) => bail!("{}", one_line(&error.to_string())),
    }
}

#[derive(Serialize)]
struct ListedMachine {
    name: &'static str,
    about: String,
}

fn list(json: bool) -> Result<Exit> {
    let mut all = Vec::new();
    for name in HostMachine::names() {
        let about = load(name)?.0.title;
        all.push(ListedMachine { name, about });
    }
    if json {
        print_json(&all)?;
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    for ListedMachine { name, about } in all {
        let line = weir_figures::text::wrap(&format!("{name}  {about}"), weir_figures::COLUMNS, 9);
        let _ = writeln!(text, "{line}");
    }
    print(&text)?;
    Ok(Exit::Done)
}

/// The cells that were asked for.
fn matrix(args: &InterferenceArgs, model: &PathModel) -> Result<InterferenceDocument> {
    let mut values = BTreeMap::new();
    let mut levers: Vec<Lever> = Vec::new();
    for words in &args.lever {
        let (name, value, lever) = pair::parse_lever(words, &model.machine)?;
        if values.insert(name.clone(), value).is_some() {
            bail!("lever {name} is given twice: give it once");
        }
        levers.push(lever);
    }
    let mut missing = BTreeMap::new();
    let pairs = if !args.pair.is_empty() {
        let all = args.pair.iter();
        all.map(|words| pair::parse(words, &model.machine))
            .collect::<Result<Vec<_>>>()?
    } else {
        let (pairs, lacking) = pair::of_paper(&model.machine);
        missing.extend(lacking);
        pairs
    };
    if levers.iter().any(|lever| matches!(lever, Lever::Cat(_))) {
        let why = "it has no effect here: no stream of the model lives in the last-level cache";
        missing.insert("levers.cat".to_owned(), why.to_owned());
    }
    let cells = matrix::cells(model, &pairs, &levers)?;
    Ok(document::document(args, model, &values, cells, missing))
}

/// All figures of `--out`.
#[derive(Serialize)]
struct Summary<'a> {
    document: &'a InterferenceDocument,
    paper: Vec<PaperFigureJson<'a>>,
    sensitivity: &'a sensitivity::Sensitivity,
    levers: &'a trade::Trade,
}

fn write(args: &InterferenceArgs, model: &PathModel, dir: &Path) -> Result<Exit> {
    if args.form == FormName::Events {
        bail!(
            "--out is by the solver: its sensitivity table alone has hundreds of mixes; leave --form out"
        );
    }
    let document = matrix(args, model)?;
    let paper = paper::rows(model)?;
    let sensitivity = sensitivity::sensitivity(model)?;
    let trade = trade::trade(model)?;
    let fonts = Fonts::load()?;
    let content = page::PageContent {
        document: &document,
        paper: &paper,
        sensitivity: &sensitivity,
        trade: &trade,
    };
    let command = format!(
        "{} --out {}",
        document::command(args),
        weir_report::quoted(&dir.to_string_lossy())
    );
    let html = page::page(&content, &fonts, &command);
    let png = weir_report::png(&page::picture(&trade, &fonts), &fonts)?;
    let summary = serde_json::to_string_pretty(&Summary {
        document: &document,
        paper: paper_json(&paper),
        sensitivity: &sensitivity,
        levers: &trade,
    })?;
    let out = weir_report::OutputDir::open_or_make(dir)?;
    let results = shown::json(&document)?;
    let matrix = shown::page(&document);
    for (name, bytes) in [
        ("summary.json", summary.as_bytes()),
        ("interference.json", &results),
        ("matrix.html", matrix.as_bytes()),
        ("levers.png", &png),
        ("index.html", html.as_bytes()),
    ] {
        let file = out.put(name, bytes)?;
        eprintln!("wrote {}", harmless(&file.display().to_string()));
    }
    Ok(Exit::Done)
}
