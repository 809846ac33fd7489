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
use crate::output::text::harmless;
use anyhow::{Context, Result};
use cli::{BenchArgs, BenchCommand};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use weir_linux::Roots;

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

/// Writes files into a directory. What has such a name there is replaced, and never written through: it may
/// be a link or a FIFO.
fn write_files(dir: &Path, files: &[(&str, Vec<u8>)]) -> Result<Vec<PathBuf>> {
    let written = files.iter().map(|(name, bytes)| {
        let path = dir.join(name);
        let shown = harmless(&path.display().to_string());
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(dir)?;
            file.write_all(bytes)?;
            file.as_file()
                .set_permissions(std::fs::Permissions::from_mode(0o644))?;
            file.persist(&path)?;
            Ok(())
        };
        write().context(shown)?;
        Ok(path)
    });
    written.collect()
}
