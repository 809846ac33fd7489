// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of the program for researchers, `weir-lab`, that can be called as commands of weir. It is looked
//! for as git and cargo look for their parts: beside this program, then in PATH. So the models of hardware
//! that only researchers run are no part of the operators' program.

use crate::cli::exit::Exit;
use anyhow::{Result, anyhow};
use clap::Args;
use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_figures::text::harmless;

const PROGRAM: &str = "weir-lab";

/// What such a command is given, as it is.
#[derive(Debug, Args)]
pub struct LabWords {
    /// Arguments of the command; --help shows them
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    pub words: Vec<OsString>,
}

impl LabWords {
    /// Becomes the command of weir-lab.
    ///
    /// # Errors
    /// It is not installed, or cannot be run.
    pub fn run(&self, command: &str) -> Result<Exit> {
        let (mut lab, program) = lab(command);
        Err(explained(command, &program, &lab.args(&self.words).exec()))
    }
}

/// The program, with the first of its arguments, and where it is.
pub fn lab(command: &str) -> (Command, PathBuf) {
    let beside = env::current_exe().ok();
    let beside = beside.map(|own| own.with_file_name(PROGRAM));
    let program = beside.filter(|path| path.is_file());
    let program = program.unwrap_or_else(|| PROGRAM.into());
    let mut lab = Command::new(&program);
    lab.arg(command);
    (lab, program)
}

/// Why it was not run.
pub fn explained(command: &str, program: &Path, error: &std::io::Error) -> anyhow::Error {
    if error.kind() == ErrorKind::NotFound {
        return anyhow!(
            "`{command}` is a command of weir-lab, which is neither beside this program nor in PATH: install \
             the package weir-lab, or build it: cargo build --release -p weir-lab"
        );
    }
    let program = harmless(&program.to_string_lossy());
    anyhow!("cannot run {program}: {error}")
}
