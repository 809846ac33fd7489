// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cost of one solution: five kinds of requester, with numbers that change a little at each call, as
//! a simulated scheduler changes them.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use weir_hw::memory_device::Profile;
use weir_hw::memory_device::{Equilibrium, LoadedDevice, Requester};

fn requesters(cores: f64) -> [Requester; 5] {
    let kind = |part: f64, busy_ns: f64, write_ratio: f64| Requester {
        cores: cores * part,
        window_lines: 38.0,
        busy_ns,
        write_ratio,
        is_non_temporal: false,
        threads_per_core: 1.0,
    };
    [
        kind(0.1, 5.0, 0.0),
        kind(0.2, 40.0, 0.0),
        kind(0.3, 100.0, 0.5),
        kind(0.2, 20.0, 0.25),
        kind(0.2, 900.0, 0.1),
    ]
}

fn solve(c: &mut Criterion) {
    let profile = Profile::named("asic-x16").expect("built in");
    for (name, cores) in [("below the knee", 8.0), ("saturated", 60.0)] {
        c.bench_function(&format!("5 kinds, {name}"), |b| {
            let mut device = LoadedDevice::new(&profile);
            let mut out = Equilibrium::default();
            let mut step = 0u32;
            b.iter(|| {
                step = step.wrapping_add(1);
                let kinds = requesters(cores + f64::from(step % 7) * 0.1);
                device.solve(black_box(&kinds), &mut out);
                black_box(out.latency_ns)
            });
        });
    }
}

criterion_group!(benches, solve);
criterion_main!(benches);
