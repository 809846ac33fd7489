// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The solver against the line-by-line model of the same profile: two ways to the same figures, of
//! which only one assumes what a queue does in the mean.

use weir_hw::memory_device::Profile;
use weir_hw::memory_device::event_sim::{self, SimulatedRun};
use weir_hw::memory_device::mlc_sweep::{LoadMix, requesters};
use weir_hw::memory_device::{DevLoad, Equilibrium, LoadedDevice};

const SEED: u64 = 0x5eed;

/// Both figures for a load, with cores' own time and waiting overlapped fully as the line-by-line
/// model has them. So many lines that a burst's draw, which comes once in `s/t` lines, comes often.
fn both(
    name: &str,
    mix: LoadMix,
    threads: f64,
    delay: u32,
    lines: usize,
) -> (Equilibrium, SimulatedRun, LoadedDevice) {
    let mut profile = Profile::named(name).expect("built in");
    profile.host.serial_share = 0.0;
    let kinds = requesters(&profile, threads, mix, delay);
    let mut solved = Equilibrium::default();
    let mut device = LoadedDevice::new(&profile);
    device.solve(&kinds, &mut solved);
    (
        solved,
        event_sim::run(&profile, &kinds, lines, SEED),
        device,
    )
}

#[test]
fn solver_and_line_by_line_model_agree() {
    let mut worst: f64 = 0.0;
    // Latency-bound, saturated, past the wall, and below the knee; not where a core's own time just
    // equals its share of the device: there the solver's corner is sharper than the queue's.
    for (threads, delay) in [
        (4.0, 0),
        (16.0, 0),
        (23.0, 0),
        (16.0, 500),
        (16.0, 1000),
        (4.0, 1000),
    ] {
        for (name, mixes) in [
            ("asic-x16", &LoadMix::ALL[..]),
            ("ddr5-2ch", &LoadMix::ALL[..4]),
        ] {
            for mix in mixes.iter().copied() {
                let at_the_corner = threads > 15.0 && (500..2000).contains(&delay);
                if at_the_corner && matches!(mix, LoadMix::TwoToOne | LoadMix::ThreeToOne) {
                    continue;
                }
                let (solved, lines, _) = both(name, mix, threads, delay, 120_000);
                let latency = solved.latency_ns / lines.latency_ns - 1.0;
                let bandwidth = solved.bytes_per_sec() / lines.bytes_per_sec - 1.0;
                worst = worst.max(latency.abs()).max(bandwidth.abs());
                // Four cores on DDR5 have 150 lines out, of which a burst takes a quarter: the
                // fewer bursts in a network, the less a mean of many says.
                let few_percent = if name == "asic-x16" { 0.06 } else { 0.09 };
                let load = format!("{name} {} {threads} threads, delay {delay}", mix.name());
                assert!(latency.abs() < few_percent, "{load}: latency {latency:+.3}");
                assert!(
                    bandwidth.abs() < few_percent,
                    "{load}: bandwidth {bandwidth:+.3}"
                );
            }
        }
    }
    println!("largest disagreement {:.1} %", worst * 100.0);
}

/// Bursts of eighty lines in a network of a few hundred: the solver's mean of many draws is far off
/// what so few bring, and this is how far.
#[test]
fn with_few_long_bursts_they_agree_less() {
    for (threads, delay) in [(4.0, 0), (16.0, 0), (4.0, 1000)] {
        let (solved, lines, _) = both("agilex-thesis", LoadMix::Reads, threads, delay, 800_000);
        let latency = solved.latency_ns / lines.latency_ns - 1.0;
        let bandwidth = solved.bytes_per_sec() / lines.bytes_per_sec - 1.0;
        println!("{threads} threads, delay {delay}: {latency:+.3} {bandwidth:+.3}");
        assert!(
            latency.abs() < 0.16,
            "{threads} {delay}: latency {latency:+.3}"
        );
        assert!(
            bandwidth.abs() < 0.16,
            "{threads} {delay}: bandwidth {bandwidth:+.3}"
        );
    }
}

#[test]
fn tails_agree() {
    for (threads, delay) in [(16.0, 1000), (16.0, 300), (16.0, 0), (4.0, 0)] {
        let (solved, lines, device) = both("asic-x16", LoadMix::Reads, threads, delay, 200_000);
        for (quantile, within) in [(0.5, 0.06), (0.99, 0.12), (0.999, 0.2)] {
            let of_solver = device.latency_quantile_ns(&solved, quantile);
            let off = of_solver / lines.quantile_ns(quantile) - 1.0;
            assert!(
                off.abs() < within,
                "{threads} {delay} p{quantile}: {off:+.3}"
            );
        }
    }
}

#[test]
fn devload_comes_out_of_the_queue() {
    for (threads, delay, class) in [
        (4.0, 5000, DevLoad::Light),
        (16.0, 1000, DevLoad::Light),
        (16.0, 0, DevLoad::SevereOverload),
        (23.0, 0, DevLoad::SevereOverload),
    ] {
        let (solved, lines, _) = both("asic-x16", LoadMix::Reads, threads, delay, 60_000);
        assert_eq!(solved.devload, class, "{threads} {delay}");
        assert_eq!(lines.devload(), class, "{threads} {delay}");
    }
    // Between the ends a queue fluctuates: every class is met, and the mean lies among them.
    let (solved, lines, _) = both("asic-x16", LoadMix::Reads, 16.0, 300, 60_000);
    assert!(solved.devload > DevLoad::Light && solved.devload < DevLoad::SevereOverload);
    assert!(
        lines.devload_ratios.iter().all(|part| *part > 0.05),
        "{:?}",
        lines.devload_ratios
    );
}

#[test]
fn the_same_seed_gives_the_same_lines() {
    let profile = Profile::named("asic-x16").expect("built in");
    let kinds = requesters(&profile, 8.0, LoadMix::OneToOne, 100);
    let first = event_sim::run(&profile, &kinds, 5_000, SEED);
    assert_eq!(first, event_sim::run(&profile, &kinds, 5_000, SEED));
    assert_ne!(first, event_sim::run(&profile, &kinds, 5_000, SEED + 1));
    let empty = event_sim::run(&profile, &[], 100, SEED);
    assert_eq!((empty.bytes_per_sec, empty.latency_ns), (0.0, 0.0));
}

#[test]
fn without_write_backs_the_directions_limit_separately() {
    let (_, reads, _) = both("asic-x16", LoadMix::Reads, 16.0, 0, 60_000);
    let (_, mixed, _) = both("asic-x16", LoadMix::OneToOne, 16.0, 0, 60_000);
    assert_eq!(reads.bytes_per_sec, reads.read_bytes_per_sec);
    let gain = mixed.bytes_per_sec / reads.bytes_per_sec;
    assert!(
        (1.07..1.20).contains(&gain),
        "both directions carry more than one: {gain}"
    );
}
