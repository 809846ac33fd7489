// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Equal users become equal: the fixed point of the division attracts, from wherever a run begins.

use weir_sim::{Backend, ControllerKind, Scenario, WeirOptions, run};

/// Users that are there, and equal ones that come three seconds later; measured from ten seconds after that.
fn scenario(early: u32, late: u32, block_kib: u32, writes: f64) -> Scenario {
    let kind = |name: &str, count: u32, start_ms: u32| {
        format!(
            "[[workload]]\nname = \"{name}\"\ncount = {count}\nrole = \"heavy\"\nresident_mib = 256\n\
             busy_ns_per_line = 12.5\nstart_ms = {start_ms}\nspread_ms = 20\n[[workload.phase]]\n\
             kind = \"access\"\nblock_kib = {block_kib}\nwrite_ratio = {writes:.1}\n"
        )
    };
    let text = format!(
        "name = \"equals\"\nabout = \"made by the test\"\n[machine]\ncores = 12\nhz = 1000\n[[device]]\n\
         profile = \"agilex-thesis\"\ngroups = 1\n[sensors]\ncounts_bias_stddev = 0.0\nbias_stddev = 0.0\n\
         [control]\nset_point_bytes_per_sec = 4000000000\nsettle_sec = 13.0\nmeasure_sec = 8.0\n{}{}",
        kind("early", early, 0),
        kind("late", late, 3000),
    );
    Scenario::parse(&text, "test").unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn equal_users_become_equal_whichever_came_first() {
    for (backend, most) in [(Backend::CpuMax, 1.05), (Backend::SchedExtFull, 1.02)] {
        for (early, late, block_kib, writes) in [
            (1, 1, 64, 0.0),
            (1, 4, 256, 0.0),
            (5, 1, 64, 0.3),
            (2, 8, 1024, 0.0),
        ] {
            let scenario = scenario(early, late, block_kib, writes);
            let options = WeirOptions {
                backend,
                ..WeirOptions::default()
            };
            let held = run(&scenario, &ControllerKind::Weir(Box::new(options)), 7).expect("a run");
            let mean = |series: &[f64]| series[130..210].iter().sum::<f64>() / 80.0;
            let parts = held.workloads.iter().map(|w| mean(&w.bytes_per_sec));
            let (least, largest) = parts.fold((f64::INFINITY, 0.0f64), |(low, high), part| {
                (low.min(part), high.max(part))
            });
            let name = format!("{backend:?}, {early} and {late} later");
            println!("{name}: {:.3}", largest / least);
            assert!(
                least > 0.0 && largest / least <= most,
                "{name}: {least} to {largest}"
            );
            assert!(held.bandwidth.bias_ratio.abs() < 0.03, "{name}");
        }
    }
}
