// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thesis's evaluation on the simulated machine, beside its printed figures.
//!
//! What fits is asserted, what does not is printed with its deviation and explained at [`LIMITED`];
//! nothing is adjusted for a single variant.

use weir_sim::{ControllerKind, RunMetrics, Scenario, ScxVariant, run};

const GIB: f64 = 1073741824.0;

fn scenario(text: &str) -> Scenario {
    Scenario::parse(text, "test").unwrap_or_else(|e| panic!("{e}"))
}

fn mean_of(
    scenario: &Scenario,
    variant: &ControllerKind,
    pick: impl Fn(&RunMetrics) -> f64,
) -> Vec<f64> {
    let runs = (1..=2).map(|seed| pick(&run(scenario, variant, seed).expect("a run")));
    runs.collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Table 2: variant, mean in GiB/s, and how far the simulation may be off.
///
/// The throttle queue is 11 to 13 % too high. A CPU that finds the queue empty keeps its task for 20 ms, and
/// how often that is depends on how much else wakes, which the thesis does not say: with 800 wake-ups a
/// second instead of 100 it stays, with 2400 it is 4.3 GiB/s, but then vtime is 3.4.
const LIMITED: [(ControllerKind, f64, f64); 6] = [
    (ControllerKind::None, 8.04, 0.10),
    (ControllerKind::Scx(ScxVariant::RoundRobin), 6.32, 0.10),
    (ControllerKind::Scx(ScxVariant::Vtime), 6.18, 0.10),
    (ControllerKind::Scx(ScxVariant::ThrottleQueue), 4.86, 0.15),
    (
        ControllerKind::Cgroups {
            is_individual: true,
        },
        4.27,
        0.10,
    ),
    (
        ControllerKind::Cgroups {
            is_individual: false,
        },
        4.14,
        0.10,
    ),
];

#[test]
fn table_2_and_figures_18_and_19() {
    let scenario = scenario(include_str!("../../../../scenarios/sim/thesis-limit.toml"));
    let mut costs = Vec::new();
    let mut throughputs = Vec::new();
    let mut means = Vec::new();
    for (variant, wanted, tolerance) in LIMITED {
        let runs: Vec<RunMetrics> = (1..=2)
            .map(|seed| run(&scenario, &variant, seed).expect("a run"))
            .collect();
        let of =
            |pick: &dyn Fn(&RunMetrics) -> f64| mean(&runs.iter().map(pick).collect::<Vec<_>>());
        let found = of(&|m| m.bandwidth.mean_bytes_per_sec) / GIB;
        costs.push(of(&|m| m.cpu_sec_per_gib.expect("bytes")));
        throughputs.push(of(&|m| m.throughput_ops_per_sec.expect("ops")));
        println!(
            "{:22} {found:5.2} GiB/s (thesis {wanted:4.2}, {:+5.1} %), {:.3} CPU-s/GiB, throughput {:+.1} %",
            variant.name(),
            (found / wanted - 1.0) * 100.0,
            costs[costs.len() - 1],
            (throughputs[throughputs.len() - 1] / throughputs[0] - 1.0) * 100.0,
        );
        let off = (found / wanted - 1.0).abs();
        assert!(off < tolerance, "{}: {found}", variant.name());
        means.push(found);
    }
    // The same order; the two of cgroups hold the set-point and differ by less than 1 %.
    assert!(means[..5].is_sorted_by(|a, b| a > b), "{means:?}");
    assert!((means[5] / means[4] - 1.0).abs() < 0.02, "{means:?}");
    // Figure 18: about -40 %; figure 19: +4.5 to +6.7 %.
    for (cost, throughput) in costs.iter().zip(&throughputs).skip(3) {
        let (saved, gained) = (1.0 - cost / costs[0], throughput / throughputs[0] - 1.0);
        assert!((0.25..0.50).contains(&saved), "CPU cost {saved}");
        assert!((0.03..0.09).contains(&gained), "throughput {gained}");
    }
}

#[test]
fn table_3_against_littles_law() {
    let scenario = scenario(include_str!(
        "../../../../scenarios/sim/thesis-latency.toml"
    ));
    let printed = [9003.0, 7772.0, 6292.0, 6533.0, 6671.0, 6731.0];
    for ((variant, bandwidth, _), printed_us) in LIMITED.into_iter().zip(printed) {
        let m = run(&scenario, &variant, 1).expect("a run");
        let micros = |ns: Option<f64>| ns.expect("blocks") / 1e3;
        // Waits of ten readers of 4 MiB blocks at the bandwidths of table 2 (measured with five).
        let law = 10.0 * 4.0 / 1024.0 / bandwidth * 1e6;
        println!(
            "{:22} block {:6.0} us, stddev {:6.0}, p99 {:7.0} (thesis {printed_us:5.0}; Little's law at its bandwidth {law:5.0})",
            variant.name(),
            micros(m.limited_readers.mean_ns),
            micros(m.limited_readers.stddev_ns),
            micros(m.limited_readers.p99_ns),
        );
        let bound = m.little_bound_ns.expect("blocks");
        let ratio = m.limited_readers.mean_ns.expect("blocks") / bound;
        assert!((0.9..1.1).contains(&ratio), "{}: {ratio}", variant.name());
    }
}

#[test]
fn figure_11_slices_do_not_limit_an_idle_machine() {
    let scenario = scenario(include_str!("../../../../scenarios/sim/thesis-idle.toml"));
    let bandwidth = |variant: ControllerKind| {
        mean(&mean_of(&scenario, &variant, |m| {
            m.bandwidth.mean_bytes_per_sec
        })) / GIB
    };
    let free = bandwidth(ControllerKind::None);
    let sliced = bandwidth(ControllerKind::Scx(ScxVariant::RoundRobin));
    let held = bandwidth(ControllerKind::Cgroups {
        is_individual: true,
    });
    println!(
        "idle machine: none {free:.2}, scx {sliced:.2}, cgroups {held:.2} GiB/s (thesis: about 10, 10, 4)"
    );
    // The device profile gives five readers about 8 GiB/s also where they are alone.
    assert!((7.5..10.5).contains(&free), "{free}");
    assert!((sliced / free - 1.0).abs() < 0.02, "{sliced}");
    assert!((held / 4.0 - 1.0).abs() < 0.10, "{held}");
}

#[test]
fn figure_8_estimates_are_ten_to_fifteen_percent_off() {
    let scenario = scenario(include_str!(
        "../../../../scenarios/sim/thesis-estimate.toml"
    ));
    let runs = (1..=6).map(|seed| run(&scenario, &ControllerKind::Monitor, seed).expect("a run"));
    let errors: Vec<f64> = runs
        .flat_map(|m| m.estimate_error_ratio.into_values())
        .collect();
    println!("error of the combined estimate: {errors:.3?} (thesis: 0.104 and 0.151)");
    assert!((0.09..0.16).contains(&mean(&errors)), "{errors:?}");
}

#[test]
fn figure_12_larger_users_are_limited_more() {
    let scenario = scenario(include_str!(
        "../../../../scenarios/sim/thesis-asymmetric.toml"
    ));
    let m = run(
        &scenario,
        &ControllerKind::Cgroups {
            is_individual: true,
        },
        1,
    )
    .expect("a run");
    let last = |name: &str| {
        let w = m
            .workloads
            .iter()
            .find(|w| w.name == name)
            .expect("a reader");
        let tail = |all: &[f64]| mean(&all[all.len() - 100..]);
        (tail(&w.cpus), tail(&w.limit_cpus))
    };
    let (small, large) = (last("fio-1"), last("fio-3"));
    println!(
        "1 GiB/s: uses {:.2}, limit {:.2}; 3 GiB/s: uses {:.2}, limit {:.2} CPUs (thesis: 0.25, 0.65; 0.40, 0.45)",
        small.0, small.1, large.0, large.1
    );
    assert!((small.0 / 0.25 - 1.0).abs() < 0.10, "used {small:?}");
    // The larger is held close above what it uses, the smaller is left far more than it uses.
    assert!((1.0..1.2).contains(&(large.1 / large.0)), "{large:?}");
    assert!(small.1 > large.1 && small.1 / small.0 > 2.0, "{small:?}");
    let total = m.bandwidth.mean_bytes_per_sec / GIB;
    assert!((total / 3.0 - 1.0).abs() < 0.05, "{total}");
}
