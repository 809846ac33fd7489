// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is the knee found? Random devices, measured at MLC's 19 loads and where the search asks for more, against
//! the model's own knee.

use super::context::{EvalContext, command, number, text};
use anyhow::Result;
use serde_json::json;
use weir_core::knee::{self, LoadPoint};
use weir_core::random::SplitMix;
use weir_core::units::GIB;
use weir_core::{BytesPerSec, Nanos};
use weir_figures::text::signed_percent;
use weir_figures::{Cell, CellKind, Part, Section, Table};
use weir_hw::memory_device::Profile;
use weir_hw::memory_device::mlc_sweep::{DELAYS, LoadMix, curve};

const TITLE: &str = "Is the knee found?";
const DEVICES: u64 = 20;
/// Loads between MLC's that a search may ask for.
const MORE_MAX: usize = 8;
/// Standard deviation of the measured latencies in the second try, relative.
const NOISE: f64 = 0.02;
/// A knee this close counts as found.
const NEAR: f64 = 0.05;

pub fn knee(context: &mut EvalContext) -> Result<Section> {
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    let (mut found, mut within) = ([0, 0], [0, 0]);
    for number_of in 0..DEVICES {
        let mut random = SplitMix::new(number_of + 1);
        let (profile, threads, mix) = device(&mut random)?;
        let truth = true_knee(&profile, threads, mix);
        let exact = measure(&profile, threads, mix, 0.0, &mut random);
        let noisy = measure(&profile, threads, mix, NOISE, &mut random);
        let mut row = vec![
            Cell::words(format!("{}", number_of + 1)),
            Cell::words(profile.title.clone()),
            Cell::words(mix.name()),
            number(threads, 0),
            number(truth / GIB, 2),
        ];
        let mut errors = Vec::new();
        for (n, points) in [exact, noisy].iter().enumerate() {
            let (cell, error) = tried(points, truth);
            found[n] += usize::from(error.is_some());
            within[n] += usize::from(error.is_some_and(|e| e.abs() <= NEAR));
            errors.push(error);
            row.push(cell);
        }
        rows.push(row);
        figures.push(json!({
            "seed": number_of + 1, "profile": profile.title, "mix": mix.name(), "threads": threads,
            "knee_bytes_per_sec": truth, "error_ratio": errors[0], "error_ratio_with_noise": errors[1],
        }));
    }
    context.figures.insert("knee", figures.into());
    let all = usize::try_from(DEVICES)?;
    context.show(
        TITLE,
        "knee of random devices, read/write mixes included",
        "within 5 % of the model's own, 20 of 20",
        format!("{} of {DEVICES}; with noise {}", within[0], within[1]),
        within == [all, all],
    );
    let parts = vec![
        text(about(found, within)),
        Part::Table(Table::new(
            "Error of the knee",
            &[
                "",
                "device",
                "mix",
                "threads",
                "knee, GiB/s",
                "error",
                "error with noise",
            ],
            rows,
        )),
        command("weir-lab thesis"),
    ];
    Ok(Section::new("knee", TITLE, parts))
}

/// What was done, and how often the knee was found: without noise, and with.
fn about(found: [usize; 2], within: [usize; 2]) -> String {
    format!(
        "The knee is where bandwidth ÷ latency is largest (weir_core::knee). {DEVICES} devices are drawn around the calibrated profiles: idle latency, \
             bandwidth, rise and burst each between 0.6 and 1.6 times theirs. Each is measured at MLC's {} loads, then at up to {MORE_MAX} between them where the search asks for one (weir_core::knee::next_load): MLC's \
             lie up to 40 % apart, and the knee of a device with a wall lies between two of them. The model's own knee comes from two \
             thousand loads. Without noise {} of {DEVICES} are found within 5 % ({} answered); with {:.0} % of noise on each latency {} ({} answered).",
        DELAYS.len(),
        within[0],
        found[0],
        NOISE * 1e2,
        within[1],
        found[1],
    )
}

/// Searches; the error as a cell, and as a number if there was an answer.
fn tried(points: &[LoadPoint], truth: f64) -> (Cell, Option<f64>) {
    let found = match knee::find(points) {
        Ok(found) => found,
        Err(why) => return (Cell::long(why.to_string()), None),
    };
    let error = found.bytes_per_sec.get() / truth - 1.0;
    let kind = if error.abs() <= NEAR {
        CellKind::Met
    } else {
        CellKind::Missed
    };
    (Cell::new(signed_percent(error), kind), Some(error))
}

fn device(random: &mut SplitMix) -> Result<(Profile, f64, LoadMix)> {
    let names = Profile::names();
    let base = names[place(random, names.len())];
    let mut profile = Profile::named(base)?;
    let mut factor = || 0.6 * (1.6f64 / 0.6).powf(random.unit());
    let (idle, rate, rise, burst) = (factor(), factor(), factor(), factor());
    profile.device.idle_ns *= idle;
    for direction in [
        &mut profile.device.read_bytes_per_sec,
        &mut profile.device.write_bytes_per_sec,
    ] {
        *direction = direction.map(|d| d * rate);
    }
    for mix in &mut profile.mix {
        mix.media_bytes_per_sec *= rate;
        mix.rise_ns *= rise;
        mix.burst_ns *= burst;
    }
    profile.title =
        format!("{base} × idle {idle:.2}, rate {rate:.2}, rise {rise:.2}, burst {burst:.2}");
    let threads = f64::from(profile.host.cores);
    let mix = LoadMix::ALL[place(random, LoadMix::ALL.len())];
    Ok((profile, threads, mix))
}

fn measure(
    profile: &Profile,
    threads: f64,
    mix: LoadMix,
    noise: f64,
    random: &mut SplitMix,
) -> Vec<LoadPoint> {
    let mut measured = |p: &weir_hw::memory_device::mlc_sweep::SweepPoint| LoadPoint {
        bytes_per_sec: BytesPerSec::new(p.bandwidth_bytes_per_sec),
        latency_ns: Nanos::rounded(p.latency_ns * (1.0 + noise * random.normal())),
    };
    let coarse = curve(profile, threads, mix, &DELAYS);
    let mut points: Vec<LoadPoint> = coarse.iter().map(&mut measured).collect();
    for _ in 0..MORE_MAX {
        let Some(load) = knee::next_load(&points) else {
            break;
        };
        points.push(measured(&at_load(profile, threads, mix, load.get())));
    }
    points
}

/// The point with the nearest bandwidth: bandwidth falls as the delay rises.
fn at_load(
    profile: &Profile,
    threads: f64,
    mix: LoadMix,
    bytes_per_sec: f64,
) -> weir_hw::memory_device::mlc_sweep::SweepPoint {
    let at = |delay: u32| curve(profile, threads, mix, &[delay])[0];
    let (mut low, mut high) = (DELAYS[0], DELAYS[DELAYS.len() - 1]);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if at(middle).bandwidth_bytes_per_sec > bytes_per_sec {
            low = middle;
        } else {
            high = middle;
        }
    }
    let (a, b) = (at(low), at(high));
    let far = |p: &weir_hw::memory_device::mlc_sweep::SweepPoint| {
        (p.bandwidth_bytes_per_sec - bytes_per_sec).abs()
    };
    if far(&a) < far(&b) { a } else { b }
}

/// The largest bandwidth ÷ latency of the model, over delays close together.
fn true_knee(profile: &Profile, threads: f64, mix: LoadMix) -> f64 {
    let fine: Vec<u32> = (0..1000).chain((1000..20_000).step_by(20)).collect();
    let points = curve(profile, threads, mix, &fine);
    let power = |p: &weir_hw::memory_device::mlc_sweep::SweepPoint| {
        p.bandwidth_bytes_per_sec / p.latency_ns
    };
    let best = points.iter().max_by(|a, b| power(a).total_cmp(&power(b)));
    best.map_or(0.0, |p| p.bandwidth_bytes_per_sec)
}

/// One of so many.
fn place(random: &mut SplitMix, count: usize) -> usize {
    usize::try_from(random.bits() % count.max(1) as u64).unwrap_or(0)
}
