// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small machine in a directory: two CPUs, node 0 with CPUs, node 1 without, one device with one group on
//! node 1, two services. Its files (`machine.txt`) get other contents, and then their own again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weir_linux::Roots;

const FILES: &str = include_str!("../machine.txt");
/// A line that begins with this begins a file of the description.
const HEAD: &str = "== ";
/// Stands in a file for the path of the tree of cgroups.
const TREE: &str = "TREE";
/// Stands in a file for the inode of the first service.
const INODE: &str = "INODE";
const CGROUPS: &str = "sys/fs/cgroup";
const FIRST: &str = "sys/fs/cgroup/system.slice/fio.service";
/// Files of a cgroup that the fuzzer makes.
const MADE: [(&str, &str); 3] = [
    ("cgroup.procs", "100\n"),
    ("cpu.max", "max 100000\n"),
    ("cpu.stat", "usage_usec 5\n"),
];

/// The machine, and what became of its files.
pub struct Machine {
    dir: PathBuf,
    files: Vec<(PathBuf, &'static str)>,
    made: BTreeSet<PathBuf>,
}

impl Machine {
    /// The machine in a directory that is there.
    pub fn new(dir: &Path) -> Machine {
        let dir = dir.join("machine");
        let files = FILES.split(HEAD).skip(1).map(|file| {
            let (name, text) = file.split_once('\n').expect("a name");
            (dir.join(name), text)
        });
        let files: Vec<_> = files.collect();
        let made = BTreeSet::new();
        let mut machine = Machine { dir, files, made };
        machine.restore();
        machine
    }

    pub fn roots(&self) -> Roots {
        Roots::beneath(&self.dir)
    }

    /// Gives a file other contents; where there is no such file, makes a cgroup of that name with a process.
    pub fn change(&mut self, number: u8, text: &[u8]) {
        if let Some((path, _)) = self.files.get(usize::from(number)) {
            self.put(path, text);
            return;
        }
        let is_name = !text.is_empty() && text.len() < 256 && !text.contains(&b'/');
        if !is_name || text == b"." || text == b".." {
            return;
        }
        let path = self
            .dir
            .join(CGROUPS)
            .join(Path::new(OsStr::from_bytes(text)));
        // Files of the tree are no cgroups, and what is there anyway stays.
        if fs::create_dir(&path).is_ok() {
            for (file, text) in MADE {
                fs::write(path.join(file), text).expect("a file in memory");
            }
            self.made.insert(path);
        }
    }

    /// Makes the machine as it was at first, whatever was written there meanwhile.
    pub fn restore(&mut self) {
        let _ = fs::remove_dir_all(self.dir.join("run/weir"));
        for path in std::mem::take(&mut self.made) {
            let _ = fs::remove_dir_all(path);
        }
        for (path, text) in &self.files {
            let wanted = self.with_places(text.as_bytes());
            if fs::read(path).ok().as_ref() != Some(&wanted) {
                self.put(path, text.as_bytes());
            }
        }
    }

    fn put(&self, path: &Path, text: &[u8]) {
        let dir = path.parent().expect("a directory");
        fs::create_dir_all(dir).expect("a directory in memory");
        // A directory or a link that came in its place is not followed.
        let _ = fs::remove_file(path);
        fs::write(path, self.with_places(text)).expect("a file in memory");
    }

    fn with_places(&self, text: &[u8]) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(text) else {
            return text.to_vec();
        };
        let inode = fs::metadata(self.dir.join(FIRST)).map_or(0, |found| found.ino());
        let tree = self.dir.join(CGROUPS);
        let text = text.replace(TREE, &tree.to_string_lossy());
        text.replace(INODE, &inode.to_string()).into_bytes()
    }
}
