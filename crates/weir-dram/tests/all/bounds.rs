// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What closed forms say of the channel.

use super::{Run, settings};
use proptest::prelude::*;
use weir_dram::{
    AddressMapping, BurstKind, BurstRequest, ChannelSettings, ChannelStep, DramBounds, DramChannel,
    DramProfile, Offered, OrderKind, TracePattern,
};

/// Serves one request that is offered now, and gives its latency in nanoseconds.
fn alone_ns(profile: &DramProfile, channel: &mut DramChannel, burst: u64) -> f64 {
    let request = BurstRequest {
        source: 0,
        kind: BurstKind::Read,
        burst,
    };
    assert_eq!(channel.offer(request, channel.now()), Offered::Queued);
    loop {
        if let ChannelStep::Served(served) = channel.step(u64::MAX) {
            return profile.ns((served.done - served.arrived) as f64);
        }
    }
}

#[test]
fn an_idle_channel_answers_after_the_formula() {
    for name in DramProfile::names() {
        let profile = DramProfile::named(name).unwrap();
        let bounds = DramBounds::of(&profile);
        let order = OrderKind::FrFcfs.order(&profile, 32);
        let mut channel = DramChannel::new(&profile, ChannelSettings::PEERS, order);
        let parts = &profile.organisation;
        let other_row = u64::from(parts.bursts_per_row) * u64::from(parts.banks());
        let near = |found: f64, formula: f64, late_clocks: u64| {
            // A DDR5 activate holds the bus for two clocks; its tRCD begins with the second.
            let late = profile.ns(late_clocks as f64);
            assert!(
                (found / (formula + late) - 1.0).abs() < 0.01,
                "{name}: {found} {formula}"
            );
        };
        near(alone_ns(&profile, &mut channel, 0), bounds.idle_miss_ns, 0);
        // Long after tRAS and tWR.
        while channel.now() < 500 {
            assert_eq!(channel.step(499), ChannelStep::Idle);
        }
        let late = profile.timing.activate_bus_clocks - 1;
        near(
            alone_ns(&profile, &mut channel, other_row),
            bounds.idle_conflict_ns,
            0,
        );
        assert!(late <= 1);
    }
}

#[test]
fn saturated_latency_is_occupancy_over_bandwidth() {
    // Little's law with the queue full of reads, and the requests whose rows are being opened.
    let profile = DramProfile::named("ddr4-3200").unwrap();
    let run = Run::of(
        &profile,
        settings(AddressMapping::RoBaRaCoCh, 128),
        OrderKind::FrFcfs,
        TracePattern::Random,
        0,
        100_000,
    );
    let parts = run.channel.tallies().total().read_latency.parts();
    let in_channel = parts.total() as f64 / run.span.clocks as f64;
    assert!(
        in_channel > 128.0 && in_channel < 128.0 + 16.0 + 16.0,
        "{in_channel}"
    );
}

#[test]
fn the_parts_of_a_latency_add_up_and_name_their_causes() {
    let profile = DramProfile::named("ddr4-3200").unwrap();
    let run = |pattern, writes| {
        let settings = settings(AddressMapping::RoBaRaCoCh, 32);
        let run = Run::of(
            &profile,
            settings,
            OrderKind::FrFcfs,
            pattern,
            writes,
            100_000,
        );
        let parts = run.channel.tallies().total().read_latency.parts();
        let all = parts.total() as f64;
        [
            parts.queue,
            parts.turn_around,
            parts.conflict,
            parts.refresh,
            parts.transfer,
        ]
        .map(|part| part as f64 / all)
    };
    let [_, turn, conflict, refresh, _] = run(TracePattern::Random, 0);
    assert_eq!(turn, 0.0, "reads only");
    assert!(conflict > 0.1, "each read opens a row: {conflict}");
    assert!(
        refresh > 0.02 && refresh < 0.2,
        "a refresh holds all banks for 4.6 % of the time: {refresh}"
    );
    let [_, turn, ..] = run(TracePattern::Random, 50);
    assert!(turn > 0.2, "half of the time is that of writes: {turn}");
    let [_, _, conflict, ..] = run(TracePattern::Sequential, 0);
    assert!(conflict < 0.02, "one row in 128 reads: {conflict}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_channel_exceeds_its_bounds(
        profile in 0..3usize,
        mapping in 0..3usize,
        order in 0..10usize,
        pattern in 0..5usize,
        writes in 0..=100u32,
        entries in 2..200u32,
    ) {
        let profile = DramProfile::named(DramProfile::names()[profile]).unwrap();
        let pattern = TracePattern::ALL[pattern].1;
        let settings = settings(AddressMapping::ALL[mapping].1, entries);
        let run = Run::of(&profile, settings, OrderKind::ALL[order].1, pattern, writes, 20_000);
        let bounds = DramBounds::of(&profile);
        let total = run.channel.tallies().total();
        prop_assert_eq!(total.bursts.iter().chain(&total.merged).sum::<u64>(), 20_000);
        let moved = total.bursts.iter().sum::<u64>() as f64 / 20_000.0;
        // What has merged has moved nothing; a run that ends before its share of refreshes has fewer.
        prop_assert!(run.bytes_per_sec() * moved <= bounds.peak_bytes_per_sec);
        if pattern == TracePattern::Random {
            let hits = total.row_reuse_ratio().unwrap_or(0.0);
            let rows = run.bytes_per_sec() * moved * (1.0 - hits);
            prop_assert!(rows <= bounds.random_bytes_per_sec * 1.06, "{} {}", rows, hits);
        }
        if let Some(mean) = run.read_ns() && total.merged[0] == 0 {
            prop_assert!(mean >= profile.ns((profile.timing.cl_clocks + profile.timing.bl_clocks) as f64));
        }
    }
}
