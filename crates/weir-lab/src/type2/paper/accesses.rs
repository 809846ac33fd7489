// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sections V-A and V-B: accesses of the accelerator to host and device memory.

use super::percent;
use crate::papers::Ours;
use weir_type2::time::{DevicePlace, Type2Profile, device_burst, latency, remote_burst};
use weir_type2::{Bias, CacheState, DeviceOp, HostOp, LineHome};

/// Accesses of a measurement in V-A.
const BURST: u32 = 16;

/// Each hint with the core's access that emulates it.
const PAIRS: [(DeviceOp, HostOp); 4] = [
    (DeviceOp::NcRead, HostOp::NtLoad),
    (DeviceOp::CsRead, HostOp::Load),
    (DeviceOp::NcWrite, HostOp::NtStore),
    (DeviceOp::CoWrite, HostOp::Store),
];

/// Host memory; the LLC has the line shared, or not.
fn in_host_memory(is_hit: bool) -> DevicePlace {
    DevicePlace {
        home: LineHome::HostMemory,
        bias: Bias::Host,
        device: CacheState::Invalid,
        llc: if is_hit {
            CacheState::Shared
        } else {
            CacheState::Invalid
        },
    }
}

fn in_device_memory(bias: Bias, is_hit: bool) -> DevicePlace {
    DevicePlace {
        home: LineHome::DeviceMemory,
        bias,
        device: if is_hit {
            CacheState::Shared
        } else {
            CacheState::Invalid
        },
        llc: CacheState::Invalid,
    }
}

fn over(name: &str, base: &str) -> String {
    format!("{name} over {base}")
}

fn hit_name(is_hit: bool) -> &'static str {
    if is_hit { "LLC hit" } else { "LLC miss" }
}

/// Accesses of the device to host memory against those of a core of the other socket.
pub fn device_to_host(profile: &Type2Profile, ours: &mut Ours) {
    let device = |op, is_hit, count| device_burst(profile, op, in_host_memory(is_hit), count);
    let remote = |op, is_hit, count| remote_burst(profile, op, is_hit, count);
    let alone = |op, is_hit| latency(|count| device(op, is_hit, count));
    for is_hit in [true, false] {
        for (op, core_op) in PAIRS {
            let base = latency(|count| remote(core_op, is_hit, count));
            let (pair, hit) = (over(op.name(), core_op.name()), hit_name(is_hit));
            ours.put(
                format!("latency, {pair}, {hit}"),
                percent(alone(op, is_hit), base),
            );
        }
    }
    for (op, like) in [
        (DeviceOp::CoRead, DeviceOp::CsRead),
        (DeviceOp::NcPush, DeviceOp::CoWrite),
    ] {
        let change = percent(alone(op, false), alone(like, false));
        let pair = over(op.name(), like.name());
        ours.put(format!("latency, {pair}, LLC miss"), change);
    }
    for (op, core_op, is_hit, lower) in [
        (DeviceOp::NcRead, HostOp::NtLoad, false, ""),
        (DeviceOp::CsRead, HostOp::Load, false, ""),
        (DeviceOp::NcWrite, HostOp::NtStore, true, ": lower"),
        (DeviceOp::NcWrite, HostOp::NtStore, false, ": lower"),
        (DeviceOp::CoWrite, HostOp::Store, false, ": lower"),
    ] {
        let rate = device(op, is_hit, BURST).bytes_per_sec();
        let change = percent(rate, remote(core_op, is_hit, BURST).bytes_per_sec());
        let (pair, hit) = (over(op.name(), core_op.name()), hit_name(is_hit));
        ours.put(
            format!("bandwidth, {pair}, {hit}, {BURST} accesses{lower}"),
            change,
        );
    }
    sweeps(profile, ours);
}

/// Bandwidth of NC-wr for so many accesses, LLC miss, bytes per second.
pub fn write_sweep(profile: &Type2Profile, op: DeviceOp, counts: &[u32]) -> Vec<(u32, f64)> {
    let rate = |count| device_burst(profile, op, in_host_memory(false), count).bytes_per_sec();
    counts.iter().map(|count| (*count, rate(*count))).collect()
}

fn sweeps(profile: &Type2Profile, ours: &mut Ours) {
    let place = in_host_memory(false);
    let passes = |count: &u32| {
        let device = device_burst(profile, DeviceOp::CoWrite, place, *count).total_ns;
        device < remote_burst(profile, HostOp::Store, false, *count).total_ns
    };
    let first = (1..=256).find(passes).map_or(f64::NAN, f64::from);
    ours.put("bandwidth, CO-wr passes st beyond 16 accesses, at", first);
    let counts: Vec<u32> = (4..=14).map(|power| 1 << power).collect();
    let rates = write_sweep(profile, DeviceOp::NcWrite, &counts);
    let best = rates.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let best_bytes = best.map_or(f64::NAN, |(count, _)| f64::from(*count) * 64.0);
    ours.put("bandwidth, NC-wr falls beyond 16 KiB; most at", best_bytes);
}

/// Accesses of the device to its own memory, in device bias against host bias.
pub fn device_to_device(profile: &Type2Profile, ours: &mut Ours) {
    let both = |op, is_hit, count| {
        let total = |bias| {
            let place = in_device_memory(bias, is_hit);
            device_burst(profile, op, place, count).total_ns
        };
        (total(Bias::Device), total(Bias::Host))
    };
    // The paper does not say how many accesses; "adjusted for the limited capacity of DMC": as many as it
    // has.
    let count = profile.sizes.dmc_kib * 1024 / 64;
    for (op, _) in PAIRS {
        let of = |what: &str, hit: &str| {
            format!("{what}, {}, DMC {hit}, device over host bias", op.name())
        };
        let (device, host) = both(op, true, 1);
        ours.put(of("latency", "hit"), percent(device, host));
        if !op.is_write() {
            let (device, host) = both(op, false, 1);
            ours.put(of("latency", "miss") + ": lower", percent(device, host));
        }
        let (device, host) = both(op, true, count);
        // Times: the inverse of bandwidths.
        ours.put(of("bandwidth", "hit"), percent(host, device));
    }
}
