// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Documents from files, which may hold anything.

use crate::interference::document::{
    InterferenceCell, InterferenceDocument, InterferenceStream, KIND, StreamFigures, VERSION,
};
use crate::interference::explained::explained;
use crate::interference::words;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use weir_figures::text::line;

/// Bytes of the largest file that is read: far more than the largest matrix.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Cells of the largest matrix.
const CELLS_MAX: usize = 10_000;
/// Points of the longest sweep.
const POINTS_MAX: usize = 4096;
/// Placements of a cell.
const PLACEMENTS_MAX: usize = 64;
/// Columns of hostile text in a message.
const COLUMNS: usize = 60;
/// What makes a good file.
const NEXT_MOVE: &str =
    "make it again with `weir bench interference --json` or `weir sim interference --json`";

/// What says which file it is.
#[derive(Deserialize)]
struct FileHead {
    kind: Option<Value>,
    version: Option<Value>,
}

/// Read a document, with a reason for every `null`.
///
/// # Errors
/// The error names the file and the next move: the file cannot be read, is too large, is cut off, has another
/// kind or a later version, has a cell twice, or a number that cannot be.
pub fn read(path: &Path) -> Result<InterferenceDocument> {
    let name = || line(&path.display().to_string(), 200);
    let file = weir_files::open_regular(path)
        .with_context(|| format!("cannot read {}: is the path right?", name()))?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {}: it is no JSON text; {NEXT_MOVE}", name()))?;
    parse(&text).with_context(name)
}

/// Read a document from its text.
///
/// # Errors
/// As [`read`], without the file's name.
pub fn parse(text: &str) -> Result<InterferenceDocument> {
    ensure!(
        text.len() as u64 <= FILE_BYTES_MAX,
        "it has more than {} MiB, which no matrix needs; {NEXT_MOVE}",
        FILE_BYTES_MAX >> 20
    );
    let head: FileHead = serde_json::from_str(text).map_err(broken)?;
    match &head.kind {
        Some(Value::String(kind)) if kind == KIND => {}
        Some(kind) => bail!(
            "it is of kind {}, not \"{KIND}\"; {NEXT_MOVE}",
            line(&kind.to_string(), COLUMNS)
        ),
        None => bail!("it has no kind, so it is no result of interference; {NEXT_MOVE}"),
    }
    match head.version.as_ref().and_then(Value::as_u64) {
        Some(version) if (1..=u64::from(VERSION)).contains(&version) => {}
        Some(version) if version > 0 => bail!(
            "it has version {version}, and this weir reads up to {VERSION}: use the weir that wrote it, or a later one"
        ),
        _ => bail!("its version is not a number from 1; {NEXT_MOVE}"),
    }
    let document: InterferenceDocument = serde_json::from_str(text).map_err(broken)?;
    check(&document).with_context(|| NEXT_MOVE)?;
    explained(&document)
}

/// What a parser says, as our message.
fn broken(error: serde_json::Error) -> anyhow::Error {
    let what = match error.classify() {
        serde_json::error::Category::Eof => "it is cut off",
        serde_json::error::Category::Data => "it is not as a result of interference is",
        _ => "it is no JSON",
    };
    anyhow::anyhow!(
        "{what} ({}); {NEXT_MOVE}",
        line(&error.to_string(), 2 * COLUMNS)
    )
}

/// Whether sizes and numbers can be.
fn check(document: &InterferenceDocument) -> Result<()> {
    let count = document.cells.len();
    ensure!(
        count <= CELLS_MAX,
        "{count} cells; at most {CELLS_MAX} are read"
    );
    let plan = &document.plan;
    amount("plan.seconds", plan.seconds)?;
    amount("plan.half_width_ratio", Some(plan.half_width_ratio))?;
    let mut seen: HashSet<(&InterferenceStream, &InterferenceStream)> = HashSet::new();
    for (place, cell) in document.cells.iter().enumerate() {
        let name = || {
            format!(
                "cells[{place}] ({})",
                words::pair(&cell.victim, &cell.background)
            )
        };
        check_cell(cell).with_context(name)?;
        ensure!(
            seen.insert((&cell.victim, &cell.background)),
            "{}: this cell is there twice",
            name()
        );
    }
    Ok(())
}

fn check_cell(cell: &InterferenceCell) -> Result<()> {
    let points = cell.sweep.len();
    ensure!(
        points <= POINTS_MAX,
        "{points} points in its sweep; at most {POINTS_MAX} are read"
    );
    check_ratio(cell.ratio, cell.ratio_low, cell.ratio_high)?;
    check_figures("alone", &cell.alone)?;
    check_figures("together", &cell.together)?;
    let counters = &cell.counters;
    for (name, value) in [
        ("admission_wait_ns", counters.admission_wait_ns),
        (
            "tracker_residence_ddr_ns",
            counters.tracker_residence_ddr_ns,
        ),
        (
            "tracker_residence_cxl_ns",
            counters.tracker_residence_cxl_ns,
        ),
        ("l2_miss_latency_ns", counters.l2_miss_latency_ns),
        ("l3_miss_latency_ns", counters.l3_miss_latency_ns),
    ] {
        amount(name, value)?;
    }
    ensure!(
        cell.placements.len() <= PLACEMENTS_MAX,
        "{} placements; at most {PLACEMENTS_MAX} are read",
        cell.placements.len()
    );
    for (place, point) in cell.placements.iter().enumerate() {
        let name = || format!("placements[{place}]");
        amount("round_trip_ns", Some(point.round_trip_ns)).with_context(name)?;
        check_ratio(point.ratio, point.ratio_low, point.ratio_high).with_context(name)?;
    }
    for (place, point) in cell.sweep.iter().enumerate() {
        let name = || format!("sweep[{place}]");
        check_ratio(point.ratio, point.ratio_low, point.ratio_high).with_context(name)?;
        check_figures("alone", &point.alone).with_context(name)?;
        check_figures("together", &point.together).with_context(name)?;
    }
    Ok(())
}

fn check_figures(group: &str, figures: &StreamFigures) -> Result<()> {
    for (name, value) in [
        ("bytes_per_sec", figures.bytes_per_sec),
        ("latency_ns", figures.latency_ns),
        ("ops_per_sec", figures.ops_per_sec),
        ("cpu_ns_per_op", figures.cpu_ns_per_op),
        ("latency_p99_ns", figures.latency_p99_ns),
    ] {
        amount(name, value).with_context(|| group.to_owned())?;
    }
    Ok(())
}

fn check_ratio(ratio: Option<f64>, low: Option<f64>, high: Option<f64>) -> Result<()> {
    for (name, value) in [("ratio", ratio), ("ratio_low", low), ("ratio_high", high)] {
        amount(name, value)?;
    }
    if let (Some(ratio), Some(low), Some(high)) = (ratio, low, high) {
        // Ends of an interval are rounded apart from the ratio.
        let slack = 1e-9 * ratio.max(1.0);
        ensure!(
            low <= ratio + slack && ratio <= high + slack,
            "the ratio {ratio} is outside of its interval, {low} to {high}"
        );
    }
    Ok(())
}

fn amount(name: &str, value: Option<f64>) -> Result<()> {
    if let Some(value) = value {
        ensure!(
            value.is_finite() && value >= 0.0,
            "{name} is {value}, and cannot be"
        );
    }
    Ok(())
}
