// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A memory device under load, in steady state: how long an access takes and how many lines each
//! kind of core gets, solved as a closed queueing network.
//!
//! # Equations
//!
//! A core of kind *i* has at most `Wᵢ` lines outstanding and needs `bᵢ` of its own time for each. At
//! latency `L` a line therefore costs it `tᵢ = max(bᵢ, L/Wᵢ)` (softened by the host's `serial_share`
//! towards the sum), and all cores together request `xᵢ = nᵢ/tᵢ`: *less* the longer it takes. The
//! device answers with
//!
//! ```text
//! L = L₀ + r·uᵖ + s·u / (2·(1−u))       u = max(reads/Cᵣ, writes/C_w, all/C_m)
//! ```
//!
//! the idle latency, a rise that begins with the first load, and the wait for work in progress in
//! units of a burst `s` (M/G/1 with `E[S²]/E[S] = s`): *more* the more is requested. The two meet at
//! exactly one latency. No cap is needed: when windows are full, `L = N·W·64/B` comes out.
//!
//! A window holds the lines that a core *reads*; write-backs queue at the device and take no place in it. A
//! core that reads `Rᵢ` lines at once, with a part `ωᵢ` of its lines being writes, therefore has `Wᵢ =
//! Rᵢ/(1−ωᵢ)` lines out. Non-temporal stores are posted: the queue that all cores share bounds them
//! (`shared_lines`). At first a table of lines in flight stood for all of this, read off the numbers of
//! threads that were measured (4, 16, 46): at 2, 8 and 32 threads it was up to 46 % off near saturation. On
//! curves that no figure was taken from, the worst error is 9.6 % with write-backs outside of windows and
//! 12.7 % without, and 7.7 % with the shared queue and 51.9 % without (docs/evidence/device-model.md).
//!
//! Many threads cost bandwidth, because the device meets as many sequences of addresses: above
//! `overload_from_lines` all capacities shrink, by up to the mix's `overload_loss_ratio`. The load is counted
//! in *offered* lines: those that would be out if an access took [`OFFERED_AT_IDLES`] times the idle latency
//! and each thread had a window of its own. They depend on the requesters alone, not on the solution; so the
//! solution stays unique.
//!
//! # Limits of the model
//!
//! Steady state only: no transient within the queue (microseconds). One latency for all: no
//! unfairness between cores, and reads wait as long as writes.

use crate::memory_device::devload::DevLoad;
use crate::memory_device::pow_approx::PowApprox;
use crate::memory_device::profile::Profile;
use crate::memory_device::rw_mix::{MixPoint, Mixes};
use crate::memory_device::solver_terms::{Demand, RequestRates, RequesterTerms, Station, clamp_to};
use crate::memory_device::tail;

/// Offered lines are those that would be out at this many times the idle latency: well past every knee, so
/// that cores that can fill the device count fully and nearly idle ones hardly.
pub const OFFERED_AT_IDLES: f64 = 4.0;

const ITERATIONS_MAX: u32 = 80;
/// Relative size of the last step of the search for a latency; the error after it is at most a tenth of this.
const TOLERANCE: f64 = 1e-6;
/// Guesses of the mix at most. The first guess is the mix of the last solution, which is mostly good enough:
/// that halves the passes for the same answer.
const MIXES_MAX: u32 = 8;

/// Cores of one kind, which request lines from the device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Requester {
    /// How many cores run this kind now; parts of a core count.
    pub cores: f64,
    /// Lines one core may have outstanding; at most the profile's window counts.
    pub window_lines: f64,
    /// Time the core itself needs per line (compute, copy), nanoseconds, overlapped with waiting.
    pub busy_ns: f64,
    /// Part of its lines that are writes at the device, 0 to 1, write-backs included.
    pub write_ratio: f64,
    pub is_non_temporal: bool,
    /// Hardware threads that request on each of these cores; less than one counts as one.
    pub threads_per_core: f64,
}

/// Lines that requesters would have out if the device were slow; it does not depend on how slow it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OfferedLoad {
    /// Lines, with a window for each thread.
    pub lines: f64,
    /// The number of equal cores that would offer their load as unevenly as these do; 0 stands for any
    /// number.
    pub sources: f64,
}

/// Where requesters and device meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Equilibrium {
    /// Mean latency of an access, nanoseconds.
    pub latency_ns: f64,
    /// Lines per second of one core, for each requester in the order given; for a kind without cores,
    /// the rate that one core would get.
    pub lines_per_sec: Vec<f64>,
    pub read_bytes_per_sec: f64,
    pub write_bytes_per_sec: f64,
    /// How busy the limiting part of the device is, 0 to 1.
    pub utilization: f64,
    /// Lines in flight.
    pub outstanding_lines: f64,
    pub devload: DevLoad,
    /// Mean wait for work in progress, a part of the latency.
    pub queued_ns: f64,
    /// Standard deviation of that wait: its mean while the queue is open, less when windows bound it.
    pub queued_deviation_ns: f64,
}

impl Equilibrium {
    /// Both directions together, bytes per second.
    pub fn bytes_per_sec(&self) -> f64 {
        self.read_bytes_per_sec + self.write_bytes_per_sec
    }
}

/// A device of a profile, and the last solution, from which the next search starts.
#[derive(Clone, Debug)]
pub struct LoadedDevice {
    profile: Profile,
    mixes: Mixes,
    idle_ns: f64,
    read_ns_per_line: f64,
    write_ns_per_line: f64,
    /// 1 is as calibrated, 0.5 half the bandwidth.
    health: f64,
    last_latency_ns: f64,
    last_mix: Option<MixPoint>,
    pow: PowApprox,
    terms: Vec<RequesterTerms>,
}

impl LoadedDevice {
    pub fn new(profile: &Profile) -> Self {
        let line_ns = |rate: Option<f64>| rate.map_or(0.0, |rate| 64e9 / rate);
        LoadedDevice {
            mixes: Mixes::new(profile),
            idle_ns: profile.device.idle_ns,
            read_ns_per_line: line_ns(profile.device.read_bytes_per_sec),
            write_ns_per_line: line_ns(profile.device.write_bytes_per_sec),
            health: 1.0,
            last_latency_ns: profile.device.idle_ns,
            last_mix: None,
            pow: PowApprox::default(),
            terms: Vec::with_capacity(16),
            profile: profile.clone(),
        }
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// From now on the device has this part of its calibrated bandwidth (0.01 to 1; 1 is healthy).
    pub fn set_health(&mut self, part: f64) {
        self.health = if part.is_nan() {
            1.0
        } else {
            part.clamp(0.01, 1.0)
        };
    }

    /// Solves for these requesters, into `out`. The search starts from the last solution: requesters of
    /// several mixes may come out differently in the fourth digit after different histories.
    /// Allocates only when there are more requesters than ever before. Finite input gives finite
    /// output; figures out of range are taken as the nearest in it.
    pub fn solve(&mut self, requesters: &[Requester], out: &mut Equilibrium) {
        let (offered_mix, offered) = self.prepare_windows(requesters);
        let mut mix = self.last_mix.unwrap_or(offered_mix);
        // Without non-temporal stores the mix follows from the requested lines, and is found with the
        // latency.
        let is_plain = !requesters.iter().any(|r| r.is_non_temporal);
        for _ in 0..MIXES_MAX {
            let mut station = self.station(mix, offered);
            let latency_ns = self.solve_latency(&mut station, is_plain.then_some(offered));
            let rates = self.request_rates(requesters, latency_ns, &mut out.lines_per_sec);
            self.last_latency_ns = latency_ns;
            self.report(&station, latency_ns, &rates, out);
            if is_plain {
                mix = rates.mix();
                break;
            }
            let before = std::mem::replace(&mut mix, rates.mix());
            if !before.differs_from(mix) {
                break;
            }
        }
        self.last_mix = Some(mix);
    }

    /// Prepares the requesters with the windows they have beside their write-backs. Returns their mix when
    /// the device is slow, and the lines they offer.
    fn prepare_windows(&mut self, requesters: &[Requester]) -> (MixPoint, OfferedLoad) {
        let offered = self.offered(requesters);
        let mix = self
            .total_request_rates(requesters, OFFERED_AT_IDLES * self.idle_ns)
            .mix();
        // The first line of a core is always its own: a chain of pointers has no more than that.
        let first = |p: &RequesterTerms| (1.0 / p.per_window).min(1.0);
        let whole_lines = self.profile.host.window_lines - 1.0;
        let (mut held_lines, mut first_lines) = (0.0, 0.0);
        for (r, p) in requesters.iter().zip(&mut self.terms) {
            let (ratio, stores) = (1.0 - p.read_ratio, r.is_non_temporal);
            let window_lines = self.mixes.window_lines(ratio, stores);
            if whole_lines > 0.0 && window_lines != self.profile.host.window_lines {
                let growth = ((window_lines - 1.0) / whole_lines).max(0.0);
                p.per_window = 1.0 / (first(p) + (1.0 / p.per_window - first(p)) * growth);
            }
            p.early_ns = self.mixes.early_ns(ratio, stores).min(self.idle_ns);
            held_lines += p.cores / p.per_window;
            first_lines += p.cores * first(p);
        }
        let shared_lines = self.mixes.shared_lines(mix);
        if held_lines > shared_lines && held_lines > first_lines {
            let more_lines = (shared_lines - first_lines).max(0.0);
            let kept = more_lines / (held_lines - first_lines);
            for p in &mut self.terms {
                p.per_window = 1.0 / (first(p) + (1.0 / p.per_window - first(p)) * kept);
            }
        }
        (mix, offered)
    }

    /// Inputs of [`super::event_sim`] for the same requesters: capacities, and each one's window in lines
    /// with how early its places are free again.
    pub(crate) fn event_sim_inputs(
        &mut self,
        requesters: &[Requester],
    ) -> (Station, Vec<(f64, f64)>) {
        let (mix, offered) = self.prepare_windows(requesters);
        let windows = self.terms.iter().map(|p| (1.0 / p.per_window, p.early_ns));
        (self.station(mix, offered), windows.collect())
    }

    fn prepare(&mut self, requesters: &[Requester]) {
        let host = &self.profile.host;
        let of = |r: &Requester| RequesterTerms::of(r, host.window_lines, host.serial_share);
        self.terms.clear();
        self.terms.extend(requesters.iter().map(of));
    }

    /// Request rates at a latency; lines per second of one core of each kind go into `each`.
    fn request_rates(
        &self,
        requesters: &[Requester],
        latency_ns: f64,
        each: &mut Vec<f64>,
    ) -> RequestRates {
        let mut rates = RequestRates::default();
        each.clear();
        each.extend(requesters.iter().zip(&self.terms).map(|(r, p)| {
            let one = 1.0 / p.line_ns(latency_ns).0;
            rates.add(p.cores * one, p.read_ratio, r.is_non_temporal);
            if p.has_window() { one * 1e9 } else { 0.0 }
        }));
        rates
    }

    /// The same, all kinds together.
    fn total_request_rates(&self, requesters: &[Requester], latency_ns: f64) -> RequestRates {
        let mut rates = RequestRates::default();
        for (r, p) in requesters.iter().zip(&self.terms) {
            let rate = p.cores / p.line_ns(latency_ns).0;
            rates.add(rate, p.read_ratio, r.is_non_temporal);
        }
        rates
    }

    fn station(&self, mix: MixPoint, offered: OfferedLoad) -> Station {
        let mut parts = self.mixes.parts(mix);
        let device = &self.profile.device;
        let width = device.overload_to_lines - device.overload_from_lines;
        let overload = ((offered.lines - device.overload_from_lines) / width).clamp(0.0, 1.0);
        if device.is_rise_by_others && offered.sources > 0.0 {
            parts.rise_ns *= (1.0 - 1.0 / offered.sources).max(0.0);
        }
        let slower = 1.0 / (self.health * (1.0 - parts.overload_loss * overload));
        Station {
            read_ns: self.read_ns_per_line * slower,
            write_ns: self.write_ns_per_line * slower,
            media_ns: slower / parts.media_lines_per_ns,
            parts,
        }
    }

    /// The latency at which demand and device agree: the root of `u_demand(L) − u_device(L)`, which
    /// falls everywhere. Newton's method inside a bracket. With `offered` the station follows the mix
    /// that is requested at each latency; the slope leaves out how little that moves the root.
    fn solve_latency(&mut self, station: &mut Station, offered: Option<OfferedLoad>) -> f64 {
        let (mut low, mut high) = (self.idle_ns, f64::INFINITY);
        let mut latency = self.last_latency_ns.max(low);
        let mut mixed = f64::NAN;
        for _ in 0..ITERATIONS_MAX {
            let demand = Demand::at(&self.terms, latency);
            if let Some(offered) = offered.filter(|_| demand.all > 0.0) {
                let write_ratio = 1.0 - demand.reads / demand.all;
                if (write_ratio - mixed).abs() > 1e-9 || mixed.is_nan() {
                    let mix = MixPoint {
                        write_ratio: write_ratio.clamp(0.0, 1.0),
                        ..MixPoint::default()
                    };
                    *station = self.station(mix, offered);
                    mixed = write_ratio;
                }
            }
            let (u, u_slope) = station.utilization(&demand);
            if u <= 0.0 {
                return self.idle_ns;
            }
            let (rise, rise_slope) = if u < 1.0 {
                let exponent = station.parts.rise_exponent;
                let rise = station.parts.rise_ns * self.pow.of(u, exponent);
                (rise, rise * exponent / u * u_slope)
            } else {
                (station.parts.rise_ns, 0.0)
            };
            let half_burst = 0.5 * station.parts.burst_ns;
            let queued = latency - self.idle_ns - rise;
            let queued_slope = 1.0 - rise_slope;
            let (carried, carried_slope) = if queued > 0.0 {
                let sum = queued + half_burst;
                (queued / sum, half_burst / (sum * sum) * queued_slope)
            } else {
                (queued / half_burst, queued_slope / half_burst)
            };
            let miss = u - carried;
            if miss > 0.0 {
                low = latency;
            } else {
                high = latency;
            }
            let mut next = latency - miss / (u_slope - carried_slope);
            if u > 1.0 {
                // At u times this latency the demand is at least the capacity: still too short.
                next = next.max(latency * u);
            }
            if !(next > low && next < high) {
                next = if high.is_finite() {
                    0.5 * (low + high)
                } else {
                    2.0 * low
                };
            }
            let step = (next - latency).abs();
            latency = next;
            if step <= TOLERANCE * latency {
                break;
            }
        }
        latency
    }

    fn report(
        &mut self,
        station: &Station,
        latency_ns: f64,
        rates: &RequestRates,
        out: &mut Equilibrium,
    ) {
        let demand = Demand {
            all: rates.all,
            reads: rates.all - rates.writes - rates.store_writes,
            ..Demand::default()
        };
        out.latency_ns = latency_ns;
        out.read_bytes_per_sec = demand.reads.max(0.0) * 64e9;
        out.write_bytes_per_sec = (rates.writes + rates.store_writes) * 64e9;
        out.utilization = station.utilization(&demand).0.clamp(0.0, 1.0);
        let pow = self.pow.of(out.utilization, station.parts.rise_exponent);
        let rise_ns = station.parts.rise_ns * pow;
        out.queued_ns = (latency_ns - self.idle_ns - rise_ns).max(0.0);
        // The lines of a full window bring work of mean L and variance L·s.
        let bounded = (latency_ns * station.parts.burst_ns).sqrt();
        out.queued_deviation_ns = out.queued_ns.min(bounded);
        out.outstanding_lines = demand.all * latency_ns;
        let waiting = demand.all * (latency_ns - self.idle_ns);
        out.devload = DevLoad::of_occupancy(waiting / self.profile.device.queue_lines);
    }

    /// Lines that these requesters would have out at [`OFFERED_AT_IDLES`] times the idle latency.
    pub fn offered(&mut self, requesters: &[Requester]) -> OfferedLoad {
        self.prepare(requesters);
        let latency_ns = OFFERED_AT_IDLES * self.idle_ns;
        let (mut all, mut lines, mut squares) = (0.0, 0.0, 0.0);
        for p in &self.terms {
            let one = latency_ns / p.line_ns(latency_ns).0;
            all += p.cores * one;
            lines += p.cores * p.threads * one;
            squares += p.cores * one * one;
        }
        let sources = if squares > 0.0 {
            all * all / squares
        } else {
            0.0
        };
        OfferedLoad { lines, sources }
    }

    /// Longest latency that these requesters can see at this bandwidth: the one at which their windows, and
    /// the queue that all share, are full. Nanoseconds.
    pub fn full_at_ns(&mut self, requesters: &[Requester], bytes_per_sec: f64) -> f64 {
        let (held_lines, early_ns) = self.window_totals(requesters);
        held_lines * 64e9 / bytes_per_sec.max(1.0) + early_ns
    }

    /// How full these requesters' windows are at a latency and a bandwidth, 0 to 1.
    pub fn fullness(
        &mut self,
        requesters: &[Requester],
        bytes_per_sec: f64,
        latency_ns: f64,
    ) -> f64 {
        let (held_lines, early_ns) = self.window_totals(requesters);
        let lines = (latency_ns - early_ns) * bytes_per_sec / 64e9;
        (lines / held_lines.max(1.0)).clamp(0.0, 1.0)
    }

    /// Lines that windows hold, and how early their places are free again.
    fn window_totals(&mut self, requesters: &[Requester]) -> (f64, f64) {
        self.prepare_windows(requesters);
        let (mut lines, mut early) = (0.0, 0.0);
        for p in &self.terms {
            lines += p.cores / p.per_window;
            early += p.cores / p.per_window * p.early_ns;
        }
        (lines, if lines > 0.0 { early / lines } else { 0.0 })
    }

    /// Latency of the device as an open queue, at this bandwidth and these offered lines, whatever the
    /// requesters. Infinite above the device's capacity.
    pub fn latency_at_ns(
        &self,
        bytes_per_sec: f64,
        write_ratio: f64,
        is_non_temporal: bool,
        offered: OfferedLoad,
    ) -> f64 {
        let write_ratio = clamp_to(write_ratio, 1.0);
        let station = self.station(MixPoint::single_kind(write_ratio, is_non_temporal), offered);
        let all = clamp_to(bytes_per_sec, f64::MAX) / 64e9;
        let demand = Demand {
            all,
            reads: all * (1.0 - write_ratio),
            ..Demand::default()
        };
        let (u, _) = station.utilization(&demand);
        if u < 1.0 {
            self.idle_ns + station.loaded_ns(u)
        } else {
            f64::INFINITY
        }
    }

    /// The knee of a mix: the bandwidth with the largest ratio of bandwidth to latency (Kleinrock's
    /// power), below overload, at the present health. More bandwidth than this costs more in latency,
    /// relatively, than it brings.
    pub fn knee_bytes_per_sec(&self, write_ratio: f64, is_non_temporal: bool) -> f64 {
        let write_ratio = clamp_to(write_ratio, 1.0);
        let station = self.station(
            MixPoint::single_kind(write_ratio, is_non_temporal),
            OfferedLoad::default(),
        );
        let one = Demand {
            all: 1.0,
            reads: 1.0 - write_ratio,
            ..Demand::default()
        };
        let (u_per_line, _) = station.utilization(&one);
        let pow = |u: f64| u / (self.idle_ns + station.loaded_ns(u));
        // Power has one maximum: latency is its start plus terms, and the growth of each never slows below
        // a straight line once they matter. A grid finds it, thirds narrow it.
        let steps = 200u32;
        let grid = |n: u32| f64::from(n) / f64::from(steps);
        let best = (1..steps).max_by(|a, b| pow(grid(*a)).total_cmp(&pow(grid(*b))));
        let centre = best.unwrap_or(1);
        let (mut low, mut high) = (grid(centre - 1), grid(centre + 1));
        for _ in 0..60 {
            let third = (high - low) / 3.0;
            if pow(low + third) < pow(high - third) {
                low += third;
            } else {
                high -= third;
            }
        }
        0.5 * (low + high) / u_per_line * 64e9
    }

    /// Latency that a part `quantile` (0 to below 1) of the accesses stays below, nanoseconds: a
    /// lognormal body of the profile's `spread`, a gamma-distributed wait of the equilibrium's mean and
    /// deviation, and in a part `stall_ratio` of the accesses an exponential stall. About 100 µs.
    pub fn latency_quantile_ns(&self, at: &Equilibrium, quantile: f64) -> f64 {
        tail::quantile_ns(&self.profile.tail, at, quantile)
    }
}
