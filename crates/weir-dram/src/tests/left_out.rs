// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A channel that leaves a constraint out is caught by the checker, each constraint in turn.

use super::checker::TimingChecker;
use super::{Replayed, changed, same_bank, two_ranks};
use crate::{DramProfile, OrderKind, PagePolicy, RefreshKind, TracePattern};
use std::collections::BTreeSet;

/// Rules that a channel breaks which believes in `believed` where the part is `real`.
fn broken(real: &DramProfile, believed: &DramProfile) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for pattern in [
        TracePattern::Random,
        TracePattern::Sequential,
        TracePattern::SequentialRandom,
    ] {
        for page in [PagePolicy::Open, PagePolicy::Closed] {
            let mut replayed = Replayed::of(believed, pattern);
            replayed.settings.page = page;
            // In the order of arrival a bank waits for its own timings and seldom for others'.
            replayed.order = OrderKind::RowHitFirst;
            let mut checker = TimingChecker::new(real);
            for command in replayed.commands() {
                found.extend(
                    checker
                        .follow(&command)
                        .into_iter()
                        .map(|violation| violation.rule),
                );
            }
        }
    }
    found
}

/// A rule, and how a channel forgets it.
type LeftOut = (&'static str, fn(&mut DramProfile));

const OF_TWO_RANKS: [LeftOut; 17] = [
    ("rcd", |p| p.timing.rcd_clocks -= 1),
    ("rp", |p| p.timing.rp_clocks -= 1),
    ("ras", |p| p.timing.ras_clocks -= 1),
    ("rc", |p| p.timing.rc_clocks -= 1),
    ("wr", |p| p.timing.wr_clocks -= 1),
    ("rtp", |p| p.timing.rtp_clocks -= 1),
    ("ccd_s", |p| p.timing.ccd_s_clocks -= 1),
    ("ccd_l", |p| p.timing.ccd_l_clocks -= 1),
    ("rrd_s", |p| p.timing.rrd_s_clocks -= 1),
    ("rrd_l", |p| p.timing.rrd_l_clocks -= 1),
    ("wtr_s", |p| p.timing.wtr_s_clocks -= 1),
    ("wtr_l", |p| p.timing.wtr_l_clocks -= 1),
    ("faw", |p| p.timing.faw_clocks -= 1),
    ("rtw", |p| p.timing.rtw_clocks -= 1),
    ("cs", |p| p.timing.cs_clocks -= 1),
    ("rfc", |p| p.refresh.rfc_clocks -= 1),
    ("refi", |p| p.refresh.kind = RefreshKind::None),
];

const OF_DDR5: [LeftOut; 6] = [
    ("ccd_s_write", |p| p.timing.ccd_s_write_clocks = Some(7)),
    ("ccd_l_write", |p| p.timing.ccd_l_write_clocks = Some(47)),
    ("ppd", |p| p.timing.ppd_clocks = 1),
    ("command bus", |p| p.timing.activate_bus_clocks = 1),
    ("command bus", |p| p.timing.column_bus_clocks = 1),
    ("rfc_same_bank", |p| {
        p.refresh.rfc_same_bank_clocks = Some(312)
    }),
];

fn is_caught(real: &DramProfile, (rule, forget): &LeftOut) {
    let mut believed = real.clone();
    forget(&mut believed);
    let found = broken(real, &believed);
    assert!(
        found.contains(rule),
        "{}: {rule} is not caught, only {found:?}",
        real.name
    );
}

#[test]
fn each_constraint_that_is_left_out_is_caught() {
    let real = two_ranks();
    assert_eq!(broken(&real, &real), BTreeSet::new());
    OF_TWO_RANKS
        .iter()
        .for_each(|left_out| is_caught(&real, left_out));
}

#[test]
fn each_constraint_of_ddr5_that_is_left_out_is_caught() {
    let real = same_bank();
    assert_eq!(broken(&real, &real), BTreeSet::new());
    OF_DDR5
        .iter()
        .for_each(|left_out| is_caught(&real, left_out));
}

#[test]
fn data_that_meet_on_the_bus_are_caught() {
    // Nothing else forbids it: the part's ccd_s is shorter than its burst.
    let real = changed("lpddr2-1066", |p| {
        p.timing.ccd_s_clocks = 3;
        p.timing.ccd_l_clocks = 3;
    });
    assert!(broken(&real, &real).contains("data bus"));
}
