// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is measured here by loads of weir's own: the knee of a device (`calibrate`), and what streams of
//! memory and storage traffic do to each other (`weir bench interference`, `weir bench compare`).

pub mod calibrate;
pub mod cli;
mod compare;
mod interference;

use crate::cli::exit::Exit;
use anyhow::Result;
use cli::{BenchArgs, BenchCommand};
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
