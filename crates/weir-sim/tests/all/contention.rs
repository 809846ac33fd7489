// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two tasks need one CPU: the simulated kernel against a real one.
//!
//! Measured on Linux 6.18, HZ=250, two CPUs (so a base slice of 1.4 ms), everything on one of them,
//! each task in a cgroup of its own with the same weight, three runs of 2 to 4 s (two for 1.2/2 ms and
//! for the small task). Other wake-ups there were not counted; the scenario has forty wake-ups a second.

use weir_sim::{Backend, ControllerKind, CpuMax, RunMetrics, Scenario, run};

fn on_one_cpu(workloads: &str) -> Scenario {
    let text = format!(
        r#"name = "test"
about = "one CPU"
[machine]
cores = 1
threads_per_core = 1
slice_us = 1400
hz = 250
[[device]]
profile = "agilex-thesis"
[control]
set_point_bytes_per_sec = 4e9
settle_sec = 1.0
measure_sec = 20.0
[[workload]]
name = "system"
count = 2
role = "system"
[[workload.phase]]
kind = "compute"
chunk_us = 20.0
times = 1
[[workload.phase]]
kind = "sleep"
mean_us = 50000.0
random = true
{workloads}"#
    );
    Scenario::parse(&text, "test").unwrap_or_else(|e| panic!("{e}"))
}

fn spinner(name: &str, role: &str, keys: &str) -> String {
    format!(
        "[[workload]]\nname = \"{name}\"\nrole = \"{role}\"\n{keys}\n[[workload.phase]]\nkind = \"compute\"\n"
    )
}

fn part_of(measures: &RunMetrics, name: &str) -> f64 {
    let of = measures.workloads.iter().find(|w| w.name == name);
    let cpus = &of.expect("a workload").cpus[10..];
    cpus.iter().sum::<f64>() / cpus.len() as f64
}

/// Quota and period in microseconds; the part of the CPU that the limited one of two spinning tasks got.
const LIMITED: [(u64, u64, f64); 11] = [
    (1000, 10_000, 0.100),
    (1000, 5000, 0.195),
    (2000, 5000, 0.364),
    (1500, 5000, 0.288),
    (1000, 3226, 0.281),
    (1000, 2000, 0.366),
    (1200, 2000, 0.376),
    (1800, 3000, 0.383),
    (3000, 10_000, 0.300),
    (6000, 20_000, 0.300),
    (30_000, 100_000, 0.300),
];

#[test]
fn a_limited_task_beside_an_unlimited_one_gets_what_was_measured() {
    let both = spinner("limited", "heavy", "") + &spinner("other", "beside", "");
    let scenario = on_one_cpu(&both);
    for (quota_us, period_us, measured) in LIMITED {
        let limit = CpuMax {
            quota_ns: quota_us * 1000,
            period_ns: period_us * 1000,
        };
        let runs =
            (1..=3).map(|seed| run(&scenario, &ControllerKind::Fixed(limit), seed).expect("a run"));
        let found = runs.map(|m| part_of(&m, "limited")).sum::<f64>() / 3.0;
        println!("{quota_us}/{period_us} us: {found:.3} CPUs, measured {measured:.3}");
        assert!(
            (found / measured - 1.0).abs() < 0.10,
            "{quota_us}/{period_us}: {found} instead of {measured}"
        );
    }
}

/// A task of 50 µs each 5 ms. Measured beside one and beside two spinning tasks: 95 % at once, the 99th
/// percentile 3.0 to 4.0 ms; the mean 67 to 77 µs above the median, and 125 µs.
#[test]
fn a_task_that_uses_little_preempts_until_its_lag_is_used_up() {
    for (others, mean_above_median_us) in [(1, 40.0..90.0), (2, 80.0..160.0)] {
        // 1024 lines of 49 ns each.
        let light = r#"[[workload]]
name = "light"
role = "light"
resident_mib = 1
busy_ns_per_line = 48.8
[[workload.phase]]
kind = "access"
block_kib = 64
rate_bytes_per_sec = 13107200.0
"#;
        let beside = spinner("other", "beside", &format!("count = {others}"));
        let scenario = on_one_cpu(&(beside + light));
        let (mut above, mut late) = (0.0, 0.0);
        for seed in 1..=4 {
            let m = run(&scenario, &ControllerKind::None, seed).expect("a run");
            let micros = |q: f64| m.light_blocks.quantile_ns(q).expect("blocks") / 1e3;
            above += (m.light_reader.mean_ns.expect("blocks") / 1e3 - micros(0.5)) / 4.0;
            late += micros(0.99) / 4.0;
            assert!(micros(0.9) < micros(0.5) * 1.1, "{}", micros(0.9));
        }
        println!("beside {others}: mean {above:.0} us above the median, p99 {late:.0} us");
        assert!(mean_above_median_us.contains(&above), "{above}");
        assert!((1500.0..4500.0).contains(&late), "{late}");
    }
}

#[test]
fn a_realtime_task_never_waits_and_is_never_limited() {
    let light = "[[workload]]\nname = \"light\"\nrole = \"light\"\nresident_mib = 1\nrealtime = true\n\
                 [[workload.phase]]\nkind = \"access\"\nblock_kib = 64\nrate_bytes_per_sec = 13107200.0\n";
    let beside = spinner("other", "beside", "count = 2");
    let scenario = on_one_cpu(&(beside + light));
    let all = ControllerKind::all(&scenario).into_iter();
    let schedulers = [Backend::SchedExtServed, Backend::SchedExtFull];
    for variant in all.chain(schedulers.map(|b| ControllerKind::weir_with(b, &scenario))) {
        let m = run(&scenario, &variant, 1).expect("a run");
        let micros = |q: f64| m.light_blocks.quantile_ns(q).expect("blocks") / 1e3;
        assert!(micros(0.999) < micros(0.5) * 1.1, "{}", variant.name());
    }
    // It uses the CPU heavily and takes all of it, whatever its quota.
    let both = spinner("limited", "heavy", "realtime = true") + &spinner("other", "light", "");
    let limit = CpuMax {
        quota_ns: 1_000_000,
        period_ns: 10_000_000,
    };
    let m = run(&on_one_cpu(&both), &ControllerKind::Fixed(limit), 1).expect("a run");
    assert!(part_of(&m, "limited") > 0.99 && part_of(&m, "other") < 0.01);
    // Two of them share it by slices.
    let both = spinner("one", "heavy", "realtime = true")
        + &spinner("two", "heavy", "realtime = true")
        + &spinner("other", "light", "");
    let m = run(&on_one_cpu(&both), &ControllerKind::None, 1).expect("a run");
    assert!(
        (part_of(&m, "one") - 0.5).abs() < 0.01,
        "{}",
        part_of(&m, "one")
    );
}

/// A task that is interrupted by a real-time task goes elsewhere where a CPU is idle.
#[test]
fn a_realtime_task_does_not_hold_up_others_while_a_cpu_is_idle() {
    let all = spinner("other", "light", "count = 2") + &spinner("rt", "light", "realtime = true");
    let mut scenario = on_one_cpu(&all);
    scenario.machine.cores = 3;
    let m = run(&scenario, &ControllerKind::None, 1).expect("a run");
    for name in ["other-1", "other-2", "rt"] {
        assert!(part_of(&m, name) > 0.99, "{name}: {}", part_of(&m, name));
    }
}

/// Means over five seeds of the light reader's mean, median and 99th percentile, in microseconds.
fn light_reader(scenario: &str, variant: &dyn Fn(&Scenario) -> ControllerKind) -> [f64; 3] {
    let scenario = Scenario::parse(scenario, "test").unwrap_or_else(|e| panic!("{e}"));
    let mut sums = [0.0; 3];
    for seed in 1..=5 {
        let l = run(&scenario, &variant(&scenario), seed)
            .expect("a run")
            .light_reader;
        for (sum, ns) in sums.iter_mut().zip([l.mean_ns, l.p50_ns, l.p99_ns]) {
            *sum += ns.expect("blocks") / 5e3;
        }
    }
    sums
}

#[test]
fn a_light_reader_is_faster_beside_limited_ones_unless_it_waits_for_a_cpu() {
    let alone = include_str!("../../../../scenarios/sim/neighbour.toml");
    let ordinary = include_str!("../../../../scenarios/sim/neighbour-busy.toml");
    let realtime = include_str!("../../../../scenarios/sim/neighbour-realtime.toml");
    let (none, weir) = (
        |_: &Scenario| ControllerKind::None,
        |s: &Scenario| ControllerKind::weir(s),
    );
    let [rt_free, rt_held] = [light_reader(realtime, &none), light_reader(realtime, &weir)];
    println!("real-time: mean, p50, p99 {rt_free:.1?} us, with weir {rt_held:.1?} us");
    for (i, least) in [(0, 0.35), (1, 0.30), (2, 0.20)] {
        assert!(rt_held[i] < rt_free[i] * (1.0 - least), "{i}");
    }
    let [own_free, own_held] = [light_reader(alone, &none), light_reader(alone, &weir)];
    println!("a CPU each: mean, p50, p99 {own_free:.1?} us, with weir {own_held:.1?} us");
    assert!(own_held[2] < own_free[2] * 0.6, "no task waits for a CPU");
    let [free, held] = [light_reader(ordinary, &none), light_reader(ordinary, &weir)];
    println!("ordinary: mean, p50, p99 {free:.1?} us, with weir {held:.1?} us");
    assert!(held[1] < free[1] * 0.75, "the median is the device's");
    assert!(free[2] > 500.0 && held[2] > 500.0, "the tail is the CPU's");
}

/// A task that gives up a lock wakes the next in line, on its own CPU as well, and goes on or gives way.
#[test]
fn a_lock_that_is_handed_over_on_one_cpu_loses_nothing() {
    for (realtime, stays) in [(false, ""), (true, ""), (false, "stop_ms = 9000\n")] {
        let sharer = |name: &str, realtime: bool, sleep_us: f64| {
            format!(
                "[[workload]]\nname = \"{name}\"\ncount = 2\nrole = \"light\"\nrealtime = {realtime}\n{stays}\
                 [[workload.phase]]\nkind = \"compute\"\nchunk_us = 200.0\ntimes = 3\nlock = 0\n\
                 [[workload.phase]]\nkind = \"sleep\"\nmean_us = {sleep_us:.1}\nrandom = true\n"
            )
        };
        // Together they need more than half of the lock's CPU.
        let sharers = sharer("often", realtime, 2000.0) + &sharer("seldom", false, 8000.0);
        let scenario = on_one_cpu(&(sharers + &spinner("other", "heavy", "")));
        for variant in ControllerKind::all(&scenario) {
            let m = run(&scenario, &variant, 1).expect("a run");
            let used = m.workloads.iter().map(|w| w.cpus[10..].iter().sum::<f64>());
            let used = used.sum::<f64>() / (m.workloads[0].cpus.len() - 10) as f64;
            let least = if matches!(variant, ControllerKind::None) {
                0.97
            } else {
                0.80
            };
            assert!((least..1.001).contains(&used), "{}: {used}", variant.name());
            if stays.is_empty() {
                // In the thesis's queue each hand-over waits for a slice of 20 ms: 0.2 ms in 20 for four.
                let often = part_of(&m, "often-1");
                assert!(often > 0.001, "{}: {often}", variant.name());
            }
        }
    }
}
