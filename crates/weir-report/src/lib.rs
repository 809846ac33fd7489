// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a person reads after a run: a table, the bounds that were met or missed, a picture, a page.
//!
//! ```text
//! Results ──────┬─ run_rows ┬─ terminal::table ──► terminal
//! ScenarioInfo ─┤─ closing ─┤
//!               ├─ origin ──┴─ page ─────────────► index.html
//!               ├─ checks ────┘ ▲
//!               ├─ picture::chart ─► canvas ─────► bandwidth.png
//!               └─ files ────────────────────────► summary.json, series.csv
//! ```
//!
//! It knows [`Results`] and, of the scenario, the [`ScenarioInfo`], and nothing of how a run was made: runs
//! of the virtual machine and of the simulator are reported alike. Values that are not known are shown as
//! `–`, never as zero, and their reasons follow. Names and reasons are hostile text and are made harmless
//! by weir-figures, which also sets the tables and makes the page.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use std::path::Path;
//! use weir_report::{ScenarioInfo, results::Results};
//! let results: Results = serde_json::from_str(&std::fs::read_to_string("out/live/summary.json")?)?;
//! let subject = ScenarioInfo { capacity_bytes_per_sec: 94.8e6, ..ScenarioInfo::default() };
//! print!("{}", weir_report::terminal(&subject, &results));
//! let all_met = weir_report::checks(&subject, &results).iter().all(|check| check.is_met());
//! weir_report::write(Path::new("out/again"), &subject, &results)?;
//! # Ok(()) }
//! ```

mod checks;
mod files;
mod origin;
mod page;
mod picture;
mod run_rows;
mod terminal;
#[cfg(test)]
mod tests;

pub mod interference;
pub mod profile;
pub mod results;

pub use checks::{Check, checks, checks_table, verdict, without_bounds};
pub use files::OutputDir;
pub use origin::date_utc;
pub use picture::bars::{Bar, Bars, bars};
pub use picture::paint::Fonts;
pub use picture::plot::{Axis, Curve, Panel, Plot, Shape, plot};
pub use run_rows::closing::closing;
pub use run_rows::{median_estimate_error, p99_per_bound, worst_estimate_error};
pub use terminal::table::table;
pub use terminal::{bounds_text, ending, origin_text, terminal};
pub use weir_scenario::{Expect, ScenarioInfo};

use crate::picture::layout::Width;
use crate::picture::{chart, paint};
use crate::results::Results;
use anyhow::Result;
use std::path::{Path, PathBuf};
use weir_figures::{Picture, html};

/// Pixels of `bandwidth.png` per unit of the picture (1200 × 600): sharp in print and when zoomed.
const PIXELS_PER_UNIT: f32 = 2.0;

/// A command that the page shows, as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub what: String,
    pub line: String,
}

/// Write the report into `dir` (made if it is not there), with this process's own command line as the
/// command it came from. Returns the files: `summary.json`, `series.csv`, `bandwidth.png`,
/// `index.html`.
///
/// # Errors
/// As [`write_with`].
pub fn write(dir: &Path, subject: &ScenarioInfo, results: &Results) -> Result<Vec<PathBuf>> {
    write_with(dir, subject, results, &[own_command()])
}

pub fn own_command() -> Command {
    let words: Vec<String> = std::env::args_os()
        .map(|a| quoted(&a.to_string_lossy()))
        .collect();
    Command {
        what: "This report was made by".into(),
        line: words.join(" "),
    }
}

/// Write the report with the commands that made the runs.
///
/// # Errors
/// A file cannot be written: naming it. Files written before it stay.
pub fn write_with(
    dir: &Path,
    subject: &ScenarioInfo,
    results: &Results,
    commands: &[Command],
) -> Result<Vec<PathBuf>> {
    let out = OutputDir::open_or_make(dir)?;
    let fonts = Fonts::load()?;
    let picture = chart::bandwidth(subject, results, &fonts, Width::Page);
    let png = paint::png(&picture, &fonts, PIXELS_PER_UNIT)?;
    let narrow = chart::bandwidth(subject, results, &fonts, Width::Phone);
    let page = html(&page::document(
        subject,
        results,
        [picture, narrow],
        commands,
    ));
    Ok(vec![
        out.put("summary.json", &files::summary(results)?)?,
        out.put("series.csv", files::series(results).as_bytes())?,
        out.put("bandwidth.png", &png)?,
        out.put("index.html", page.as_bytes())?,
    ])
}

/// Device bandwidth of all runs over time, with set-point and capacity.
pub fn bandwidth_picture(subject: &ScenarioInfo, results: &Results, fonts: &Fonts) -> Picture {
    chart::bandwidth(subject, results, fonts, Width::Page)
}

/// A picture as a PNG on white, twice its size in pixels.
///
/// # Errors
/// It is too large for memory, or cannot be encoded.
pub fn png(picture: &Picture, fonts: &Fonts) -> Result<Vec<u8>> {
    paint::png(picture, fonts, PIXELS_PER_UNIT)
}

/// Bandwidth over time of all runs as CSV: `run,policy,backend,at_ms,bytes_per_sec`.
pub fn series(results: &Results) -> String {
    files::series(results)
}

/// The results as they are written: without the series, and with a reason beside every `null`.
///
/// # Errors
/// The results cannot be written as JSON.
pub fn explained(results: &Results) -> Result<Results> {
    files::explained(results)
}

/// A word as a POSIX shell reads it back.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
