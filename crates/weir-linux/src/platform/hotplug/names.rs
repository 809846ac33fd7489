// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of what can come and go, as sysfs and cgroupfs have them: one line each, its kind first. A scan
//! costs some thirty calls of the kernel and no memory; only where the text is another one than before is it
//! parsed.

use crate::kernel::files::{open_root, read_start};
use crate::options::Roots;
use rustix::fs::{RawDir, stat};
use std::collections::BTreeSet;
use std::io::Write;
use std::mem::{MaybeUninit, swap};
use std::path::Path;

/// Most names of one directory that are compared: a socket may have hundreds of PMUs.
const NAME_COUNT_MAX: usize = 16_384;
/// The files that say which nodes there are, and of what kind.
const NODE_LISTS: [&str; 3] = ["online", "has_memory", "has_cpu"];
/// The thesis's counters, the scheduler class that BPF programs extend, what the driver offers to them.
const FILES: [(Subsystem, &str); 3] = [
    (
        Subsystem::Counters,
        "kernel/debug/cxl-counter-driver/counter-dump",
    ),
    (Subsystem::SchedExt, "kernel/sched_ext/state"),
    (Subsystem::Counters, "kernel/btf/weir_cxl"),
];
const DIRS: [(Subsystem, &str); 4] = [
    (Subsystem::Counters, "class/weir_cxl"),
    (Subsystem::Fabric, "bus/cxl/devices"),
    (Subsystem::Fabric, "bus/dax/devices"),
    (Subsystem::Pmu, "bus/event_source/devices"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subsystem {
    /// Access counters and what belongs to them.
    Counters,
    /// The kernel's CXL bus and dax devices.
    Fabric,
    /// Sources of events of perf.
    Pmu,
    Nodes,
    /// The top of cgroup version 2.
    Cgroups,
    SchedExt,
}

impl Subsystem {
    fn letter(self) -> u8 {
        match self {
            Subsystem::Counters => b'c',
            Subsystem::Fabric => b'f',
            Subsystem::Pmu => b'p',
            Subsystem::Nodes => b'n',
            Subsystem::Cgroups => b'g',
            Subsystem::SchedExt => b's',
        }
    }

    fn of(letter: u8) -> Option<Subsystem> {
        let all = [
            Subsystem::Counters,
            Subsystem::Fabric,
            Subsystem::Pmu,
            Subsystem::Nodes,
            Subsystem::Cgroups,
            Subsystem::SchedExt,
        ];
        all.into_iter().find(|kind| kind.letter() == letter)
    }
}

/// The names of the last scan, and a buffer for the next.
#[derive(Debug, Default)]
pub(super) struct Names {
    text: Vec<u8>,
    before: Vec<u8>,
}

impl Names {
    /// Scans the names. Whether something came, went or is another one.
    pub(super) fn scan(&mut self, roots: &Roots) -> bool {
        swap(&mut self.text, &mut self.before);
        self.text.clear();
        for (kind, dir) in DIRS {
            add_names(&mut self.text, kind, &roots.sys.join(dir));
        }
        for list in NODE_LISTS {
            let path = roots.sys.join("devices/system/node").join(list);
            if let Ok(numbers) = read_start(&path) {
                add(
                    &mut self.text,
                    Subsystem::Nodes,
                    &[list.as_bytes(), &numbers],
                );
            }
        }
        for (kind, file) in FILES {
            if stat(roots.sys.join(file)).is_ok() {
                add(&mut self.text, kind, &[file.as_bytes()]);
            }
        }
        // A mount over a directory makes another one of it.
        if let Ok(found) = stat(roots.cgroup.join("cgroup.controllers")) {
            self.text.push(Subsystem::Cgroups.letter());
            // Into memory: that does not fail.
            let _ = writeln!(self.text, " {}:{}", found.st_dev, found.st_ino);
        }
        self.text != self.before
    }

    /// Kinds and names that are there and were not at the scan before.
    pub(super) fn came(&self) -> BTreeSet<(Subsystem, String)> {
        let before: BTreeSet<&[u8]> = lines(&self.before).collect();
        let new = lines(&self.text).filter(|line| !before.contains(line));
        let parts = |line: &[u8]| {
            let (letter, name) = line.split_first()?;
            let name = name.trim_ascii().escape_ascii().to_string();
            Some((Subsystem::of(*letter)?, name))
        };
        new.filter_map(parts).collect()
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

fn add(text: &mut Vec<u8>, kind: Subsystem, parts: &[&[u8]]) {
    text.push(kind.letter());
    for part in parts {
        text.push(b' ');
        text.extend_from_slice(part.trim_ascii());
    }
    text.push(b'\n');
}

fn add_names(text: &mut Vec<u8>, kind: Subsystem, dir: &Path) {
    let Ok(dir) = open_root(dir) else {
        return;
    };
    let mut space = [MaybeUninit::<u8>::uninit(); 8192];
    let mut entries = RawDir::new(&dir, &mut space);
    let mut count = 0;
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name().to_bytes();
        if name.starts_with(b".") {
            continue;
        }
        count += 1;
        if count > NAME_COUNT_MAX {
            return;
        }
        add(text, kind, &[name]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn what_came_is_named_once_and_what_stays_is_no_change() {
        let fake = Fake::new();
        let mut names = Names::default();
        assert!(names.scan(&fake.roots()));
        assert!(!names.scan(&fake.roots()));
        fake.write("sys/bus/event_source/devices/uncore_cha_0/type", "40\n");
        fake.write("sys/devices/system/node/has_memory", "0-2\n");
        fake.write("sys/class/weir_cxl/weir_cxl1/group_count", "1\n");
        assert!(names.scan(&fake.roots()));
        let came: Vec<_> = names.came().into_iter().collect();
        let name = |kind, name: &str| (kind, name.to_owned());
        assert_eq!(
            came,
            [
                name(Subsystem::Counters, "weir_cxl1"),
                name(Subsystem::Pmu, "uncore_cha_0"),
                name(Subsystem::Nodes, "has_memory 0-2"),
            ]
        );
        assert!(!names.scan(&fake.roots()));
        fake.remove("sys/class/weir_cxl/weir_cxl1");
        assert!(names.scan(&fake.roots()));
        assert!(names.came().is_empty());
    }

    #[test]
    fn a_mount_over_the_cgroup_tree_and_a_scheduler_class_are_seen() {
        let fake = Fake::new();
        let mut names = Names::default();
        names.scan(&fake.roots());
        std::fs::rename(fake.path("sys/fs/cgroup"), fake.path("old")).unwrap();
        fake.write("sys/fs/cgroup/cgroup.controllers", "cpu\n");
        fake.write("sys/kernel/sched_ext/state", "disabled\n");
        assert!(names.scan(&fake.roots()));
        let kinds: Vec<Subsystem> = names.came().into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [Subsystem::Cgroups, Subsystem::SchedExt]);
    }

    #[test]
    fn names_of_others_are_harmless() {
        let fake = Fake::new();
        let mut names = Names::default();
        names.scan(&fake.roots());
        fake.write("sys/bus/event_source/devices/\u{1b}[2J\nc x/type", "1\n");
        names.scan(&fake.roots());
        for (_, name) in names.came() {
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_graphic() || byte == b' '),
                "{name:?}"
            );
        }
    }
}
