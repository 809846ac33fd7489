// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How well weir attributes traffic: cases, each in a guest of its own, observed with one source of shares
//! after the other. No workload is limited.

use crate::live::guest::{self, Instance};
use crate::live::live_run::{self, Mode};
use crate::vm::Vm;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::fmt::Write;
use weir_scenario::TestbedScenario;
use weir_scenario::testbed::CoreEvents;
use weir_scenario::testbed::Load;

/// Where shares may come from: what the column is called, and `weir run`'s argument.
pub const SOURCES: [&str; 2] = ["task-counts", "cpu-time"];
/// What is promised of a workload that has a group to itself, and of one that shares it, by the best source.
const ALONE_MAX: f64 = 0.01;
const SHARING_MAX: f64 = 0.08;

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub case: String,
    pub workload: String,
    /// Workloads in its group, itself among them.
    pub in_group_count: usize,
    /// Some of them write and some do not, and the source cannot distinguish them: a guess is in each figure.
    pub is_guessed: bool,
    /// The source of the figure, one of [`SOURCES`].
    pub source: String,
    /// What the ground truth says.
    pub truth_bytes_per_sec: f64,
    pub weir_bytes_per_sec: f64,
    /// RMSE in windows of a second ÷ mean of the truth.
    pub rmse_ratio: f64,
    /// weir's own word for how it knows.
    pub provenance: String,
}

/// Observes one case with every source that its machine has. The model must be on and [`guest::prepare`]
/// done.
///
/// # Errors
/// The guest fails, weir says nothing of a workload, or there is none.
pub fn measure(
    vm: &Vm,
    scenario: &TestbedScenario,
    all: &[Instance],
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let has_counts = scenario.machine.core_events.is_some();
    for source in SOURCES
        .iter()
        .filter(|s| has_counts || **s != "task-counts")
    {
        let mode = Mode::Weir {
            policy: None,
            backend: "cpu-max".into(),
            extra: format!("--attribution {source}"),
        };
        rows.extend(by_one(vm, scenario, all, source, &mode, say)?);
    }
    ensure!(
        !rows.is_empty(),
        "{}: no workload uses the device in this scenario",
        scenario.name
    );
    guest::kill(vm)?;
    Ok(rows)
}

fn by_one(
    vm: &Vm,
    scenario: &TestbedScenario,
    all: &[Instance],
    source: &str,
    mode: &Mode,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Row>> {
    say(&format!("{}: shares by {source}", scenario.name));
    let (_, estimates) = live_run::run_and_compare(vm, scenario, all, mode, &|_| ())?;
    let mut rows = Vec::new();
    for instance in all.iter().filter(|i| i.owner > 0) {
        let name = &instance.name;
        let estimate = estimates.get(name).with_context(|| {
            format!("nothing to compare of {name}: weir said nothing of it, or the device moved nothing for it")
        })?;
        let (in_group_count, is_alike) = company(all, instance);
        let events = scenario
            .machine
            .core_events
            .filter(|_| source == "task-counts");
        rows.push(Row {
            case: scenario.name.clone(),
            workload: name.clone(),
            in_group_count,
            is_guessed: !is_alike && !events.is_some_and(CoreEvents::count_stores),
            source: source.into(),
            truth_bytes_per_sec: estimate.truth_bytes_per_sec,
            weir_bytes_per_sec: estimate.weir_bytes_per_sec,
            rmse_ratio: estimate.rmse_ratio,
            provenance: estimate.provenance.clone(),
        });
    }
    Ok(rows)
}

/// How many are in an instance's group, itself among them, and whether they all read or all write.
fn company(all: &[Instance], one: &Instance) -> (usize, bool) {
    let group = |instance: &Instance| match &instance.load {
        Load::Fio { group, rw, .. } => Some((*group, rw.clone())),
        Load::StressNg { .. } => None,
    };
    let own = group(one);
    let ways = all.iter().filter_map(group);
    let here: Vec<String> = ways
        .filter(|(group, _)| own.as_ref().is_some_and(|own| own.0 == *group))
        .map(|(_, way)| way)
        .collect();
    (
        here.len(),
        here.iter()
            .all(|way| own.as_ref().is_some_and(|own| own.1 == *way)),
    )
}

pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<22} {:<12} {:>8}  {:<9} {:<12} {:>9} {:>9} {:>7}\n",
        "case", "workload", "in group", "shares", "known as", "truth", "weir", "RMSE"
    );
    for row in rows {
        let mib = |rate: f64| rate / 1_048_576.0;
        let _ = writeln!(
            text,
            "{:<22} {:<12} {:>8}  {:<9} {:<12} {:>9.3} {:>9.3} {:>6.2}%",
            row.case,
            row.workload,
            row.in_group_count,
            row.source,
            row.provenance,
            mib(row.truth_bytes_per_sec),
            mib(row.weir_bytes_per_sec),
            row.rmse_ratio * 100.0
        );
    }
    text + "truth and weir in MiB/s\n"
}

/// What must come out: alone by any source, sharing by the best there is.
pub fn checks(rows: &[Row]) -> Vec<(bool, String)> {
    let worst = |text: &str, most: f64, of: &dyn Fn(&&Row) -> bool| {
        let found = rows.iter().filter(of);
        let worst = found.max_by(|a, b| a.rmse_ratio.total_cmp(&b.rmse_ratio))?;
        let sentence = format!(
            "{text}: at most {:.0} % RMSE, and {} of {} has {:.2} %",
            most * 100.0,
            worst.workload,
            worst.case,
            worst.rmse_ratio * 100.0
        );
        Some((worst.rmse_ratio <= most, sentence))
    };
    let alone = worst("alone in its group", ALONE_MAX, &|r| r.in_group_count == 1);
    let what = "sharing a group, by counts";
    let sharing = worst(what, SHARING_MAX, &|r| {
        r.in_group_count > 1 && r.source == "task-counts" && !r.is_guessed
    });
    alone.into_iter().chain(sharing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(in_group_count: usize, source: &str, rmse_ratio: f64) -> Row {
        Row {
            case: "equal".into(),
            workload: "a".into(),
            in_group_count,
            is_guessed: false,
            source: source.into(),
            truth_bytes_per_sec: 1_048_576.0,
            weir_bytes_per_sec: 1_153_434.0,
            rmse_ratio,
            provenance: "sampled".into(),
        }
    }

    #[test]
    fn the_worst_of_each_kind_is_checked() {
        let rows = [
            row(1, "cpu-time", 0.004),
            row(1, "task-counts", 0.012),
            row(2, "task-counts", 0.03),
            row(2, "cpu-time", 0.4),
            Row {
                is_guessed: true,
                ..row(2, "task-counts", 0.5)
            },
        ];
        let passed: Vec<bool> = checks(&rows).iter().map(|(passed, _)| *passed).collect();
        assert_eq!(passed, [false, true]);
        assert!(checks(&rows[..1])[0].1.contains("0.40 %"));
        assert_eq!(checks(&[]), []);
        let text = table(&rows);
        assert!(text.contains("1.000     1.100   1.20%"), "{text}");
    }
}
