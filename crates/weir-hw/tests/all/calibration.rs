// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The profiles against the measured rows: fails when a change of the equations or of a profile
//! moves them apart.

use crate::measured::{active_threads, curves, judge};
use crate::{fit, measured, thesis};
use weir_hw::profile::Profile;
use weir_hw::sweep::LoadMix;

const MEAN_MAX: f64 = 0.05;
const WORST_MAX: f64 = 0.15;
const SATURATION_MAX: f64 = 0.10;

/// Curves whose saturation is not met, and how far it may be off. Both are the first of two runs
/// that the file calls the same, 16 threads on DDR5, but that disagree: 695 against 472 ns (1:1) and
/// 704 against 631 ns (nt-writes) at delay 0, with two thirds of the loaders active in the first.
/// More loaders wait less there, which no queue does; the profile follows the second runs.
const CONTRADICTIONS: &[(&str, f64)] = &[
    ("ddr5 16 threads 1:1 run a", 0.32),
    ("ddr5 16 threads nt-writes run a", 0.12),
];

#[test]
fn every_curve_is_met() {
    let all = curves();
    assert_eq!(
        all.len(),
        35,
        "15 curves of the CXL device, 10 of DDR5 twice"
    );
    assert_eq!(all.iter().map(|c| c.rows.len()).sum::<usize>(), 35 * 19);
    for curve in &all {
        let profile = Profile::named(curve.profile_name()).expect("built in");
        let verdict = judge(&profile, curve, active_threads(curve, &all));
        let name = &verdict.curve;
        assert!(verdict.mean <= MEAN_MAX, "{name}: mean {}", verdict.mean);
        assert!(
            verdict.worst.abs() <= WORST_MAX,
            "{name}: worst {}",
            verdict.worst
        );
        let excepted = CONTRADICTIONS.iter().find(|(other, _)| other == name);
        let limit = excepted.map_or(SATURATION_MAX, |(_, limit)| *limit);
        let off = verdict.saturation_latency.abs();
        assert!(off <= limit, "{name}: saturated latency {off}");
        assert!(
            excepted.is_none() || off > SATURATION_MAX,
            "{name} is no exception any more"
        );
        assert!(
            verdict.saturation_bandwidth.abs() <= 0.05,
            "{name}: {verdict}"
        );
        // Point per delay: what `weir sim device` prints. Looser, see docs/device-model.md.
        assert!(verdict.delay_latency[0] <= 0.17, "{name}: {verdict}");
        assert!(verdict.delay_bandwidth[0] <= 0.05, "{name}: {verdict}");
    }
}

#[test]
fn the_window_alone_predicts_the_latency_of_saturated_reads() {
    let all = curves();
    let profile = Profile::named("asic-x16").expect("built in");
    assert!(LoadMix::Reads.figures(&profile).in_flight_lines.is_empty());
    for (threads, cores) in [(4, 4.0), (16, 16.0), (46, 23.0)] {
        let reads = |c: &&measured::Curve| {
            c.device == "cxl" && c.mix == LoadMix::Reads && c.threads == threads
        };
        let curve = all.iter().find(reads).expect("measured");
        let row = curve.rows[0];
        let law = (cores * profile.host.window_lines + 1.0) * 64e9 / row.bytes_per_sec;
        assert!(
            (law / row.latency_ns - 1.0).abs() < 0.05,
            "{threads}: {law}"
        );
    }
}

#[test]
fn bandwidth_falls_past_the_wall_and_mixed_traffic_beats_reads() {
    let profile = Profile::named("asic-x16").expect("built in");
    let peak = |threads, mix| {
        weir_hw::sweep::curve(&profile, threads, mix, &[0])[0].bandwidth_bytes_per_sec
    };
    for (mix, least, most) in [
        (LoadMix::Reads, 0.015, 0.04),
        (LoadMix::TwoToOne, 0.03, 0.09),
        (LoadMix::ThreeToOne, 0.03, 0.09),
        (LoadMix::OneToOne, 0.05, 0.10),
    ] {
        let lost = 1.0 - peak(46.0, mix) / peak(16.0, mix);
        assert!((least..most).contains(&lost), "{}: {lost}", mix.name());
    }
    let mixed = peak(16.0, LoadMix::OneToOne) / peak(16.0, LoadMix::Reads);
    assert!((1.08..1.18).contains(&mixed), "54 against 48 GB/s: {mixed}");
}

#[test]
fn the_data_still_give_these_profiles() {
    let all = curves();
    for (device, name) in [("cxl", "asic-x16"), ("ddr5", "ddr5-2ch")] {
        let kept = Profile::named(name).expect("built in");
        let mine = fit::of_device(device, &all);
        let fitted = fit::fit_with(&kept, kept.host.serial_share, &mine, &all);
        for (a, b) in kept.mix.iter().zip(&fitted.mix) {
            // Rise and burst can stand in for each other a little; capacity cannot.
            for (kept, fitted, within) in [
                (a.media_bytes_per_sec, b.media_bytes_per_sec, 0.02),
                (a.rise_ns, b.rise_ns, 0.1),
                (a.burst_ns, b.burst_ns, 0.1),
                (a.rise_exponent, b.rise_exponent, 0.1),
            ] {
                let same = (kept - fitted).abs() <= within * kept.abs();
                assert!(
                    same,
                    "{name}, write ratio {}: {kept}, now {fitted}",
                    a.write_ratio
                );
            }
            assert_eq!(a.in_flight_lines, b.in_flight_lines, "{name}");
            assert_eq!(a.loader_ns, b.loader_ns, "{name}");
        }
    }
}

#[test]
fn the_thesis_device_keeps_to_the_figures_that_agree_with_each_other() {
    let profile = Profile::named("agilex-thesis").expect("built in");
    let of = thesis::of_burst(&profile, profile.mix[0].burst_ns);
    assert!(
        (7.23..8.85).contains(&of.five_gib),
        "8.04 ± 0.81: {}",
        of.five_gib
    );
    assert!(
        (0.55..0.65).contains(&of.five_cost),
        "about 0.6: {}",
        of.five_cost
    );
    assert!(
        (4500.0..5700.0).contains(&of.knee_mib),
        "about 5000: {}",
        of.knee_mib
    );
    assert!(
        (8.5..10.0).contains(&of.ten_gib),
        "about 10 at most: {}",
        of.ten_gib
    );
    // Lower quartile of the thesis' block latencies; its mean contradicts its bandwidth.
    assert!((4.0..5.5).contains(&of.ten_block_ms), "{}", of.ten_block_ms);
}
