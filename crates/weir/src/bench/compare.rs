// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench compare`: two results of interference.

use super::cli::CompareArgs;
use crate::cli::exit::{Exit, print, print_json};
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use weir_figures::text::harmless;
use weir_report::interference;

/// What a directory has as its result.
const RESULT_FILE: &str = "result.json";

/// Compares.
///
/// # Errors
/// A file is no result, or the two have no cell in common.
pub fn compare(args: &CompareArgs) -> Result<Exit> {
    let (a, b) = (
        interference::read(&result_in(&args.a)?)?,
        interference::read(&result_in(&args.b)?)?,
    );
    let comparison = interference::compare(&a, &b)?;
    if let Some(out) = &args.out {
        let mut json = serde_json::to_vec_pretty(&comparison)?;
        json.push(b'\n');
        let page = interference::comparison_page(&a, &b, &comparison).into_bytes();
        let files = [("comparison.json", json), ("index.html", page)];
        for path in super::write_files(out, &files)? {
            eprintln!("wrote {}", harmless(&path.display().to_string()));
        }
    }
    if args.json {
        print_json(&comparison)?;
    } else {
        print(&interference::comparison_terminal(&comparison))?;
    }
    Ok(Exit::Done)
}

/// The result in a directory, or the file itself.
fn result_in(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let file = path.join(RESULT_FILE);
    let shown = harmless(&path.display().to_string());
    ensure!(
        file.exists(),
        "there is no {RESULT_FILE} in {shown}: `weir bench interference --out {shown}` writes one"
    );
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stands_for_the_result_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let said = result_in(dir.path()).unwrap_err().to_string();
        let wanted = ["no result.json in", "--out"];
        assert!(wanted.iter().all(|part| said.contains(part)), "{said}");
        let file = dir.path().join(RESULT_FILE);
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(result_in(dir.path()).unwrap(), file);
        assert_eq!(result_in(&file).unwrap(), file);
    }
}
