// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of weir's packages that the program's own definitions give: man pages and completions from clap, and
//! a settings file that has all keys with their defaults.
//!
//! Compiled for tests only, so the program does not carry the generators, and none of these files is kept in
//! the repository. `packaging/build` has a test write them into the folder that [`FOLDER`] names.

mod completions;
mod manuals;
mod settings_file;

use clap::Command;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Variable of the environment with the folder to write to.
const FOLDER: &str = "WEIR_PACKAGE_FILES";

/// The path below the folder, and the text.
type PackageFile = (String, String);

#[test]
fn package_files_are_written() {
    let temporary = tempfile::tempdir().expect("a directory");
    let folder = std::env::var_os(FOLDER).map_or(temporary.path().to_owned(), PathBuf::from);
    let settings = [("weir.toml".to_owned(), settings_file::text())];
    let files = manuals::pages()
        .into_iter()
        .chain(completions::scripts())
        .chain(settings);
    let names: Vec<String> = files
        .map(|(name, text)| {
            write(&folder, &name, &text);
            name
        })
        .collect();
    for wanted in ["man/weir.1", "man/weir-groups-resize.1", "weir.toml"] {
        assert!(names.iter().any(|name| name == wanted), "{names:?}");
    }
    for name in names {
        let size = std::fs::metadata(folder.join(&name)).map_or(0, |found| found.len());
        assert!(size > 200, "{name} has {size} bytes");
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    let parent = path.parent().expect("a folder");
    std::fs::create_dir_all(parent).expect("a folder");
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// The command without what `--help` hides: a package offers no flag that weir's own help does not show.
fn shown_command() -> Command {
    let mut whole = crate::commands::command();
    whole.build();
    shown(&whole)
}

fn shown(command: &Command) -> Command {
    use crate::commands::reference_tests::commands;
    let args = command
        .get_arguments()
        .filter(|arg| commands::is_shown(arg));
    let below = commands::shown(command).map(shown);
    let name: &str = command.get_name().to_owned().leak();
    let mut made = Command::new(name)
        .disable_help_subcommand(true)
        .args(args.cloned())
        .subcommands(below)
        .subcommand_required(command.is_subcommand_required_set());
    // Only the command itself has `--version`.
    if command.get_version().is_some() {
        made = made.version(env!("CARGO_PKG_VERSION"));
    }
    if let Some(about) = command.get_about() {
        made = made.about(about.clone());
    }
    match command.get_after_help() {
        Some(after) => made.after_help(after.clone()),
        None => made,
    }
}

/// What a program said of these files; nothing, and a line of what was lacking, where it is not installed.
fn said(program: &str, package: &str, args: &[&str], input: &[PackageFile]) -> Option<Output> {
    let folder = tempfile::tempdir().expect("a directory");
    for (name, text) in input {
        write(folder.path(), name, text);
    }
    let done = std::process::Command::new(program)
        .args(args)
        .current_dir(folder.path())
        .env("LC_ALL", "C.UTF-8")
        .env("MANWIDTH", "80")
        .env("HOME", folder.path())
        .output();
    match done {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIP {program}: not installed (package {package})");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Standard output of a program that found nothing to complain of.
fn silent(program: &str, output: &Output) -> String {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && complaint.is_empty(),
        "{program}: {:?} {complaint}",
        output.status
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
