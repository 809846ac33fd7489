// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Knees of known curves, with noise, walls and gaps.

use super::*;
use crate::units::GIB;
use proptest::prelude::*;

fn point(bytes_per_sec: f64, latency_ns: f64) -> LoadPoint {
    LoadPoint {
        bytes_per_sec: BytesPerSec::new(bytes_per_sec),
        latency_ns: Nanos::rounded(latency_ns),
    }
}

/// M/D/1: power is largest where u = 2/(1 + √(…)); here found by trying all.
fn md1(capacity: f64, idle: f64, service: f64) -> impl Fn(f64) -> f64 {
    move |b| idle + service * (b / capacity) / (2.0 * (1.0 - b / capacity))
}

fn true_knee(latency: impl Fn(f64) -> f64, capacity: f64) -> f64 {
    let at = |i: u32| capacity * f64::from(i) / 10_000.0;
    (1..10_000)
        .map(at)
        .max_by(|a, b| (a / latency(*a)).total_cmp(&(b / latency(*b))))
        .unwrap()
}

/// Nine loads, as a search would measure them.
fn curve(latency: impl Fn(f64) -> f64, capacity: f64) -> Vec<LoadPoint> {
    let loads = [0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.87, 0.93, 0.97];
    loads
        .iter()
        .map(|u| point(u * capacity, latency(u * capacity)))
        .collect()
}

#[test]
fn a_curve_without_noise_gives_its_knee() {
    for (idle, service) in [(250.0, 40.0), (350.0, 400.0), (100.0, 13.0)] {
        let latency = md1(20e9, idle, service);
        let found = find(&curve(&latency, 20e9)).unwrap();
        let knee = true_knee(&latency, 20e9);
        let off = found.bytes_per_sec.get() / knee - 1.0;
        assert!(
            off.abs() < 0.01,
            "{idle} {service}: {found:?}, not {knee:e}"
        );
        assert!(found.fit_error_ratio < 0.01, "{found:?}");
    }
}

#[test]
fn what_lies_past_the_peak_does_not_mislead() {
    let latency = md1(10e9, 300.0, 60.0);
    let mut points = curve(&latency, 10e9);
    let alone = find(&points).unwrap();
    // Overload: less bandwidth at many times the latency.
    points.extend([point(9.6e9, 2500.0), point(9.0e9, 4000.0)]);
    let with = find(&points).unwrap();
    assert!(
        (with.bytes_per_sec.get() / alone.bytes_per_sec.get() - 1.0).abs() < 0.01,
        "{with:?} {alone:?}"
    );
}

#[test]
fn the_knee_of_a_wall_is_at_its_crest() {
    // asic-x16, non-temporal stores, as modelled: bandwidth in GiB/s, latency in ns.
    let wall = [
        (5.4, 301.0),
        (11.4, 344.0),
        (15.9, 373.0),
        (23.7, 420.0),
        (35.2, 483.0),
        (39.6, 505.0),
        (42.0, 517.0),
        (44.2, 540.0),
        (44.1, 944.0),
        (43.7, 1100.0),
    ];
    let points: Vec<LoadPoint> = wall.iter().map(|(b, l)| point(b * GIB, *l)).collect();
    let found = find(&points).unwrap().bytes_per_sec.get() / GIB;
    assert!((42.0..=44.2).contains(&found), "{found}");
    // Without a point past the crest nothing shows that it ends there.
    assert!(matches!(find(&points[..8]), Err(NoKnee::NotReached { .. })));
}

/// Loading threads that fall into step with each other make points that lie on no curve.
#[test]
fn a_knee_that_was_passed_is_not_above_all_loads() {
    // Measured in the testbed, on a device of 90.4 MiB/s: MiB/s, ns.
    let measured = [
        (9.44, 6322.6),
        (15.9, 6389.2),
        (22.0, 6428.7),
        (32.4, 6600.7),
        (48.6, 7010.1),
        (59.2, 6914.4),
        (65.2, 8403.6),
        (76.1, 7268.3),
        (83.8, 6590.4),
        (86.8, 10000.3),
        (87.5, 13004.6),
        (87.7, 14095.1),
        (87.7, 14800.3),
        (79.1, 6997.1),
        (81.5, 6792.3),
        (86.2, 9486.4),
    ];
    let mib = (1u64 << 20) as f64;
    let points: Vec<LoadPoint> = measured.iter().map(|(b, l)| point(b * mib, *l)).collect();
    let found = find(&points).unwrap().bytes_per_sec.get() / mib;
    assert!((80.0..88.0).contains(&found), "{found}");
    assert!(next_load(&points).is_none(), "no load is left to measure");
}

#[test]
fn noise_does_not_put_the_knee_at_no_load() {
    // A search measured this while limits settled: latencies between 516 and 5500 ns.
    let measured = [
        (9.168, 19246.0),
        (7.905, 5518.0),
        (5.973, 2622.0),
        (4.886, 1611.0),
        (3.971, 735.0),
        (3.232, 803.0),
        (4.370, 784.0),
        (4.473, 640.0),
        (3.628, 547.0),
    ];
    let points: Vec<LoadPoint> = measured.iter().map(|(b, l)| point(b * 1e9, *l)).collect();
    match find(&points) {
        Ok(knee) => assert!(knee.bytes_per_sec.get() >= 3.232e9, "{knee:?}"),
        Err(NoKnee::Passed { lowest }) => assert!((lowest - 3.628e9).abs() < 1e6, "{lowest:e}"),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_knee_that_cannot_be_found_has_a_reason() {
    let flat: Vec<LoadPoint> = (1..9).map(|i| point(f64::from(i) * 1e9, 300.0)).collect();
    assert_eq!(find(&flat), Err(NoKnee::NotReached { highest: 8e9 }));
    assert_eq!(find(&flat[..4]), Err(NoKnee::TooFew { points: 4 }));
    let same = vec![point(1e9, 300.0); 20];
    assert_eq!(find(&same), Err(NoKnee::TooFew { points: 1 }));
}

#[test]
fn a_wall_between_two_loads_is_looked_for() {
    // Nearly no queue before it: only loads close to the wall show where it is.
    let latency = md1(10e9, 300.0, 1.5);
    let truth = true_knee(&latency, 10e9);
    let loads = [0.5e9, 1e9, 2e9, 3e9, 4e9, 6e9, 9.9999e9];
    let mut points: Vec<LoadPoint> = loads.iter().map(|b| point(*b, latency(*b))).collect();
    let mut measured = 0;
    while let Some(load) = next_load(&points) {
        measured += 1;
        assert!(measured < 12, "it does not end: {points:?}");
        points.push(point(load.get(), latency(load.get())));
    }
    assert!(measured > 2, "the gap was seen");
    let found = find(&points).unwrap().bytes_per_sec.get();
    assert!(
        (found / truth - 1.0).abs() < 0.05,
        "{found:e}, not {truth:e}"
    );
    assert_eq!(next_load(&[]), None);
    assert_eq!(next_load(&points[..1]), None);
}

proptest! {
    /// Two percent of noise on every latency and one on every bandwidth: a knee within five percent.
    #[test]
    fn noise_moves_the_knee_little(
        idle in 80.0..600.0f64,
        rise in 0.0..0.5f64,
        service_ratio in 0.03..0.8f64,
        noise in prop::collection::vec(-1.0..1.0f64, 18),
    ) {
        let capacity = 30e9;
        let queue = md1(capacity, idle, idle * service_ratio);
        let latency = move |b: f64| queue(b) + rise * idle * (b / capacity).sqrt();
        let mut points = curve(&latency, capacity);
        for (p, n) in points.iter_mut().zip(noise.chunks(2)) {
            p.latency_ns = Nanos::rounded(p.latency_ns.0 as f64 * (1.0 + 0.02 * n[0]));
            p.bytes_per_sec = BytesPerSec::new(p.bytes_per_sec.get() * (1.0 + 0.01 * n[1]));
        }
        let knee = true_knee(&latency, capacity);
        let found = find(&points).unwrap().bytes_per_sec.get();
        prop_assert!((found / knee - 1.0).abs() < 0.05, "{found:e}, not {knee:e}");
    }

    /// Whatever is measured: an answer or a reason, and a knee within what was measured.
    #[test]
    fn anything_is_survived(raw in prop::collection::vec((any::<f64>(), any::<u64>()), 0..40)) {
        let points: Vec<LoadPoint> = raw
            .iter()
            .map(|&(b, l)| LoadPoint { bytes_per_sec: BytesPerSec::new(b), latency_ns: Nanos(l) })
            .collect();
        if let Ok(knee) = find(&points) {
            let most = points.iter().map(|p| p.bytes_per_sec.get()).fold(0.0, f64::max);
            prop_assert!(knee.bytes_per_sec.get() > 0.0 && knee.bytes_per_sec.get() <= most);
        }
    }
}
