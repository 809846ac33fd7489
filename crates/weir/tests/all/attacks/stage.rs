// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A directory of root, one of another user, and what the commands need to read.

use crate::groups;
use crate::profile_record::Host;
use crate::world::{World, stderr};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const OTHER: u32 = 65534;
const PRECIOUS: &str = "of root alone";

/// What rows of the tables take: each word of theirs that begins with `@` is replaced.
pub struct Stage {
    dir: tempfile::TempDir,
    world: World,
    groups: groups::World,
    node0: tempfile::TempDir,
    counting: Host,
}

impl Stage {
    /// Nothing where this process is not root: then it cannot play two users.
    pub fn new(test: &str) -> Option<Stage> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIP {test}: only root can play two users");
            return None;
        }
        let stage = Stage {
            dir: tempfile::tempdir().unwrap(),
            world: World::new(),
            groups: groups::World::new(),
            node0: crate::calibrate::node0(),
            counting: Host::counting(),
        };
        fs::set_permissions(stage.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(stage.path("mine")).unwrap();
        fs::create_dir(stage.path("empty")).unwrap();
        fs::write(stage.path("page"), [7; 4096]).unwrap();
        Some(stage)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Made by the program itself, once.
    fn made(&self, name: &str, words: &[&str]) -> String {
        let file = self.path(name);
        if !file.exists() {
            let words: Vec<String> = words
                .iter()
                .map(|word| word.replace("@HERE", file.to_str().unwrap()))
                .collect();
            let output = weir(&words).output().unwrap();
            assert!(
                output.status.code().is_some_and(|code| code < 2),
                "{}",
                stderr(&output)
            );
            if !file.exists() {
                fs::write(&file, output.stdout).unwrap();
            }
        }
        self.text(name)
    }

    fn word(&self, word: &str, target: &Path) -> Vec<String> {
        let root = |path: &Path| vec!["--root".to_owned(), path.to_str().unwrap().to_owned()];
        let words = match word {
            "@world" => return root(&self.world.path("")),
            "@groups" => return root(&self.groups.path("")),
            "@node0" => return root(self.node0.path()),
            "@counting" => return root(Path::new(&self.counting.path(""))),
            "@empty" => return root(&self.path("empty")),
            "@TARGET" => target.to_str().unwrap().to_owned(),
            "@PAGE" => self.text("page"),
            "@RECORDING" => self.made("a.weir", &["sim", "step", "--record", "@HERE"]),
            "@WINDOWS" => self.made(
                "a.windows",
                &["profile", "sim", "healthy", "--out", "@HERE"],
            ),
            "@PERF" => {
                let path = self.path("perf.csv");
                fs::write(&path, crate::profile::stream(1)).unwrap();
                path.to_str().unwrap().to_owned()
            }
            "@RESULT" => self.made("result.json", &["sim", "interference", "--json"]),
            word => word.to_owned(),
        };
        vec![words]
    }

    /// Runs a row to its end.
    pub fn run(&self, row: &[&str], target: &Path) -> Output {
        let words: Vec<String> = row
            .iter()
            .flat_map(|word| self.word(word, target))
            .collect();
        weir(&words).current_dir(self.dir.path()).output().unwrap()
    }

    /// A new directory of another user.
    pub fn theirs(&self, name: &str) -> PathBuf {
        let dir = self.path(name);
        fs::create_dir(&dir).unwrap();
        std::os::unix::fs::chown(&dir, Some(OTHER), Some(OTHER)).unwrap();
        dir
    }

    /// A link of the other user.
    pub fn link(&self, to: &Path, at: &Path) {
        std::os::unix::fs::symlink(to, at).unwrap();
        std::os::unix::fs::lchown(at, Some(OTHER), Some(OTHER)).unwrap();
    }

    pub fn other(&self, script: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).uid(OTHER).gid(OTHER);
        let done = shell.current_dir(self.dir.path()).output().unwrap();
        assert!(done.status.success(), "{script}: {}", stderr(&done));
    }

    /// Files of root with the names of results.
    pub fn keep_precious(&self, names: &[String]) {
        for name in names {
            let path = self.path("mine").join(name);
            fs::write(&path, PRECIOUS).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    /// Ends that.
    pub fn forget_precious(&self) {
        fs::remove_dir_all(self.path("mine")).unwrap();
        fs::create_dir(self.path("mine")).unwrap();
    }

    /// Those that are not as they were, and files that were not there.
    pub fn harmed(&self, names: &[String]) -> Vec<String> {
        let mine = self.path("mine");
        let entries = fs::read_dir(&mine)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let all = entries.map(|name| name.to_str().unwrap().to_owned());
        let is_harmed = |name: &String| {
            let path = mine.join(name);
            let is_same = |path: &Path| {
                let metadata = path.symlink_metadata().ok()?;
                let is_mine = metadata.mode() == 0o100_600 && metadata.uid() == 0;
                Some(is_mine && fs::read_to_string(path).ok()? == PRECIOUS)
            };
            !names.contains(name) || is_same(&path) != Some(true)
        };
        let there: Vec<String> = all.collect();
        let gone = names.iter().filter(|name| !there.contains(name)).cloned();
        let harmed = there.iter().filter(|name| is_harmed(name)).cloned();
        gone.chain(harmed).collect()
    }
}

fn weir(words: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(words).stdin(Stdio::null());
    command
}
