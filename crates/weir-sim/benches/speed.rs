// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How fast simulated time passes: the thesis's machine (20 cores, 5 readers, 39 compute workers and
//! a controller), and 1000 workloads.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use weir_sim::{ControllerKind, Scenario, run};

fn scenario(text: &str, measure_sec: f64) -> Scenario {
    let mut scenario = Scenario::parse(text, "bench").expect("a sound scenario");
    scenario.control.settle_sec = 0.0;
    scenario.control.measure_sec = measure_sec;
    scenario
}

fn speed(c: &mut Criterion) {
    let thesis = scenario(
        include_str!("../../../scenarios/sim/thesis-limit.toml"),
        5.0,
    );
    let thousand = scenario(include_str!("../../../scenarios/sim/thousand.toml"), 5.0);
    let mut group = c.benchmark_group("five-simulated-seconds");
    group.sample_size(10);
    for variant in ControllerKind::all(&thesis) {
        group.bench_function(format!("thesis/{}", variant.name()), |b| {
            b.iter(|| run(black_box(&thesis), &variant, 1).expect("a run"));
        });
    }
    let weir = ControllerKind::weir(&thousand);
    group.bench_function("thousand/weir", |b| {
        b.iter(|| run(black_box(&thousand), &weir, 1).expect("a run"))
    });
    group.finish();
}

criterion_group!(benches, speed);
criterion_main!(benches);
