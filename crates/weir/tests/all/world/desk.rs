// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that need no machine, and files for them.

use super::{folder, stderr, stdout};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A place outside of the machine's root.
pub struct Desk(pub tempfile::TempDir);

impl Desk {
    pub fn new() -> Desk {
        Desk(folder())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

/// A line of `--json` as a recording has it: without the processes of workloads and the rewrites of limits,
/// and with facts as they were at its start.
pub fn as_kept(line: &str) -> Value {
    let mut line: Value = serde_json::from_str(line).unwrap();
    let keys = line.as_object_mut().unwrap();
    keys.remove("processes");
    keys.remove("limit_rewrites_total");
    let description = line["description"].as_object_mut().unwrap();
    description.remove("facts").unwrap();
    line
}

pub fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(args)
        .output()
        .unwrap()
}

pub fn done(args: &[&str]) -> String {
    let output = weir(args);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{args:?}: {}",
        stderr(&output)
    );
    stdout(&output)
}

pub fn complaint(args: &[&str]) -> String {
    let output = weir(args);
    assert_eq!(
        output.status.code(),
        Some(2),
        "{args:?}: {}",
        stdout(&output)
    );
    stderr(&output)
}
