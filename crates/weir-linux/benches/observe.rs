// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one tick costs on the host side: `observe` with 10, 100 and 1000 cgroups of which every
//! tenth uses the device, and an `apply` that has nothing to change while ten limits are held.
//!
//! The tree lies in a temporary directory, so this is weir's own work plus the system calls. The
//! kernel's work of making up `cpu.stat` comes on top on a real host (a microsecond or so each); the
//! row `processes` reads the real `/proc` of this machine.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::fs;
use std::path::Path;
use std::time::Duration;
use weir_core::seam::plan::{ActionKind, Limit};
use weir_core::{Action, CpuShare, Plan, Platform, WorkloadId};
use weir_linux::{By, LinuxPlatform, Options, Roots};

fn write(root: &Path, path: &str, text: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("has one")).expect("temporary directory");
    fs::write(path, text).expect("temporary directory");
}

/// A machine with `count` services, one process each.
fn machine(root: &Path, count: usize) -> Options {
    write(root, "sys/devices/system/cpu/online", "0-7\n");
    write(root, "sys/devices/system/node/has_cpu", "0\n");
    write(root, "sys/devices/system/node/has_memory", "0-1\n");
    write(root, "sys/class/weir_cxl/weir_cxl0/group_count", "1\n");
    write(root, "sys/class/weir_cxl/weir_cxl0/group0/node", "1\n");
    write(root, "sys/class/weir_cxl/weir_cxl0/counters", [7; 16]);
    write(root, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    write(root, "sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n");
    for n in 0..count {
        let pid = 1000 + n;
        let dir = format!("sys/fs/cgroup/system.slice/bench-{n:04}.service");
        let stat = "usage_usec 123456789\nuser_usec 100000000\nsystem_usec 23456789\nnice_usec 0\n\
            core_sched.force_idle_usec 0\nnr_periods 1000\nnr_throttled 500\n\
            throttled_usec 987654\nnr_bursts 0\nburst_usec 0\n";
        write(root, &format!("{dir}/cpu.stat"), stat);
        write(root, &format!("{dir}/cpu.max"), "max 100000\n");
        write(root, &format!("{dir}/cgroup.procs"), format!("{pid}\n"));
        let fields = "0 ".repeat(30);
        let stat = format!("{pid} (bench) S 1 1 1 0 -1 0 0 0 0 0 9 9 0 0 20 0 1 0 77 {fields}\n");
        write(root, &format!("proc/{pid}/stat"), stat);
        let node = usize::from(n % 10 == 0);
        let maps = format!("7f0000000000 default anon=500 N{node}=500 kernelpagesize_kB=4\n");
        write(root, &format!("proc/{pid}/numa_maps"), maps);
    }
    let interval = Duration::ZERO;
    let roots = Roots::beneath(root);
    Options {
        roots,
        interval,
        ..Options::default()
    }
}

fn observe(c: &mut Criterion) {
    let mut group = c.benchmark_group("observe");
    for count in [10, 100, 1000] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let options = machine(dir.path(), count);
        let mut platform = LinuxPlatform::open(options).expect("a sound machine");
        let seen = platform.observe().expect("an observation");
        assert_eq!(seen.workloads.len(), count);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::new("cgroups", count), |b| {
            b.iter(|| platform.observe().expect("an observation"));
        });
    }
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut options = machine(dir.path(), 0);
    options.roots.proc = "/proc".into();
    options.by = By::Process;
    let mut platform = LinuxPlatform::open(options).expect("a sound machine");
    let count = platform.observe().expect("an observation").workloads.len();
    group.throughput(Throughput::Elements(count as u64));
    group.bench_function(BenchmarkId::new("processes", count), |b| {
        b.iter(|| platform.observe().expect("an observation"));
    });
    group.finish();
}

fn apply(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut platform = LinuxPlatform::open(machine(dir.path(), 100)).expect("a sound machine");
    platform.observe().expect("an observation");
    let limit = |n: usize| Action {
        workload: WorkloadId::new(format!("/system.slice/bench-{n:04}.service")),
        kind: ActionKind::Limit(Limit::CpuTime {
            cpus: CpuShare::new(0.5),
        }),
    };
    let plan = Plan {
        actions: (0..10).map(limit).collect(),
        ..Plan::default()
    };
    platform.apply(&plan);
    c.bench_function("apply/nothing to change, 10 held", |b| {
        b.iter(|| platform.apply(&plan));
    });
}

criterion_group!(benches, observe, apply);
criterion_main!(benches);
