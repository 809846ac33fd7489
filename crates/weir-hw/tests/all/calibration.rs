// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The profiles against the measured rows: fails when a change of the equations or of a profile
//! moves them apart.

use crate::measured::{active_threads, assess, curves};
use crate::{fit, measured, thesis};
use weir_hw::memory_device::Profile;
use weir_hw::memory_device::mlc_sweep::LoadMix;

const MEAN_MAX: f64 = 0.05;
const WORST_MAX: f64 = 0.15;
const HELD_OUT_MEAN_MAX: f64 = 0.04;
const SATURATION_MAX: f64 = 0.10;
/// Largest error of a curve whose probe shares its core with a loader: 13 to 39 % was found.
const CROWDED_MAX: f64 = 0.4;

/// The first of two runs that the file calls the same has 11 cores and the second hardware threads of six
/// (`-k1-11,96-101`), of which one is the probe's own core: its latency at saturation is not the
/// device's. The second run has 16 cores, and is met.
fn has_a_crowded_probe(curve: &measured::Curve) -> bool {
    curve.device == "ddr5" && curve.threads == 16 && curve.run == 0
}

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
        let verdict = assess(&profile, curve, active_threads(curve, &all));
        let name = &verdict.curve;
        assert!(verdict.mean <= MEAN_MAX, "{name}: mean {}", verdict.mean);
        assert!(
            verdict.worst.abs() <= WORST_MAX,
            "{name}: worst {}",
            verdict.worst
        );
        let off = verdict.saturation_latency.abs();
        let is_excepted = has_a_crowded_probe(curve);
        let limit = if is_excepted {
            CROWDED_MAX
        } else {
            SATURATION_MAX
        };
        assert!(off <= limit, "{name}: saturated latency {off}");
        assert!(
            !is_excepted || off > SATURATION_MAX,
            "{name} is no exception any more"
        );
        assert!(
            verdict.saturation_bandwidth.abs() <= 0.05,
            "{name}: {verdict}"
        );
        // Point per delay: what `weir-lab device` prints. Looser, see docs/explanation/device-model.md.
        assert!(verdict.delay_latency[0] <= 0.17, "{name}: {verdict}");
        assert!(verdict.delay_bandwidth[0] <= 0.05, "{name}: {verdict}");
    }
}

/// Runs with 2, 8 and 32 threads, from which no figure of the profile was taken.
#[test]
fn curves_that_were_held_out_are_met() {
    let profile = Profile::named("asic-x16").expect("built in");
    let all = measured::held_out();
    assert_eq!(all.len(), 15, "three thread counts, five mixes");
    let (mut sum, mut rows) = (0.0, 0.0);
    for curve in &all {
        assert_eq!(curve.rows.len(), 19);
        let verdict = assess(&profile, curve, f64::from(curve.threads));
        let compared = curve.compared_rows().count() as f64;
        sum += verdict.mean * compared;
        rows += compared;
        assert!(verdict.worst.abs() <= WORST_MAX, "{verdict}");
        let most = if curve.threads > profile.host.cores {
            // How much longer a probe waits that shares its core is known from 46 threads only.
            0.25
        } else {
            SATURATION_MAX
        };
        assert!(verdict.saturation_latency.abs() <= most, "{verdict}");
        assert!(verdict.saturation_bandwidth.abs() <= 0.13, "{verdict}");
    }
    let mean = sum / rows;
    assert!(mean <= HELD_OUT_MEAN_MAX, "mean {mean}");
    assert!(rows > 200.0, "{rows} rows are compared");
}

/// Changes the profile as if a write-back took a place in its core's window.
fn all_in_the_window(profile: &mut Profile) {
    for mix in &mut profile.mix {
        (mix.read_window_lines, mix.early_ns) = (None, 0.0);
    }
}

/// What is taken away: its name, how, the threads of the curves that it shows in, and the least error
/// without it.
type Case = (&'static str, fn(&mut Profile), u32, f64);

/// Each assumption taken away: without it curves that were held out are missed.
#[test]
fn each_mechanism_is_needed() {
    let whole = Profile::named("asic-x16").expect("built in");
    let worst = |change: fn(&mut Profile), threads: u32| {
        let mut profile = whole.clone();
        change(&mut profile);
        let curves = measured::held_out();
        let errors = curves.iter().filter(|c| c.threads == threads).map(|c| {
            let verdict = assess(&profile, c, f64::from(threads));
            verdict.worst.abs().max(verdict.saturation_latency.abs())
        });
        errors.fold(0.0, f64::max)
    };
    let cases: [Case; 5] = [
        ("write-backs outside the window", all_in_the_window, 8, 0.12),
        (
            "places free early",
            |p| p.mix.iter_mut().for_each(|m| m.early_ns = 0.0),
            2,
            0.2,
        ),
        (
            "posted stores share a queue",
            |p| p.mix.iter_mut().for_each(|m| m.shared_lines = None),
            2,
            0.2,
        ),
        (
            "rise by others",
            |p| p.device.is_rise_by_others = false,
            2,
            0.15,
        ),
        (
            "probe beside a loader",
            |p| p.mix.iter_mut().for_each(|m| m.probe_wait_ratio = 0.0),
            32,
            0.4,
        ),
    ];
    for (name, change, threads, least) in cases {
        let (with, without) = (worst(|_| (), threads), worst(change, threads));
        println!("{name}, {threads} threads: {with:.3} with, {without:.3} without");
        assert!(without > least && without > 1.2 * with, "{name}: {without}");
    }
}

#[test]
fn the_window_alone_predicts_the_latency_of_saturated_reads() {
    let all = curves();
    let profile = Profile::named("asic-x16").expect("built in");
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
        weir_hw::memory_device::mlc_sweep::curve(&profile, threads, mix, &[0])[0]
            .bandwidth_bytes_per_sec
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
            assert_eq!(a.read_window_lines, b.read_window_lines, "{name}");
            assert_eq!(a.shared_lines, b.shared_lines, "{name}");
            assert_eq!(a.early_ns, b.early_ns, "{name}");
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
