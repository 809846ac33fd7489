// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What has the kernel migrate pages, as far as its files say that it is on (kernel, Documentation:
//! `ABI/testing/sysfs-kernel-mm-numa`, `admin-guide/sysctl/kernel.rst`, `admin-guide/mm/damon/usage.rst`).

use crate::kernel::files::{Buffer, for_each_dir, open_beneath, open_root};
use crate::options::Roots;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeSet;

/// Actions of DAMON that move pages to other memory.
const MOVING: [&str; 3] = ["migrate_cold", "migrate_hot", "pageout"];
/// `kernel.numa_balancing`: pages move to the node of the CPU that uses them.
const BALANCING: u32 = 1;
/// The same, for pages that move from slower memory to faster.
const TIERING: u32 = 2;
/// Entries of a directory of DAMON's that are looked at.
const ENTRIES: usize = 64;
/// Actions that are read, of all its schemes.
const ACTIONS: usize = 256;

/// Settings that are on. What could not be read is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationSettings {
    /// Reclaim moves pages to slower memory.
    pub demotes: bool,
    /// NUMA balancing moves pages from slower memory to faster.
    pub promotes: bool,
    /// NUMA balancing moves pages to the CPUs that use them.
    pub balances: bool,
    /// A thread of DAMON runs that moves pages, or of which that is not known, and its actions that do.
    pub damon: Option<BTreeSet<&'static str>>,
}

impl MigrationSettings {
    pub fn read(roots: &Roots) -> MigrationSettings {
        let mut buffer = Buffer::new();
        let sys = open_root(&roots.sys).ok();
        let proc = open_root(&roots.proc).ok();
        let mut setting = |root: &Option<OwnedFd>, dir: &str, name| {
            let dir = open_beneath(root.as_ref()?, dir.as_bytes()).ok()?;
            word(&mut buffer, &dir, name)
        };
        let demotion = setting(&sys, "/kernel/mm/numa", "demotion_enabled");
        let balancing = setting(&proc, "/sys/kernel", "numa_balancing");
        let balancing: u32 = balancing.and_then(|bits| bits.parse().ok()).unwrap_or(0);
        let damon = sys.and_then(|sys| damon(&mut buffer, &sys));
        MigrationSettings {
            demotes: demotion.is_some_and(|is_on| matches!(&*is_on, "true" | "1")),
            promotes: balancing & TIERING != 0,
            balances: balancing & BALANCING != 0,
            damon,
        }
    }
}

fn word(buffer: &mut Buffer, dir: &OwnedFd, name: &str) -> Option<String> {
    let text = buffer.read_once_at(dir, name).ok()?;
    Some(std::str::from_utf8(text).ok()?.trim().to_owned())
}

/// The numbered directories in `dir`, and whether these are all.
fn numbered(dir: impl AsFd) -> (Vec<String>, bool) {
    let mut names = Vec::new();
    let all = for_each_dir(dir, ENTRIES, |name| {
        let is_number = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
        if let Ok(name) = std::str::from_utf8(name)
            && is_number
        {
            names.push(name.to_owned());
        }
    });
    (names, all.is_ok())
}

fn damon(buffer: &mut Buffer, sys: &OwnedFd) -> Option<BTreeSet<&'static str>> {
    let threads = open_beneath(sys, b"/kernel/mm/damon/admin/kdamonds").ok()?;
    let mut found = None;
    let mut left = ACTIONS;
    for thread in numbered(&threads).0 {
        let Ok(thread) = open_beneath(&threads, format!("/{thread}").as_bytes()) else {
            continue;
        };
        if word(buffer, &thread, "state").as_deref() != Some("on") {
            continue;
        }
        let actions = actions(buffer, &thread, &mut left);
        let is_moving = |action: &&&'static str| match &actions {
            Some(actions) => actions.iter().any(|found| found == **action),
            None => false,
        };
        let moving: BTreeSet<&str> = MOVING.iter().filter(is_moving).copied().collect();
        if actions.is_none() || !moving.is_empty() {
            found.get_or_insert_with(BTreeSet::new).extend(moving);
        }
    }
    found
}

/// The actions of all schemes of a thread; nothing where one of them cannot be read.
fn actions(buffer: &mut Buffer, thread: &OwnedFd, left: &mut usize) -> Option<BTreeSet<String>> {
    let mut actions = BTreeSet::new();
    let contexts = open_beneath(thread, b"/contexts").ok()?;
    let (names, mut is_all) = numbered(&contexts);
    for context in names {
        let schemes = format!("/{context}/schemes");
        let schemes = open_beneath(&contexts, schemes.as_bytes()).ok()?;
        let (names, is_whole) = numbered(&schemes);
        is_all &= is_whole;
        for scheme in names {
            *left = left.checked_sub(1)?;
            let scheme = open_beneath(&schemes, format!("/{scheme}").as_bytes()).ok()?;
            actions.insert(word(buffer, &scheme, "action")?);
        }
    }
    is_all.then_some(actions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn put(root: &Path, name: &str, value: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value).unwrap();
    }

    #[test]
    fn settings_that_are_on_are_those_that_files_say_are_on() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let seen = || MigrationSettings::read(&Roots::beneath(root));
        assert_eq!(seen(), MigrationSettings::default(), "there are no files");
        put(root, "sys/kernel/mm/numa/demotion_enabled", "false\n");
        put(root, "proc/sys/kernel/numa_balancing", "many\n");
        let damon = "sys/kernel/mm/damon/admin/kdamonds";
        let action = |thread: u32, value: &str| {
            let scheme = format!("{damon}/{thread}/contexts/0/schemes/0");
            put(root, &format!("{scheme}/action"), value);
        };
        for (thread, state) in [(0, "off\n"), (1, "on\n")] {
            put(root, &format!("{damon}/{thread}/state"), state);
        }
        action(0, "migrate_hot\n");
        action(1, "stat\n");
        assert_eq!(seen(), MigrationSettings::default(), "none moves pages");
        put(root, "sys/kernel/mm/numa/demotion_enabled", "true\n");
        put(root, "proc/sys/kernel/numa_balancing", "2\n");
        action(1, "migrate_cold\n");
        let all = MigrationSettings {
            demotes: true,
            promotes: true,
            balances: false,
            damon: Some(["migrate_cold"].into()),
        };
        assert_eq!(seen(), all);
        // It runs, and what it does is not said.
        let scheme = root.join(damon).join("1/contexts/0/schemes/0/action");
        fs::remove_file(&scheme).unwrap();
        symlink(root.join("proc/sys/kernel/numa_balancing"), &scheme).unwrap();
        assert_eq!(seen().damon, Some(BTreeSet::new()));
    }
}
