// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Adaptive per-thread least-attained-service scheduling: Kim et al., HPCA 2010.

use super::{BY_SOURCE, BySource, Clock, DramOrder, OrderRules, SourceShares};
use crate::part::profile::DramProfile;
use crate::queues::waiting::{Standing, WaitingBurst};

/// Sources are ranked anew after this many clocks: 3.1 ms of DDR4-3200.
pub(super) const QUANTUM_CLOCKS: Clock = 5_000_000;
/// Requests that have waited for this many clocks go first, whatever the rank of their source, so that a
/// source with a high rank is served at all.
const THRESHOLD_CLOCKS: Clock = 100_000;
/// Part of the attained service that counts from before the last quantum.
const HISTORY: f64 = 0.875;

#[derive(Clone, Copy, Debug, Default)]
struct Service {
    total: f64,
    in_quantum: f64,
    rank: u32,
}

/// The source that attained the least service, divided by its share, goes first; sources are ranked once a
/// quantum. A request that waits too long goes before all. Then hits, then arrival.
#[derive(Clone, Debug)]
pub struct Atlas {
    shares: SourceShares,
    sources: BySource<Service>,
    quantum: Clock,
    next_ranking: Clock,
    next_check: Clock,
    now: Clock,
    burst_clocks: f64,
}

impl Atlas {
    pub fn new(profile: &DramProfile, quantum_clocks: Clock) -> Atlas {
        Atlas {
            shares: SourceShares::default(),
            sources: BySource::default(),
            quantum: quantum_clocks,
            next_ranking: quantum_clocks,
            next_check: THRESHOLD_CLOCKS,
            now: 0,
            burst_clocks: profile.timing.bl_clocks as f64,
        }
    }

    fn rank_sources(&mut self) {
        let mut attained = Vec::new();
        for (source, service) in self.sources.iter_mut().enumerate() {
            let share = self.shares.of(source as u16);
            service.total = HISTORY * service.total + (1.0 - HISTORY) * service.in_quantum / share;
            service.in_quantum = 0.0;
            attained.push((service.total, source));
        }
        attained.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (rank, (_, source)) in attained.into_iter().enumerate() {
            self.sources.of(source as u16).rank = rank as u32 + 1;
        }
    }

    fn before(&mut self, waiting: &WaitingBurst) -> u32 {
        if self.now.saturating_sub(waiting.arrived) >= THRESHOLD_CLOCKS {
            return 0;
        }
        self.sources.of(waiting.request.source).rank.max(1)
    }
}

impl DramOrder for Atlas {
    fn rules(&self) -> OrderRules {
        BY_SOURCE
    }

    fn set_shares(&mut self, shares: &[f64]) {
        self.shares.set(shares);
    }

    fn standing(&mut self, waiting: &WaitingBurst) -> Standing {
        Standing {
            before: self.before(waiting),
            after: 0,
        }
    }

    fn on_column(&mut self, waiting: &WaitingBurst, _at: Clock) {
        self.sources.of(waiting.request.source).in_quantum += self.burst_clocks;
    }

    fn has_changed(&mut self, now: Clock) -> bool {
        self.now = now;
        let mut is_changed = false;
        if now >= self.next_ranking {
            self.rank_sources();
            self.next_ranking = now + self.quantum;
            is_changed = true;
        }
        if now >= self.next_check {
            self.next_check = now + THRESHOLD_CLOCKS / 8;
            is_changed = true;
        }
        is_changed
    }

    fn restate(&mut self, waiting: &mut [WaitingBurst]) {
        for one in waiting {
            one.standing.before = self.before(one);
        }
    }
}
