// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same device line by line: every access is an event. It is slow and exact where
//! [`super::closed_network`] is fast and gives means; tests compare the two. Tails and the distribution of
//! the queue's occupancy, which a mean does not show, come from here.
//!
//! ```text
//!  core (window, own time) ─► rise ─► read / write direction ─► reply after idle latency,
//!     ▲                              and the medium: wait for      spread and rare stalls
//!     └──────────────────────────────  work in progress ──────────────────┘
//! ```
//!
//! The medium and each direction do their work in bursts: a line finds, with probability
//! `t/s`, that `s` nanoseconds of work begin with it (`t` the mean time per line, `s` the profile's
//! burst), and otherwise that it rides along. That is M/G/1 with `E[S²]/E[S] = s`. One draw serves all
//! three, so that the slower always has the work of the faster.
//!
//! Capacities under overload and the windows with write-backs come from the solver (tables of the
//! profile, not results of a queue); all waiting is simulated. The rise follows the load of
//! the last microseconds. A core's own time and its waiting overlap fully: compare with
//! `serial_share = 0`.

use crate::memory_device::closed_network::{LoadedDevice, Requester};
use crate::memory_device::devload::DevLoad;
use crate::memory_device::profile::{Profile, Tail};
use crate::memory_device::solver_terms::Station;
use crate::memory_device::tail;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_core::random::SplitMix;

const PICOS: f64 = 1000.0;
/// Time over which the load that the rise follows is averaged.
const LOAD_NS: f64 = 5_000.0;

#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedRun {
    /// Mean latency, nanoseconds.
    pub latency_ns: f64,
    /// Both directions together.
    pub bytes_per_sec: f64,
    pub read_bytes_per_sec: f64,
    /// Part of the accesses that found the queue in each class, light first.
    pub devload_ratios: [f64; 4],
    /// Latencies in rising order, nanoseconds.
    pub latencies_ns: Vec<f32>,
}

impl SimulatedRun {
    /// Latency that a part `q` of the accesses stayed below; 0 if there were none.
    pub fn quantile_ns(&self, q: f64) -> f64 {
        let last = self.latencies_ns.len().saturating_sub(1);
        let index = (q.clamp(0.0, 1.0) * last as f64).round() as usize;
        self.latencies_ns.get(index).copied().map_or(0.0, f64::from)
    }

    /// The class most accesses found.
    pub fn devload(&self) -> DevLoad {
        let classes = [
            DevLoad::Light,
            DevLoad::Optimal,
            DevLoad::ModerateOverload,
            DevLoad::SevereOverload,
        ];
        let most =
            (0..4).max_by(|a, b| self.devload_ratios[*a].total_cmp(&self.devload_ratios[*b]));
        classes[most.unwrap_or(0)]
    }
}

struct Core {
    window: u32,
    out: u32,
    busy_ps: u64,
    write_ratio: f64,
    /// A place in the window is free again this much before its line is there.
    early_ns: f64,
    /// When its own work allows the next access.
    ready_ps: u64,
    /// Whether an event at `ready_ps` is on its way.
    waits_for_itself: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ready,
    Reply,
}

/// Work of a direction or of the medium.
#[derive(Clone, Copy, Default)]
struct BurstServer {
    line_ns: f64,
    free_ps: u64,
}

impl BurstServer {
    /// Nanoseconds until the work in progress is done; then this line's own, if it begins any.
    fn pass(&mut self, at_ps: u64, burst_ns: f64, draw: f64) -> f64 {
        let wait_ps = self.free_ps.saturating_sub(at_ps);
        if draw * burst_ns < self.line_ns {
            // A burst shorter than a line's mean time is that time.
            let work_ps = (burst_ns.max(self.line_ns) * PICOS) as u64;
            self.free_ps = self.free_ps.max(at_ps) + work_ps;
        }
        wait_ps as f64 / PICOS
    }
}

/// The device, its queue and its random numbers.
struct Model {
    station: Station,
    idle_ns: f64,
    queue_lines: f64,
    tail: Tail,
    read: BurstServer,
    write: BurstServer,
    medium: BurstServer,
    /// Lines of the last while, weighted, and when that was last brought up to date.
    load: [f64; 2],
    load_ps: u64,
    /// When the lines now in the queue leave it.
    queue: BinaryHeap<Reverse<u64>>,
    random: SplitMix,
}

impl Model {
    /// Latency of a line and how full it found the queue.
    fn access(&mut self, at_ps: u64, is_write: bool) -> (f64, f64) {
        let burst_ns = self.station.parts.burst_ns;
        let draw = self.random.unit();
        let direction = if is_write {
            &mut self.write
        } else {
            &mut self.read
        };
        let wait = direction.pass(at_ps, burst_ns, draw);
        let wait = wait.max(self.medium.pass(at_ps, burst_ns, draw));
        let rise = self.rise_ns(at_ps, is_write);
        while self.queue.peek().is_some_and(|leaves| leaves.0 <= at_ps) {
            self.queue.pop();
        }
        let occupancy = self.queue.len() as f64 / self.queue_lines;
        self.queue
            .push(Reverse(at_ps + ((wait + rise) * PICOS) as u64));
        let spread = (self.tail.spread * self.random.normal()
            - 0.5 * self.tail.spread * self.tail.spread)
            .exp();
        let stall = if self.random.unit() < self.tail.stall_ratio {
            -self.tail.stall_ns * (1.0 - self.random.unit()).ln()
        } else {
            0.0
        };
        let body = tail::body_mean_ns(&self.tail, self.idle_ns + rise);
        (body * spread + stall + wait, occupancy)
    }

    fn rise_ns(&mut self, at_ps: u64, is_write: bool) -> f64 {
        let passed_ns = at_ps.saturating_sub(self.load_ps) as f64 / PICOS;
        let kept = (-passed_ns / LOAD_NS).exp();
        self.load = self.load.map(|lines| lines * kept);
        self.load_ps = at_ps;
        self.load[usize::from(is_write)] += 1.0;
        let [reads, writes] = self.load.map(|lines| lines / LOAD_NS);
        let u = (reads * self.station.read_ns)
            .max(writes * self.station.write_ns)
            .max((reads + writes) * self.station.media_ns);
        self.station.parts.rise_ns * u.min(1.0).powf(self.station.parts.rise_exponent)
    }
}

/// Runs until `lines` accesses were counted, after a fifth as many that were not. `cores` of each
/// requester are rounded. The same seed gives the same outcome.
pub fn run(profile: &Profile, requesters: &[Requester], lines: usize, seed: u64) -> SimulatedRun {
    let (station, windows) = LoadedDevice::new(profile).event_sim_inputs(requesters);
    let mut cores = cores_of(requesters, &windows);
    let mut model = Model {
        idle_ns: profile.device.idle_ns,
        queue_lines: profile.device.queue_lines,
        tail: profile.tail.clone(),
        read: BurstServer {
            line_ns: station.read_ns,
            free_ps: 0,
        },
        write: BurstServer {
            line_ns: station.write_ns,
            free_ps: 0,
        },
        medium: BurstServer {
            line_ns: station.media_ns,
            free_ps: 0,
        },
        load: [0.0; 2],
        load_ps: 0,
        queue: BinaryHeap::new(),
        random: SplitMix::new(seed),
        station,
    };
    // Ties are broken by the order of scheduling, so that nothing depends on the heap's.
    let mut events: BinaryHeap<Reverse<(u64, u64, usize, Event)>> = BinaryHeap::new();
    let mut sequence = 0u64;
    for (n, core) in cores.iter_mut().enumerate() {
        // Cores do not start in step.
        core.ready_ps = (model.random.unit() * model.idle_ns * PICOS) as u64;
        core.waits_for_itself = true;
        events.push(Reverse((core.ready_ps, n as u64, n, Event::Ready)));
        sequence = n as u64 + 1;
    }
    let mut totals = RunTotals::new(lines, lines / 5);
    while let Some(Reverse((now, _, n, event))) = events.pop() {
        let core = &mut cores[n];
        match event {
            Event::Ready => core.waits_for_itself = false,
            Event::Reply => core.out -= 1,
        }
        while core.out < core.window && core.ready_ps <= now && !totals.done() {
            let is_write = model.random.unit() < core.write_ratio;
            let (latency_ns, occupancy) = model.access(now, is_write);
            totals.count(now, latency_ns, occupancy, is_write);
            core.out += 1;
            core.ready_ps = now + core.busy_ps;
            let free_ns = (latency_ns - core.early_ns).max(0.0);
            let reply_ps = now + (free_ns * PICOS) as u64;
            events.push(Reverse((reply_ps, sequence, n, Event::Reply)));
            sequence += 1;
        }
        if totals.done() {
            break;
        }
        if core.ready_ps > now && !core.waits_for_itself {
            core.waits_for_itself = true;
            events.push(Reverse((core.ready_ps, sequence, n, Event::Ready)));
            sequence += 1;
        }
    }
    totals.finish()
}

fn cores_of(requesters: &[Requester], windows: &[(f64, f64)]) -> Vec<Core> {
    let mut cores = Vec::new();
    for (r, (window, early_ns)) in requesters.iter().zip(windows) {
        for n in 0..r.cores.round().clamp(0.0, 1e5) as u32 {
            // Windows of 37.6 lines: some cores have 37, some 38.
            let upto = |n: u32| (f64::from(n) * window).round() as u32;
            cores.push(Core {
                window: (upto(n + 1) - upto(n)).max(1),
                out: 0,
                busy_ps: (r.busy_ns.clamp(0.0, 1e9) * PICOS) as u64,
                write_ratio: r.write_ratio,
                early_ns: *early_ns,
                ready_ps: 0,
                waits_for_itself: false,
            });
        }
    }
    cores
}

struct RunTotals {
    wanted: usize,
    /// Lines still to come before counting begins.
    warm_up: usize,
    from_ps: u64,
    to_ps: u64,
    reads: u64,
    classes: [u64; 4],
    latencies: Vec<f32>,
    latency_sum_ns: f64,
}

impl RunTotals {
    fn new(wanted: usize, warm_up: usize) -> Self {
        RunTotals {
            wanted,
            warm_up,
            from_ps: 0,
            to_ps: 0,
            reads: 0,
            classes: [0; 4],
            latencies: Vec::with_capacity(wanted),
            latency_sum_ns: 0.0,
        }
    }

    fn done(&self) -> bool {
        self.latencies.len() >= self.wanted
    }

    fn count(&mut self, now_ps: u64, latency_ns: f64, occupancy: f64, is_write: bool) {
        self.to_ps = now_ps;
        if self.warm_up > 0 {
            self.warm_up -= 1;
            self.from_ps = now_ps;
            return;
        }
        self.classes[DevLoad::of_occupancy(occupancy) as usize] += 1;
        self.reads += u64::from(!is_write);
        self.latency_sum_ns += latency_ns;
        self.latencies.push(latency_ns as f32);
    }

    fn finish(mut self) -> SimulatedRun {
        self.latencies.sort_by(f32::total_cmp);
        let lines = self.latencies.len().max(1) as f64;
        let span_ns = (self.to_ps.saturating_sub(self.from_ps) as f64 / PICOS).max(1.0);
        SimulatedRun {
            latency_ns: self.latency_sum_ns / lines,
            bytes_per_sec: self.latencies.len() as f64 * 64e9 / span_ns,
            read_bytes_per_sec: self.reads as f64 * 64e9 / span_ns,
            devload_ratios: self.classes.map(|count| count as f64 / lines),
            latencies_ns: self.latencies,
        }
    }
}
