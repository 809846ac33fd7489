// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DRAM channel against peers, closed forms and bad input.
#![allow(clippy::unwrap_used)] // In helpers of tests, which clippy takes for code.

// The mixes of the comparison of orders.
#[path = "../../examples/dram_orders/mixes.rs"]
#[allow(dead_code)]
mod mixes;

mod bounds;
mod loaded_latency;
mod orders;
mod peer_row;
mod peers;
mod profile;

use weir_dram::{
    AddressMapping, ChannelSettings, DramChannel, DramProfile, OrderKind, PEERS_SEED, PatternTrace,
    ReplaySpan, TracePattern, replay,
};

struct Run {
    profile: DramProfile,
    channel: DramChannel,
    span: ReplaySpan,
}

impl Run {
    fn of(
        profile: &DramProfile,
        settings: ChannelSettings,
        order: OrderKind,
        pattern: TracePattern,
        writes_percent: u32,
        requests: usize,
    ) -> Run {
        let order = order.order(profile, settings.entries);
        let mut channel = DramChannel::new(profile, settings, order);
        let parts = &profile.organisation;
        let lines = PatternTrace::new(pattern, parts, writes_percent, PEERS_SEED);
        let span = replay(&mut channel, lines.take(requests));
        Run {
            profile: profile.clone(),
            channel,
            span,
        }
    }

    fn bytes_per_sec(&self) -> f64 {
        let bytes = self.span.requests * self.profile.organisation.burst_bytes;
        bytes as f64 / self.profile.ns(self.span.clocks as f64) * 1e9
    }

    fn read_ns(&self) -> Option<f64> {
        let mean = self.channel.tallies().total().read_latency.mean()?;
        Some(self.profile.ns(mean))
    }
}

fn settings(mapping: AddressMapping, entries: u32) -> ChannelSettings {
    ChannelSettings {
        mapping,
        entries,
        ..ChannelSettings::PEERS
    }
}
