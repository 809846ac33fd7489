// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a profile: of one recording, or of two side by side. It is made of the report that is also
//! printed and written as JSON, so that the three cannot disagree.
//!
//! ```text
//! Report ─┬─ findings ─────────────────────────────┐
//!         ├─ flows ─► server (graph) ──────────────┤
//!         ├─ paths, stalls, waits, load (pictures) ┼─► single, compared ─► Document ─► index.html, PNGs
//!         └─ quality ──────────────────────────────┘
//! ```
//!
//! Its size is bounded whatever the recording: spans take windows together
//! ([`weir_profile::report::over_time`]), and of many workloads those that stall most are shown in full. What
//! is left out is said, and stands in `report.json`.

mod axis;
mod compared;
mod findings;
mod load;
mod paths;
mod places;
mod quality;
mod server;
mod single;
mod stalls;
mod waits;
mod words;

use crate::picture::paint::Fonts;
use crate::{Command, OutputDir, png};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use weir_figures::{Document, Part, Section, html};
use weir_profile::diff::DiffRow;
use weir_profile::report::{MACHINE, Report};

/// Pictures of a section that are written as PNG.
const PNGS_MAX: usize = 4;

/// A report with the name of its recording.
#[derive(Clone, Copy, Debug)]
pub struct Reported<'a> {
    /// The name: of the file, without its folder.
    pub name: &'a str,
    /// The report, with what changes over time.
    pub report: &'a Report,
}

/// Write the page of one recording into `dir` (made if it is not there), with the commands that made it.
/// Returns the files: `index.html`, `report.json`, and the pictures as PNG, named by their sections.
///
/// # Errors
/// A file cannot be written: naming it. Files written before it stay.
pub fn write(dir: &Path, reported: &Reported, commands: &[Command]) -> Result<Vec<PathBuf>> {
    let fonts = Fonts::load()?;
    let document = single::document(reported, commands, &fonts);
    let json = serde_json::to_vec(reported.report).context("report.json")?;
    write_all(dir, &document, &fonts, &[("report.json", json)])
}

/// Write the page of two recordings, likewise; `diff.json` has what changed.
///
/// # Errors
/// As [`write`].
pub fn write_diff(
    dir: &Path,
    sides: [&Reported; 2],
    rows: &[DiffRow],
    commands: &[Command],
) -> Result<Vec<PathBuf>> {
    let fonts = Fonts::load()?;
    let document = compared::document(sides, rows, commands, &fonts);
    let json = serde_json::to_vec(rows).context("diff.json")?;
    let [before, after] = sides.map(|side| serde_json::to_vec(side.report).context("report.json"));
    let data = [
        ("diff.json", json),
        ("report-before.json", before?),
        ("report-after.json", after?),
    ];
    write_all(dir, &document, &fonts, &data)
}

fn write_all(
    dir: &Path,
    document: &Document,
    fonts: &Fonts,
    data: &[(&str, Vec<u8>)],
) -> Result<Vec<PathBuf>> {
    let out = OutputDir::open_or_make(dir)?;
    let mut written = vec![out.put("index.html", html(document).as_bytes())?];
    for (name, content) in data {
        written.push(out.put(name, content)?);
    }
    for section in &document.sections {
        let pictures = section.parts.iter().flat_map(Part::pictures);
        for (place, picture) in pictures.take(PNGS_MAX).enumerate() {
            let name = format!("{}-{}.png", section.id, place + 1);
            written.push(out.put(&name, &png(picture, fonts)?)?);
        }
    }
    Ok(written)
}

/// Says in a sentence how a report came about.
fn circumstances(report: &Report) -> String {
    let windows = match report.windows {
        1 => "1 window".to_owned(),
        many => format!("{many} windows"),
    };
    let length = report
        .length_ns
        .map_or("of unknown length".into(), |length| {
            format!("{} together", words::time(length.0 as f64))
        });
    let workloads = report
        .subjects
        .iter()
        .filter(|subject| subject.name != MACHINE)
        .count();
    format!(
        "{windows}, {length}; {workloads} workloads; counted by {}; family {}; method version {}.",
        report.source,
        report.family.as_deref().unwrap_or("not known"),
        report.method_version
    )
}

/// How the page was made: commands, notes of the recordings, events that no figure uses.
fn made_by(sides: &[&Reported], commands: &[Command]) -> Section {
    let mut parts = Vec::new();
    for command in commands {
        parts.push(Part::Words(command.what.clone()));
        parts.push(Part::Command(command.line.clone()));
    }
    for side in sides {
        let report = side.report;
        let name = if sides.len() > 1 {
            format!("{}: ", side.name)
        } else {
            String::new()
        };
        let notes = report
            .notes
            .iter()
            .map(|note| Part::Words(format!("{name}{note}")));
        parts.extend(notes);
        if !report.unassigned.is_empty() {
            parts.push(Part::Details {
                summary: format!("{name}{} events without a role", report.unassigned.len()),
                parts: vec![Part::Words(report.unassigned.join(", "))],
            });
        }
    }
    let data = match sides.len() {
        1 => "For machines: report.json, beside this page, has all figures.",
        _ => {
            "For machines: diff.json, report-before.json and report-after.json, beside this page, have all figures."
        }
    };
    parts.push(Part::Words(format!(
        "{data} Pictures are beside it as PNG, named by their sections."
    )));
    Section::new("made-by", "How this was made", parts)
}
