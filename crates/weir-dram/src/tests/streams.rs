// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ten million commands keep all rules of the part.

use super::checker::TimingChecker;
use super::{Replayed, changed, same_bank, two_ranks};
use crate::{AddressMapping, DramProfile, OrderKind, PagePolicy, TracePattern};

fn profiles() -> Vec<DramProfile> {
    let mut all: Vec<_> = DramProfile::names()
        .into_iter()
        .map(|name| changed(name, |_| ()))
        .collect();
    all.extend([two_ranks(), same_bank()]);
    all
}

/// Commands of a replay, and the first that breaks a rule.
fn checked(replayed: &Replayed) -> usize {
    let mut checker = TimingChecker::new(&replayed.profile);
    let commands = replayed.commands();
    for command in &commands {
        let found = checker.follow(command);
        assert!(
            found.is_empty(),
            "{}, {:?}, {}: {found:?}",
            replayed.profile.name,
            replayed.settings,
            replayed.order.name()
        );
    }
    commands.len()
}

#[test]
fn ten_million_commands_break_no_rule() {
    let mut commands = 0;
    let patterns = [
        TracePattern::Random,
        TracePattern::SequentialRandom,
        TracePattern::Sequential,
    ];
    let pages = [
        PagePolicy::Open,
        PagePolicy::Closed,
        PagePolicy::Capped(4),
        PagePolicy::Capped(1),
    ];
    for (round, (_, order)) in OrderKind::ALL.iter().cycle().enumerate() {
        for (number, profile) in profiles().iter().enumerate() {
            let mut replayed = Replayed::of(profile, patterns[(round + number) % 3]);
            replayed.order = *order;
            replayed.settings.page = pages[(round / 10 + number) % 4];
            replayed.settings.mapping = AddressMapping::ALL[(round + number / 2) % 3].1;
            replayed.settings.entries = [32, 8, 128][round % 3];
            replayed.writes_percent = [0, 30, 50, 100][(round + number) % 4];
            commands += checked(&replayed);
            replayed.settings.bank_entries = Some(8);
            replayed.requests /= 4;
            commands += checked(&replayed);
        }
        if commands >= 10_000_000 {
            break;
        }
    }
}
