// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--html`: the page of a report, or of two.

use super::{exit_of, shown};
use crate::cli::exit::{Exit, print};
use anyhow::Result;
use std::path::{Path, PathBuf};
use weir_figures::text::harmless;
use weir_profile::diff::{self, DiffRow};
use weir_profile::report::{self, Options, Report};
use weir_profile::{TimeSpan, WindowFile};
use weir_report::profile::{Reported, write, write_diff};

/// The file's name without its folder: a page may be handed on.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    harmless(&name.to_string_lossy())
}

fn say(answer: &str, written: &[PathBuf]) -> Result<()> {
    for file in written {
        eprintln!("wrote {}", shown(file));
    }
    print(&format!("{answer}\n"))
}

/// Writes the page of a report into a folder, and prints the answer.
///
/// # Errors
/// A file cannot be written.
pub fn of_report(dir: &Path, file: &Path, made: &Report) -> Result<Exit> {
    let reported = Reported {
        name: &name(file),
        report: made,
    };
    let written = write(dir, &reported, &[weir_report::own_command()])?;
    say(&made.headline.join("\n"), &written)?;
    Ok(exit_of(made))
}

/// Writes the page of two recordings into a folder, and prints how many figures changed. Both are compared
/// with the idle machine, where there is a recording of it.
///
/// # Errors
/// A file cannot be written.
pub fn of_diff(
    dir: &Path,
    files: [(&Path, TimeSpan, &WindowFile); 2],
    idle: Option<&WindowFile>,
    workload: Option<&str>,
    rows: &[DiffRow],
) -> Result<()> {
    let options = Options {
        idle,
        workload,
        over_time: true,
        ..Options::default()
    };
    let [before, after] = files.map(|(_, _, file)| report::report(file, &options));
    let names = files.map(|(path, span, _)| {
        if span.is_all() {
            name(path)
        } else {
            format!("{}, {span}", name(path))
        }
    });
    let sides = [
        Reported {
            name: &names[0],
            report: &before,
        },
        Reported {
            name: &names[1],
            report: &after,
        },
    ];
    let written = write_diff(
        dir,
        [&sides[0], &sides[1]],
        rows,
        &[weir_report::own_command()],
    )?;
    say(&diff::summary(rows), &written)
}
