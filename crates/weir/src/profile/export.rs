// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir profile export`: windows as plain text, or figures of each window as lines of JSON.

use super::cli::{ExportedFigures, ProfileExportArgs};
use super::{all_windows_of, part_of, shown, windows_of, workload_not_found, write_new};
use crate::cli::exit::{Exit, print};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use weir_core::Nanos;
use weir_profile::path_map::PathMap;
use weir_profile::report::{self, Figures, Report, RuleReport};
use weir_profile::stages::Stages;
use weir_profile::stalls::StallSplit;
use weir_profile::window_file::WindowEncoder;
use weir_profile::{Refusal, WindowFile};

/// Figures of one kind, under the name that `--table` has for them.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum OneKind<'a> {
    Paths(&'a PathMap),
    Stages(&'a Stages),
    Stalls(&'a Result<StallSplit, Refusal>),
}

#[derive(Serialize)]
struct FigureLine<'a> {
    from_ns: Nanos,
    to_ns: Nanos,
    subject: &'a str,
    #[serde(flatten)]
    figures: OneKind<'a>,
}

/// A line of what a rule says.
#[derive(Serialize)]
struct RuleLine<'a> {
    from_ns: Nanos,
    to_ns: Nanos,
    #[serde(flatten)]
    rule: &'a RuleReport,
}

/// Does it.
///
/// # Errors
/// A file cannot be read or written, or no workload has the name.
pub fn export(args: &ProfileExportArgs) -> Result<Exit> {
    let is_counts = matches!(
        args.table,
        ExportedFigures::Windows | ExportedFigures::Recording
    );
    if is_counts && args.part.workload.is_some() {
        bail!("windows are exported whole: add --table stages, or leave out --workload");
    }
    if args.table == ExportedFigures::Recording && args.out.is_none() {
        bail!("a recording is no text: add --out NEW");
    }
    let file = part_of(&args.file, all_windows_of(&args.file)?, args.part.span())?;
    let text = match args.table {
        ExportedFigures::Windows => file.to_text()?,
        ExportedFigures::Recording => String::new(),
        what => figures(args, &file, what)?,
    };
    match &args.out {
        None => print(&text)?,
        Some(path) if args.table == ExportedFigures::Recording => {
            write_new(path, &recording(&file)?)?
        }
        Some(path) => write_new(path, text.as_bytes())?,
    }
    Ok(Exit::Done)
}

/// The file in format 2.
fn recording(file: &WindowFile) -> Result<Vec<u8>> {
    let mut encoder = WindowEncoder::new(&file.header)?;
    let mut bytes = encoder.begin()?;
    for window in &file.windows {
        let more = encoder.add(window)?;
        bytes.extend(more.context("it has more windows or counts than a recording may have")?);
    }
    bytes.extend(encoder.finish()?);
    Ok(bytes)
}

fn figures(args: &ProfileExportArgs, file: &WindowFile, what: ExportedFigures) -> Result<String> {
    let idle = args.part.idle.as_deref().map(windows_of).transpose()?;
    let options = report::Options {
        idle: idle.as_ref(),
        workload: args.part.workload.as_deref(),
        each: what != ExportedFigures::Findings,
        ..report::Options::default()
    };
    let made = report::report(file, &options);
    if let (Some(name), true) = (&args.part.workload, made.subjects.is_empty()) {
        bail!(workload_not_found(name, file));
    }
    let lines = match what {
        ExportedFigures::Findings => rule_lines(&made, file),
        _ => figure_lines(&made, file, what),
    };
    lines.with_context(|| format!("cannot export {}", shown(&args.file)))
}

fn rule_lines(made: &Report, file: &WindowFile) -> Result<String> {
    let (from_ns, to_ns) = match (file.windows.first(), file.windows.last()) {
        (Some(first), Some(last)) => (first.from, last.to),
        _ => (Nanos(0), Nanos(0)),
    };
    let mut text = String::new();
    for rule in &made.rules {
        push(
            &mut text,
            &RuleLine {
                from_ns,
                to_ns,
                rule,
            },
        )?;
    }
    Ok(text)
}

/// Lines of figures by window, then by subject.
fn figure_lines(made: &Report, file: &WindowFile, what: ExportedFigures) -> Result<String> {
    let mut text = String::new();
    for (number, window) in file.windows.iter().enumerate() {
        for subject in &made.subjects {
            let Some(figures) = subject.each.get(number).and_then(|all| of_kind(all, what)) else {
                continue;
            };
            let line = FigureLine {
                from_ns: window.from,
                to_ns: window.to,
                subject: &subject.name,
                figures,
            };
            push(&mut text, &line)?;
        }
    }
    Ok(text)
}

fn of_kind(all: &Figures, what: ExportedFigures) -> Option<OneKind<'_>> {
    match what {
        ExportedFigures::Paths => Some(OneKind::Paths(&all.path_map)),
        ExportedFigures::Stages => Some(OneKind::Stages(&all.stages)),
        ExportedFigures::Stalls => Some(OneKind::Stalls(&all.stalls)),
        ExportedFigures::Windows | ExportedFigures::Recording | ExportedFigures::Findings => None,
    }
}

fn push(text: &mut String, line: &impl Serialize) -> Result<()> {
    *text += &serde_json::to_string(line)?;
    text.push('\n');
    Ok(())
}
