// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated machine against formulas.

use weir_hw::memory_device::Profile;
use weir_hw::memory_device::{Equilibrium, LoadedDevice, Requester};
use weir_sim::{Backend, ControllerKind, RunMetrics, Scenario, run};

const GIB: f64 = 1073741824.0;

fn scenario(machine: &str, workloads: &str) -> Scenario {
    let text = format!(
        "name = \"test\"\nabout = \"a formula\"\n[machine]\n{machine}\n[[device]]\nprofile = \"agilex-thesis\"\n\
         [control]\nset_point_bytes_per_sec = 4e9\nsettle_sec = 1.0\nmeasure_sec = 8.0\n{workloads}"
    );
    Scenario::parse(&text, "test").unwrap_or_else(|e| panic!("{e}"))
}

fn workload(name: &str, role: &str, keys: &str, phase: &str) -> String {
    format!(
        "[[workload]]\nname = \"{name}\"\nrole = \"{role}\"\n{keys}\n[[workload.phase]]\n{phase}\n"
    )
}

fn reader(count: u32, phase: &str) -> String {
    let keys = format!("count = {count}\nresident_mib = 512");
    workload(
        "reader",
        "heavy",
        &keys,
        &format!("kind = \"access\"\nblock_kib = 4096\n{phase}"),
    )
}

fn compute(name: &str, keys: &str) -> String {
    workload(name, "beside", keys, "kind = \"compute\"")
}

fn free(scenario: &Scenario) -> RunMetrics {
    run(scenario, &ControllerKind::None, 1).expect("a run")
}

/// Relative to `wanted`, at most `ratio` off.
fn close(found: f64, wanted: f64, ratio: f64) {
    assert!(
        (found / wanted - 1.0).abs() <= ratio,
        "{found} instead of {wanted}"
    );
}

#[test]
fn readers_alone_run_at_the_devices_equilibrium() {
    let profile = Profile::named("agilex-thesis").expect("a profile");
    for count in [1, 5] {
        let requester = Requester {
            cores: f64::from(count),
            window_lines: 1e9,
            busy_ns: 12.5,
            write_ratio: 0.0,
            is_non_temporal: false,
            threads_per_core: 1.0,
        };
        let mut out = Equilibrium::default();
        LoadedDevice::new(&profile).solve(&[requester], &mut out);
        let measures = free(&scenario("cores = 20", &reader(count, "")));
        close(
            measures.bandwidth.mean_bytes_per_sec,
            out.read_bytes_per_sec,
            1e-3,
        );
        close(
            measures.device_latency.mean_ns.expect("lines"),
            out.latency_ns,
            0.02,
        );
        let cost = f64::from(count) / (out.read_bytes_per_sec / GIB);
        close(measures.cpu_sec_per_gib.expect("bytes"), cost, 1e-3);
    }
}

#[test]
fn a_closed_loop_obeys_littles_law() {
    let busy = reader(10, "") + &compute("stress", "count = 39");
    for variant in [
        ControllerKind::None,
        ControllerKind::Cgroups {
            is_individual: false,
        },
    ] {
        let measures = run(&scenario("cores = 20", &busy), &variant, 1).expect("a run");
        let mean = measures.limited_readers.mean_ns.expect("blocks");
        close(mean, measures.little_bound_ns.expect("blocks"), 0.05);
    }
}

#[test]
fn no_cpu_idles_while_a_task_waits() {
    // 8 threads in pairs give 8 × 0.6, whichever thread is the ninth.
    for count in [8, 9, 13] {
        let measures = free(&scenario(
            "cores = 4",
            &compute("stress", &format!("count = {count}")),
        ));
        close(
            measures.throughput_ops_per_sec.expect("ops"),
            8.0 * 600.0,
            1e-3,
        );
    }
    // Four on four cores do not share one.
    let measures = free(&scenario("cores = 4", &compute("stress", "count = 4")));
    close(measures.throughput_ops_per_sec.expect("ops"), 4000.0, 1e-3);
    let single = scenario(
        "cores = 4\nthreads_per_core = 1",
        &compute("stress", "count = 3"),
    );
    close(
        free(&single).throughput_ops_per_sec.expect("ops"),
        3000.0,
        1e-3,
    );
}

#[test]
fn weights_share_a_cpu() {
    let both = workload(
        "big",
        "heavy",
        "weight = 300.0\nresident_mib = 1",
        "kind = \"compute\"",
    ) + &workload(
        "small",
        "heavy",
        "weight = 100.0\nresident_mib = 1",
        "kind = \"compute\"",
    );
    let measures = free(&scenario("cores = 1\nthreads_per_core = 1", &both));
    let cpu = |i: usize| measures.workloads[i].cpus.iter().sum::<f64>();
    close(cpu(0) / cpu(1), 3.0, 0.03);
}

#[test]
fn a_store_costs_a_read() {
    // Thesis 6.2.1: 1 GiB/s of stores gives 0.99 GiB/s of reads and of writes each.
    let rate = format!("rate_bytes_per_sec = {GIB:.1}\nwrite_ratio = 1.0");
    let writer = free(&scenario("cores = 4", &reader(1, &rate)));
    close(writer.bandwidth.mean_bytes_per_sec, 2.0 * GIB, 0.01);
    let streaming = free(&scenario(
        "cores = 4",
        &reader(1, &(rate + "\nnon_temporal = true")),
    ));
    close(streaming.bandwidth.mean_bytes_per_sec, GIB, 0.01);
}

#[test]
fn one_lock_is_one_cpu() {
    let locked = workload(
        "locked",
        "beside",
        "count = 4",
        "kind = \"compute\"\nchunk_us = 50.0\nlock = 0",
    );
    let measures = free(&scenario("cores = 4\nthreads_per_core = 1", &locked));
    close(measures.throughput_ops_per_sec.expect("ops"), 1000.0, 0.01);
}

#[test]
fn a_degraded_device_gives_less() {
    let fault = "[[fault]]\nat_ms = 0\ncapacity_ratio = 0.5\n";
    let healthy = free(&scenario("cores = 20", &reader(8, "")));
    let ill = free(&scenario("cores = 20", &(reader(8, "") + fault)));
    let ratio = ill.bandwidth.mean_bytes_per_sec / healthy.bandwidth.mean_bytes_per_sec;
    assert!((0.4..0.6).contains(&ratio), "{ratio}");
}

#[test]
fn a_cached_working_set_causes_no_traffic() {
    let cached = free(&scenario("cores = 4", &reader(1, "working_set_mib = 16.0")));
    assert_eq!(cached.bandwidth.mean_bytes_per_sec, 0.0);
    let half = free(&scenario(
        "cores = 4",
        &reader(1, "working_set_mib = 75.0\nrate_bytes_per_sec = 1e9"),
    ));
    close(half.bandwidth.mean_bytes_per_sec, 0.5e9, 0.01);
}

#[test]
fn one_seed_one_run() {
    let busy = reader(5, "") + &compute("stress", "count = 39");
    let scenario = scenario("cores = 20", &busy);
    let all = ControllerKind::all(&scenario).into_iter();
    let schedulers = [Backend::SchedExtServed, Backend::SchedExtFull];
    for variant in all.chain(schedulers.map(|b| ControllerKind::weir_with(b, &scenario))) {
        let once = run(&scenario, &variant, 7).expect("a run");
        assert_eq!(
            format!("{once:?}"),
            format!("{:?}", run(&scenario, &variant, 7).expect("a run"))
        );
        let other = run(&scenario, &variant, 8).expect("a run");
        assert_ne!(once.series, other.series, "{}", variant.name());
    }
}
