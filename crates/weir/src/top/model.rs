// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the table shows, worked out from snapshots and keys. No terminal in here, so that tests can
//! ask it anything.
//!
//! A daemon ticks twenty times a second and one tick's bandwidth is noisy, so figures are means over
//! about the last second ([`MEAN_MS`]); a figure that is missing in some of these ticks is the mean
//! of the others. History for the curves goes in steps of half a second ([`STEP_MS`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use weir_core::plan::{DeviceState, Verdict};
use weir_core::scheduler::WorkloadBooks;
use weir_core::snapshot::Snapshot;
use weir_core::{BytesPerSec, CpuShare, DeviceId, WorkloadId};

const MEAN_MS: u64 = 1000;
const STEP_MS: u64 = 500;
/// As many steps as the widest screen has columns.
const STEPS_KEPT: usize = 512;

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Largest bandwidth first.
    #[default]
    Bandwidth,
    /// Most CPU first.
    Cpu,
    /// Highest intensity first.
    Intensity,
    /// By name.
    Name,
}

impl Sort {
    /// The next order in the circle.
    pub fn next(self) -> Sort {
        match self {
            Sort::Bandwidth => Sort::Cpu,
            Sort::Cpu => Sort::Intensity,
            Sort::Intensity => Sort::Name,
            Sort::Name => Sort::Bandwidth,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Bandwidth => "bandwidth",
            Sort::Cpu => "CPU",
            Sort::Intensity => "intensity",
            Sort::Name => "name",
        }
    }
}

/// A mean in the making.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn get(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The newest verdict; its figures are those of one tick.
    pub verdict: Verdict,
    /// Mean bandwidth.
    pub bandwidth: Option<BytesPerSec>,
    /// Part of all devices' traffic.
    pub share: Option<f64>,
    /// Mean CPU use.
    pub cpu: Option<CpuShare>,
    /// Mean throttled time per time, in CPUs.
    pub held: CpuShare,
    /// When the limit began.
    pub limited_since_unix_ms: Option<u64>,
    /// What weir's scheduler did to it.
    pub scheduled: Option<WorkloadBooks>,
}

/// One device.
#[derive(Clone, Debug)]
pub struct DeviceRow {
    /// The newest state.
    pub state: DeviceState,
    /// Its name in the operating system.
    pub name: String,
    /// Mean bandwidth, reads and writes.
    pub bandwidth: Option<BytesPerSec>,
    /// What it can sustain.
    pub capacity: Option<BytesPerSec>,
    /// Mean latency, or why there is none.
    pub latency: Result<weir_core::Nanos, Option<String>>,
    /// Bandwidth in steps of half a second, oldest first.
    pub history: Vec<Option<f64>>,
    /// The scale's end, for bar and curve.
    pub scale: f64,
}

#[derive(Clone, Debug, Default)]
struct DeviceHistory {
    steps: VecDeque<Option<f64>>,
    current: Mean,
}

/// Everything on the screen.
#[derive(Default)]
pub struct Model {
    /// Snapshots of the last second, oldest first.
    recent: VecDeque<Snapshot>,
    history: BTreeMap<DeviceId, DeviceHistory>,
    step_began_ms: u64,
    rows: Vec<Row>,
    sort: Sort,
    /// New snapshots are not shown.
    pub paused: bool,
    /// The help is shown.
    pub help: bool,
    /// The chosen workload: it stays chosen when rows change places.
    chosen: Option<WorkloadId>,
}

impl Model {
    /// Takes in the next snapshot.
    pub fn add(&mut self, snapshot: Snapshot) {
        let now = snapshot.wall_unix_ms;
        if now.saturating_sub(self.step_began_ms) >= STEP_MS {
            for history in self.history.values_mut() {
                let mean = std::mem::take(&mut history.current).get();
                history.steps.push_back(mean);
                if history.steps.len() > STEPS_KEPT {
                    history.steps.pop_front();
                }
            }
            self.step_began_ms = now;
        }
        for device in &snapshot.plan.devices {
            let history = self.history.entry(device.id).or_default();
            if let Some(rate) = total(device) {
                history.current.add(rate.get());
            }
        }
        let old = |then: &Snapshot| now.abs_diff(then.wall_unix_ms) >= MEAN_MS;
        while self.recent.front().is_some_and(old) {
            self.recent.pop_front();
        }
        self.recent.push_back(snapshot);
        self.rows = self.make_rows();
    }

    /// The order of rows.
    pub fn sort(&self) -> Sort {
        self.sort
    }

    /// Takes the next order in the circle.
    pub fn sort_next(&mut self) {
        self.sort = self.sort.next();
        self.rows = self.make_rows();
    }

    /// The workloads in the chosen order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The chosen row's place; the first one as long as none was chosen, or when it has gone.
    pub fn selected(&self) -> usize {
        let chosen = self.chosen.as_ref();
        chosen
            .and_then(|id| self.rows.iter().position(|row| row.verdict.id == *id))
            .unwrap_or(0)
    }

    /// Moves the choice by so many rows, up if negative.
    pub fn select(&mut self, by: isize) {
        let last = self.rows.len().saturating_sub(1);
        let place = self.selected().saturating_add_signed(by).min(last);
        self.chosen = self.rows.get(place).map(|row| row.verdict.id.clone());
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.recent.back()
    }

    /// Whether anything has been seen that a rate can be made of.
    pub fn has_rates(&self) -> bool {
        let known = |snapshot: &Snapshot| snapshot.plan.devices.iter().any(|d| total(d).is_some());
        self.recent.iter().any(known)
    }

    /// The devices, by id.
    pub fn devices(&self) -> Vec<DeviceRow> {
        let Some(newest) = self.snapshot() else {
            return Vec::new();
        };
        newest
            .plan
            .devices
            .iter()
            .map(|state| self.device(newest, state))
            .collect()
    }

    fn device(&self, newest: &Snapshot, state: &DeviceState) -> DeviceRow {
        let mut mean = Mean::default();
        for snapshot in &self.recent {
            let same = snapshot
                .plan
                .devices
                .iter()
                .find(|device| device.id == state.id);
            if let Some(rate) = same.and_then(total) {
                mean.add(rate.get());
            }
        }
        let known = newest
            .description
            .devices
            .iter()
            .find(|device| device.id == state.id);
        let capacity = known.and_then(|device| device.capacity_bytes_per_sec);
        let history = self.history.get(&state.id).cloned().unwrap_or_default();
        let set_point = state.set_point_bytes_per_sec.map_or(0.0, BytesPerSec::get);
        let visible = history.steps.iter().flatten().copied();
        let peak = visible.chain(history.current.get()).fold(0.0, f64::max);
        // Room to the right of the set-point, so that being above it can be seen.
        let scale = (set_point * 1.5)
            .max(peak)
            .max(capacity.map_or(0.0, BytesPerSec::get));
        let latency = newest
            .latencies
            .iter()
            .find(|latency| latency.id == state.id);
        DeviceRow {
            state: state.clone(),
            name: known.map_or_else(String::new, |device| device.name.clone()),
            bandwidth: mean.get().map(BytesPerSec::new),
            capacity,
            latency: match latency.map(|latency| &latency.mean_ns.value) {
                Some(Ok(mean)) => Ok(*mean),
                Some(Err(why)) => Err(Some(why.to_string())),
                None => Err(None),
            },
            history: history
                .steps
                .iter()
                .copied()
                .chain([history.current.get()])
                .collect(),
            scale: if scale > 0.0 { scale } else { 1.0 },
        }
    }

    fn make_rows(&self) -> Vec<Row> {
        let Some(newest) = self.snapshot() else {
            return Vec::new();
        };
        let means = self.means();
        let traffic: Vec<_> = self
            .devices()
            .iter()
            .filter_map(|device| device.bandwidth)
            .collect();
        let all: BytesPerSec = traffic.into_iter().sum();
        let mut rows: Vec<Row> = newest
            .plan
            .workloads
            .iter()
            .map(|v| row(newest, v, &means, all))
            .collect();
        let key = |row: &Row| match self.sort {
            Sort::Bandwidth => row.bandwidth.map(BytesPerSec::get),
            // In thousandths, so that a tenth of a small share counts too.
            Sort::Cpu => row.cpu.map(|cpu| cpu.get() * 1e3),
            Sort::Intensity => row.verdict.intensity_bytes_per_cpu_sec,
            Sort::Name => None,
        };
        rows.sort_by_cached_key(|row| {
            (
                Reverse(key(row).map_or(-1, step_of)),
                row.verdict.id.clone(),
            )
        });
        rows
    }

    fn means(&self) -> BTreeMap<&WorkloadId, Means> {
        let mut means: BTreeMap<&WorkloadId, Means> = BTreeMap::new();
        for snapshot in &self.recent {
            for verdict in &snapshot.plan.workloads {
                let mean = means.entry(&verdict.id).or_default();
                if verdict.bandwidth.provenance != weir_core::attribution::Provenance::Unknown {
                    mean.bandwidth.add(verdict.bandwidth.bytes_per_sec.get());
                }
                if let Some(cpu) = verdict.cpu_cpus {
                    mean.cpu.add(cpu.get());
                }
                mean.held.add(
                    snapshot
                        .held_cpus
                        .get(&verdict.id)
                        .map_or(0.0, |held| held.get()),
                );
            }
        }
        means
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Means {
    bandwidth: Mean,
    cpu: Mean,
    held: Mean,
}

fn row(
    newest: &Snapshot,
    verdict: &Verdict,
    means: &BTreeMap<&WorkloadId, Means>,
    all: BytesPerSec,
) -> Row {
    let means = means.get(&verdict.id).copied().unwrap_or_default();
    let bandwidth = means.bandwidth.get().map(BytesPerSec::new);
    let books = newest.scheduler.as_ref();
    Row {
        verdict: verdict.clone(),
        bandwidth,
        share: bandwidth
            .filter(|_| all > BytesPerSec::ZERO)
            .map(|rate| rate.ratio(all)),
        cpu: means.cpu.get().map(CpuShare::new),
        held: CpuShare::new(means.held.get().unwrap_or(0.0)),
        limited_since_unix_ms: newest.limited_since_unix_ms.get(&verdict.id).copied(),
        scheduled: books
            .and_then(|books| books.workloads.get(&verdict.id))
            .copied(),
    }
}

/// Steps of about a tenth: rows that differ by less stand by name and do not jump about.
fn step_of(value: f64) -> i64 {
    // At most some thousands: the logarithm of a finite number.
    #[allow(clippy::cast_possible_truncation)]
    let step = (value.max(0.0).ln_1p() * 10.0).round() as i64;
    step
}

fn total(device: &DeviceState) -> Option<BytesPerSec> {
    Some(device.read_bytes_per_sec? + device.write_bytes_per_sec?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::snapshot;

    #[test]
    fn figures_are_means_of_the_last_second_and_no_longer() {
        let mut model = Model::default();
        for tick in 0..40u32 {
            // 100 MiB/s at even ticks and 300 at odd ones, doubled in the first second.
            let base = if tick % 2 == 0 { 100.0 } else { 300.0 };
            let factor = if tick < 20 { 2.0 } else { 1.0 };
            model.add(snapshot(u64::from(tick) * 50, base * factor));
        }
        let devices = model.devices();
        let mib = devices[0].bandwidth.unwrap().get() / 1_048_576.0;
        assert!((mib - 200.0).abs() < 1e-6, "{mib}");
        assert_eq!(
            devices[0].history.len(),
            4,
            "1.95 s in half-second steps: {devices:?}"
        );
    }

    #[test]
    fn missing_is_not_zero() {
        let mut model = Model::default();
        let mut lost = snapshot(50, 100.0);
        lost.plan.devices[0].read_bytes_per_sec = None;
        model.add(snapshot(0, 100.0));
        model.add(lost.clone());
        assert_eq!(
            model.devices()[0].bandwidth,
            Some(BytesPerSec::new(100.0 * 1_048_576.0))
        );
        let mut blind = Model::default();
        blind.add(lost);
        assert_eq!(blind.devices()[0].bandwidth, None);
        assert!(!blind.has_rates());
    }

    #[test]
    fn the_choice_follows_its_workload() {
        let mut model = Model::default();
        model.add(snapshot(0, 100.0));
        model.select(1);
        let id = model.rows()[model.selected()].verdict.id.clone();
        for _ in 0..4 {
            model.sort_next();
            assert_eq!(
                model.rows()[model.selected()].verdict.id,
                id,
                "{}",
                model.sort().name()
            );
        }
        model.select(isize::MIN);
        assert_eq!(model.selected(), 0);
        model.select(isize::MAX);
        assert_eq!(model.selected(), model.rows().len() - 1);
    }
}
