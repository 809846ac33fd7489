// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder in which `weir profile` is tried: the operators' program, which finds this one beside itself.

use crate::stderr as said;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use weir_lab::server::TruthDocument;

/// The folder, gone at the end.
pub struct Desk(tempfile::TempDir);

impl Desk {
    pub fn new() -> Desk {
        Desk(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// Runs the command on a machine that has nothing.
    pub fn weir(&self, arguments: &[&str]) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_weir-lab")).with_file_name("weir");
        let mut command = Command::new(program);
        command.arg("--root").arg(self.0.path()).arg("profile");
        command.args(arguments).output().unwrap()
    }

    /// Report and truth of a scenario's first seed.
    pub fn run(&self, scenario: &str) -> (Value, TruthDocument) {
        let truth = self.path(&format!("{scenario}.truth"));
        let made = self.weir(&["sim", scenario, "--truth", &truth, "--json"]);
        assert!(matches!(made.status.code(), Some(0 | 1)), "{}", said(&made));
        let line: Value = serde_json::from_slice(&made.stdout).unwrap();
        assert_eq!(line["scenario"], scenario);
        let text = fs::read_to_string(truth).unwrap();
        let truth = TruthDocument::parse(text.trim_end()).unwrap();
        (line["report"].clone(), truth)
    }
}
