// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weir's order: sources get rates, and the controller charges each request by itself.
//!
//! A source's virtual time grows by one burst ÷ its part of all rates with each request that it may enqueue,
//! so that all virtual times grow alike where each source gets its rate. Three rules hold the ratios:
//!
//! - *Gate*: a source that leads the one furthest behind by more than a lead gets no entry, unless its queue
//!   is so empty that the bus could idle. A source that cannot use its rate costs little bandwidth.
//! - *Bounded first-ready*: hits go first among requests of one slack of virtual time, and never before those
//!   of an earlier slack.
//! - *Bounded direction*: watermarks decide while the heads of both queues are within a slack of each other.
//!
//! Lead and slack are a few microseconds. Shorter ones keep sources in step that would do better at different
//! banks; longer ones show in windows of 100 µs. A source that was away keeps its lag up to a bound
//! (`CREDIT_BURSTS`): a disk that pauses between two blocks gets its rate all the same.

use super::{BY_SHARE, BySource, Clock, DramOrder, OrderRules, QueueState, SourceShares};
use crate::banks::command::BurstKind;
use crate::queues::waiting::{Standing, WaitingBurst};

/// Lead and slack, in bursts of the whole channel for each entry of a queue: a few microseconds. Shorter ones
/// were tried. They keep sources in step in the same bank, and cost up to 60 % of the bandwidth where two
/// copies begin at the same bank (ADR 16).
const LEAD_PER_ENTRY: f64 = 4.0;
const SLACK_PER_ENTRY: f64 = 8.0;
/// Entries, of 16, that are filled whatever the leads, so that the bus has work. Fewer waste bandwidth where
/// a source that is behind cannot use its rate; with more that source waits longer for others' bursts.
///
/// It was four. A random reader with two lines out beside a copy, at equal rates, then left 8.4 of 17.7 GB/s,
/// and a test asks for half (docs/evidence/dram.md, "Reserve").
const RESERVE_IN_16: u32 = 5;
/// The most that a source may lag behind the one in front, bursts of the whole channel.
const CREDIT_BURSTS: f64 = 8192.0;
/// A source counts as present for this many clocks after it was last seen. Only sources that are present
/// decide which one is furthest behind.
const ABSENT_CLOCKS: Clock = 20_000;
/// Parts of a burst in which a standing is kept, since it is a whole number.
const FRACTION: f64 = 16.0;

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Virtual time, bursts of the whole channel.
    due: f64,
    last_seen: Clock,
    is_known: bool,
}

#[derive(Clone, Debug)]
pub struct Rates {
    rates: SourceShares,
    total: f64,
    accounts: BySource<Account>,
    /// A lower bound of the virtual time furthest behind, and the one in front.
    floor: f64,
    front: f64,
    lead: f64,
    slack: f64,
    least_entries: u32,
}

impl Rates {
    pub fn new(entries: u32) -> Rates {
        Rates {
            rates: SourceShares::default(),
            total: 1.0,
            accounts: BySource::default(),
            floor: 0.0,
            front: 0.0,
            lead: f64::from(entries) * LEAD_PER_ENTRY,
            slack: f64::from(entries) * SLACK_PER_ENTRY,
            least_entries: (entries * RESERVE_IN_16).div_ceil(16),
        }
    }

    /// The order with this reserve: a source gets so many entries however far it leads.
    pub fn with_reserve(self, reserve_entries: u32) -> Rates {
        Rates {
            least_entries: reserve_entries,
            ..self
        }
    }

    /// Part of all rates that a source has.
    fn part(&self, source: u16) -> f64 {
        self.rates.of(source) / self.total
    }

    /// The virtual time furthest behind of all sources that are present.
    fn find_floor(&mut self, now: Clock) {
        let is_present =
            |account: &&Account| account.is_known && account.last_seen + ABSENT_CLOCKS >= now;
        let present = self.accounts.iter().filter(is_present);
        let least = present
            .map(|account| account.due)
            .fold(f64::INFINITY, f64::min);
        if least.is_finite() {
            self.floor = least;
        }
    }
}

impl DramOrder for Rates {
    fn rules(&self) -> OrderRules {
        BY_SHARE
    }

    fn set_shares(&mut self, shares: &[f64]) {
        self.rates.set(shares);
        self.total = self.rates.total();
    }

    fn standing(&mut self, waiting: &WaitingBurst) -> Standing {
        let (front, least) = (self.front, self.front - CREDIT_BURSTS);
        let account = self.accounts.of(waiting.request.source);
        if !account.is_known {
            account.due = front;
            account.is_known = true;
        }
        account.due = account.due.max(least);
        account.last_seen = waiting.arrived;
        Standing {
            before: (account.due / self.slack) as u32,
            after: (account.due * FRACTION) as u64,
        }
    }

    fn admits(&mut self, waiting: &WaitingBurst, queues: &QueueState) -> bool {
        let kind = waiting.request.kind.index();
        if queues.len[kind] < self.least_entries {
            return true;
        }
        let due = self.accounts.of(waiting.request.source).due;
        if due <= self.floor + self.lead {
            return true;
        }
        self.find_floor(queues.now);
        due <= self.floor + self.lead
    }

    fn direction(&mut self, queues: &QueueState) -> BurstKind {
        queues.direction_ahead(|one, other| one.before + 1 < other.before)
    }

    fn on_accept(&mut self, waiting: &WaitingBurst) {
        let step = 1.0 / self.part(waiting.request.source);
        let account = self.accounts.of(waiting.request.source);
        account.due += step;
        self.front = self.front.max(account.due);
    }
}
