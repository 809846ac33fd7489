// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Orders in which waiting requests are served: one small file each.
//!
//! | order | goes first | source |
//! |---|---|---|
//! | [`Fcfs`] | the first request, alone | – |
//! | [`FrFcfs`] | of the ready commands that of the first request | Rixner et al., ISCA 2000; Ramulator |
//! | [`RowHitFirst`] | the same, and no row is closed while an earlier request hits it | Ramulator 2.1 |
//! | [`FrFcfsCap`] | hits, at most four of a row before an earlier request | Mutlu et al., MICRO 2007 |
//! | [`FrLvtf`] | hits, then the source with the lowest virtual time | DRFQS thesis, 4.4 |
//! | [`FairQueueing`] | hits for tRAS, then the earliest virtual finish time | Nesbit et al., MICRO 2006 |
//! | [`Atlas`] | the source with the least attained service | Kim et al., HPCA 2010 |
//! | [`ParBs`] | marked requests of a batch, hits, shortest job | Mutlu and Moscibroda, ISCA 2008 |
//! | [`Bliss`] | sources that were not served four times in a row | Subramanian et al., ICCD 2014 |
//! | [`Rates`] | sources behind their rates; one that leads waits outside | weir |

mod atlas;
mod bliss;
mod fair_queueing;
mod fcfs;
mod fr_fcfs;
mod fr_fcfs_cap;
mod fr_lvtf;
mod par_bs;
mod rates;
mod row_hit_first;

pub use atlas::Atlas;
pub use bliss::Bliss;
pub use fair_queueing::FairQueueing;
pub use fcfs::Fcfs;
pub use fr_fcfs::FrFcfs;
pub use fr_fcfs_cap::FrFcfsCap;
pub use fr_lvtf::FrLvtf;
pub use par_bs::ParBs;
pub use rates::Rates;
pub use row_hit_first::RowHitFirst;

use crate::banks::command::BurstKind;
use crate::part::profile::DramProfile;
use crate::part::timing::Clock;
use crate::queues::waiting::{SourceId, Standing, WaitingBurst};

/// How requests that hit an open row stand to those that do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitRule {
    /// A hit has no privilege: among the ready commands, the one with the smallest standing goes.
    Equal,
    /// The same, and a row is not closed while a request with a smaller standing hits it.
    KeptForEarlier,
    /// Hits go first among equals in [`Standing::before`], and their row stays open for them. A row that has
    /// had so many column commands, or was open for so long, is closed for a request with a smaller standing.
    First {
        /// Column commands of a row.
        columns_max: u32,
        /// Clocks of a row.
        open_max: Clock,
    },
}

/// The methods that the channel asks an order for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderRules {
    pub hits: HitRule,
    /// Only the first request of a direction gets commands.
    pub is_in_order: bool,
    /// [`DramOrder::standing`] is not the same for all.
    pub has_standings: bool,
    /// [`DramOrder::admits`] refuses some.
    pub has_admission: bool,
    /// [`DramOrder::direction`] decides.
    pub has_direction: bool,
}

/// First-ready, by arrival; no other method is asked for.
pub const BY_ARRIVAL: OrderRules = OrderRules {
    hits: HitRule::Equal,
    is_in_order: false,
    has_standings: false,
    has_admission: false,
    has_direction: false,
};

/// Hits go first among requests of equal standing.
pub const BY_SOURCE: OrderRules = OrderRules {
    hits: HitRule::First {
        columns_max: u32::MAX,
        open_max: Clock::MAX,
    },
    has_standings: true,
    ..BY_ARRIVAL
};

/// The same, and shares of sources decide over entries and the direction as well.
pub const BY_SHARE: OrderRules = OrderRules {
    has_admission: true,
    has_direction: true,
    ..BY_SOURCE
};

/// The requests that wait. In each pair, index 0 stands for reads and 1 for writes.
#[derive(Clone, Copy, Debug)]
pub struct QueueState {
    pub now: Clock,
    pub len: [u32; 2],
    pub entries: u32,
    /// The smallest standing, if anything waits.
    pub head: [Option<Standing>; 2],
    pub direction: BurstKind,
    /// The direction that the watermarks of the write queue ask for.
    pub by_watermarks: BurstKind,
}

impl QueueState {
    /// The direction whose first request is ahead of the other's; that of the watermarks where neither is.
    pub(super) fn direction_ahead(
        &self,
        is_ahead: impl Fn(Standing, Standing) -> bool,
    ) -> BurstKind {
        match self.head {
            [Some(read), Some(write)] if is_ahead(read, write) => BurstKind::Read,
            [Some(read), Some(write)] if is_ahead(write, read) => BurstKind::Write,
            _ => self.by_watermarks,
        }
    }
}

/// An order. It sees requests come and go, and never the banks.
pub trait DramOrder {
    /// The methods below that the channel asks for. They do not change in a run.
    fn rules(&self) -> OrderRules;

    /// Shares or rates of sources, by their numbers; only their ratios count. Sources beyond the list have 1.
    fn set_shares(&mut self, shares: &[f64]) {
        let _ = shares;
    }

    /// Place of a request that comes, among those that wait.
    fn standing(&mut self, waiting: &WaitingBurst) -> Standing {
        let _ = waiting;
        Standing::default()
    }

    /// Whether a request that comes gets an entry. A source that is refused asks again.
    fn admits(&mut self, waiting: &WaitingBurst, queues: &QueueState) -> bool {
        let _ = (waiting, queues);
        true
    }

    fn direction(&mut self, queues: &QueueState) -> BurstKind {
        queues.by_watermarks
    }

    fn on_accept(&mut self, waiting: &WaitingBurst) {
        let _ = waiting;
    }

    fn on_column(&mut self, waiting: &WaitingBurst, at: Clock) {
        let _ = (waiting, at);
    }

    fn has_changed(&mut self, now: Clock) -> bool {
        let _ = now;
        false
    }

    /// Gives waiting requests their new places, after a change.
    fn restate(&mut self, waiting: &mut [WaitingBurst]) {
        let _ = waiting;
    }
}

/// Figures of each source in a list that grows.
#[derive(Clone, Debug, Default)]
pub(super) struct BySource<T>(Vec<T>);

impl<T: Clone + Default> BySource<T> {
    pub(super) fn of(&mut self, source: SourceId) -> &mut T {
        let index = usize::from(source);
        if index >= self.0.len() {
            self.0.resize(index + 1, T::default());
        }
        &mut self.0[index]
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

const SHARE_MIN: f64 = 1e-9;

#[derive(Clone, Debug, Default)]
pub(super) struct SourceShares(Vec<f64>);

impl SourceShares {
    pub(super) fn set(&mut self, shares: &[f64]) {
        self.0 = shares.to_vec();
    }

    /// The share of a source; 1 where none was given, and never 0.
    pub(super) fn of(&self, source: SourceId) -> f64 {
        self.0
            .get(usize::from(source))
            .map_or(1.0, |share| share.max(SHARE_MIN))
    }

    /// The sum of those that were given; never 0.
    pub(super) fn total(&self) -> f64 {
        let all = self.0.iter().map(|share| share.max(SHARE_MIN));
        all.sum::<f64>().max(SHARE_MIN)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    Fcfs,
    FrFcfs,
    RowHitFirst,
    FrFcfsCap,
    FrLvtf,
    FairQueueing,
    Atlas,
    ParBs,
    Bliss,
    Rates,
}

impl OrderKind {
    pub const ALL: [(&'static str, OrderKind); 10] = [
        ("fcfs", OrderKind::Fcfs),
        ("fr-fcfs", OrderKind::FrFcfs),
        ("row-hit-first", OrderKind::RowHitFirst),
        ("fr-fcfs-cap", OrderKind::FrFcfsCap),
        ("fr-lvtf", OrderKind::FrLvtf),
        ("fq", OrderKind::FairQueueing),
        ("atlas", OrderKind::Atlas),
        ("par-bs", OrderKind::ParBs),
        ("bliss", OrderKind::Bliss),
        ("rates", OrderKind::Rates),
    ];

    /// The name, as in `--order`.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, kind)| *kind == self);
        found.map_or("", |(name, _)| name)
    }

    pub fn named(name: &str) -> Option<OrderKind> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind)
    }

    /// A new order with its published settings, for a channel with queues of so many entries.
    pub fn order(self, profile: &DramProfile, entries: u32) -> Box<dyn DramOrder> {
        match self {
            OrderKind::Fcfs => Box::new(Fcfs),
            OrderKind::FrFcfs => Box::new(FrFcfs),
            OrderKind::RowHitFirst => Box::new(RowHitFirst),
            OrderKind::FrFcfsCap => Box::new(FrFcfsCap::new(4)),
            OrderKind::FrLvtf => Box::new(FrLvtf::new(profile, fr_lvtf::SLICE_NS)),
            OrderKind::FairQueueing => Box::new(FairQueueing::new(profile)),
            OrderKind::Atlas => Box::new(Atlas::new(profile, atlas::QUANTUM_CLOCKS)),
            OrderKind::ParBs => Box::new(ParBs::default()),
            OrderKind::Bliss => Box::new(Bliss::default()),
            OrderKind::Rates => Box::new(Rates::new(entries)),
        }
    }
}
