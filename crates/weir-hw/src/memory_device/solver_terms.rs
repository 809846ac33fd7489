// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The terms of the equations of [`super::closed_network`]: request rates at a latency, and the capacities
//! of a device.

use crate::memory_device::closed_network::Requester;
use crate::memory_device::rw_mix::{MixParts, MixPoint};

const CORES_MAX: f64 = 1e9;
const THREADS_MAX: f64 = 64.0;
const BUSY_NS_MAX: f64 = 1e12;
/// A smaller window than this is none.
const WINDOW_MIN: f64 = 1e-6;

/// A requester, checked, in the solver's terms.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequesterTerms {
    pub cores: f64,
    /// 1 / window, with 0 cores where the window is 0.
    pub per_window: f64,
    pub busy_ns: f64,
    /// 1 for an only-reading core, 0 for an only-writing one.
    pub read_ratio: f64,
    /// 4 · serial share · busy.
    pub serial: f64,
    /// Hardware threads on each core, at least one.
    pub threads: f64,
    /// A place in the window is free again this much before a line's latency is over.
    pub early_ns: f64,
}

/// Rates requested at some latency, lines per nanosecond, and their derivatives by the latency.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Demand {
    pub all: f64,
    pub reads: f64,
    pub all_slope: f64,
    pub reads_slope: f64,
}

/// Rates requested by all requesters together, lines per nanosecond, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestRates {
    pub all: f64,
    /// Written by requesters with allocating stores.
    pub writes: f64,
    /// All lines of requesters with non-temporal stores, and those of them that are writes.
    pub stores: f64,
    pub store_writes: f64,
}

impl RequestRates {
    #[inline]
    pub fn add(&mut self, rate: f64, read_ratio: f64, is_non_temporal: bool) {
        let written = rate * (1.0 - read_ratio);
        self.all += rate;
        if is_non_temporal {
            self.stores += rate;
            self.store_writes += written;
        } else {
            self.writes += written;
        }
    }

    pub fn mix(&self) -> MixPoint {
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        MixPoint {
            write_ratio: ratio(self.writes, self.all - self.stores),
            non_temporal_ratio: ratio(self.stores, self.all),
            non_temporal_write_ratio: ratio(self.store_writes, self.stores),
        }
    }
}

/// Capacities for the requesters at hand, as nanoseconds per line, and the latency's parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Station {
    pub read_ns: f64,
    pub write_ns: f64,
    pub media_ns: f64,
    pub parts: MixParts,
}

impl RequesterTerms {
    pub fn of(requester: &Requester, window_max: f64, serial_share: f64) -> Self {
        let window = clamp_to(requester.window_lines, window_max);
        let has_window = window > WINDOW_MIN;
        let busy_ns = clamp_to(requester.busy_ns, BUSY_NS_MAX);
        RequesterTerms {
            cores: if has_window {
                clamp_to(requester.cores, CORES_MAX)
            } else {
                0.0
            },
            // A core that may have nothing outstanding waits for ever.
            per_window: 1.0 / window.max(WINDOW_MIN),
            busy_ns,
            read_ratio: 1.0 - clamp_to(requester.write_ratio, 1.0),
            serial: 4.0 * serial_share * busy_ns,
            threads: clamp_to(requester.threads_per_core, THREADS_MAX).max(1.0),
            early_ns: 0.0,
        }
    }

    /// Whether it may have anything outstanding.
    pub fn has_window(&self) -> bool {
        self.per_window < 0.5 / WINDOW_MIN
    }

    /// Time per line at a latency, and its derivative by the latency.
    #[inline]
    pub fn line_ns(&self, latency_ns: f64) -> (f64, f64) {
        let wait = (latency_ns - self.early_ns).max(0.0) * self.per_window;
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

pub(crate) fn clamp_to(value: f64, max: f64) -> f64 {
    if value > 0.0 { value.min(max) } else { 0.0 }
}

impl Demand {
    #[inline]
    pub fn at(requesters: &[RequesterTerms], latency_ns: f64) -> Self {
        let mut demand = Demand::default();
        for r in requesters {
            let (time, slope) = r.line_ns(latency_ns);
            let per_time = 1.0 / time;
            let rate = r.cores * per_time;
            let change = -rate * per_time * slope;
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
    pub fn utilization(&self, demand: &Demand) -> (f64, f64) {
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
    pub fn loaded_ns(&self, utilization: f64) -> f64 {
        let u = utilization.clamp(0.0, 1.0 - 1e-12);
        self.parts.rise_ns * u.powf(self.parts.rise_exponent)
            + 0.5 * self.parts.burst_ns * u / (1.0 - u)
    }
}
