// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The blacklisting scheduler: Subramanian et al., ICCD 2014.

use super::{BY_SOURCE, BySource, Clock, DramOrder, OrderRules};
use crate::queues::waiting::{SourceId, Standing, WaitingBurst};

/// A source that is served this many times in a row is blacklisted. With this figure, the clearing below, and
/// the rules of the paper in its scheduler, Ramulator 2.0 gives the totals of this model within 1.9 %. Its
/// own BLISS is not the paper's: it counts commands and not requests, and does not prefer row hits
/// (docs/evidence/dram.md).
const STREAK_MAX: u32 = 4;
/// The blacklist is cleared each so many clocks.
const CLEARING_CLOCKS: Clock = 10_000;

/// Sources on the blacklist go last. Then hits, then arrival.
#[derive(Clone, Debug)]
pub struct Bliss {
    is_listed: BySource<bool>,
    last: SourceId,
    streak: u32,
    next_clearing: Clock,
    is_changed: bool,
}

impl Default for Bliss {
    fn default() -> Bliss {
        Bliss {
            is_listed: BySource::default(),
            last: 0,
            streak: 0,
            next_clearing: CLEARING_CLOCKS,
            is_changed: false,
        }
    }
}

impl Bliss {
    /// [`Standing::before`] of a source's requests.
    fn before(&mut self, source: SourceId) -> u32 {
        u32::from(*self.is_listed.of(source))
    }
}

impl DramOrder for Bliss {
    fn rules(&self) -> OrderRules {
        BY_SOURCE
    }

    fn standing(&mut self, waiting: &WaitingBurst) -> Standing {
        Standing {
            before: self.before(waiting.request.source),
            after: 0,
        }
    }

    fn on_column(&mut self, waiting: &WaitingBurst, _at: Clock) {
        let source = waiting.request.source;
        self.streak = if source == self.last {
            self.streak + 1
        } else {
            1
        };
        self.last = source;
        if self.streak >= STREAK_MAX {
            self.streak = 0;
            let is_listed = self.is_listed.of(source);
            self.is_changed |= !*is_listed;
            *is_listed = true;
        }
    }

    fn has_changed(&mut self, now: Clock) -> bool {
        if now >= self.next_clearing {
            self.next_clearing = now - now % CLEARING_CLOCKS + CLEARING_CLOCKS;
            self.is_changed |= self.is_listed.iter().any(|is_listed| *is_listed);
            self.is_listed
                .iter_mut()
                .for_each(|is_listed| *is_listed = false);
        }
        std::mem::take(&mut self.is_changed)
    }

    fn restate(&mut self, waiting: &mut [WaitingBurst]) {
        for one in waiting {
            one.standing.before = self.before(one.request.source);
        }
    }
}
