// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parallelism-aware batch scheduling: Mutlu and Moscibroda, ISCA 2008.

use super::{BY_SOURCE, BySource, Clock, DramOrder, OrderRules};
use crate::part::profile::BANKS_MAX;
use crate::queues::waiting::{Standing, WaitingBurst};

/// The requests of one source in one bank that a batch takes at most. The cap bounds how long others wait for
/// a batch to end.
const MARKING_CAP: u32 = 5;
/// `before` of marked requests and of others.
const MARKED: u32 = 0;
const UNMARKED: u32 = 1;

/// Requests of a source in the batch that is formed.
#[derive(Clone, Debug)]
struct Load {
    banks: Vec<u32>,
    total: u32,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            banks: vec![0; BANKS_MAX as usize],
            total: 0,
        }
    }
}

/// When no marked request is left, the five first requests of each source in each bank are marked. Marked
/// ones go first, then hits, then the source whose fullest bank has the fewest, then arrival.
#[derive(Clone, Debug, Default)]
pub struct ParBs {
    marked: u32,
    waiting: u32,
    rank: BySource<u64>,
}

impl DramOrder for ParBs {
    fn rules(&self) -> OrderRules {
        BY_SOURCE
    }

    fn standing(&mut self, waiting: &WaitingBurst) -> Standing {
        Standing {
            before: UNMARKED,
            after: *self.rank.of(waiting.request.source),
        }
    }

    fn on_accept(&mut self, _waiting: &WaitingBurst) {
        self.waiting += 1;
    }

    fn on_column(&mut self, waiting: &WaitingBurst, _at: Clock) {
        self.waiting -= 1;
        if waiting.standing.before == MARKED {
            self.marked -= 1;
        }
    }

    fn has_changed(&mut self, _now: Clock) -> bool {
        self.marked == 0 && self.waiting > 0
    }

    fn restate(&mut self, waiting: &mut [WaitingBurst]) {
        let mut loads: BySource<Load> = BySource::default();
        for one in waiting.iter_mut() {
            let load = loads.of(one.request.source);
            let in_bank = &mut load.banks[one.bank as usize];
            one.standing.before = UNMARKED;
            if *in_bank < MARKING_CAP {
                *in_bank += 1;
                load.total += 1;
                one.standing.before = MARKED;
                self.marked += 1;
            }
        }
        let fullest = |load: &Load| load.banks.iter().copied().max().unwrap_or(0);
        let jobs = loads.iter().enumerate();
        let mut jobs: Vec<_> = jobs
            .map(|(source, load)| (fullest(load), load.total, source))
            .collect();
        jobs.sort_unstable();
        for (rank, (.., source)) in jobs.into_iter().enumerate() {
            *self.rank.of(source as u16) = rank as u64;
        }
        for one in waiting {
            one.standing.after = *self.rank.of(one.request.source);
        }
    }
}
