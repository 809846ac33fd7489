// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sweep of the emulated device without a controller: 1 … 8 readers alone, and five readers with the CPU
//! quota of two. A controller can be evaluated only on a device with a knee, a rising CPU cost per byte, and
//! the fall of that cost under a smaller quota.
//!
//! All readers are started once; the number that runs is set by freezing the others.

use crate::live::guest::{self, ClockOffsets, Instance};
use crate::vm::Vm;
use crate::vm::sampler::{Sample, Series, lines};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;
use weir_report::results::Latency;
use weir_scenario::testbed::Load;
use weir_scenario::{Role, TestbedScenario};

const READERS: usize = 8;
const SETTLE: Duration = Duration::from_millis(1500);
const MEASURE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Serialize)]
pub struct SweepRow {
    pub name: String,
    pub readers: usize,
    pub bytes_per_sec: f64,
    /// Device bandwidth in parts of capacity.
    pub capacity_ratio: f64,
    pub block_latency: Latency,
    /// Mean latency of one line at the device.
    pub device_mean_ns: f64,
    /// CPU time the readers pay per MiB.
    pub cpu_sec_per_mib: f64,
}

struct Window {
    name: String,
    readers: usize,
    from: Duration,
    to: Duration,
    cpu_per_sec: f64,
}

/// A scenario with nothing but eight of the heavy readers of `scenario`.
///
/// # Errors
/// It has no heavy fio reader.
pub fn readers_only(scenario: &TestbedScenario) -> Result<TestbedScenario> {
    let heavy = |w: &&weir_scenario::testbed::TestbedWorkload| {
        w.role == Role::Heavy && matches!(w.load, Load::Fio { group: 0, .. })
    };
    let mut reader = scenario.workloads.iter().find(heavy).cloned();
    let reader = reader
        .as_mut()
        .context("the scenario has no heavy fio reader on group 0")?;
    reader.count = READERS;
    Ok(TestbedScenario {
        workloads: vec![reader.clone()],
        ..scenario.clone()
    })
}

/// Measure the plant. [`guest::prepare`] must have been done for [`readers_only`], the model be on.
///
/// # Errors
/// The guest fails.
pub fn measure(
    vm: &Vm,
    scenario: &TestbedScenario,
    all: &[Instance],
    say: &mut dyn FnMut(&str),
) -> Result<Vec<SweepRow>> {
    vm.start_sampling(READERS as u8);
    let driven = drive(vm, scenario, all, say);
    let series = vm.stop_sampling()?;
    let (windows, offsets) = driven?;
    rows(vm, scenario, all, &series, &windows, offsets)
}

fn drive(
    vm: &Vm,
    scenario: &TestbedScenario,
    all: &[Instance],
    say: &mut dyn FnMut(&str),
) -> Result<(Vec<Window>, ClockOffsets)> {
    let offsets = guest::clock_offsets(vm)?;
    guest::start_readers(vm, all, scenario.seed)?;
    let mut windows = Vec::new();
    for readers in 1..=READERS {
        say(&format!("plant: {readers} readers"));
        run_only(vm, all, readers)?;
        windows.push(window(vm, all, format!("{readers} readers"), readers)?);
    }
    say("plant: 5 readers with the quota of 2");
    run_only(vm, all, 5)?;
    set_quota(vm, all, "40000 100000")?;
    windows.push(window(vm, all, "5 readers, quota of 2".into(), 5)?);
    set_quota(vm, all, "max 100000")?;
    run_only(vm, all, READERS)?;
    guest::stop(vm)?;
    Ok((windows, offsets))
}

fn run_only(vm: &Vm, all: &[Instance], readers: usize) -> Result<()> {
    let mut script = String::new();
    for (i, instance) in all.iter().enumerate() {
        let frozen = u8::from(i >= readers);
        let _ = writeln!(
            script,
            "echo {frozen} > /sys/fs/cgroup{}/cgroup.freeze",
            instance.cgroup()
        );
    }
    vm.run(&script).map(drop)
}

fn set_quota(vm: &Vm, all: &[Instance], value: &str) -> Result<()> {
    let mut script = String::new();
    for instance in all {
        let _ = writeln!(
            script,
            "echo {value} > /sys/fs/cgroup{}/cpu.max",
            instance.cgroup()
        );
    }
    vm.run(&script).map(drop)
}

fn window(vm: &Vm, all: &[Instance], name: String, readers: usize) -> Result<Window> {
    vm.sleep(SETTLE)?;
    let cpu = || -> Result<(f64, f64)> {
        let before = vm.now();
        let times = guest::cpu_times(vm, all)?;
        Ok((
            (before + vm.now()).as_secs_f64() / 2.0,
            times.values().sum(),
        ))
    };
    let (first_at, first) = cpu()?;
    let from = vm.now();
    vm.sleep(MEASURE)?;
    let to = vm.now();
    let (last_at, last) = cpu()?;
    let cpu_per_sec = (last - first) / 1e9 / (last_at - first_at);
    Ok(Window {
        name,
        readers,
        from,
        to,
        cpu_per_sec,
    })
}

fn rows(
    vm: &Vm,
    scenario: &TestbedScenario,
    all: &[Instance],
    series: &Series,
    windows: &[Window],
    offsets: ClockOffsets,
) -> Result<Vec<SweepRow>> {
    let mut logs = BTreeMap::new();
    for instance in all {
        logs.insert(&instance.name, guest::blocks(vm, instance)?);
    }
    let capacity = scenario.machine.capacity_bytes_per_sec();
    let row = |w: &Window| {
        let guest_ms = |at: Duration| at.as_secs_f64() * 1000.0 + offsets.unix_ms;
        let (from, to) = (guest_ms(w.from), guest_ms(w.to));
        let inside = logs
            .values()
            .flatten()
            .filter(|b| b.done_unix_ms < to && b.done_unix_ms - b.latency_ns / 1e6 >= from);
        let delta = |what: &dyn Fn(&Sample) -> u64| {
            series.at(w.to, &what).unwrap_or(0.0) - series.at(w.from, &what).unwrap_or(0.0)
        };
        let span = (w.to - w.from).as_secs_f64();
        let bytes_per_sec = delta(&|s| lines(&s.device)) * 64.0 / span;
        let reads = delta(&|s| s.device.read_lines);
        SweepRow {
            name: w.name.clone(),
            readers: w.readers,
            bytes_per_sec,
            capacity_ratio: bytes_per_sec / capacity,
            block_latency: Latency::of(inside.map(|b| b.latency_ns).collect()),
            device_mean_ns: delta(&|s| s.device.read_latency_sum_ns) / reads.max(1.0),
            cpu_sec_per_mib: w.cpu_per_sec / (bytes_per_sec / 1_048_576.0),
        }
    };
    Ok(windows.iter().map(row).collect())
}

pub fn table(rows: &[SweepRow]) -> String {
    let mut text = format!(
        "{:24} {:>9} {:>9} {:>12} {:>12} {:>10}\n",
        "", "MiB/s", "capacity", "block ms", "device µs", "CPU s/MiB"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:24} {:>9.1} {:>8.0}% {:>12.2} {:>12.2} {:>10.4}",
            row.name,
            row.bytes_per_sec / 1_048_576.0,
            row.capacity_ratio * 100.0,
            row.block_latency.mean_ns.unwrap_or(f64::NAN) / 1e6,
            row.device_mean_ns / 1e3,
            row.cpu_sec_per_mib,
        );
    }
    text
}

/// What the plant must show before a controller is tested on it; the sentence says what was found.
pub fn checks(rows: &[SweepRow]) -> Vec<(bool, String)> {
    let alone = |n: usize| rows.iter().find(|r| r.readers == n);
    let (Some(one), Some(two), Some(three), Some(five)) = (alone(1), alone(2), alone(3), alone(5))
    else {
        return vec![(false, "rows are missing".into())];
    };
    let quota = rows.last().filter(|r| r.name.contains("quota"));
    let offered = 5.0 * one.capacity_ratio;
    let gain = three.bytes_per_sec / one.bytes_per_sec;
    let overload_gain = five.bytes_per_sec / three.bytes_per_sec;
    let cost = five.cpu_sec_per_mib / two.cpu_sec_per_mib;
    let mut found = vec![
        (
            offered >= 2.0,
            format!("5 readers offer {offered:.2} of capacity (at least 2)"),
        ),
        (
            gain >= 1.5 && overload_gain <= 1.1,
            format!(
                "knee between 1 and 3 readers: 1 to 3 gains {gain:.2}×, 3 to 5 {overload_gain:.2}×"
            ),
        ),
        (
            cost >= 1.5,
            format!("CPU cost at 5 readers is {cost:.2}× that at 2 (at least 1.5)"),
        ),
    ];
    if let Some(quota) = quota {
        let back = quota.cpu_sec_per_mib / five.cpu_sec_per_mib;
        found.push((
            back < 0.8,
            format!("with the quota of 2 it is {back:.2}× that (below 0.8)"),
        ));
    }
    found
}

/// Largest difference of a row's bandwidth between runs, relative to the row's mean; nothing for one
/// run.
pub fn spread(runs: &[Vec<SweepRow>]) -> Option<f64> {
    let first = runs.first().filter(|_| runs.len() > 1)?;
    let of_row = |i: usize| {
        let rates: Vec<f64> = runs
            .iter()
            .filter_map(|r| Some(r.get(i)?.bytes_per_sec))
            .collect();
        let high = rates.iter().copied().fold(f64::MIN, f64::max);
        let low = rates.iter().copied().fold(f64::MAX, f64::min);
        (high - low) / (rates.iter().sum::<f64>() / rates.len() as f64)
    };
    (0..first.len()).map(of_row).reduce(f64::max)
}
