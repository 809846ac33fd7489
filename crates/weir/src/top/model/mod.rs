// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the table shows, computed from snapshots and keys. It has no terminal, so that tests can call all
//! of it.
//!
//! A daemon ticks twenty times a second and one tick's bandwidth is noisy, so figures are means over
//! about the last second ([`MEAN_MS`]); a figure that is missing in some of these ticks is the mean
//! of the others. Curves are in [`super::history`], the order of rows as a tree in [`super::tree`].

mod migration_row;
mod process_rows;
mod selection;
mod sort;

pub use process_rows::Inside;
pub use sort::Sort;

use super::history::{History, WindowMean, total};
use super::tree;
use crate::cli::output::labels;
use crate::cli::output::tag::tag;
use crate::recordings::replay_screen::Past;
use crate::run::screens::waits_in::WaitsIn;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_core::owner::PodNames;
use weir_core::seam::observation::DevLoad;
use weir_core::seam::plan::{Decision, DeviceState};
use weir_core::seam::sched_stats::WorkloadStats;
use weir_core::seam::snapshot::Snapshot;
use weir_core::{BytesPerSec, CpuShare, WorkloadId};
use weir_figures::text;

const MEAN_MS: u64 = 1000;

#[derive(Clone, Debug)]
pub struct TopRow {
    /// The newest verdict; its figures are those of one tick.
    pub verdict: Decision,
    /// Mean bandwidth.
    pub bandwidth: Option<BytesPerSec>,
    /// Part of all devices' traffic.
    pub share: Option<f64>,
    /// Mean CPU use.
    pub cpu: Option<CpuShare>,
    /// Mean throttled time per time, in CPUs.
    pub held: CpuShare,
    pub limited_since_unix_ms: Option<u64>,
    /// What weir's scheduler did to it.
    pub scheduled: Option<WorkloadStats>,
    /// Its name as it stands in the table, harmless.
    pub label: String,
    /// How many cells of it are not cut where it is too long.
    pub keep: usize,
    /// How far down the tree it stands.
    pub depth: usize,
    /// What an inner cgroup has below it; its figures are sums. Other rows have none.
    pub branch: Option<Branch>,
    /// It stands below a workload and is a process.
    pub inside: Option<Inside>,
    /// The stage in which it stalls most, while a profile runs.
    pub waits_in: Option<WaitsIn>,
    /// It is no workload: the kernel, which migrates pages.
    pub is_page_migration: bool,
}

/// What is below an inner cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    pub is_open: bool,
    pub workloads: usize,
    /// How many of them have a limit of weir's.
    pub limited: usize,
}

impl TopRow {
    /// A workload of which no more is known than this.
    pub fn leaf(verdict: Decision) -> TopRow {
        let (tag, keep) = tag(verdict.id.as_str(), "", &PodNames::default());
        TopRow {
            label: tag + &text::harmless(verdict.id.as_str()),
            keep,
            verdict,
            bandwidth: None,
            share: None,
            cpu: None,
            held: CpuShare::new(0.0),
            limited_since_unix_ms: None,
            scheduled: None,
            depth: 0,
            branch: None,
            inside: None,
            waits_in: None,
            is_page_migration: false,
        }
    }
}

#[derive(Clone, Debug)]
pub struct DeviceRow {
    pub state: DeviceState,
    /// Its name in the operating system.
    pub name: String,
    /// Mean bandwidth, reads and writes.
    pub bandwidth: Option<BytesPerSec>,
    pub capacity: Option<BytesPerSec>,
    /// Mean latency, or why there is none.
    pub latency: Result<weir_core::Nanos, Option<String>>,
    /// How it is known, in a word, and how old it is if it is old.
    pub latency_from: (&'static str, String),
    /// How busy it says it is.
    pub load: Option<DevLoad>,
    /// Bandwidth in steps of half a second, oldest first.
    pub history: Vec<Option<f64>>,
    /// The scale's end, for bar and curve.
    pub scale: f64,
}

#[derive(Default)]
pub struct Model {
    /// Snapshots of the last second, oldest first.
    recent: VecDeque<Snapshot>,
    history: History,
    rows: Vec<TopRow>,
    sort: Sort,
    /// Whether the rows are a plain list instead of a tree.
    list: bool,
    /// Rows stand exactly in their order, and not in steps: for a table that does not move.
    pub is_exact: bool,
    folded: BTreeSet<WorkloadId>,
    /// Workloads that are shown with their processes.
    open: BTreeSet<WorkloadId>,
    filter: String,
    /// What was before this is not known, because of a jump.
    pub known_since_unix_ms: Option<u64>,
    /// It is a recording, and keys move through it.
    pub is_recorded: bool,
    /// Keys go to the filter.
    pub typing: bool,
    /// New snapshots are not shown.
    pub paused: bool,
    /// The help is shown.
    pub help: bool,
    /// What a running profile says; nothing where none runs.
    waits: Option<BTreeMap<WorkloadId, WaitsIn>>,
    /// The chosen workload: it stays chosen when rows change places.
    chosen: Option<WorkloadId>,
}

impl Model {
    pub fn add(&mut self, snapshot: Snapshot) {
        self.take_in(snapshot);
        self.rows = self.make_rows();
    }

    /// Forgets what was: this came before, and this is now.
    pub fn jump(&mut self, past: &[Past], recent: Vec<Snapshot>) {
        let newest = recent.iter().map(|snapshot| snapshot.wall_unix_ms);
        let first = past.iter().map(|(at, _)| *at).chain(newest).next();
        self.history = History::default();
        self.recent.clear();
        self.known_since_unix_ms = first;
        for (at, devices) in past {
            self.history.add(*at, devices);
        }
        for snapshot in recent {
            self.take_in(snapshot);
        }
        self.rows = self.make_rows();
    }

    fn take_in(&mut self, snapshot: Snapshot) {
        let now = snapshot.wall_unix_ms;
        self.history.add(now, &snapshot.plan.devices);
        let old = |then: &Snapshot| now.abs_diff(then.wall_unix_ms) >= MEAN_MS;
        while self.recent.front().is_some_and(old) {
            self.recent.pop_front();
        }
        self.recent.push_back(snapshot);
    }

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
        let mut mean = WindowMean::default();
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
        let history = self.history.of(state.id);
        let set_point = state.set_point_bytes_per_sec.map_or(0.0, BytesPerSec::get);
        let peak = history.iter().flatten().copied().fold(0.0, f64::max);
        // Space to the right of the set-point, so that a rate above it is visible.
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
            load: (newest.devload.iter().find(|l| l.id == state.id))
                .and_then(|l| l.load.ok().copied()),
            latency_from: latency.map_or_else(Default::default, |seen| {
                let source = labels::latency_source(seen).unwrap_or("latency");
                (source, labels::latency_age(seen, newest.plan.at))
            }),
            latency: match latency.map(|latency| &latency.mean_ns.value) {
                Some(Ok(mean)) => Ok(*mean),
                Some(Err(why)) => Err(Some(why.to_string())),
                None => Err(None),
            },
            history,
            scale: if scale > 0.0 { scale } else { 1.0 },
        }
    }

    fn make_rows(&self) -> Vec<TopRow> {
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
        let wanted = self.filter.to_lowercase();
        let mut rows: Vec<TopRow> = newest
            .plan
            .workloads
            .iter()
            .map(|v| TopRow {
                waits_in: self.waits.as_ref().and_then(|all| all.get(&v.id)).cloned(),
                ..row(newest, v, &means, all)
            })
            .chain(self.migration_row(newest, all))
            .filter(|row| wanted.is_empty() || row.label.to_lowercase().contains(&wanted))
            .collect();
        let key = |row: &TopRow| self.key(row);
        if self.list {
            rows.sort_by_cached_key(key);
            return self.open_up(newest, rows);
        }
        let none = BTreeSet::new();
        let folded = match wanted.is_empty() {
            true => &self.folded,
            // Rows that match the filter are shown.
            false => &none,
        };
        self.open_up(newest, tree::arrange(rows, folded, &newest.pod_names, &key))
    }

    /// What rows are sorted by.
    fn key(&self, row: &TopRow) -> (Reverse<i64>, WorkloadId) {
        let value = match self.sort {
            Sort::Bandwidth => row.bandwidth.map(BytesPerSec::get),
            // In thousandths, so that a tenth of a small share counts too.
            Sort::Cpu => row.cpu.map(|cpu| cpu.get() * 1e3),
            Sort::Intensity => row.verdict.intensity_bytes_per_cpu_sec,
            Sort::Name => None,
        };
        let place = if self.is_exact { exactly } else { step_of };
        (Reverse(value.map_or(-1, place)), row.verdict.id.clone())
    }

    fn means(&self) -> BTreeMap<&WorkloadId, Means> {
        let mut means: BTreeMap<&WorkloadId, Means> = BTreeMap::new();
        for snapshot in &self.recent {
            for verdict in &snapshot.plan.workloads {
                let mean = means.entry(&verdict.id).or_default();
                if verdict.bandwidth.provenance
                    != weir_core::rates::attribution::Provenance::Unknown
                {
                    mean.bandwidth.add(verdict.bandwidth.bytes_per_sec.get());
                }
                if let Some(cpu) = verdict.cpu_cpus {
                    mean.cpu.add(cpu.get());
                }
                mean.held.add(
                    snapshot
                        .throttled_cpus
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
    bandwidth: WindowMean,
    cpu: WindowMean,
    held: WindowMean,
}

fn row(
    newest: &Snapshot,
    verdict: &Decision,
    means: &BTreeMap<&WorkloadId, Means>,
    all: BytesPerSec,
) -> TopRow {
    let means = means.get(&verdict.id).copied().unwrap_or_default();
    let id = verdict.id.as_str();
    let (tag, keep) = tag(id, "", &newest.pod_names);
    let bandwidth = means.bandwidth.get().map(BytesPerSec::new);
    let stats = newest.scheduler.as_ref();
    TopRow {
        bandwidth,
        share: bandwidth
            .filter(|_| all > BytesPerSec::ZERO)
            .map(|rate| rate.ratio(all)),
        cpu: means.cpu.get().map(CpuShare::new),
        held: CpuShare::new(means.held.get().unwrap_or(0.0)),
        limited_since_unix_ms: newest.limited_since_unix_ms.get(&verdict.id).copied(),
        scheduled: stats
            .and_then(|stats| stats.workloads.get(&verdict.id))
            .copied(),
        label: tag + &text::harmless(id),
        keep,
        ..TopRow::leaf(verdict.clone())
    }
}

/// A key whose order is that of the values.
fn exactly(value: f64) -> i64 {
    // Bits of numbers above zero are in their order, and below 2^63.
    i64::try_from(value.max(0.0).to_bits()).unwrap_or(i64::MAX)
}

/// Steps of about a tenth: rows that differ by less stand by name and do not jump about.
fn step_of(value: f64) -> i64 {
    // The value is some thousands at most: the logarithm of a finite number.
    #[allow(clippy::cast_possible_truncation)]
    let step = (value.max(0.0).ln_1p() * 10.0).round() as i64;
    step
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

    /// 147 stood above 153, since both were in one step.
    #[test]
    fn on_paper_rows_are_in_the_order_of_their_figures() {
        let order = |is_exact| {
            let mut model = Model {
                is_exact,
                ..Model::default()
            };
            model.toggle_list();
            let mut snapshot = snapshot(0, 100.0);
            let mib = [147.0, 153.0, 450.0, 462.0, 0.0];
            for (verdict, mib) in snapshot.plan.workloads.iter_mut().zip(mib) {
                verdict.bandwidth.bytes_per_sec = BytesPerSec::new(mib * 1_048_576.0);
                verdict.bandwidth.provenance = weir_core::rates::attribution::Provenance::Counted;
            }
            model.add(snapshot);
            let rates = model.rows().iter().filter_map(|row| row.bandwidth);
            rates.map(BytesPerSec::get).collect::<Vec<_>>()
        };
        let exact = order(true);
        assert!(exact.is_sorted_by(|a, b| a >= b), "{exact:?}");
        assert!(
            !order(false).is_sorted_by(|a, b| a >= b),
            "in steps, so that rows keep still"
        );
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
