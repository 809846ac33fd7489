// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is measured here by loads of weir's own: the knee of a device (`calibrate`), and what streams of
//! memory and storage traffic do to each other (`weir bench interference`, `weir bench compare`), and what
//! weir promises (`hardware`).

pub mod calibrate;
pub mod cli;
mod compare;
pub mod hardware;
mod interference;

use crate::cli::exit::Exit;
use anyhow::{Context, Result};
use cli::{BenchArgs, BenchCommand};
use std::path::{Path, PathBuf};
use weir_linux::Roots;
use weir_report::OutputDir;

/// `weir bench`.
///
/// # Errors
/// There is nothing to measure, or a file cannot be read or written.
pub fn bench(args: &BenchArgs, roots: &Roots) -> Result<Exit> {
    match &args.command {
        BenchCommand::Interference(args) => interference::interference(args, roots),
        BenchCommand::Compare(args) => compare::compare(args),
    }
}

/// Writes files into a directory, which is made if it is not there. What has such a name there is replaced.
fn write_files(dir: &Path, files: &[(&str, Vec<u8>)]) -> Result<Vec<PathBuf>> {
    let out = OutputDir::open_or_make(dir).context("--out")?;
    let written = files.iter().map(|(name, bytes)| out.put(name, bytes));
    written.collect()
}
