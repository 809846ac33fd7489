// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What comes or goes while weir runs: devices, nodes, counters, PMUs, controllers, the class of schedulers. The names of
//! all that are compared now and then, which costs a few reads; only where they changed is the machine probed anew.
//! Each change is said once.

use crate::clock::now;
use crate::counters::dump_path;
use crate::files::read_path;
use crate::options::Roots;
use std::collections::BTreeSet;
use std::path::Path;
use weir_core::Nanos;

/// Time between two looks.
const EVERY: Nanos = Nanos::from_millis(5000);
/// Most names of one directory.
const NAMES_MAX: usize = 65_536;

/// Names of what is there, with what they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Inventory(BTreeSet<(&'static str, String)>);

impl Inventory {
    fn of(roots: &Roots) -> Inventory {
        let mut all = BTreeSet::new();
        for (what, dir) in [
            ("counters", "class/weir_cxl"),
            ("CXL device", "bus/cxl/devices"),
            ("PMU", "bus/event_source/devices"),
        ] {
            let names = names(&roots.sys.join(dir));
            all.extend(names.into_iter().map(|name| (what, name)));
        }
        for (what, path) in [
            ("nodes online:", roots.sys.join("devices/system/node/online")),
            ("nodes with memory:", roots.sys.join("devices/system/node/has_memory")),
            ("cgroup controllers:", roots.cgroup.join("cgroup.controllers")),
        ] {
            if let Ok(text) = read_path(&path) {
                all.insert((what, String::from_utf8_lossy(text.trim_ascii()).into_owned()));
            }
        }
        for (what, path) in [
            ("counters in debugfs", dump_path(roots)),
            ("sched_ext", roots.sys.join("kernel/sched_ext")),
        ] {
            if path.exists() {
                all.insert((what, String::new()));
            }
        }
        Inventory(all)
    }

    /// What is in the one and not in the other.
    fn without(&self, other: &Inventory) -> Vec<String> {
        let only = self.0.difference(&other.0);
        only.map(|(what, name)| format!("{what} {name}").trim_end().to_owned())
            .collect()
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.take(NAMES_MAX).collect()
}

/// What there was at the last look.
#[derive(Debug)]
pub(crate) struct Arrivals {
    known: Inventory,
    looked_at: Nanos,
}

/// What changed between two looks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) came: Vec<String>,
    pub(crate) went: Vec<String>,
}

impl Arrivals {
    pub(crate) fn new(roots: &Roots) -> Arrivals {
        Arrivals {
            known: Inventory::of(roots),
            looked_at: now(),
        }
    }

    /// What changed, if it is time to look and something did.
    pub(crate) fn look(&mut self, roots: &Roots, at: Nanos) -> Option<Changes> {
        if at.0.saturating_sub(self.looked_at.0) < EVERY.0 {
            return None;
        }
        self.looked_at = at;
        let new = Inventory::of(roots);
        let old = std::mem::replace(&mut self.known, new);
        let changes = Changes {
            came: self.known.without(&old),
            went: old.without(&self.known),
        };
        (self.known != old).then_some(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn a_change_is_said_once_and_not_before_it_is_time() {
        let fake = Fake::new();
        let roots = fake.roots();
        let mut arrivals = Arrivals::new(&roots);
        let start = arrivals.looked_at.0;
        let at = |looks: u64| Nanos(start + looks * EVERY.0);
        assert_eq!(arrivals.look(&roots, at(1)), None);
        fake.device(1, &[(2, 0, 0)]);
        fake.write("sys/devices/system/node/has_memory", "0-2\n");
        assert_eq!(arrivals.look(&roots, Nanos(at(2).0 - 1)), None);
        let changes = arrivals.look(&roots, at(2)).unwrap();
        let came = ["counters weir_cxl1", "nodes with memory: 0-2"];
        assert_eq!((changes.came, changes.went), (came.map(str::to_owned).to_vec(), vec!["nodes with memory: 0-1".to_owned()]));
        assert_eq!(arrivals.look(&roots, at(3)), None);
        fake.remove("sys/class/weir_cxl/weir_cxl1");
        let changes = arrivals.look(&roots, at(4)).unwrap();
        assert_eq!(changes.went, ["counters weir_cxl1"]);
    }
}
