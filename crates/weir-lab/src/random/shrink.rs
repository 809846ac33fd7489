// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Leaves out of a scenario what has no part in a failure: workloads first, then their number, their threads
//! and phases, and what makes a load special.

use std::collections::BTreeSet;
use toml::{Table, Value};

/// Keys of a workload without which it is the usual one.
const SPECIAL: [&str; 5] = [
    "start_ms",
    "spread_ms",
    "weight",
    "realtime",
    "busy_ns_per_line",
];
/// Keys of a phase without which it is the usual one.
const SPECIAL_OF_PHASE: [&str; 5] = ["think_us", "write_ratio", "random", "times", "for_ms"];

/// What is left of a scenario, and how it was found.
#[derive(Debug, PartialEq)]
pub struct Shrunk {
    /// The smallest that fails.
    pub scenario: Table,
    /// Scenarios that were tried.
    pub tried: usize,
    /// Nothing more can be left out.
    pub is_smallest: bool,
}

/// Leaves out one thing after the other, as long as what is left fails. `failing` runs a scenario: it returns
/// the one that fails (which may have another set-point), or nothing.
pub fn shrink(
    whole: &Table,
    tries_max: usize,
    mut failing: impl FnMut(&Table) -> Option<Table>,
) -> Shrunk {
    let mut scenario = whole.clone();
    let mut seen = BTreeSet::from([whole.to_string()]);
    let (mut at, mut tried, mut has_changed) = (0, 0, false);
    loop {
        let Some(next) = smaller(&scenario).into_iter().nth(at) else {
            if !has_changed {
                return Shrunk {
                    scenario,
                    tried,
                    is_smallest: true,
                };
            }
            // What was needed beside the rest may not be needed now.
            (at, has_changed) = (0, false);
            continue;
        };
        if !seen.insert(next.to_string()) {
            at += 1;
            continue;
        }
        if tried == tries_max {
            return Shrunk {
                scenario,
                tried,
                is_smallest: false,
            };
        }
        tried += 1;
        match failing(&next) {
            // The next candidate has moved to this place.
            Some(left) => (scenario, has_changed) = (left, true),
            None => at += 1,
        }
    }
}

/// Scenarios with one thing less, the largest things first.
fn smaller(of: &Table) -> Vec<Table> {
    let mut all = Vec::new();
    without_one(of, "workload", 1, |less| all.push(less));
    without_one(of, "fault", 0, |less| all.push(less));
    for key in ["count", "threads"] {
        for at in 0..length(of, "workload") {
            let number = of_workload(of, at).and_then(|w| w.get(key)?.as_integer());
            let number = number.unwrap_or(1);
            for less in BTreeSet::from([1, number / 2, number - 1]) {
                if (1..number).contains(&less) {
                    all.extend(changed(of, at, |w| {
                        w.insert(key.to_owned(), Value::Integer(less))
                    }));
                }
            }
        }
    }
    for at in 0..length(of, "workload") {
        let Some(workload) = of_workload(of, at) else {
            continue;
        };
        without_one(workload, "phase", 1, |less| {
            all.extend(changed(of, at, |w| Some(std::mem::replace(w, less))));
        });
        for key in SPECIAL.iter().filter(|key| workload.contains_key(**key)) {
            all.extend(changed(of, at, |w| w.remove(*key)));
        }
        for phase in 0..length(workload, "phase") {
            for key in SPECIAL_OF_PHASE {
                let mut less = of.clone();
                let phase = entry(&mut less, "workload", at).and_then(|w| entry(w, "phase", phase));
                if phase.and_then(|phase| phase.remove(key)).is_some() {
                    all.push(less);
                }
            }
        }
    }
    all
}

/// Tables of a list, `[[key]]`.
fn list<'a>(of: &'a Table, key: &str) -> &'a [Value] {
    let list = of.get(key).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn length(of: &Table, key: &str) -> usize {
    list(of, key).len()
}

fn of_workload(of: &Table, at: usize) -> Option<&Table> {
    list(of, "workload").get(at)?.as_table()
}

fn entry<'a>(of: &'a mut Table, key: &str, at: usize) -> Option<&'a mut Table> {
    of.get_mut(key)?.as_array_mut()?.get_mut(at)?.as_table_mut()
}

/// The same with another workload.
fn changed<T>(of: &Table, at: usize, change: impl FnOnce(&mut Table) -> T) -> Option<Table> {
    let mut less = of.clone();
    change(entry(&mut less, "workload", at)?);
    Some(less)
}

/// The same without one entry of a list, if so many are left.
fn without_one(of: &Table, key: &str, least: usize, mut take: impl FnMut(Table)) {
    let length = length(of, key);
    for at in (0..length).filter(|_| length > least) {
        let mut less = of.clone();
        if let Some(Value::Array(list)) = less.get_mut(key) {
            list.remove(at);
            if list.is_empty() {
                less.remove(key);
            }
            take(less);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
        name = "made"
        [[workload]]
        name = "a"
        count = 6
        [[workload.phase]]
        kind = "access"
        [[workload]]
        name = "b"
        count = 5
        threads = 4
        start_ms = 1500
        weight = 50
        [[workload.phase]]
        kind = "access"
        write_ratio = 0.3
        for_ms = 300
        [[workload.phase]]
        kind = "sleep"
        mean_us = 300000
        [[workload]]
        name = "work"
        count = 9
        [[workload.phase]]
        kind = "compute"
        [[fault]]
        at_ms = 13000
        "#;

    fn whole() -> Table {
        WHOLE.parse().expect("TOML")
    }

    #[test]
    fn what_has_no_part_in_a_failure_is_left_out() {
        // At least three of `b`, which sleep at times, and their weight.
        let failing = |of: &Table| {
            let workloads = list(of, "workload").iter().filter_map(Value::as_table);
            let mut b = workloads.filter(|w| w["name"].as_str() == Some("b"));
            let fails = b.any(|w| {
                let sleeps = |phase: &Value| phase["kind"].as_str() == Some("sleep");
                w["count"].as_integer() >= Some(3)
                    && w.contains_key("weight")
                    && list(w, "phase").iter().any(sleeps)
            });
            fails.then(|| of.clone())
        };
        let shrunk = shrink(&whole(), 100, failing);
        let left = r#"
            name = "made"
            [[workload]]
            name = "b"
            count = 3
            threads = 1
            weight = 50
            [[workload.phase]]
            kind = "sleep"
            mean_us = 300000
            "#;
        assert_eq!(shrunk.scenario, left.parse().expect("TOML"));
        assert!(shrunk.is_smallest);
    }

    #[test]
    fn it_ends_when_nothing_can_go_and_after_so_many_tries() {
        let mut seen = BTreeSet::new();
        let kept = shrink(&whole(), 100, |of| {
            assert!(seen.insert(of.to_string()), "tried twice: {of}");
            None
        });
        assert_eq!(
            (kept.scenario, kept.is_smallest, kept.tried),
            (whole(), true, seen.len())
        );
        let cut = shrink(&whole(), 5, |_| None);
        assert_eq!(
            (cut.scenario, cut.is_smallest, cut.tried),
            (whole(), false, 5)
        );
        let least = shrink(&whole(), 100, |of| Some(of.clone()));
        let left = "name = \"made\"\n[[workload]]\nname = \"work\"\ncount = 1\n[[workload.phase]]\nkind = \"compute\"";
        assert_eq!(least.scenario, left.parse().expect("TOML"));
    }
}
