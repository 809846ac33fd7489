// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From measured curves to the figures of a profile. What can be read off a row is read off (idle
//! latency, window, lines in flight, the loader's own time); the shape of the curve is fitted.

use crate::measured::{COMPARED_BELOW, Curve, Row, active_threads, assess};
use crate::simplex::minimise;
use weir_core::units::geometric_mean;
use weir_hw::memory_device::mlc_sweep::{self, DELAYS, LoadMix};
use weir_hw::memory_device::{Equilibrium, LoadedDevice};
use weir_hw::memory_device::{MixFigures, Profile};

/// Mixes by rising write ratio, non-temporal stores last: the order of a profile.
const ORDER: [LoadMix; 5] = [
    LoadMix::Reads,
    LoadMix::ThreeToOne,
    LoadMix::TwoToOne,
    LoadMix::OneToOne,
    LoadMix::NtWrites,
];
/// A line per core may differ this much between core counts and still be one window.
const SAME_WINDOW: f64 = 1.1;
/// With less than this part of the lines per core of a few cores, many cores share their entries.
const SHARED_BELOW: f64 = 0.8;
/// Own time of one non-temporal store at delay 0, nanoseconds: one thread alone writes 21.8 GB/s, two
/// write twice that (artefact, data/cxl/log_d0_c1_w6_r0). More threads hide it behind the device.
const STORE_NS: f64 = 2.94;
/// The most threads that were measured: overload costs all it can.
const THREADS_MOST: f64 = 46.0;
const SERIAL_SHARES: [f64; 7] = [0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4];

/// Fits the profile of one device of the file. `base` gives what the file says nothing about.
pub fn fit(base: &Profile, device: &str, curves: &[Curve]) -> Profile {
    let mine = of_device(device, curves);
    let mut best: Option<(f64, Profile)> = None;
    for share in SERIAL_SHARES {
        let profile = fit_with(base, share, &mine, curves);
        let error = delay_error(&profile, &mine, curves);
        if best.as_ref().is_none_or(|b| error < b.0) {
            best = Some((error, profile));
        }
    }
    best.expect("at least one share is tried").1
}

pub fn of_device(device: &str, curves: &[Curve]) -> Vec<Curve> {
    curves
        .iter()
        .filter(|c| c.device == device)
        .cloned()
        .collect()
}

/// The same for one serial share.
pub fn fit_with(base: &Profile, share: f64, mine: &[Curve], all: &[Curve]) -> Profile {
    let mut profile = base.clone();
    profile.host.serial_share = share;
    read_off(&mut profile, mine, all);
    for mix in ORDER {
        shape(&mut profile, mix, mine, all);
    }
    settle_media(&mut profile);
    round(&mut profile);
    profile
}

/// Mean error of latency and bandwidth per delay, over all curves.
fn delay_error(profile: &Profile, mine: &[Curve], all: &[Curve]) -> f64 {
    let of = |curve: &Curve| {
        let verdict = assess(profile, curve, active_threads(curve, all));
        verdict.delay_latency[0] + verdict.delay_bandwidth[0]
    };
    mine.iter().map(of).sum::<f64>() / mine.len() as f64
}

/// Cores that were active in a curve.
fn cores(profile: &Profile, curve: &Curve, all: &[Curve]) -> f64 {
    active_threads(curve, all).min(f64::from(profile.host.cores))
}

fn in_flight(row: &Row) -> f64 {
    row.bytes_per_sec * row.latency_ns / 64e9
}

fn read_off(profile: &mut Profile, mine: &[Curve], all: &[Curve]) {
    let latencies = mine.iter().flat_map(|c| &c.rows).map(|row| row.latency_ns);
    profile.device.idle_ns = latencies.fold(f64::INFINITY, f64::min);
    let reads = mine.iter().filter(|c| c.mix == LoadMix::Reads);
    let windows: Vec<f64> = reads
        .map(|c| (in_flight(&c.rows[0]) - 1.0) / cores(profile, c, all))
        .collect();
    let (low, high) = windows
        .iter()
        .fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), w| {
            (low.min(*w), high.max(*w))
        });
    let one_window = high / low < SAME_WINDOW;
    profile.host.window_lines = if one_window {
        windows.iter().sum::<f64>() / windows.len() as f64
    } else {
        windows[0]
    };
    let window = profile.host.window_lines;
    profile.device.overload_from_lines = 16.0 * window;
    profile.device.overload_to_lines = THREADS_MOST * window;
    for mix in ORDER {
        bounds(profile, mix, mine, all);
    }
    for mix in ORDER {
        let table = loader_table(profile, mix, all);
        figures(profile, mix).loader_ns = table;
    }
    profile.host.smt_pace = smt_pace(profile, all);
}

fn figures(profile: &mut Profile, mix: LoadMix) -> &mut MixFigures {
    let n = ORDER.iter().position(|m| *m == mix).expect("listed");
    &mut profile.mix[n]
}

/// Bounds of a mix at delay 0. Curves with a core for the probe alone give the window and the shared part;
/// the curve with more threads than cores gives how much longer its probe waits.
fn bounds(profile: &mut Profile, mix: LoadMix, mine: &[Curve], all: &[Curve]) {
    let cores_max = f64::from(profile.host.cores);
    let of_mix = || mine.iter().filter(|c| c.mix == mix);
    let is_alone = |c: &&Curve| c.threads <= profile.host.cores && is_whole(c, all);
    let mut alone: Vec<(f64, Row)> = of_mix()
        .filter(is_alone)
        .map(|c| (f64::from(c.threads), c.rows[0]))
        .collect();
    alone.sort_by(|a, b| a.0.total_cmp(&b.0));
    let figures = figures(profile, mix);
    let reads = 1.0 - mix.write_ratio();
    if mix.is_non_temporal() {
        figures.shared_lines = Some(mean_of(alone.iter().map(|a| in_flight(&a.1))));
    } else {
        window(figures, &alone, reads);
    }
    let Some(crowded) = of_mix().find(|c| f64::from(c.threads) > cores_max) else {
        return;
    };
    let row = crowded.rows[0];
    let window_lines = figures
        .read_window_lines
        .map(|lines| lines / reads * cores_max);
    let held = figures
        .shared_lines
        .or(window_lines)
        .expect("one of them was set");
    let device_ns = (held + 1.0) * 64e9 / row.bytes_per_sec + figures.early_ns;
    figures.probe_wait_ratio = (row.latency_ns / device_ns - 1.0).max(0.0);
}

fn is_whole(curve: &Curve, all: &[Curve]) -> bool {
    active_threads(curve, all) == f64::from(curve.threads)
}

fn mean_of(values: impl IntoIterator<Item = f64>) -> f64 {
    geometric_mean(values).unwrap_or(f64::NAN)
}

/// Reads that a core has out, from few cores and from many: at few a core waits little and at many
/// long, so that the two also show how early a place is free. Where even that leaves many too few,
/// they share.
fn window(figures: &mut MixFigures, alone: &[(f64, Row)], reads: f64) {
    let (few_cores, many_cores) = (alone[0].0, alone[alone.len() - 1].0);
    // (reads per nanosecond and core, latency)
    let mean = |cores: f64| {
        let rows = alone.iter().filter(|a| a.0 == cores);
        let pairs: Vec<(f64, f64)> = rows
            .map(|a| (a.1.bytes_per_sec / 64e9 * reads / cores, a.1.latency_ns))
            .collect();
        (
            mean_of(pairs.iter().map(|p| p.0)),
            mean_of(pairs.iter().map(|p| p.1)),
        )
    };
    let (few, many) = (mean(few_cores), mean(many_cores));
    let (of_few, of_many) = (few.0 * few.1, many.0 * many.1);
    figures.shared_lines = None;
    figures.early_ns = 0.0;
    if of_many < SHARED_BELOW * of_few {
        figures.read_window_lines = Some(of_few);
        figures.shared_lines = Some(of_many * many_cores / reads);
        return;
    }
    figures.early_ns = ((of_few - of_many) / (few.0 - many.0)).max(0.0);
    let left = |(rate, latency): (f64, f64)| rate * (latency - figures.early_ns);
    figures.read_window_lines = Some(mean_of([left(few), left(many)]));
}

/// A core's own time per line at each delay, from the row where it was least hidden by waiting.
fn loader_table(profile: &Profile, mix: LoadMix, all: &[Curve]) -> Vec<[f64; 2]> {
    let own_ns = if mix.is_non_temporal() { STORE_NS } else { 0.0 };
    let mut table = vec![[0.0, own_ns]];
    for delay in DELAYS.into_iter().skip(1) {
        let mut best: Option<(f64, f64)> = None;
        for curve in all.iter().filter(|c| c.mix == mix && c.threads <= 16) {
            // The other device's windows are not ours: only its unhidden rows say something.
            let least = if curve.profile_name() == profile.name {
                1.1
            } else {
                2.5
            };
            let Some(row) = curve.rows.iter().find(|row| row.delay == delay) else {
                continue;
            };
            let threads = active_threads(curve, all);
            let full = curve.rows.iter().map(in_flight).fold(0.0, f64::max) / threads;
            let (time, wait) = (64e9 / curve.per_thread(row, threads), row.latency_ns / full);
            // Near the device's capacity a core waits for the device and not for itself.
            let capacity = all
                .iter()
                .filter(|c| c.device == curve.device && c.mix == mix);
            let capacity = capacity.map(Curve::peak).fold(0.0, f64::max);
            let unhidden = row.bytes_per_sec < 0.85 * capacity && time > least * wait;
            if unhidden && best.is_none_or(|b| time / wait > b.0) {
                let apart = time - wait * (1.0 - profile.host.serial_share);
                best = Some((time / wait, time * (time - wait) / apart));
            }
        }
        let before = table[table.len() - 1];
        if let Some((_, busy)) = best.filter(|b| b.1 > before[1]) {
            table.push([f64::from(delay), busy]);
        }
    }
    table
}

/// How much slower a core's own work is with two threads on it: median over the light rows.
fn smt_pace(profile: &Profile, all: &[Curve]) -> f64 {
    let mut paces = Vec::new();
    for curve in all.iter().filter(|c| c.threads > profile.host.cores) {
        let table = &curve.mix.figures(profile).loader_ns;
        for row in curve
            .rows
            .iter()
            .filter(|r| (700..=5000).contains(&r.delay))
        {
            let alone = table.iter().find(|p| p[0] == f64::from(row.delay));
            let time = 64e9 / curve.per_thread(row, f64::from(profile.host.cores));
            let light = row.bytes_per_sec < 0.5 * curve.peak();
            paces.extend(alone.filter(|_| light).map(|p| time / p[1]));
        }
    }
    paces.sort_by(f64::total_cmp);
    paces.get(paces.len() / 2).copied().unwrap_or(1.0)
}

/// Which capacity limits a mix alone.
fn capacity(profile: &mut Profile, mix: LoadMix) -> &mut f64 {
    let directions = profile.device.read_bytes_per_sec.is_some();
    match mix {
        LoadMix::Reads if directions => profile.device.read_bytes_per_sec.get_or_insert_default(),
        LoadMix::NtWrites if directions => {
            profile.device.write_bytes_per_sec.get_or_insert_default()
        }
        _ => &mut figures(profile, mix).media_bytes_per_sec,
    }
}

/// Fits the five figures that shape a mix's curve.
fn shape(profile: &mut Profile, mix: LoadMix, mine: &[Curve], all: &[Curve]) {
    let curves: Vec<(&Curve, f64)> = mine
        .iter()
        .filter(|c| c.mix == mix)
        .map(|c| (c, active_threads(c, all)))
        .collect();
    let peak = curves.iter().map(|c| c.0.peak()).fold(0.0, f64::max);
    // Without more cores than saturate the device nothing is known of what overload costs.
    let past_the_wall = curves.iter().any(|c| c.1 > 16.0);
    let apply = |profile: &mut Profile, x: &[f64; 5]| {
        let m = figures(profile, mix);
        m.rise_ns = x[0].exp().clamp(0.01, 1e5);
        m.rise_exponent = x[1].exp().clamp(0.1, 4.0);
        // A line at a time is the least.
        m.burst_ns = x[2].exp().clamp(64e9 / peak, 1e4);
        m.overload_loss_ratio = if past_the_wall {
            (x[4] * 0.05).clamp(0.0, 0.5)
        } else {
            0.0
        };
        // Other capacities must not bind while this one is fitted.
        m.media_bytes_per_sec = 1e12;
        *capacity(profile, mix) = peak * (1.0 + x[3].clamp(0.0, 8.0) * 0.05);
    };
    let mut trial = profile.clone();
    let mut cost = |x: &[f64; 5]| {
        apply(&mut trial, x);
        let outside = |v: f64, low: f64, high: f64| (low - v).max(v - high).max(0.0);
        let bounds = outside(x[1], -2.3, 1.38) + outside(x[3], 0.0, 8.0) + outside(x[4], 0.0, 10.0);
        bounds
            + curves
                .iter()
                .map(|(c, t)| curve_cost(&trial, c, *t))
                .sum::<f64>()
    };
    let mut best = [80f64.ln(), 0.5f64.ln(), 20f64.ln(), 0.3, 1.0];
    for step in [0.7, 0.4, 0.2, 0.1] {
        best = minimise(&mut cost, best, step, 400);
    }
    apply(profile, &best);
}

/// Mean square error below the peak, large ones counted more, and of bandwidth at saturation.
fn curve_cost(profile: &Profile, curve: &Curve, threads: f64) -> f64 {
    let mut device = LoadedDevice::new(profile);
    let (ratio, stores) = (curve.mix.write_ratio(), curve.mix.is_non_temporal());
    let (mut sum, mut rows) = (0.0, 0.0);
    let limit = COMPARED_BELOW * curve.peak();
    for row in curve.rows.iter().filter(|row| row.bytes_per_sec < limit) {
        let requesters = mlc_sweep::requesters(profile, threads, curve.mix, row.delay);
        let offered = device.offered(&requesters);
        let open = device.latency_at_ns(row.bytes_per_sec, ratio, stores, offered);
        let latency_ns = open.min(device.full_at_ns(&requesters, row.bytes_per_sec));
        let fullness = device.fullness(&requesters, row.bytes_per_sec, latency_ns);
        let factor = mlc_sweep::probe_factor(profile, threads, curve.mix, fullness);
        let error = (latency_ns * factor / row.latency_ns - 1.0).clamp(-2.0, 2.0);
        sum += error * error + 10.0 * (error.abs() - 0.08).max(0.0).powi(2);
        rows += 1.0;
    }
    let mut out = Equilibrium::default();
    device.solve(
        &mlc_sweep::requesters(profile, threads, curve.mix, 0),
        &mut out,
    );
    let saturated = out.bytes_per_sec() / curve.rows[0].bytes_per_sec - 1.0;
    sum / rows + 2.0 * saturated * saturated
}

/// Where directions limit a mix alone, what its memory could do is not seen: the most that any mix
/// showed.
fn settle_media(profile: &mut Profile) {
    if profile.device.read_bytes_per_sec.is_none() {
        return;
    }
    let seen = |mix: LoadMix| mix.figures(profile).media_bytes_per_sec;
    let (nearest_reads, nearest_stores) = (seen(LoadMix::ThreeToOne), seen(LoadMix::OneToOne));
    figures(profile, LoadMix::Reads).media_bytes_per_sec = nearest_reads;
    figures(profile, LoadMix::NtWrites).media_bytes_per_sec = nearest_stores;
}

/// Four digits are kept: more would be noise.
fn round(profile: &mut Profile) {
    let four = |value: &mut f64| {
        if *value != 0.0 {
            let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
            *value = (*value * scale).round() / scale;
        }
    };
    for value in [&mut profile.host.window_lines, &mut profile.host.smt_pace] {
        four(value);
    }
    let device = &mut profile.device;
    for value in [
        &mut device.overload_from_lines,
        &mut device.overload_to_lines,
    ] {
        four(value);
    }
    device
        .read_bytes_per_sec
        .iter_mut()
        .chain(&mut device.write_bytes_per_sec)
        .for_each(four);
    for mix in &mut profile.mix {
        for value in [
            &mut mix.media_bytes_per_sec,
            &mut mix.rise_ns,
            &mut mix.rise_exponent,
            &mut mix.burst_ns,
            &mut mix.overload_loss_ratio,
        ] {
            four(value);
        }
        four(&mut mix.early_ns);
        four(&mut mix.probe_wait_ratio);
        let lines = mix.read_window_lines.iter_mut();
        lines.chain(&mut mix.shared_lines).for_each(four);
        mix.loader_ns.iter_mut().flatten().for_each(four);
    }
}
