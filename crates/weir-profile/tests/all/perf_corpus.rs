// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What perf printed with many combinations of its options, against the sums that are worked out beside it
//! (`tests/data/perf-stat`): each count is in the windows once, under its place and event, or the file is
//! refused with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use weir_core::window::CountScope;
use weir_core::{Missing, Window, WorkloadId};
use weir_profile::perf_stat::{PerfStat, read_run};
use weir_profile::recipes::{Recipes, windows};

/// The sum by place and event; nothing where no window has a count.
type Sums = BTreeMap<(String, String), Option<u64>>;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/perf-stat")
}

/// A place as perf names it.
fn place(of: CountScope, workload: Option<&WorkloadId>) -> String {
    match (workload, of) {
        (Some(workload), _) => workload.to_string(),
        (None, CountScope::Cpu(cpu)) => format!("CPU{cpu}"),
        (None, CountScope::Socket(socket)) => format!("S{socket}"),
        (None, _) => String::new(),
    }
}

/// What windows hold: events without a role under their names, roles under those of their events.
fn held(windows: &[Window], stat: &PerfStat) -> Sums {
    let mut sums = Sums::new();
    let mut add = |key, value: &Result<u64, Missing>| {
        let sum = sums.entry(key).or_default();
        if let Ok(value) = value {
            *sum = Some(sum.unwrap_or(0) + value);
        }
    };
    for window in windows {
        for event in &window.unassigned {
            let place = place(event.of, event.workload.as_ref());
            add((place, event.event.clone()), &event.value);
        }
        let machine = window.machine.iter().map(|count| (None, count));
        let workloads = window.workloads.iter();
        let workloads = workloads.flat_map(|w| w.counts.iter().map(|count| (Some(&w.id), count)));
        for (workload, count) in machine.chain(workloads) {
            let event = match count.role.to_string().as_str() {
                "core.any.any.clock" => "cycles",
                "core.any.any.time-ns" => "task-clock",
                other => panic!("no event of the corpus is {other}"),
            };
            // In user mode only, if that is all that was asked for.
            let names = stat.rows.iter().map(|row| &row.event);
            let mut names = names.filter(|name| name.split(':').next() == Some(event));
            let name = names.next().unwrap().clone();
            add((place(count.of, workload), name), &count.value);
        }
    }
    sums
}

/// The sum of a row of the index, in the unit of windows, and by how much rounding may move it.
fn stated(event: &str, sum: &str) -> (Option<u64>, u64) {
    let is_msec = event.starts_with("task-clock") || event.starts_with("cpu-clock");
    let scale = if is_msec { 1e6 } else { 1.0 };
    let sum = (sum != "none").then(|| (sum.parse::<f64>().unwrap() * scale).round() as u64);
    (sum, u64::from(is_msec) * 20)
}

#[test]
fn sums_of_windows_are_those_of_perfs_lines() {
    let index = fs::read_to_string(folder().join("corpus.tsv")).unwrap();
    let mut files: BTreeMap<(&str, &str), Vec<[&str; 3]>> = BTreeMap::new();
    for line in index.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let rest = [columns[2], columns[3], columns.get(4).unwrap_or(&"")];
        files
            .entry((columns[0], columns[1]))
            .or_default()
            .push(rest);
    }
    let mut wrong = Vec::new();
    for ((name, run), rows) in &files {
        let text = fs::read_to_string(folder().join(name)).unwrap();
        let read = read_run(&text, None, run.parse().ok());
        if let ["refused", said, _] = rows[0] {
            match read {
                Err(why) if why.to_string().contains(said) => {}
                other => wrong.push(format!("{name}: {said:?} is not said: {other:?}")),
            }
            continue;
        }
        match read {
            Ok(stat) => wrong.extend(differences(name, &stat, rows)),
            Err(why) => wrong.push(format!("{name}: {why}")),
        }
    }
    assert!(files.len() > 70, "{}", files.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let there = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let there: BTreeSet<String> = there.map(|name| name.into_string().unwrap()).collect();
    let listed: BTreeSet<&str> = files.keys().map(|(name, _)| *name).collect();
    let unlisted = there
        .iter()
        .filter(|name| name.ends_with(".txt") && !listed.contains(name.as_str()));
    assert_eq!(unlisted.count(), 0, "a file without sums is not tested");
}

/// How the windows of one run differ from the rows of the index.
fn differences(name: &str, stat: &PerfStat, rows: &[[&str; 3]]) -> Vec<String> {
    let made = windows(stat, &Recipes::default(), &|_, _| None, None).windows;
    let mut held = held(&made, stat);
    let length: u64 = made.iter().map(|window| window.to.0 - window.from.0).sum();
    let mut wrong = Vec::new();
    for [place, event, sum] in rows {
        let (sum, slack) = stated(event, sum);
        if *event == "duration_time" {
            // The time of the windows themselves.
            if sum != Some(length) {
                wrong.push(format!("{name}: windows of {length} ns, of {sum:?}"));
            }
            continue;
        }
        let found = held.remove(&((*place).to_owned(), (*event).to_owned()));
        let is_same = match (found, sum) {
            (Some(Some(found)), Some(sum)) => found.abs_diff(sum) <= slack,
            (found, sum) => found == Some(sum),
        };
        if !is_same {
            wrong.push(format!(
                "{name}: {place} {event}: {found:?}, and perf has {sum:?}"
            ));
        }
    }
    wrong.extend(
        held.into_iter()
            .map(|(key, sum)| format!("{name}: {key:?}: {sum:?} is no count of perf")),
    );
    // perf's own messages between its lines are named; no line of a count is.
    let messages = stat
        .problems
        .iter()
        .filter(|_| !name.starts_with("verbose"));
    wrong.extend(messages.map(|problem| format!("{name}: line {}: {}", problem.line, problem.why)));
    wrong
}
