// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speed of all tasks, as long as nothing changes.
//!
//! Between two events the set of running tasks is constant, so each device is in an equilibrium
//! ([`weir_hw::LoadedDevice::solve`], [`crate::engine::memory::dram_mix`]) and every running task progresses
//! at a constant rate. Tasks that do the same beside the same are one *kind*; each kind has one integral of
//! its rate over time, and a task remembers what the integral was when it began. So time passes in O(kinds),
//! and a mix of kinds that was seen before costs one lookup in a table.
//!
//! *Two hardware threads of a core.* A thread runs at `1 − (1 − φ)·a`, where φ is the speed of a
//! thread beside a busy one and `a` is the part of time in which its sibling executes: 1 for
//! computing, less for a task that stalls on the device: that is the capacity that stalls leave.
//! Two tasks of one core that both access a device halve the core's window of lines.

use crate::engine::histogram::{Histogram, bucket};
use crate::engine::memory::dram_mix::{Arbitration, MixSource};
use crate::engine::memory::memory_model::{Class, MemoryModel};
use crate::engine::program::Work;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use weir_hw::memory_device::{Equilibrium, Requester};

/// What was computed before. Its keys are the simulator's own, and need no hash that withstands hostile ones.
type Memo<K, V> = HashMap<K, V, FixedState>;

const LINE: f64 = weir_core::units::LINE_BYTES as f64;
/// Where a latency distribution is sampled: the middles of parts of equal weight, finer at the end.
const QUANTILES: [(f64, f64); 8] = [
    (0.125, 0.25),
    (0.375, 0.25),
    (0.60, 0.20),
    (0.80, 0.20),
    (0.925, 0.05),
    (0.97, 0.04),
    (0.985, 0.005),
    (0.995, 0.005),
];
const MEMO_MAX: usize = 4096;
/// How many speeds of all CPUs there are where they change.
pub(crate) const SPEED_LEVELS: usize = 9;
/// Rounds for cores on which both threads access a device; each is a full solution. They begin where the last
/// mix ended, so that one or two are enough mostly.
const SMT_ROUNDS: usize = 4;
/// A part of time that moved less than this between two rounds has been found.
const EXECUTING_TOLERANCE: f64 = 1e-3;

/// What one device does in a mix.
#[derive(Clone, Copy, Debug, Default)]
struct DeviceRate {
    /// Lines per nanosecond.
    read: f64,
    write: f64,
    latency_ns: f64,
    /// Bucket and value of each of [`QUANTILES`].
    quantiles: [(usize, f64); 8],
}

/// The equilibrium of one mix of kinds.
#[derive(Clone, Debug, Default)]
struct Solution {
    /// Rates by kind, in units (lines, nanoseconds) per nanosecond.
    rates: Vec<(u32, f64)>,
    devices: Vec<DeviceRate>,
}

/// What a device has done so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceTotals {
    pub read_bytes: f64,
    pub write_bytes: f64,
    /// Latency of single lines, all of them together.
    pub latencies: Histogram,
    /// Lines, and the sum of their latencies.
    sums: (f64, f64),
}

impl DeviceTotals {
    /// Lines moved so far, and the sum of their latencies in nanoseconds.
    pub(crate) fn latency_sum(&self) -> (f64, f64) {
        self.sums
    }
}

/// All running tasks as one fluid.
pub(crate) struct Fluid {
    classes: Vec<Class>,
    models: Vec<MemoryModel>,
    totals: Vec<DeviceTotals>,
    smt: f64,
    /// Speeds that all CPUs can have, and which they have.
    speeds: [f64; SPEED_LEVELS],
    level: usize,
    counts: Vec<u32>,
    /// Kinds that run, ascending.
    active: Vec<u32>,
    rates: Vec<f64>,
    integrals: Vec<f64>,
    devices: Vec<DeviceRate>,
    is_stale: bool,
    /// Solutions that were found before, one table for each speed that the CPUs can have.
    memo: [Memo<Vec<(u32, u32)>, u32>; SPEED_LEVELS],
    solutions: Vec<Solution>,
    /// Shapes of latency distributions, by device and bucket of the mean.
    tails: Memo<(u32, usize), [f64; 8]>,
    scratch: Scratch,
    /// Equilibria that were really solved.
    pub(crate) solved: u64,
}

#[derive(Default)]
struct Scratch {
    key: Vec<(u32, u32)>,
    requesters: Vec<Requester>,
    kinds: Vec<u32>,
    /// For each kind, the part of its time that a task executed when the equilibrium was last solved.
    executing: Vec<f64>,
    equilibrium: Option<Equilibrium>,
}

impl Fluid {
    pub(crate) fn new(classes: Vec<Class>, models: Vec<MemoryModel>, smt: f64) -> Self {
        let kinds = classes.len() * 4 + 2;
        let device_count = models.len();
        Fluid {
            classes,
            models,
            totals: vec![DeviceTotals::default(); device_count],
            smt,
            speeds: [1.0; SPEED_LEVELS],
            level: 0,
            counts: vec![0; kinds],
            active: Vec::new(),
            rates: vec![0.0; kinds],
            integrals: vec![0.0; kinds],
            devices: vec![DeviceRate::default(); device_count],
            is_stale: false,
            memo: Default::default(),
            solutions: Vec::new(),
            tails: Memo::default(),
            scratch: Scratch::default(),
            solved: 0,
        }
    }

    /// From now on the CPUs' speeds are the middles of equal parts of 1 ± `ratio`.
    pub(crate) fn spread_speed(&mut self, ratio: f64) {
        let middle = |level: usize| (2 * level + 1) as f64 / SPEED_LEVELS as f64 - 1.0;
        self.speeds = std::array::from_fn(|level| 1.0 + ratio * middle(level));
        self.set_speed(SPEED_LEVELS / 2);
    }

    /// All CPUs have this one of the speeds from now on.
    pub(crate) fn set_speed(&mut self, level: usize) {
        self.level = level;
        self.is_stale = true;
    }

    pub(crate) fn class(&self, index: u32) -> &Class {
        &self.classes[index as usize]
    }

    /// Accessing kinds come first, three a class: alone on the core, beside a computing thread,
    /// beside one that accesses. Then computing: alone, beside computing, beside each class.
    pub(crate) fn kind(&self, work: Work, beside: Option<Work>) -> u32 {
        let computing = self.classes.len() as u32 * 3;
        match (work, beside) {
            (Work::Access(class), None) => class * 3,
            (Work::Access(class), Some(Work::Compute)) => class * 3 + 1,
            (Work::Access(class), Some(Work::Access(_))) => class * 3 + 2,
            (Work::Compute, None) => computing,
            (Work::Compute, Some(Work::Compute)) => computing + 1,
            (Work::Compute, Some(Work::Access(class))) => computing + 2 + class,
        }
    }

    /// The kind of a disk that moves lines of this class: it has no core, so no sibling.
    pub(crate) fn dma_kind(&self, class: u32) -> u32 {
        class * 3
    }

    pub(crate) fn enter(&mut self, kind: u32) {
        let count = &mut self.counts[kind as usize];
        *count += 1;
        if *count == 1
            && let Err(at) = self.active.binary_search(&kind)
        {
            self.active.insert(at, kind);
        }
        self.is_stale = true;
    }

    pub(crate) fn leave(&mut self, kind: u32) {
        let count = &mut self.counts[kind as usize];
        *count -= 1;
        if *count == 0
            && let Ok(at) = self.active.binary_search(&kind)
        {
            self.active.remove(at);
            self.rates[kind as usize] = 0.0;
        }
        self.is_stale = true;
    }

    /// What a task of this kind has done since the beginning of time.
    pub(crate) fn integral(&self, kind: u32) -> f64 {
        self.integrals[kind as usize]
    }

    /// Units per nanosecond. Call [`Fluid::refresh`] before.
    pub(crate) fn rate(&self, kind: u32) -> f64 {
        self.rates[kind as usize]
    }

    /// Time passes; rates must be fresh.
    pub(crate) fn advance(&mut self, ns: u64) {
        let dt = ns as f64;
        for kind in &self.active {
            self.integrals[*kind as usize] += self.rates[*kind as usize] * dt;
        }
        for (rate, totals) in self.devices.iter().zip(&mut self.totals) {
            let lines = (rate.read + rate.write) * dt;
            if lines <= 0.0 {
                continue;
            }
            totals.read_bytes += rate.read * dt * LINE;
            totals.write_bytes += rate.write * dt * LINE;
            totals.sums.0 += lines;
            totals.sums.1 += lines * rate.latency_ns;
            for ((_, weight), (bucket, ns)) in QUANTILES.iter().zip(&rate.quantiles) {
                totals.latencies.add_at(*bucket, *ns, weight * lines);
            }
        }
    }

    pub(crate) fn device_count(&self) -> usize {
        self.models.len()
    }

    pub(crate) fn totals(&self, device: usize) -> &DeviceTotals {
        &self.totals[device]
    }

    /// Forgets the latencies seen so far: what was before the measured time.
    pub(crate) fn forget_latencies(&mut self) {
        self.totals.iter_mut().for_each(|t| t.latencies.clear());
    }

    /// A device gives only this part of its bandwidth from now on.
    pub(crate) fn degrade(&mut self, device: usize, capacity_ratio: f64) {
        match &mut self.models[device] {
            MemoryModel::Cxl(model) => model.set_health(capacity_ratio),
            MemoryModel::CxlRates(model) => model.set_health(capacity_ratio),
            MemoryModel::Dram(mix) => mix.set_health(capacity_ratio),
        }
        self.forget_solutions();
        self.is_stale = true;
    }

    /// A DRAM node's controller has these rates or ranks of sources from now on, and a CXL device that takes
    /// rates those of its groups; other devices have none.
    pub(crate) fn arbitrate(&mut self, device: usize, arbitration: Arbitration) {
        let is_new = match (&mut self.models[device], arbitration) {
            (MemoryModel::Dram(mix), arbitration) => mix.arbitrate(arbitration),
            (MemoryModel::CxlRates(groups), Arbitration::Rates(rates)) => {
                let of_device = self.classes.iter().filter(|c| c.device as usize == device);
                groups.set_rates(of_device.map(|c| (c.group, c.source)), &rates)
            }
            _ => false,
        };
        if is_new {
            self.forget_solutions();
            self.is_stale = true;
        }
    }

    /// Makes the rates right for the mix that runs now. True if they changed.
    ///
    /// A mix is known by how many tasks of each kind run. Its solution is kept, because a simulated machine
    /// comes back to the same mixes again and again.
    pub(crate) fn refresh(&mut self) -> bool {
        if !std::mem::take(&mut self.is_stale) {
            return false;
        }
        let mut key = std::mem::take(&mut self.scratch.key);
        key.clear();
        key.extend(self.active.iter().map(|k| (*k, self.counts[*k as usize])));
        let known = self.memo[self.level].get(&key).copied();
        let index = known.unwrap_or_else(|| self.solve(&key));
        self.scratch.key = key;
        let solution = &self.solutions[index as usize];
        for (kind, rate) in &solution.rates {
            self.rates[*kind as usize] = *rate;
        }
        self.devices.copy_from_slice(&solution.devices);
        true
    }

    fn forget_solutions(&mut self) {
        self.memo.iter_mut().for_each(HashMap::clear);
        self.solutions.clear();
    }

    fn solve(&mut self, key: &[(u32, u32)]) -> u32 {
        if self.solutions.len() >= MEMO_MAX {
            self.forget_solutions();
        }
        self.solved += 1;
        let mut solution = Solution::default();
        for device in 0..self.models.len() {
            let rate = match self.models[device] {
                MemoryModel::Cxl(_) | MemoryModel::CxlRates(_) => {
                    self.solve_device(device as u32, key, &mut solution.rates)
                }
                MemoryModel::Dram(_) => self.solve_dram(device, key, &mut solution.rates),
            };
            solution.devices.push(rate);
        }
        let computing = self.classes.len() as u32 * 3;
        let speed = self.speeds[self.level];
        for (kind, _) in key.iter().filter(|(k, _)| *k >= computing) {
            let beside = match kind - computing {
                0 => 0.0,
                1 => 1.0,
                class => self.executing(class - 2, 1, &solution.rates),
            };
            solution
                .rates
                .push((*kind, speed * (1.0 - (1.0 - self.smt) * beside)));
        }
        let index = self.solutions.len() as u32;
        self.solutions.push(solution);
        self.memo[self.level].insert(key.to_vec(), index);
        index
    }

    /// Part of time in which a task of this class executes, beside a computing (1) or an accessing (2)
    /// sibling: what it needs per line at its speed, times its lines. Two hardware threads slow each other
    /// down by a fixed factor while both execute, and not while one waits for its device.
    fn executing(&self, class: u32, beside: u32, rates: &[(u32, f64)]) -> f64 {
        let kind = class * 3 + beside;
        let rate = rates.iter().find(|(k, _)| *k == kind).map_or(0.0, |r| r.1);
        let speed = if beside == 1 { self.smt } else { 1.0 } * self.speeds[self.level];
        (rate * self.classes[class as usize].busy_ns / speed).min(1.0)
    }

    /// Quantiles as multiples of the mean. They change slowly with it and are costly, so they are
    /// taken once for each bucket of means (3 % wide).
    fn tail(&mut self, device: u32, at: &Equilibrium) -> [f64; 8] {
        let key = (device, bucket(at.latency_ns as u64));
        if let Some(known) = self.tails.get(&key) {
            return *known;
        }
        let model = match &self.models[device as usize] {
            MemoryModel::Cxl(model) => model,
            MemoryModel::CxlRates(groups) => groups.device(),
            MemoryModel::Dram(_) => return [1.0; 8],
        };
        let relative = |q: f64| model.latency_quantile_ns(at, q) / at.latency_ns.max(1e-9);
        let shape = QUANTILES.map(|(q, _)| relative(q));
        self.tails.insert(key, shape);
        shape
    }

    /// Requests that `count` tasks of a kind make to their device; `mate` is the part of time in which a
    /// core-mate that accesses executes.
    fn requester(&self, kind: u32, count: u32, mate: f64) -> Requester {
        let class = &self.classes[(kind / 3) as usize];
        let (speed, share) = match kind % 3 {
            0 => (1.0, 1.0),
            1 => (self.smt, 1.0),
            _ => (1.0 - (1.0 - self.smt) * mate, 0.5),
        };
        let core_window = self.models[class.device as usize].core_window();
        Requester {
            cores: f64::from(count),
            window_lines: class.window_lines.min(core_window) * share,
            busy_ns: class.busy_ns / speed / self.speeds[self.level],
            write_ratio: class.write_ratio,
            is_non_temporal: class.is_non_temporal,
            threads_per_core: 1.0,
        }
    }

    /// The equilibrium of a DRAM node, from the model of its commands.
    ///
    /// There is no formula for what an order of requests does to each source. So the channel is run for the
    /// mix, some ten thousand lines, and its means are taken. Noise within a mix is lost by that: the scatter
    /// of DRAM bandwidth in results is that of mixes alone (docs/explanation/simulator.md).
    fn solve_dram(
        &mut self,
        device: usize,
        key: &[(u32, u32)],
        rates: &mut Vec<(u32, f64)>,
    ) -> DeviceRate {
        let computing = self.classes.len() as u32 * 3;
        let of_device =
            |k: u32| k < computing && self.classes[(k / 3) as usize].device as usize == device;
        let mine: Vec<(u32, u32)> = key.iter().copied().filter(|k| of_device(k.0)).collect();
        let mut sources = Vec::new();
        for (kind, count) in &mine {
            let class = &self.classes[(kind / 3) as usize];
            let source = MixSource::new(class, &self.requester(*kind, 1, 1.0));
            sources.extend(std::iter::repeat_n(source, *count as usize));
        }
        let MemoryModel::Dram(mix) = &mut self.models[device] else {
            return DeviceRate::default();
        };
        let found = mix.solve(&sources, &QUANTILES.map(|(q, _)| q));
        let mut rate = DeviceRate {
            latency_ns: found.latency_ns,
            quantiles: found.quantiles_ns.map(|ns| (bucket(ns as u64), ns)),
            ..DeviceRate::default()
        };
        let mut next = 0;
        for (kind, count) in mine {
            let own = &found.lines_per_ns[next..next + count as usize];
            next += count as usize;
            let sum: f64 = own.iter().sum();
            let written = self.classes[(kind / 3) as usize].write_ratio;
            rate.read += sum * (1.0 - written);
            rate.write += sum * written;
            rates.push((kind, sum / f64::from(count)));
        }
        rate
    }

    fn solve_device(
        &mut self,
        device: u32,
        key: &[(u32, u32)],
        rates: &mut Vec<(u32, f64)>,
    ) -> DeviceRate {
        let computing = self.classes.len() as u32 * 3;
        let Scratch {
            mut requesters,
            mut kinds,
            mut executing,
            equilibrium,
            ..
        } = std::mem::take(&mut self.scratch);
        let mut out = equilibrium.unwrap_or_default();
        kinds.clear();
        let of_device = |k: u32| k < computing && self.classes[(k / 3) as usize].device == device;
        let mine = || key.iter().filter(|(k, _)| of_device(*k));
        kinds.extend(mine().map(|(k, _)| *k));
        let group = |kind: &u32| self.classes[(kind / 3) as usize].group;
        let groups: Vec<u32> = kinds.iter().map(group).collect();
        // How much of its time a core-mate that accesses executes: found by iteration.
        executing.resize(computing as usize, 0.5);
        let has_pairs = kinds.iter().any(|k| k % 3 == 2);
        for _ in 0..if has_pairs { SMT_ROUNDS } else { 1 } {
            requesters.clear();
            for (kind, count) in mine() {
                let mate = executing[*kind as usize];
                requesters.push(self.requester(*kind, *count, mate));
            }
            self.models[device as usize].solve_cxl(&requesters, &groups, &mut out);
            let mut moved: f64 = 0.0;
            for ((kind, requester), lines) in kinds.iter().zip(&requesters).zip(&out.lines_per_sec)
            {
                let now = (requester.busy_ns * lines / 1e9).min(1.0);
                let before = std::mem::replace(&mut executing[*kind as usize], now);
                moved = moved.max((now - before).abs());
            }
            if moved < EXECUTING_TOLERANCE {
                break;
            }
        }
        rates.extend(
            kinds
                .iter()
                .copied()
                .zip(out.lines_per_sec.iter().map(|l| l / 1e9)),
        );
        let mut rate = DeviceRate {
            read: out.read_bytes_per_sec / LINE / 1e9,
            write: out.write_bytes_per_sec / LINE / 1e9,
            latency_ns: out.latency_ns,
            quantiles: Default::default(),
        };
        let shape = self.tail(device, &out);
        for (factor, slot) in shape.iter().zip(&mut rate.quantiles) {
            let ns = factor * out.latency_ns;
            *slot = (bucket(ns as u64), ns);
        }
        self.scratch = Scratch {
            key: Vec::new(),
            requesters,
            kinds,
            executing,
            equilibrium: Some(out),
        };
        rate
    }
}
