// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder in which `weir profile` is tried.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A simulated server takes seconds: several tests look at the same recording of it.
type Kept = Arc<OnceLock<[Vec<u8>; 2]>>;

fn kept(scenario: &str, seed: &str) -> Kept {
    static ALL: Mutex<BTreeMap<String, Kept>> = Mutex::new(BTreeMap::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(all.entry(format!("{scenario} {seed}")).or_default())
}

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

    /// Runs weir on a machine that has nothing.
    pub fn weir(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("--root").arg(self.0.path()).arg("profile");
        command.args(arguments).output().unwrap()
    }

    /// A scenario's windows, and those of its idle machine.
    pub fn recorded(&self, scenario: &str, seed: &str) -> [String; 2] {
        let files = ["windows", "idle"].map(|kind| self.path(&format!("{scenario}-{seed}.{kind}")));
        for (path, bytes) in files.iter().zip(self.recorded_bytes(scenario, seed)) {
            fs::write(path, bytes).unwrap();
        }
        files
    }

    /// The same as bytes.
    pub fn recorded_bytes(&self, scenario: &str, seed: &str) -> [Vec<u8>; 2] {
        let kept = kept(scenario, seed);
        kept.get_or_init(|| self.simulated(scenario, seed)).clone()
    }

    fn simulated(&self, scenario: &str, seed: &str) -> [Vec<u8>; 2] {
        let files = ["made.windows", "made.idle"].map(|name| self.path(name));
        let [out, idle] = &files;
        let sim = [
            "sim",
            scenario,
            "--seed",
            seed,
            "--out",
            out,
            "--idle-out",
            idle,
        ];
        let made = self.weir(&sim);
        assert!(matches!(made.status.code(), Some(0 | 1)), "{}", said(&made));
        files.map(|path| {
            let bytes = fs::read(&path).unwrap();
            fs::remove_file(path).unwrap();
            bytes
        })
    }

    /// What it prints as JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let made = self.weir(&[arguments, &["--json"]].concat());
        serde_json::from_slice(&made.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&made)))
    }
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
