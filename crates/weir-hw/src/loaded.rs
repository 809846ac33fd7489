// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A memory device under load, in steady state: how long an access takes and how many lines each
//! kind of core gets, solved as a closed queueing network.
//!
//! # Equations
//!
//! A core of kind *i* has at most `Wᵢ` lines outstanding and needs `bᵢ` of its own time for each. At
//! latency `L` a line therefore costs it `tᵢ = max(bᵢ, L/Wᵢ)` (softened by the host's `serial_share`
//! towards the sum), and all cores together ask for `xᵢ = nᵢ/tᵢ`: *less* the longer it takes. The
//! device answers with
//!
//! ```text
//! L = L₀ + r·uᵖ + s·u / (2·(1−u))       u = max(reads/Cᵣ, writes/C_w, all/C_m)
//! ```
//!
//! the idle latency, a rise that begins with the first load, and the wait for work in progress in
//! units of a burst `s` (M/G/1 with `E[S²]/E[S] = s`): *more* the more is asked. The two meet at
//! exactly one latency. No cap is needed: when windows are full, `L = N·W·64/B` comes out.
//!
//! Two measured effects of many cores depend on the *offered* lines: those that would be out if an
//! access took [`OFFERED_AT_IDLES`] times the idle latency. Beyond `overload_from_lines` all capacities shrink, by
//! up to the mix's `overload_loss_ratio`; and write-backs queue outside the cores' windows, so that
//! `Wᵢ` grows by the mix's table `in_flight_lines`. Offered lines depend on the requesters alone, not
//! on the solution; so the solution stays unique.
//!
//! # Limits of the model
//!
//! Steady state only: no transient within the queue (microseconds). One latency for all: no
//! unfairness between cores, and reads wait as long as writes.

use crate::mix::{MixParts, MixPoint, Mixes};
use crate::profile::Profile;

/// Offered lines are those that would be out at this many times the idle latency: well past every
/// knee, so that cores that can fill the device count fully and nearly idle ones hardly.
pub const OFFERED_AT_IDLES: f64 = 4.0;

const CORES_MAX: f64 = 1e9;
const BUSY_NS_MAX: f64 = 1e12;
/// A smaller window than this is none.
const WINDOW_MIN: f64 = 1e-6;
const ITERATIONS_MAX: u32 = 80;
const TOLERANCE: f64 = 1e-10;
/// A mix that moved less than this between first guess and solution is not evaluated again.
const MIX_TOLERANCE: f64 = 1e-3;

/// Cores of one kind, that ask the device for lines.
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
    /// Whether its writes are non-temporal stores.
    pub is_non_temporal: bool,
}

/// How loaded the device says it is (CXL 3.1, 3.3.4: DevLoad), from the occupancy of its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DevLoad {
    /// At most a quarter of the queue is used.
    #[default]
    Light,
    /// At most half.
    Optimal,
    /// At most three quarters.
    ModerateOverload,
    /// More.
    SevereOverload,
}

impl DevLoad {
    /// The class of a queue whose `occupancy` (0 empty, 1 full) is known.
    pub fn of_occupancy(occupancy: f64) -> Self {
        if occupancy <= 0.25 {
            DevLoad::Light
        } else if occupancy <= 0.5 {
            DevLoad::Optimal
        } else if occupancy <= 0.75 {
            DevLoad::ModerateOverload
        } else {
            DevLoad::SevereOverload
        }
    }

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            DevLoad::Light => "light",
            DevLoad::Optimal => "optimal",
            DevLoad::ModerateOverload => "moderate-overload",
            DevLoad::SevereOverload => "severe-overload",
        }
    }
}

/// Where requesters and device meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Equilibrium {
    /// Mean latency of an access, nanoseconds.
    pub latency_ns: f64,
    /// Lines per second of one core, for each requester in the order given; of a kind without cores,
    /// what one would get.
    pub lines_per_sec: Vec<f64>,
    /// Bytes per second from the device.
    pub read_bytes_per_sec: f64,
    /// Bytes per second to the device.
    pub write_bytes_per_sec: f64,
    /// How busy the limiting part of the device is, 0 to 1.
    pub utilization: f64,
    /// Lines in flight.
    pub outstanding_lines: f64,
    /// What the device says of itself.
    pub devload: DevLoad,
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
    prepared: Vec<Prepared>,
}

/// A requester, checked, in the solver's terms.
#[derive(Clone, Copy, Debug, Default)]
struct Prepared {
    cores: f64,
    /// 1 / window, with 0 cores where the window is 0.
    per_window: f64,
    busy_ns: f64,
    /// 1 for an only-reading core, 0 for an only-writing one.
    read_ratio: f64,
    /// 4 · serial share · busy.
    serial: f64,
}

/// What the requesters ask for at some latency, lines per nanosecond, and how that changes with it.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    all: f64,
    reads: f64,
    all_slope: f64,
    reads_slope: f64,
}

/// Capacities for the requesters at hand, as nanoseconds per line, and the latency's parts.
#[derive(Clone, Copy, Debug)]
struct Station {
    read_ns: f64,
    write_ns: f64,
    media_ns: f64,
    parts: MixParts,
}

impl Prepared {
    fn of(requester: &Requester, window_max: f64, serial_share: f64) -> Self {
        let window = sane(requester.window_lines, window_max);
        let asks = window > WINDOW_MIN;
        let busy_ns = sane(requester.busy_ns, BUSY_NS_MAX);
        Prepared {
            cores: if asks {
                sane(requester.cores, CORES_MAX)
            } else {
                0.0
            },
            // A core that may have nothing outstanding waits for ever.
            per_window: 1.0 / window.max(WINDOW_MIN),
            busy_ns,
            read_ratio: 1.0 - sane(requester.write_ratio, 1.0),
            serial: 4.0 * serial_share * busy_ns,
        }
    }

    /// Time per line at a latency, and its derivative by the latency.
    #[inline]
    fn line_ns(&self, latency_ns: f64) -> (f64, f64) {
        let wait = latency_ns * self.per_window;
        let apart = self.busy_ns - wait;
        let root = (apart * apart + self.serial * wait).sqrt();
        let time = 0.5 * (self.busy_ns + wait + root);
        // Root 0 is the corner of the maximum: take the waiting side.
        let turn = if root > 0.0 {
            (0.5 * self.serial - apart) / root
        } else {
            1.0
        };
        (time, 0.5 * self.per_window * (1.0 + turn))
    }
}

/// Between 0 and `max`; NaN is 0.
fn sane(value: f64, max: f64) -> f64 {
    if value > 0.0 { value.min(max) } else { 0.0 }
}

impl Demand {
    #[inline]
    fn at(requesters: &[Prepared], latency_ns: f64) -> Self {
        let mut demand = Demand::default();
        for r in requesters {
            let (time, slope) = r.line_ns(latency_ns);
            let rate = r.cores / time;
            let change = -rate / time * slope;
            demand.all += rate;
            demand.reads += rate * r.read_ratio;
            demand.all_slope += change;
            demand.reads_slope += change * r.read_ratio;
        }
        demand
    }
}

impl Station {
    /// Demanded utilisation of the limiting part, may exceed 1, and its slope.
    #[inline]
    fn utilization(&self, demand: &Demand) -> (f64, f64) {
        let writes = demand.all - demand.reads;
        let parts = [
            (demand.all * self.media_ns, demand.all_slope * self.media_ns),
            (
                demand.reads * self.read_ns,
                demand.reads_slope * self.read_ns,
            ),
            (
                writes * self.write_ns,
                (demand.all_slope - demand.reads_slope) * self.write_ns,
            ),
        ];
        let larger = |a: (f64, f64), b: (f64, f64)| if b.0 > a.0 { b } else { a };
        larger(larger(parts[0], parts[1]), parts[2])
    }

    /// Latency above idle at a utilisation below 1.
    fn loaded_ns(&self, utilization: f64) -> f64 {
        let u = utilization.clamp(0.0, 1.0 - 1e-12);
        self.parts.rise_ns * u.powf(self.parts.rise_exponent)
            + 0.5 * self.parts.burst_ns * u / (1.0 - u)
    }
}

impl LoadedDevice {
    /// A device as calibrated.
    pub fn new(profile: &Profile) -> Self {
        let line_ns = |rate: Option<f64>| rate.map_or(0.0, |rate| 64e9 / rate);
        LoadedDevice {
            mixes: Mixes::new(profile),
            idle_ns: profile.device.idle_ns,
            read_ns_per_line: line_ns(profile.device.read_bytes_per_sec),
            write_ns_per_line: line_ns(profile.device.write_bytes_per_sec),
            health: 1.0,
            last_latency_ns: profile.device.idle_ns,
            prepared: Vec::with_capacity(16),
            profile: profile.clone(),
        }
    }

    /// Its profile.
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

    /// Solves for these requesters, into `out`. Allocates only when there are more requesters than
    /// ever before. Finite input gives finite output; figures out of range are taken as the nearest
    /// in it.
    pub fn solve(&mut self, requesters: &[Requester], out: &mut Equilibrium) {
        self.prepare(requesters);
        let offered_at_ns = OFFERED_AT_IDLES * self.idle_ns;
        let (mut mix, asked) = self.mix_at(requesters, offered_at_ns);
        let offered_lines = asked * offered_at_ns;
        for (r, prepared) in requesters.iter().zip(&mut self.prepared) {
            let ratio = 1.0 - prepared.read_ratio;
            prepared.per_window /= self.mixes.growth(ratio, r.is_non_temporal, offered_lines);
        }
        let mut station = self.station(mix, offered_lines);
        let mut latency_ns = self.meet(&station, self.last_latency_ns);
        let (solved, _) = self.mix_at(requesters, latency_ns);
        if mix_moved(mix, solved) {
            mix = solved;
            station = self.station(mix, offered_lines);
            latency_ns = self.meet(&station, latency_ns);
        }
        self.last_latency_ns = latency_ns;
        self.report(&station, latency_ns, out);
    }

    fn prepare(&mut self, requesters: &[Requester]) {
        let host = &self.profile.host;
        let of = |r: &Requester| Prepared::of(r, host.window_lines, host.serial_share);
        self.prepared.clear();
        self.prepared.extend(requesters.iter().map(of));
    }

    /// The mix asked for at a latency, and all of it in lines per nanosecond.
    fn mix_at(&self, requesters: &[Requester], latency_ns: f64) -> (MixPoint, f64) {
        let (mut all, mut writes, mut stores, mut store_writes) = (0.0, 0.0, 0.0, 0.0);
        for (r, prepared) in requesters.iter().zip(&self.prepared) {
            let rate = prepared.cores / prepared.line_ns(latency_ns).0;
            let written = rate * (1.0 - prepared.read_ratio);
            all += rate;
            if r.is_non_temporal {
                stores += rate;
                store_writes += written;
            } else {
                writes += written;
            }
        }
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let mix = MixPoint {
            write_ratio: ratio(writes, all - stores),
            non_temporal_ratio: ratio(stores, all),
            non_temporal_write_ratio: ratio(store_writes, stores),
        };
        (mix, all)
    }

    fn station(&self, mix: MixPoint, offered_lines: f64) -> Station {
        let parts = self.mixes.parts(mix);
        let device = &self.profile.device;
        let width = device.overload_to_lines - device.overload_from_lines;
        let overload = ((offered_lines - device.overload_from_lines) / width).clamp(0.0, 1.0);
        let slower = 1.0 / (self.health * (1.0 - parts.overload_loss * overload));
        Station {
            read_ns: self.read_ns_per_line * slower,
            write_ns: self.write_ns_per_line * slower,
            media_ns: slower / parts.media_lines_per_ns,
            parts,
        }
    }

    /// The latency at which demand and device agree: the root of `u_demand(L) − u_device(L)`, which
    /// falls everywhere. Newton's method inside a bracket.
    fn meet(&self, station: &Station, start_ns: f64) -> f64 {
        let half_burst = 0.5 * station.parts.burst_ns;
        let (mut low, mut high) = (self.idle_ns, f64::INFINITY);
        let mut latency = start_ns.max(low);
        for _ in 0..ITERATIONS_MAX {
            let demand = Demand::at(&self.prepared, latency);
            let (u, u_slope) = station.utilization(&demand);
            if u <= 0.0 {
                return self.idle_ns;
            }
            let (rise, rise_slope) = if u < 1.0 {
                let rise = station.parts.rise_ns * u.powf(station.parts.rise_exponent);
                (rise, rise * station.parts.rise_exponent / u * u_slope)
            } else {
                (station.parts.rise_ns, 0.0)
            };
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
                // A latency u times as long asks at least for all the device has: still too short.
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

    fn report(&self, station: &Station, latency_ns: f64, out: &mut Equilibrium) {
        let demand = Demand::at(&self.prepared, latency_ns);
        out.latency_ns = latency_ns;
        out.lines_per_sec.clear();
        out.lines_per_sec.extend(self.prepared.iter().map(|r| {
            let asks = r.per_window < 0.5 / WINDOW_MIN;
            if asks {
                1e9 / r.line_ns(latency_ns).0
            } else {
                0.0
            }
        }));
        out.read_bytes_per_sec = demand.reads * 64e9;
        out.write_bytes_per_sec = (demand.all - demand.reads).max(0.0) * 64e9;
        out.utilization = station.utilization(&demand).0.clamp(0.0, 1.0);
        out.outstanding_lines = demand.all * latency_ns;
        let waiting = demand.all * (latency_ns - self.idle_ns);
        out.devload = DevLoad::of_occupancy(waiting / self.profile.device.queue_lines);
    }

    /// Lines that these requesters would have out at [`OFFERED_AT_IDLES`] times the idle latency,
    /// what overload is counted in.
    pub fn offered_lines(&mut self, requesters: &[Requester]) -> f64 {
        self.prepare(requesters);
        let offered_at_ns = OFFERED_AT_IDLES * self.idle_ns;
        self.mix_at(requesters, offered_at_ns).1 * offered_at_ns
    }

    /// Lines that can be in flight at most: these requesters' windows, and the write-backs that
    /// queue outside of them.
    pub fn lines_in_flight_max(&mut self, requesters: &[Requester]) -> f64 {
        let offered_lines = self.offered_lines(requesters);
        let of = |(r, p): (&Requester, &Prepared)| {
            let growth = self
                .mixes
                .growth(1.0 - p.read_ratio, r.is_non_temporal, offered_lines);
            p.cores / p.per_window * growth
        };
        requesters.iter().zip(&self.prepared).map(of).sum()
    }

    /// Latency of the open device: at these bandwidths and offered lines, whoever asks. Infinite
    /// where the bandwidths are more than the device has.
    pub fn latency_at_ns(
        &self,
        bytes_per_sec: f64,
        write_ratio: f64,
        is_non_temporal: bool,
        offered_lines: f64,
    ) -> f64 {
        let write_ratio = sane(write_ratio, 1.0);
        let station = self.station(pure(write_ratio, is_non_temporal), offered_lines);
        let all = sane(bytes_per_sec, f64::MAX) / 64e9;
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
        let write_ratio = sane(write_ratio, 1.0);
        let station = self.station(pure(write_ratio, is_non_temporal), 0.0);
        let one = Demand {
            all: 1.0,
            reads: 1.0 - write_ratio,
            ..Demand::default()
        };
        let (u_per_line, _) = station.utilization(&one);
        let power = |u: f64| u / (self.idle_ns + station.loaded_ns(u));
        // Power has one maximum: latency is its start plus terms whose growth never slows below
        // a straight line once they matter. A grid finds it, thirds narrow it.
        let steps = 200u32;
        let grid = |n: u32| f64::from(n) / f64::from(steps);
        let best = (1..steps).max_by(|a, b| power(grid(*a)).total_cmp(&power(grid(*b))));
        let centre = best.unwrap_or(1);
        let (mut low, mut high) = (grid(centre - 1), grid(centre + 1));
        for _ in 0..60 {
            let third = (high - low) / 3.0;
            if power(low + third) < power(high - third) {
                low += third;
            } else {
                high -= third;
            }
        }
        0.5 * (low + high) / u_per_line * 64e9
    }

    /// Latency that a part `quantile` (0 to below 1) of the accesses stays below, nanoseconds. The
    /// mean of the distribution is the equilibrium's latency: a lognormal body of the profile's
    /// `spread`, and in a part `stall_ratio` of the accesses an exponential stall on top.
    pub fn latency_quantile_ns(&self, at: &Equilibrium, quantile: f64) -> f64 {
        crate::tail::quantile_ns(&self.profile.tail, at.latency_ns, quantile)
    }
}

/// A mix of one kind of requester.
fn pure(write_ratio: f64, is_non_temporal: bool) -> MixPoint {
    MixPoint {
        write_ratio,
        non_temporal_ratio: f64::from(u8::from(is_non_temporal)),
        non_temporal_write_ratio: write_ratio,
    }
}

fn mix_moved(a: MixPoint, b: MixPoint) -> bool {
    let moved = |a: f64, b: f64| (a - b).abs() > MIX_TOLERANCE;
    moved(a.write_ratio, b.write_ratio)
        || moved(a.non_temporal_ratio, b.non_temporal_ratio)
        || moved(a.non_temporal_write_ratio, b.non_temporal_write_ratio)
}
