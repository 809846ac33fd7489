// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names that the operator gave (the exclude list, weights) against the workloads that are there: one that
//! fits none is most often a slip of the pen, and the workload that was meant is then limited like any other.
//! So it is said.

use super::cgroups::walk::{Visited, for_each_cgroup};
use super::exclude::Rules;
use super::processes::proc_pid::read_stat;
use crate::kernel::escape::{escape, glob_matches};
use crate::kernel::files::{Buffer, for_each_dir, open_root};
use crate::kernel::parse::decimal;
use crate::options::{By, Options, Roots};
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::topology::Fact;
use weir_core::{Missing, WorkloadId};

/// Facts about names begin so.
pub const NAMES: &str = "names.";
const EXCLUDE: &str = "names.exclude";
const WEIGHTS: &str = "names.weights";
const PROCESSES_MAX: usize = 100_000;
/// Where cgroups are mounted: people give their whole path.
const MOUNT: &str = "/sys/fs/cgroup";

#[derive(Debug, Default)]
pub(crate) struct Wanted {
    given: Vec<GivenName>,
}

#[derive(Debug)]
struct GivenName {
    text: String,
    /// A pattern of the exclude list; else the exact name of a workload with a weight.
    is_pattern: bool,
    /// Something of that name was there.
    is_met: AtomicBool,
}

impl GivenName {
    fn fits(&self, name: &str) -> bool {
        fits(self.is_pattern, &self.text, name)
    }
}

fn fits(is_pattern: bool, text: &str, name: &str) -> bool {
    if is_pattern {
        glob_matches(text, name)
    } else {
        text == name
    }
}

impl Wanted {
    pub(crate) fn new(exclude: &[String], weights: &[String]) -> Self {
        let given = |is_pattern| {
            move |text: &String| GivenName {
                text: text.clone(),
                is_pattern,
                is_met: AtomicBool::new(false),
            }
        };
        let patterns = exclude.iter().map(given(true));
        Wanted {
            given: patterns.chain(weights.iter().map(given(false))).collect(),
        }
    }

    /// A workload has these names.
    pub(crate) fn see(&self, names: &[&str]) {
        for given in &self.given {
            if !given.is_met.load(Ordering::Relaxed) && names.iter().any(|name| given.fits(name)) {
                given.is_met.store(true, Ordering::Relaxed);
            }
        }
    }

    /// What there is to say of them, with `there` as the workloads of now. Nothing where nothing was given.
    pub(crate) fn facts<'a>(&self, there: impl Iterator<Item = &'a str> + Clone) -> Vec<Fact> {
        let is_open = |given: &GivenName| !given.is_met.load(Ordering::Relaxed);
        if self.given.iter().any(is_open) {
            there.clone().for_each(|name| self.see(&[name]));
        }
        let fact = |name: &str, is_pattern: bool| {
            let mine = || self.given.iter().filter(|g| g.is_pattern == is_pattern);
            let unmet: Vec<&GivenName> = mine().filter(|given| is_open(given)).collect();
            let count = mine().count();
            let hints = unmet.iter().filter_map(|g| g.hint(there.clone()));
            let hints: Vec<String> = hints.collect();
            (count > 0).then(|| Fact {
                name: name.into(),
                value: match unmet[..] {
                    [] => Ok(format!("{count} given, and each fits a workload")),
                    _ => Err(Missing::NotSupported(said(&unmet))),
                },
                next_move: (!unmet.is_empty()).then(|| NextMove {
                    act: Act::Deed(if hints.is_empty() {
                        "`weir top --once` shows names as they are to be given".into()
                    } else {
                        hints.join("; ")
                    }),
                    why: "a name that was given fits no workload".into(),
                    needs: Precondition::Seen("names of workloads that are here now".into()),
                }),
            })
        };
        let facts = [fact(EXCLUDE, true), fact(WEIGHTS, false)];
        facts.into_iter().flatten().collect()
    }
}

fn said(unmet: &[&GivenName]) -> String {
    let one = |given: &&GivenName| format!("{:?}", given.text).replace("\\\\", "\\");
    let all: Vec<String> = unmet.iter().map(one).collect();
    let verb = if all.len() == 1 { "fits" } else { "fit" };
    format!("{} {verb} no workload that is here now", all.join(", "))
}

impl GivenName {
    /// What was probably meant.
    fn hint<'a>(&self, there: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
        let first = |text: &str| {
            let mut there = there.clone();
            there.find(|name| fits(self.is_pattern, text, name))
        };
        self.others().into_iter().find_map(|text| {
            let name = first(&text)?;
            Some(if text == name {
                format!("perhaps {name} is meant")
            } else {
                format!("perhaps {text} is meant, which fits {name}")
            })
        })
    }

    fn others(&self) -> Vec<String> {
        let plain = self.text.trim().trim_end_matches('/');
        let below = plain.strip_prefix(MOUNT).unwrap_or(plain);
        // Earlier versions wrote names so.
        let old = below.replace("\\x5c", "\\");
        let mut others = vec![below.to_owned(), format!("/{below}"), old];
        if self.is_pattern {
            others.push(format!("{below}/*"));
            others.push(format!("*/{}", below.trim_start_matches('/')));
            others.push(format!("*{}*", below.trim_start_matches('/')));
        }
        others.retain(|other| !other.is_empty() && *other != self.text);
        others
    }
}

/// What there is to say of the names that options have, on this machine: for `weir doctor`.
pub(crate) fn names(options: &Options) -> Vec<Fact> {
    let wanted = Wanted::new(&options.exclude, &options.weighted);
    if wanted.given.is_empty() {
        return Vec::new();
    }
    let there = match options.by {
        By::Cgroup => cgroups(options),
        By::Process => processes(&options.roots),
    };
    for (name, other) in &there {
        wanted.see(&[name, other]);
    }
    wanted.facts(there.iter().map(|(name, _)| name.as_str()))
}

/// Names of cgroups without others below them.
fn cgroups(options: &Options) -> Vec<(String, String)> {
    let roots = &options.roots;
    let (Ok(root), Ok(proc)) = (open_root(&roots.cgroup), open_root(&roots.proc)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let delegation = Rules::of(options).delegation(&root);
    for_each_cgroup(
        &root,
        &proc,
        &delegation,
        &mut Buffer::new(),
        |path, visited| {
            if let Ok(Visited::Leaf(..)) = visited {
                let name = escape(path);
                found.push((name.clone(), name));
            }
        },
    );
    found.sort();
    found
}

/// Ids of processes, and what they call themselves.
fn processes(roots: &Roots) -> Vec<(String, String)> {
    let Ok(proc) = open_root(&roots.proc) else {
        return Vec::new();
    };
    let mut pids: Vec<u32> = Vec::new();
    // What cannot be listed has no names.
    let _ = for_each_dir(&proc, PROCESSES_MAX, |name| {
        let pid = decimal(name).ok().and_then(|n| u32::try_from(n).ok());
        pids.extend(pid);
    });
    let named = |pid: &u32| name_of(&proc, *pid);
    pids.iter().filter_map(named).collect()
}

fn name_of(proc: &OwnedFd, pid: u32) -> Option<(String, String)> {
    let stat = read_stat(proc, pid, &mut Buffer::new()).ok()?;
    let comm = String::from_utf8_lossy(&stat.comm).into_owned();
    Some((format!("pid:{pid}@{}", stat.start_ticks), comm))
}

/// A process that runs now, as workloads by process are named; nothing where there is none.
pub fn process_workload(roots: &Roots, pid: u32) -> Option<WorkloadId> {
    let proc = open_root(&roots.proc).ok()?;
    name_of(&proc, pid).map(|(id, _)| WorkloadId::new(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const VM: &str = r"/machine.slice/machine-qemu\x2d1\x2dvm.scope";

    fn fake() -> Fake {
        let fake = Fake::new();
        fake.cgroup(VM.trim_start_matches('/'), &[300]);
        fake
    }

    fn facts_for(
        by: By,
        exclude: &[&str],
        weights: &[&str],
    ) -> Vec<(String, Result<String, String>, String)> {
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let fake = fake();
        let facts = names(&Options {
            exclude: owned(exclude),
            weighted: owned(weights),
            ..fake.options(by)
        });
        let one = |fact: Fact| {
            let value = fact.value.map_err(|why| why.to_string());
            let next_move = fact.next_move.map(|next| next.to_string());
            (fact.name, value, next_move.unwrap_or_default())
        };
        facts.into_iter().map(one).collect()
    }

    #[test]
    fn what_fits_is_said_to_fit() {
        let facts = facts_for(
            By::Cgroup,
            &[VM, "/system.slice/*"],
            &["/system.slice/fio.service"],
        );
        let said: Vec<_> = facts.iter().map(|f| (f.0.as_str(), f.1.clone())).collect();
        assert_eq!(
            said[0],
            (EXCLUDE, Ok("2 given, and each fits a workload".into()))
        );
        assert_eq!(
            said[1],
            (WEIGHTS, Ok("1 given, and each fits a workload".into()))
        );
        assert!(facts_for(By::Cgroup, &[], &[]).is_empty());
        // A process is known by its name too.
        assert!(facts_for(By::Process, &["stress"], &[])[0].1.is_ok());
    }

    #[test]
    fn a_pattern_that_fits_nothing_is_reported_with_what_was_probably_meant() {
        for (pattern, hint) in [
            (
                "fio.service",
                "*/fio.service is meant, which fits /system.slice/fio.service",
            ),
            (
                "/sys/fs/cgroup/system.slice/fio.service",
                "perhaps /system.slice/fio.service is meant",
            ),
            (
                "system.slice/fio.service",
                "perhaps /system.slice/fio.service is meant",
            ),
            ("/system.slice", "perhaps /system.slice/* is meant"),
            ("fio", "*fio*"),
            (
                r"/machine.slice/machine-qemu\x5cx2d1\x5cx2dvm.scope",
                r"machine-qemu\x2d1\x2dvm.scope is meant",
            ),
            ("/nothing/of/the/kind", "weir top --once"),
        ] {
            let facts = facts_for(By::Cgroup, &[pattern, "/init.scope"], &[]);
            let why = facts[0].1.as_ref().unwrap_err();
            assert!(
                why.contains(pattern) && !why.contains("init.scope"),
                "{why}"
            );
            assert!(facts[0].2.contains(hint), "{pattern}: {}", facts[0].2);
        }
    }

    #[test]
    fn a_weight_is_of_an_exact_name() {
        let facts = facts_for(
            By::Cgroup,
            &[],
            &["/system.slice/*", "system.slice/fio.service"],
        );
        let why = facts[0].1.as_ref().unwrap_err();
        assert!(
            why.contains("\"/system.slice/*\", \"system.slice/fio.service\" fit no workload"),
            "{why}"
        );
        assert!(
            facts[0]
                .2
                .contains("perhaps /system.slice/fio.service is meant"),
            "{}",
            facts[0].2
        );
    }

    #[test]
    fn what_comes_later_is_met_once_and_for_all() {
        let wanted = Wanted::new(&["/late/*".to_owned()], &[]);
        assert!(wanted.facts(["/early"].into_iter())[0].value.is_err());
        assert!(
            wanted.facts(["/early", "/late/a"].into_iter())[0]
                .value
                .is_ok()
        );
        assert!(wanted.facts(["/early"].into_iter())[0].value.is_ok());
    }
}
