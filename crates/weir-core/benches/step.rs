// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time of one step and of its stages, for 10 to 10 000 workloads of which most use the device and
//! all that matter are limited: the steady state of a busy host. Compare figures within one run.

use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main,
};
use std::hint::black_box;
use weir_core::policy::drf::{Flow, Need, Resource, ResourceKind, fill};
use weir_core::policy::{Demand, split};
use weir_core::rates::attribution::{AccessSignal, attribute};
use weir_core::rates::bandwidth::{Meter, device_rates};
use weir_core::seam::observation::{GroupReading, Missing, Use, WorkloadKind, WorkloadReading};
use weir_core::seam::plan::OutcomeKind;
use weir_core::seam::topology::{Actuator, Device, Group};
use weir_core::{
    Bytes, BytesPerSec, Config, Description, DeviceId, GroupId, Nanos, Observation, Outcome,
    Reading, State, WorkloadId, step,
};

const SIZES: [usize; 4] = [10, 100, 1000, 10_000];
const GROUPS: u32 = 4;
const RATE: u64 = 10 << 30;

fn group(index: u32) -> GroupId {
    GroupId {
        device: DeviceId(0),
        index,
    }
}

fn machine() -> Description {
    Description {
        kernel: "bench".into(),
        cpu_count: 64,
        devices: vec![Device {
            id: DeviceId(0),
            name: "bench".into(),
            capacity_bytes_per_sec: Some(BytesPerSec::new(RATE as f64)),
            counter_mask_bytes: u64::MAX,
            counted_by: weir_core::seam::topology::CountedBy::Model,
        }],
        groups: (0..GROUPS)
            .map(|i| Group {
                id: group(i),
                node: None,
                size_bytes: Bytes(1 << 36),
            })
            .collect(),
        actuator: Some(Actuator {
            name: "bench".into(),
            levers: vec![weir_core::seam::topology::Lever::CpuTime],
            min_cpus: 0.001,
            grain_ns: Nanos(4_000_000),
            refill_on_write_ratio: 1.0,
            period_ns: Nanos(20_000_000),
            min_quota_ns: Nanos(0),
            is_exact: false,
        }),
        ..Description::default()
    }
}

/// What is seen in the n-th interval of 50 ms. CPU use differs between workloads and wobbles.
fn observation(ids: &[WorkloadId], n: u64) -> Observation {
    let at = Nanos((n + 1) * 50_000_000);
    let bytes = Reading::new(at, Bytes(n * RATE / 20 / u64::from(GROUPS)));
    let seen = |i: u32| GroupReading {
        id: group(i),
        read_bytes: bytes.clone(),
        write_bytes: Reading::new(at, Bytes(0)),
    };
    let workload = |(i, id): (u64, &WorkloadId)| WorkloadReading {
        id: id.clone(),
        kind: WorkloadKind::Cgroup,
        cpu_ns: Reading::new(at, Nanos(n * (i % 17) * 100_000 + (n * i * 7919) % 50_000)),
        throttled_ns: Reading::missing(at, Missing::NotSupported("no throttling here".into())),
        uses: [Use {
            group: group((i % u64::from(GROUPS)) as u32),
            resident_bytes: Reading::new(at, Bytes(((i % 5) << 20) + 4096)),
            sampled_read_bytes: None,
            sampled_write_bytes: None,
        }]
        .into(),
        resident_bytes: None,
        weight: 100.0,
        their_limit_cpus: None,
        limited_weight: None,
        excluded: None,
    };
    Observation {
        seq: n,
        at,
        groups: (0..GROUPS).map(seen).collect(),
        workloads: (0..).zip(ids).map(workload).collect(),
        ..Observation::default()
    }
}

type Stages<'a> = BenchmarkGroup<'a, WallTime>;

fn rates(bench: &mut Stages<'_>, machine: &Description, observations: &[Observation], size: usize) {
    let mut meter = Meter::default();
    let _ = meter.update(machine, &observations[0].groups, None);
    bench.bench_function(BenchmarkId::new("rates", size), |b| {
        b.iter_batched(
            || meter.clone(),
            |mut meter| {
                let groups = meter.update(machine, &observations[1].groups, None);
                device_rates(machine, &groups)
            },
            BatchSize::SmallInput,
        );
    });
    let groups = meter.update(machine, &observations[1].groups, None);
    let share = |i| AccessSignal {
        group: i % 4,
        part: Some(1.0 + (i % 17) as f64),
        ..AccessSignal::default()
    };
    let shares: Vec<AccessSignal> = (0..size).map(share).collect();
    bench.bench_function(BenchmarkId::new("attribution", size), |b| {
        b.iter(|| attribute(black_box(&groups), black_box(&shares)));
    });
}

fn splits(bench: &mut Stages<'_>, size: usize) {
    let rate = |i: usize| BytesPerSec::new((i * 7919 % 977) as f64);
    let demands: Vec<Demand> = (0..size)
        .map(|i| Demand {
            bytes_per_sec: rate(i),
            weight: 100.0,
        })
        .collect();
    let budget: f64 = demands.iter().map(|d| d.bytes_per_sec.get()).sum::<f64>() * 0.4;
    bench.bench_function(BenchmarkId::new("split", size), |b| {
        b.iter(|| split(black_box(&demands), BytesPerSec::new(budget)));
    });
}

fn whole(bench: &mut Stages<'_>, machine: &Description, observations: &[Observation], size: usize) {
    let config = Config {
        set_point_bytes_per_sec: Some(BytesPerSec::new(RATE as f64 * 0.4)),
        limit: true,
        ..Config::default()
    };
    let mut state = State::default();
    let mut limited = 0;
    for seen in &observations[..39] {
        let plan = step(&mut state, &config, machine, seen);
        limited = plan
            .workloads
            .iter()
            .filter(|v| v.limit_cpus.is_some())
            .count();
        let done = |a: &weir_core::Action| Outcome {
            workload: a.workload.clone(),
            result: OutcomeKind::Applied,
        };
        state.note(&plan.actions.iter().map(done).collect::<Vec<_>>());
    }
    println!("{size} workloads, {limited} of them limited");
    bench.bench_function(BenchmarkId::new("whole", size), |b| {
        b.iter_batched_ref(
            || state.clone(),
            |state| step(state, &config, machine, &observations[39]),
            BatchSize::LargeInput,
        );
    });
}

fn stages(c: &mut Criterion) {
    let machine = machine();
    let mut bench = c.benchmark_group("step");
    bench.sample_size(20);
    for size in SIZES {
        let id = |i| WorkloadId::new(format!("/system.slice/unit-{i:06}.service"));
        let ids: Vec<WorkloadId> = (0..size).map(id).collect();
        let observations: Vec<Observation> = (0..40).map(|n| observation(&ids, n)).collect();
        rates(&mut bench, &machine, &observations, size);
        splits(&mut bench, size);
        whole(&mut bench, &machine, &observations, size);
    }
    bench.finish();
}

/// Policy drf alone: workloads that need some of eight resources each, a part of them satisfied.
fn filling(c: &mut Criterion) {
    const RESOURCES: usize = 8;
    let mut bench = c.benchmark_group("filling");
    bench.sample_size(20);
    for size in [1000, 10_000, 100_000] {
        let kind = |place| match place {
            0 => ResourceKind::Cpu,
            _ => ResourceKind::Cxl,
        };
        // Budgets of different size, so that resources are full one after the other.
        let resource = |place: usize| Resource {
            kind: kind(place),
            capacity: (size * (place + 1)) as f64 * 0.05,
        };
        let resources: Vec<Resource> = (0..RESOURCES).map(resource).collect();
        let need = |i: usize| match i * 7919 % 5 {
            0 | 1 => Need::default(),
            more => Need::own((1 + i * 7919 % 977) as f64 / 977.0 * more as f64),
        };
        let needs: Vec<Need> = (0..size * RESOURCES).map(need).collect();
        let flow = |(i, needs)| Flow {
            weight: (1 + i * 31 % 1000) as f64,
            demand: if i % 3 == 0 {
                f64::INFINITY
            } else {
                (i % 11) as f64 * 0.02
            },
            threads: f64::INFINITY,
            needs,
        };
        let flows: Vec<Flow<'_>> = needs.chunks(RESOURCES).enumerate().map(flow).collect();
        bench.bench_function(BenchmarkId::new("fill", size), |b| {
            b.iter(|| fill(black_box(&resources), black_box(&flows)));
        });
    }
    bench.finish();
}

criterion_group!(benches, stages, filling);
criterion_main!(benches);
