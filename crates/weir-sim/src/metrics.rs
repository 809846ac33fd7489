// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What came out of a run. Names and definitions are those of `docs/reference/results.md`, so that simulated
//! and live runs can be compared field by field; what only a simulator knows comes after them.

use crate::drfq::fair_shares::{self, UsePerSec};
use crate::engine::accounting::{self, Window};
use crate::engine::histogram::Histogram;
use crate::engine::machine::Machine;
use crate::from_scenario::Label;
#[cfg(feature = "thesis")]
use crate::thesis::sched_ext::SchedulerCalls;
#[cfg(feature = "thesis")]
use crate::thesis::user_space::EstimatePoint;
use std::collections::BTreeMap;
use weir_core::units::GIB;
use weir_scenario::figures::{Bandwidth, Latency, Point, WorkloadShares, settling};
use weir_scenario::simulated::{Role, Scenario};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunMetrics {
    pub scenario: String,
    /// Policy, or `none`.
    pub policy: String,
    pub backend: String,
    /// What was to be held, for all devices together.
    pub set_point_bytes_per_sec: f64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Device bandwidth, reads + writes of all devices, in windows of 100 ms of the measured time.
    pub bandwidth: Bandwidth,
    pub device_latency: Latency,
    /// Block latency of the light readers.
    pub light_reader: Latency,
    /// Block latency of the readers that may be limited.
    pub limited_readers: Latency,
    /// Little's law: readers ÷ blocks per second.
    pub little_bound_ns: Option<f64>,
    /// CPU time of the limited readers per GiB they moved.
    pub cpu_sec_per_gib: Option<f64>,
    /// Operations per second of the work beside.
    pub throughput_ops_per_sec: Option<f64>,
    /// Until the bandwidth stays within 5 % (means over 2 s), from when both control and the last workload
    /// that may be limited have begun.
    pub settle_ms: Option<f64>,
    /// Highest mean over 500 ms after settling, above the set-point, relative to it.
    pub overshoot_ratio: Option<f64>,
    /// Estimates per workload against the truth: RMSE over 1 s windows, relative to the truth.
    pub estimate_error_ratio: BTreeMap<String, f64>,
    /// Device bandwidth over time, from the start of the run.
    pub series: Vec<Point>,
    /// Why a value is missing, by its dotted name.
    pub missing: BTreeMap<String, String>,

    /// What part of each resource every workload had in the measured time.
    pub shares: BTreeMap<String, WorkloadShares>,
    /// How often the scheduler of shares stopped a workload at the gate of a memory.
    pub gate_stops: Option<u64>,
    /// What of the bandwidth was written, in the measured time.
    pub written_bytes_per_sec: f64,
    /// Blocks of the readers that may be limited, in the windows of the series.
    pub block_series: Vec<BlockWindow>,
    /// Calls of the thesis's scheduler, from the start of the run.
    #[cfg(feature = "thesis")]
    pub scheduler_calls: Option<SchedulerCalls>,
    /// How long each iteration of the thesis's loop took.
    #[cfg(feature = "thesis")]
    pub loop_ms: Vec<f64>,
    /// Estimates of the thesis's loop, where it only observes.
    #[cfg(feature = "thesis")]
    pub estimates: Vec<EstimatePoint>,
    pub device_series: Vec<Vec<f64>>,
    pub workloads: Vec<WorkloadSeries>,
    /// What each used over the measured time, in the scenario's order, the controller last.
    pub uses: Vec<UsePerSec>,
    /// CPU time of what controls, per second; nothing where it runs in the scheduler.
    pub controller_cpus: Option<f64>,
    /// Distribution of the latency of single lines.
    pub line_latencies: Histogram,
    /// Distribution of block latencies of the readers that may be limited.
    pub limited_blocks: Histogram,
    /// Distribution of block latencies of the light readers.
    pub light_blocks: Histogram,
    pub simulated_sec: f64,
    pub events: u64,
    /// Equilibria that were solved; all other mixes had been seen before.
    pub solved: u64,
}

/// Blocks that were done in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockWindow {
    pub count: u64,
    pub sum_ns: f64,
    /// The longest of them.
    pub longest_ns: u64,
}

impl BlockWindow {
    fn add(self, other: BlockWindow) -> Self {
        BlockWindow {
            count: self.count + other.count,
            sum_ns: self.sum_ns + other.sum_ns,
            longest_ns: self.longest_ns.max(other.longest_ns),
        }
    }
}

/// One workload over time, in the windows of the series.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSeries {
    pub name: String,
    pub role: Role,
    pub bytes_per_sec: Vec<f64>,
    pub cpus: Vec<f64>,
    /// Limit at the window's end, in CPUs; infinite where there is none.
    pub limit_cpus: Vec<f64>,
    /// How long its tasks were runnable without a CPU, each time: because others had it, or because of a
    /// limit.
    pub waits: Histogram,
    /// The longest of these, those that had not ended at the end of the run included.
    pub longest_wait_ns: u64,
}

fn latency_of(all: &Histogram) -> Latency {
    Latency {
        mean_ns: all.mean_ns(),
        stddev_ns: all.stddev_ns(),
        p50_ns: all.quantile_ns(0.5),
        p99_ns: all.quantile_ns(0.99),
    }
}

/// Reads everything off a machine that has run.
pub(crate) struct Reader<'a> {
    pub machine: &'a Machine,
    pub labels: &'a [Label],
    pub scenario: &'a Scenario,
    pub daemon: Option<usize>,
}

impl Reader<'_> {
    pub(crate) fn read(&self) -> RunMetrics {
        let set_point =
            self.scenario.control.set_point_bytes_per_sec * self.scenario.devices.len() as f64;
        let measured = self.measured();
        let load_ms = self.load_ms();
        let series = self.series(|w| w.device_bytes.iter().sum());
        let window_sec = self.window_sec();
        let in_time = |i: usize| (measured.0..measured.1).contains(&i);
        let values: Vec<f64> = series
            .iter()
            .enumerate()
            .filter(|(i, _)| in_time(*i))
            .map(|(_, v)| *v)
            .collect();
        let point = |(i, v): (usize, &f64)| Point {
            at_ms: i as f64 * window_sec * 1e3,
            bytes_per_sec: *v,
        };
        let series: Vec<Point> = series.iter().enumerate().map(point).collect();
        let until_end = &series[..measured.1.min(series.len())];
        let from = until_end.iter().position(|p| p.at_ms >= load_ms);
        let from = from.unwrap_or(0);
        let (settle_ms, overshoot_ratio) = settling(&until_end[from..], set_point, f64::INFINITY);
        let mut line_latencies = Histogram::default();
        for device in 0..self.machine.fluid.device_count() {
            line_latencies.merge(&self.machine.fluid.totals(device).latencies);
        }
        let (limited_blocks, light_blocks) = (self.blocks(Role::Heavy), self.blocks(Role::Light));
        let secs = (measured.1 - measured.0) as f64 * window_sec;
        let heavy = |pick: fn(&Window, usize) -> f64| self.sum(Role::Heavy, measured, pick);
        let (bytes, cpu_ns) = (heavy(|w, i| w.bytes[i]), heavy(|w, i| w.cpu_ns[i] as f64));
        let ops = self.sum(Role::Beside, measured, |w, i| w.ops[i]);
        let readers = self.threads(Role::Heavy);
        let mut measures = RunMetrics {
            scenario: self.scenario.name.clone(),
            set_point_bytes_per_sec: set_point,
            bandwidth: Bandwidth::of(&values, set_point),
            device_latency: latency_of(&line_latencies),
            light_reader: latency_of(&light_blocks),
            limited_readers: latency_of(&limited_blocks),
            little_bound_ns: (limited_blocks.count() > 0.0)
                .then(|| readers * secs * 1e9 / limited_blocks.count()),
            cpu_sec_per_gib: (bytes > 0.0).then(|| cpu_ns / 1e9 / (bytes / GIB)),
            throughput_ops_per_sec: (self.threads(Role::Beside) > 0.0).then(|| ops / secs),
            settle_ms: settle_ms.map(|at| at - load_ms),
            overshoot_ratio,
            series,
            written_bytes_per_sec: self.written(measured, secs),
            block_series: self.block_series(),
            #[cfg(feature = "thesis")]
            scheduler_calls: self.machine.thesis.as_deref().map(|s| s.calls),
            device_series: self.device_series(),
            workloads: self.workload_series(),
            controller_cpus: self.controller_cpus(measured, secs),
            line_latencies,
            limited_blocks,
            light_blocks,
            simulated_sec: self.machine.now as f64 / 1e9,
            events: self.machine.events,
            solved: self.machine.fluid.solved,
            ..RunMetrics::default()
        };
        self.add_shares(&mut measures);
        explain(&mut measures);
        measures
    }

    fn controller_cpus(&self, measured: (usize, usize), secs: f64) -> Option<f64> {
        let (first, last) = self.edges(measured);
        let daemon = self.daemon?;
        Some((last.cpu_ns[daemon] - first.cpu_ns[daemon]) as f64 / 1e9 / secs)
    }

    fn add_shares(&self, measures: &mut RunMetrics) {
        measures.uses = fair_shares::uses(self.machine, self.scenario, self.labels);
        measures.shares = fair_shares::shares(self.scenario, &measures.uses, None);
        measures.gate_stops = self.machine.drfq.as_deref().map(|s| s.parks);
    }

    /// When control has begun, and all that it may limit: before, there is nothing to settle.
    fn load_ms(&self) -> f64 {
        let heavy = self
            .scenario
            .workloads
            .iter()
            .filter(|w| w.role == Role::Heavy);
        let last = heavy.map(|w| w.start_ms as f64).fold(0.0, f64::max);
        last.max(self.scenario.control.control_from_sec * 1e3)
    }

    fn window_sec(&self) -> f64 {
        self.machine.shape.window_ns as f64 / 1e9
    }

    /// Windows of the measured time: first, and one past the last.
    fn measured(&self) -> (usize, usize) {
        let at =
            |sec: f64| ((sec / self.window_sec()).round() as usize).min(self.machine.windows.len());
        (
            at(self.scenario.control.settle_sec),
            at(self.scenario.run_sec()),
        )
    }

    fn series(&self, pick: impl Fn(&Window) -> f64) -> Vec<f64> {
        let mut before = 0.0;
        let rate = |w: &Window| {
            let value = pick(w);
            let rate = (value - before) / self.window_sec();
            before = value;
            rate
        };
        self.machine.windows.iter().map(rate).collect()
    }

    fn device_series(&self) -> Vec<Vec<f64>> {
        let devices = 0..self.machine.fluid.device_count();
        devices
            .map(|d| self.series(|w| w.device_bytes[d]))
            .collect()
    }

    /// Bytes written to all devices per second of the measured time.
    fn written(&self, measured: (usize, usize), secs: f64) -> f64 {
        let (first, last) = self.edges(measured);
        let sum = |w: &Window| w.written_bytes.iter().sum::<f64>();
        (sum(&last) - sum(&first)) / secs
    }

    fn block_series(&self) -> Vec<BlockWindow> {
        let heavy: Vec<usize> = self.with_role(Role::Heavy).collect();
        let of = |w: &Window| {
            let blocks = heavy.iter().map(|i| w.blocks[*i]);
            blocks.fold(BlockWindow::default(), BlockWindow::add)
        };
        self.machine.windows.iter().map(of).collect()
    }

    fn workload_series(&self) -> Vec<WorkloadSeries> {
        let shown = self
            .labels
            .iter()
            .enumerate()
            .filter(|(_, l)| matches!(l.role, Role::Heavy | Role::Light));
        let series = |(i, label): (usize, &Label)| WorkloadSeries {
            name: label.name.clone(),
            role: label.role,
            bytes_per_sec: self.series(|w| w.bytes[i]),
            cpus: self.series(|w| w.cpu_ns[i] as f64 / 1e9),
            limit_cpus: self.machine.windows.iter().map(|w| w.limits[i]).collect(),
            waits: self.machine.workloads[i].tally.waits.clone(),
            longest_wait_ns: accounting::longest_wait_ns(self.machine, i),
        };
        shown.map(series).collect()
    }

    fn with_role(&self, role: Role) -> impl Iterator<Item = usize> + '_ {
        self.labels
            .iter()
            .enumerate()
            .filter(move |(_, l)| l.role == role)
            .map(|(i, _)| i)
    }

    fn threads(&self, role: Role) -> f64 {
        self.with_role(role)
            .map(|i| self.machine.workloads[i].tasks.len() as f64)
            .sum()
    }

    fn blocks(&self, role: Role) -> Histogram {
        let mut all = Histogram::default();
        self.with_role(role)
            .for_each(|i| all.merge(&self.machine.workloads[i].tally.blocks));
        all
    }

    /// States at the beginning and the end of the measured time.
    fn edges(&self, (from, to): (usize, usize)) -> (Window, Window) {
        let count = self.labels.len();
        let zero = Window {
            cpu_ns: vec![0; count],
            bytes: vec![0.0; count],
            ops: vec![0.0; count],
            ..Window::default()
        };
        let at = |end: usize| {
            end.checked_sub(1)
                .and_then(|i| self.machine.windows.get(i))
                .cloned()
        };
        (at(from).unwrap_or(zero.clone()), at(to).unwrap_or(zero))
    }

    fn sum(&self, role: Role, measured: (usize, usize), pick: fn(&Window, usize) -> f64) -> f64 {
        let (first, last) = self.edges(measured);
        self.with_role(role)
            .map(|i| pick(&last, i) - pick(&first, i))
            .sum()
    }
}

fn explain(measures: &mut RunMetrics) {
    let mut say = |name: &str, is_missing: bool, why: &str| {
        if is_missing {
            measures.missing.insert(name.to_owned(), why.to_owned());
        }
    };
    say(
        "light_reader",
        measures.light_reader.mean_ns.is_none(),
        "no block of a light reader ended in the measured time",
    );
    say(
        "limited_readers",
        measures.limited_readers.mean_ns.is_none(),
        "no block of a heavy reader ended in the measured time",
    );
    say(
        "device_latency",
        measures.device_latency.mean_ns.is_none(),
        "no line was moved in the measured time",
    );
    say(
        "cpu_sec_per_gib",
        measures.cpu_sec_per_gib.is_none(),
        "heavy workloads moved nothing in the measured time",
    );
    say(
        "throughput_ops_per_sec",
        measures.throughput_ops_per_sec.is_none(),
        "no work beside in this scenario",
    );
    say(
        "settle_ms",
        measures.settle_ms.is_none(),
        "the bandwidth is not within 5 % of the set-point at the end",
    );
    say(
        "overshoot_ratio",
        measures.overshoot_ratio.is_none(),
        "it never settles",
    );
}
