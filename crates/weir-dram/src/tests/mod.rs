// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The channel against an independent checker, against itself, and its orders against their rules.

mod checker;
mod earliest;
mod left_out;
mod orders;
mod pages;
mod streams;

use super::{
    AddressMapping, ChannelSettings, DramChannel, DramProfile, IssuedCommand, OrderKind,
    PagePolicy, PatternTrace, RefreshKind, TracePattern, replay,
};

fn changed(name: &str, change: impl Fn(&mut DramProfile)) -> DramProfile {
    let mut profile = DramProfile::named(name).unwrap();
    change(&mut profile);
    profile
}

/// Two ranks of DDR4, and a longer tRC than tRAS and tRP need.
fn two_ranks() -> DramProfile {
    changed("ddr4-3200", |profile| {
        profile.organisation.ranks = 2;
        profile.timing.rc_clocks += 10;
    })
}

/// DDR5 with same-bank refreshes.
fn same_bank() -> DramProfile {
    changed("ddr5-4800", |profile| {
        profile.refresh.kind = RefreshKind::SameBank
    })
}

/// Commands of a channel that replays a pattern.
struct Replayed {
    profile: DramProfile,
    settings: ChannelSettings,
    order: OrderKind,
    pattern: TracePattern,
    writes_percent: u32,
    requests: usize,
}

impl Replayed {
    fn of(profile: &DramProfile, pattern: TracePattern) -> Replayed {
        Replayed {
            profile: profile.clone(),
            settings: ChannelSettings {
                mapping: AddressMapping::Mop4ClXor,
                page: PagePolicy::Open,
                ..ChannelSettings::PEERS
            },
            order: OrderKind::FrFcfs,
            pattern,
            writes_percent: 30,
            requests: 20_000,
        }
    }

    fn commands(&self) -> Vec<IssuedCommand> {
        let order = self.order.order(&self.profile, self.settings.entries);
        let mut channel = DramChannel::new(&self.profile, self.settings, order);
        channel.keep_commands();
        let parts = &self.profile.organisation;
        let lines = PatternTrace::new(self.pattern, parts, self.writes_percent, 7);
        replay(&mut channel, lines.take(self.requests));
        channel.take_commands()
    }
}
