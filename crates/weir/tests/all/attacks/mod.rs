// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each option that takes a path, attacked by another user. The options are taken from the definition of the
//! command line: a new one fails here until it has a row.
//!
//! Files that are read: a FIFO and a device in their place are refused, and nothing waits. Files that are
//! written: root writes into a directory of another user, in which there are links under the names of
//! results and of temporary files. What is atomic under a race is tested in weir-files.

mod read;
mod stage;
mod written;

use clap::builder::ValueParser;
use std::collections::BTreeSet;

/// Options with a path that is neither a file that is read nor one that is made, and why.
const NEITHER: &[(&str, &str)] = &[
    (
        "bench interference --write-device",
        "a block device that --ssd names too; anything else is refused there",
    ),
    (
        "bench interference --ssd",
        "a directory for a file without a name, or a block device: tests of weir-bench",
    ),
    (
        "groups acpi --tables",
        "a directory; its files are read as those of --check",
    ),
];

/// Options of commands that weir-lab carries out, as the test of its command line has them too.
const OF_LAB: [&str; 7] = [
    "profile sim --idle-out",
    "profile sim --out",
    "profile sim --truth",
    "sim interference --out",
    "sim type2 --out",
    "sim type2 --profile",
    "sim type2 FILES",
];

/// `run --config`, `record FILE` and so on, of all commands.
fn path_options() -> BTreeSet<String> {
    fn gather(command: &clap::Command, before: &str, found: &mut BTreeSet<String>) {
        let path = ValueParser::path_buf().type_id();
        for argument in command.get_arguments() {
            let is_path = argument.get_value_parser().type_id() == path;
            if argument.is_global_set() || !is_path {
                continue;
            }
            let name = match argument.get_long() {
                Some(long) => format!("--{long}"),
                None => argument.get_id().as_str().to_uppercase(),
            };
            found.insert(format!("{before}{name}"));
        }
        for inner in command.get_subcommands() {
            gather(inner, &format!("{before}{} ", inner.get_name()), found);
        }
    }
    let mut found = BTreeSet::new();
    gather(&weir::lab::command(), "", &mut found);
    found.extend(OF_LAB.map(str::to_owned));
    found
}

#[test]
fn each_option_with_a_path_has_an_attack() {
    let options = path_options();
    let rows: Vec<&str> = read::OPTIONS
        .iter()
        .map(|(option, _)| *option)
        .chain(written::OPTIONS.iter().map(|(option, _)| *option))
        .chain(NEITHER.iter().map(|(option, _)| *option))
        .collect();
    let attacked: BTreeSet<&str> = rows.iter().copied().collect();
    assert_eq!(attacked.len(), rows.len(), "an option has two rows");
    let without: Vec<_> = options
        .iter()
        .filter(|o| !attacked.contains(o.as_str()))
        .collect();
    assert!(
        without.is_empty(),
        "options without an attack: {without:#?}"
    );
    let stale: Vec<_> = attacked.iter().filter(|o| !options.contains(**o)).collect();
    assert!(
        stale.is_empty(),
        "attacks on options that are not there: {stale:#?}"
    );
}
