// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is written for machines (`docs/reference/results.md` documents both files), and the directory that
//! takes all files of a report.

use crate::results::{Results, Run};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use weir_figures::text::line;
use weir_files::{Access, Folder};

/// Stands where a value is `null` without a reason.
const NO_REASON: &str = "not recorded by what made this run";
/// Columns of a path in a message.
const PATH_COLUMNS: usize = 200;

/// It is held open: all files of a report come into the same directory, whatever its path leads to by then.
pub struct OutputDir {
    folder: Folder,
    path: PathBuf,
}

impl OutputDir {
    /// Opens the directory; makes what is missing of its path.
    ///
    /// # Errors
    /// Naming it, and why.
    pub fn open_or_make(path: &Path) -> Result<OutputDir> {
        let folder =
            Folder::open_or_make(path).with_context(|| format!("cannot make {}", shown(path)))?;
        let path = path.to_owned();
        Ok(OutputDir { folder, path })
    }

    /// Makes its file `name` hold `content`, and gives the file's path. A reader sees the old file or the new
    /// one.
    ///
    /// # Errors
    /// Naming the file, and what the system said.
    pub fn put(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let path = self.path.join(name);
        let put = self.folder.replace(name, content, Access::Shared);
        put.with_context(|| format!("cannot write {}", shown(&path)))?;
        Ok(path)
    }
}

fn shown(path: &Path) -> String {
    line(&path.to_string_lossy(), PATH_COLUMNS)
}

/// `summary.json`: the results without the series, and a reason beside every `null`.
///
/// # Errors
/// The results cannot be written as JSON.
pub fn summary(results: &Results) -> Result<Vec<u8>> {
    let whole = explained(results)?;
    let mut text = serde_json::to_vec_pretty(&whole).context("summary.json")?;
    text.push(b'\n');
    Ok(text)
}

/// The results without the series, and a reason for every `null`.
///
/// # Errors
/// As [`summary`].
pub fn explained(results: &Results) -> Result<Results> {
    let mut whole = results.clone();
    for run in &mut whole.runs {
        run.series.clear();
        explain_nulls(run)?;
    }
    Ok(whole)
}

/// Numbers that are not finite become `null` in JSON: they need a reason like any other.
fn explain_nulls(run: &mut Run) -> Result<()> {
    let unusable = |(name, value): (&String, &f64)| (!value.is_finite()).then(|| name.clone());
    let names: Vec<String> = run
        .estimate_error_ratio
        .iter()
        .filter_map(unusable)
        .collect();
    for name in names {
        run.estimate_error_ratio.remove(&name);
        let key = format!("estimate_error_ratio.{name}");
        run.missing.entry(key).or_insert(NO_REASON.into());
    }
    let value = serde_json::to_value(&*run).context("summary.json")?;
    let fields = value.as_object().into_iter().flatten();
    for (name, value) in fields {
        if run.missing.contains_key(name) {
            continue;
        }
        let inner = value.as_object().into_iter().flatten();
        let nulls = inner
            .filter(|(_, v)| v.is_null())
            .map(|(part, _)| format!("{name}.{part}"));
        for key in nulls.chain(value.is_null().then(|| name.clone())) {
            run.missing.entry(key).or_insert(NO_REASON.into());
        }
    }
    Ok(())
}

/// `series.csv`: bandwidth over time, one line a window. `run` counts from 0, as in the summary.
pub fn series(results: &Results) -> String {
    let mut csv = String::from("run,policy,backend,at_ms,bytes_per_sec\n");
    for (i, run) in results.runs.iter().enumerate() {
        let (policy, backend) = (field(&run.policy), field(&run.backend));
        for point in &run.series {
            // A part of a byte says nothing and doubles the file.
            let (at_ms, rate) = (amount(point.at_ms), amount(point.bytes_per_sec.round()));
            csv += &format!("{i},{policy},{backend},{at_ms},{rate}\n");
        }
    }
    csv
}

/// Empty for a value that is not one.
fn amount(value: f64) -> String {
    if value.is_finite() {
        value.to_string()
    } else {
        String::new()
    }
}

/// RFC 4180: quoted where it has to be.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}
