// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loaded-latency curve of a profile, as Intel MLC measures it: loading threads that wait a
//! given delay between their accesses, and one more core that follows a chain of pointers. The latency of
//! that core is reported. One point per delay, from full load to nearly none.

use crate::memory_device::closed_network::{Equilibrium, LoadedDevice, Requester};
use crate::memory_device::devload::DevLoad;
use crate::memory_device::profile::{MixFigures, Profile};

/// MLC's own delays, from full load to nearly none.
pub const DELAYS: [u32; 19] = [
    0, 2, 8, 15, 50, 100, 200, 300, 400, 500, 700, 1000, 1300, 1700, 2500, 3500, 5000, 9000, 20_000,
];

/// Access mix of the loading threads: the mixes of MLC that profiles are calibrated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadMix {
    /// Reads only (`-W0`).
    Reads,
    /// Two lines read for one written (`-W2`).
    TwoToOne,
    /// Three lines read for one written (`-W3`).
    ThreeToOne,
    /// One line is written for each line that is read (`-W5`).
    OneToOne,
    /// Non-temporal stores only (`-W6`).
    NtWrites,
}

impl LoadMix {
    pub const ALL: [LoadMix; 5] = [
        LoadMix::Reads,
        LoadMix::TwoToOne,
        LoadMix::ThreeToOne,
        LoadMix::OneToOne,
        LoadMix::NtWrites,
    ];

    /// Its name, as in `--mix`.
    pub fn name(self) -> &'static str {
        match self {
            LoadMix::Reads => "reads",
            LoadMix::TwoToOne => "2:1",
            LoadMix::ThreeToOne => "3:1",
            LoadMix::OneToOne => "1:1",
            LoadMix::NtWrites => "nt-writes",
        }
    }

    /// Part of the lines that are writes.
    pub fn write_ratio(self) -> f64 {
        match self {
            LoadMix::Reads => 0.0,
            LoadMix::TwoToOne => 1.0 / 3.0,
            LoadMix::ThreeToOne => 0.25,
            LoadMix::OneToOne => 0.5,
            LoadMix::NtWrites => 1.0,
        }
    }

    pub fn is_non_temporal(self) -> bool {
        self == LoadMix::NtWrites
    }

    /// The figures of a profile that were measured nearest to this mix.
    pub fn figures(self, profile: &Profile) -> &MixFigures {
        let kind = |mix: &&MixFigures| mix.non_temporal == self.is_non_temporal();
        let distance = |mix: &MixFigures| (mix.write_ratio - self.write_ratio()).abs();
        let nearer = |a: &&MixFigures, b: &&MixFigures| distance(a).total_cmp(&distance(b));
        let nearest = profile.mix.iter().filter(kind).min_by(nearer);
        // A profile without non-temporal figures answers with its nearest other mix.
        nearest.unwrap_or_else(|| &profile.mix[profile.mix.len() - 1])
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepPoint {
    /// Injected delay, in MLC's unit.
    pub delay: u32,
    /// Both directions together, the probe's own accesses included.
    pub bandwidth_bytes_per_sec: f64,
    pub latency_ns: f64,
    /// How busy the limiting part of the device is, 0 to 1.
    pub utilization: f64,
    pub devload: DevLoad,
}

/// The loading threads and the probe at one delay. `threads` may be a fraction, where a measurement
/// shows that not all threads loaded the device all the time.
pub fn requesters(profile: &Profile, threads: f64, mix: LoadMix, delay: u32) -> [Requester; 2] {
    let figures = mix.figures(profile);
    let (cores, pace) = cores_and_pace(profile, threads);
    let loading = Requester {
        cores,
        window_lines: profile.host.window_lines,
        busy_ns: loader_ns(figures, f64::from(delay)) * pace,
        write_ratio: mix.write_ratio(),
        is_non_temporal: mix.is_non_temporal(),
        threads_per_core: threads / cores.max(f64::MIN_POSITIVE),
    };
    let probe = Requester {
        cores: 1.0,
        window_lines: 1.0,
        ..Requester::default()
    };
    [loading, probe]
}

/// Cores that so many threads keep busy, and how much slower each does its own work. Up to the
/// number of cores each thread has one; up to twice that they share; above that, more cores of the same
/// kind are assumed, all of them shared.
fn cores_and_pace(profile: &Profile, threads: f64) -> (f64, f64) {
    let cores = f64::from(profile.host.cores);
    let shared = (threads / cores - 1.0).clamp(0.0, 1.0);
    let pace = 1.0 + (profile.host.smt_pace - 1.0) * shared;
    (threads.min(cores).max(threads / 2.0), pace)
}

/// The probe waits by this power of how full the windows are: only a core without a free place lets it
/// wait.
const FULL_POWER: i32 = 16;

/// The factor by which the probe's latency is longer than the device's. With more threads than cores one of
/// them runs on the probe's own core, and the probe's load waits for a place behind its stores.
///
/// Without this factor the worst error on held-out curves is 67.9 %, and 21.5 % with it
/// (docs/evidence/device-model.md, "Each mechanism").
pub fn probe_factor(profile: &Profile, threads: f64, mix: LoadMix, fullness: f64) -> f64 {
    if threads <= f64::from(profile.host.cores) {
        return 1.0;
    }
    1.0 + mix.figures(profile).probe_wait_ratio * fullness.powi(FULL_POWER)
}

/// A core's own time per line at a delay.
fn loader_ns(figures: &MixFigures, delay: f64) -> f64 {
    let points = &figures.loader_ns;
    let after = points.partition_point(|point| point[0] <= delay);
    match (
        after.checked_sub(1).and_then(|n| points.get(n)),
        points.get(after),
    ) {
        (Some(a), Some(b)) => a[1] + (b[1] - a[1]) * (delay - a[0]) / (b[0] - a[0]),
        (Some(last), None) if last[0] > 0.0 => last[1] * delay / last[0],
        (Some(only), None) | (None, Some(only)) => only[1],
        (None, None) => 0.0,
    }
}

pub fn curve(profile: &Profile, threads: f64, mix: LoadMix, delays: &[u32]) -> Vec<SweepPoint> {
    let mut device = LoadedDevice::new(profile);
    let mut out = Equilibrium::default();
    let mut point = |delay: &u32| {
        let loads = requesters(profile, threads, mix, *delay);
        device.solve(&loads, &mut out);
        let fullness = device.fullness(&loads, out.bytes_per_sec(), out.latency_ns);
        let factor = probe_factor(profile, threads, mix, fullness);
        SweepPoint {
            delay: *delay,
            bandwidth_bytes_per_sec: out.bytes_per_sec(),
            latency_ns: out.latency_ns * factor,
            utilization: out.utilization,
            devload: out.devload,
        }
    };
    delays.iter().map(&mut point).collect()
}
