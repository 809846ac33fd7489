// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sections V-A and V-B: accesses of the accelerator to host and device memory.

use super::{ComparedFigure, FigureKind, FigureUnit, Figures};
use crate::type2::time::{Burst, DevicePlace, Type2Profile, device_burst, latency, remote_burst};
use crate::type2::words::{Bias, CacheState, DeviceOp, HostOp, LineHome};

/// Accesses of a measurement in V-A.
const BURST: u32 = 16;

/// Each hint with the core's access that emulates it.
const PAIRS: [(DeviceOp, HostOp); 4] = [
    (DeviceOp::NcRead, HostOp::NtLoad),
    (DeviceOp::CsRead, HostOp::Load),
    (DeviceOp::NcWrite, HostOp::NtStore),
    (DeviceOp::CoWrite, HostOp::Store),
];

const FITTED_A: (FigureKind, f64) = (FigureKind::Fitted, 3.0);
const PREDICTED: (FigureKind, f64) = (FigureKind::Predicted, 5.0);

/// Host memory; the LLC has the line shared, or not.
fn in_host_memory(is_hit: bool) -> DevicePlace {
    DevicePlace {
        home: LineHome::HostMemory,
        bias: Bias::Host,
        device: CacheState::Invalid,
        llc: match is_hit {
            true => CacheState::Shared,
            false => CacheState::Invalid,
        },
    }
}

fn in_device_memory(bias: Bias, is_hit: bool) -> DevicePlace {
    DevicePlace {
        home: LineHome::DeviceMemory,
        bias,
        device: match is_hit {
            true => CacheState::Shared,
            false => CacheState::Invalid,
        },
        llc: CacheState::Invalid,
    }
}

fn hit_name(is_hit: bool) -> &'static str {
    match is_hit {
        true => "LLC hit",
        false => "LLC miss",
    }
}

/// V-A: D2H accesses against those of a core of the other socket.
pub fn device_to_host(profile: &Type2Profile) -> Vec<ComparedFigure> {
    let mut figures = Figures::new("V-A");
    let device = |op, is_hit, count| device_burst(profile, op, in_host_memory(is_hit), count);
    let remote = |op, is_hit, count| remote_burst(profile, op, is_hit, count);
    let alone = |op, is_hit| latency(|count| device(op, is_hit, count));
    for (is_hit, percents) in [
        (true, [38.0, 96.0, 71.0, 56.0]),
        (false, [2.0, 18.0, 67.0, 57.0]),
    ] {
        for ((op, core_op), percent) in PAIRS.into_iter().zip(percents) {
            let what = format!(
                "latency, {} over {}, {}",
                op.name(),
                core_op.name(),
                hit_name(is_hit)
            );
            let base = latency(|count| remote(core_op, is_hit, count));
            figures.change(
                &what,
                (percent, percent),
                (alone(op, is_hit), base),
                FITTED_A,
            );
        }
    }
    for (op, like) in [
        (DeviceOp::CoRead, DeviceOp::CsRead),
        (DeviceOp::NcPush, DeviceOp::CoWrite),
    ] {
        let what = format!("latency, {} over {}, LLC miss", op.name(), like.name());
        let pair = (alone(op, false), alone(like, false));
        // "Similar": the paper has no number.
        figures.change(&what, (0.0, 0.0), pair, (FigureKind::Predicted, 10.0));
    }
    bandwidths(&mut figures, &device, &remote);
    sweeps(&mut figures, profile);
    figures.found
}

/// Bandwidths of 16 accesses.
fn bandwidths(
    figures: &mut Figures,
    device: &impl Fn(DeviceOp, bool, u32) -> Burst,
    remote: &impl Fn(HostOp, bool, u32) -> Burst,
) {
    let rate = |burst: Burst| burst.bytes_per_sec();
    for (op, core_op) in &PAIRS[..2] {
        let what = format!(
            "bandwidth, {} over {}, LLC miss, 16 accesses",
            op.name(),
            core_op.name()
        );
        let pair = (
            rate(device(*op, false, BURST)),
            rate(remote(*core_op, false, BURST)),
        );
        figures.change(&what, (76.0, 125.0), pair, PREDICTED);
        figures.note(
            "with 16 fill buffers, 16 loads of a core take little longer than one. With 8 or 7 fill buffers NC-rd is \
             at +62 or +140 %, and CS-rd at +43 or +113 %",
        );
    }
    for (op, core_op, is_hit) in [
        (DeviceOp::NcWrite, HostOp::NtStore, true),
        (DeviceOp::NcWrite, HostOp::NtStore, false),
        (DeviceOp::CoWrite, HostOp::Store, false),
    ] {
        let what = format!(
            "bandwidth, {} over {}, {}, 16 accesses: lower",
            op.name(),
            core_op.name(),
            hit_name(is_hit)
        );
        let pair = (
            rate(device(op, is_hit, BURST)),
            rate(remote(core_op, is_hit, BURST)),
        );
        let percent = (pair.0 / pair.1 - 1.0) * 100.0;
        figures.figure(
            &what,
            FigureUnit::Percent,
            (None, Some(0.0)),
            percent,
            (FigureKind::Predicted, 0.0),
        );
    }
}

/// Bandwidth of NC-wr for so many accesses, LLC miss, bytes per second.
pub fn write_sweep(profile: &Type2Profile, op: DeviceOp, counts: &[u32]) -> Vec<(u32, f64)> {
    let rate = |count| device_burst(profile, op, in_host_memory(false), count).bytes_per_sec();
    counts.iter().map(|count| (*count, rate(*count))).collect()
}

/// Where curves cross and fall.
fn sweeps(figures: &mut Figures, profile: &Type2Profile) {
    let place = in_host_memory(false);
    let passes = |count: &u32| {
        let device = device_burst(profile, DeviceOp::CoWrite, place, *count).total_ns;
        device < remote_burst(profile, HostOp::Store, false, *count).total_ns
    };
    let first = (1..=256).find(passes).map_or(f64::NAN, f64::from);
    figures.figure(
        "bandwidth, CO-wr passes st beyond 16 accesses, at",
        FigureUnit::Accesses,
        (Some(17.0), None),
        first,
        (FigureKind::Predicted, 0.0),
    );
    let counts: Vec<u32> = (4..=14).map(|power| 1 << power).collect();
    let rates = write_sweep(profile, DeviceOp::NcWrite, &counts);
    let best = rates.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let best_bytes = best.map_or(f64::NAN, |(count, _)| f64::from(*count) * 64.0);
    figures.figure(
        "bandwidth, NC-wr falls beyond 16 KiB; most at",
        FigureUnit::Bytes,
        (Some(16384.0), Some(16384.0)),
        best_bytes,
        (FigureKind::Predicted, 0.0),
    );
}

/// V-B: D2D accesses in device bias against host bias.
pub fn device_to_device(profile: &Type2Profile) -> Vec<ComparedFigure> {
    let mut figures = Figures::new("V-B");
    let burst =
        |op, bias, is_hit, count| device_burst(profile, op, in_device_memory(bias, is_hit), count);
    let both = |op, is_hit, count| {
        let total = |bias| burst(op, bias, is_hit, count).total_ns;
        (total(Bias::Device), total(Bias::Host))
    };
    for op in [DeviceOp::NcWrite, DeviceOp::CoWrite] {
        let what = format!("latency, {}, DMC hit, device over host bias", op.name());
        figures.change(&what, (-60.0, -60.0), both(op, true, 1), FITTED_A);
    }
    for op in [DeviceOp::NcRead, DeviceOp::CsRead] {
        let what = format!("latency, {}, DMC hit, device over host bias", op.name());
        figures.change(&what, (0.0, 0.0), both(op, true, 1), PREDICTED);
        let what = format!(
            "latency, {}, DMC miss, device over host bias: lower",
            op.name()
        );
        let (device, host) = both(op, false, 1);
        figures.figure(
            &what,
            FigureUnit::Percent,
            (None, Some(0.0)),
            (device / host - 1.0) * 100.0,
            (FigureKind::Predicted, 0.0),
        );
    }
    // The paper does not say how many accesses; "adjusted for the limited capacity of DMC": as many as it
    // has.
    let count = profile.sizes.dmc_kib * 1024 / 64;
    for (op, paper) in [
        (DeviceOp::NcWrite, (8.0, 12.0)),
        (DeviceOp::CoWrite, (10.0, 13.0)),
        (DeviceOp::NcRead, (0.0, 0.0)),
        (DeviceOp::CsRead, (0.0, 0.0)),
    ] {
        let what = format!("bandwidth, {}, DMC hit, device over host bias", op.name());
        let (device, host) = both(op, true, count);
        // Times: the inverse of bandwidths.
        figures.change(&what, paper, (host, device), PREDICTED);
    }
    figures.found
}
