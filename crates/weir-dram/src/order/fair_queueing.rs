// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fair queueing by virtual finish times: FR-VFTF of Nesbit et al., MICRO 2006.

use super::{BY_ARRIVAL, BySource, Clock, DramOrder, HitRule, OrderRules, SourceShares};
use crate::part::profile::{BANKS_MAX, DramProfile};
use crate::queues::waiting::{Standing, WaitingBurst};

/// Parts of a clock in which a standing is kept, since it is a whole number.
const FRACTION: f64 = 16.0;

/// What a source would have of each bank if it had its share of it alone.
#[derive(Clone, Debug)]
struct PrivateBanks {
    /// Virtual finish time of its last request, by bank, clocks.
    finish: Vec<f64>,
    row: Vec<u32>,
    /// The same of the data bus.
    bus: f64,
}

impl Default for PrivateBanks {
    fn default() -> PrivateBanks {
        PrivateBanks {
            finish: vec![0.0; BANKS_MAX as usize],
            row: vec![u32::MAX; BANKS_MAX as usize],
            bus: 0.0,
        }
    }
}

/// A request's place is the time at which it would be finished if its source had its share of each bank and
/// of the data bus for itself. Hits go first until a row was open for tRAS, which bounds the inversion (their
/// 4.3); then the request with the earliest finish time of the bank.
#[derive(Clone, Debug)]
pub struct FairQueueing {
    shares: SourceShares,
    /// Sum of shares of sources that were seen, so that they divide one channel.
    total: f64,
    is_seen: BySource<bool>,
    sources: BySource<PrivateBanks>,
    hit_clocks: f64,
    row_clocks: f64,
    bus_clocks: f64,
    open_max: Clock,
}

impl FairQueueing {
    pub fn new(profile: &DramProfile) -> FairQueueing {
        let timing = &profile.timing;
        FairQueueing {
            shares: SourceShares::default(),
            total: 0.0,
            is_seen: BySource::default(),
            sources: BySource::default(),
            hit_clocks: timing.ccd_l_clocks as f64,
            row_clocks: timing.rc_clocks as f64,
            bus_clocks: timing.bl_clocks as f64,
            open_max: timing.ras_clocks,
        }
    }
}

impl DramOrder for FairQueueing {
    fn rules(&self) -> OrderRules {
        OrderRules {
            hits: HitRule::First {
                columns_max: u32::MAX,
                open_max: self.open_max,
            },
            has_standings: true,
            ..BY_ARRIVAL
        }
    }

    fn set_shares(&mut self, shares: &[f64]) {
        self.shares.set(shares);
        self.total = 0.0;
        self.is_seen = BySource::default();
    }

    fn standing(&mut self, waiting: &WaitingBurst) -> Standing {
        let source = waiting.request.source;
        let share = self.shares.of(source);
        let is_seen = self.is_seen.of(source);
        if !*is_seen {
            *is_seen = true;
            self.total += share;
        }
        let slower = self.total / share;
        let (bank, arrived) = (waiting.bank as usize, waiting.arrived as f64);
        let private = self.sources.of(source);
        let is_hit = private.row[bank] == waiting.row;
        let bank_clocks = if is_hit {
            self.hit_clocks
        } else {
            self.row_clocks
        };
        let bank_finish = private.finish[bank].max(arrived) + bank_clocks * slower;
        let finish = private.bus.max(bank_finish) + self.bus_clocks * slower;
        private.finish[bank] = bank_finish;
        private.row[bank] = waiting.row;
        private.bus = private.bus.max(arrived) + self.bus_clocks * slower;
        Standing {
            before: 0,
            after: (finish * FRACTION) as u64,
        }
    }
}
