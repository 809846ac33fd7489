// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues of a bank each, behind a read queue and a write queue, as DRAMsim3 has them.
//!
//! A request goes on to its bank's queue as soon as one of its entries is free. Writes go on in batches: when
//! their queue is full, or when a quarter of it waits and the banks have nothing to do. A bank serves both
//! directions: hits first, and a row has at most four column commands while the bank's oldest request waits
//! for another one. Of the banks the one with the oldest request goes.

use crate::banks::command::BurstKind;
use crate::banks::device::CLOSED;
use crate::channel::DramChannel;
use crate::part::timing::Clock;
use crate::queues::NONE;
use crate::queues::candidates::{Candidate, Next, bits};
use crate::queues::waiting::{OrderKey, WaitingBurst};
use std::collections::VecDeque;

/// Column commands of a row while the oldest request waits for another one, as in DRAMsim3. Without a cap a
/// source with many hits would keep the bank for itself.
const COLUMNS_MAX: u32 = 4;

/// A request with the counts at its arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrontEntry {
    pub(crate) waiting: WaitingBurst,
    pub(crate) busy: Clock,
    pub(crate) turned: Clock,
}

/// The read queue and the write queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrontQueues {
    pub(crate) queues: [VecDeque<FrontEntry>; 2],
    /// Writes of the batch that goes on.
    draining: usize,
}

impl FrontQueues {
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    pub(crate) fn has_write(&self, burst: u64) -> bool {
        self.queues[1]
            .iter()
            .any(|entry| entry.waiting.request.burst == burst)
    }
}

impl DramChannel {
    /// Lets requests go on to their banks' queues of so many entries, oldest first; one whose bank has no
    /// free entry does not hold up those behind it.
    ///
    /// Which direction may go on is decided here alone. A batch of writes, once begun, goes on to its last
    /// write, also where reads wait. It begins where no more writes fit, or where the banks have nothing to
    /// do and either a quarter of the entries are writes or no read waits. So in this model reads wait for
    /// whole batches, as they do in DRAMsim3.
    pub(crate) fn refill(&mut self, bank_entries: u32) {
        loop {
            let [reads, writes] = &self.front.queues;
            let (reads, writes) = (reads.len(), writes.len());
            let is_full = writes as u32 >= self.settings.entries;
            let is_idle = self.queues.len == [0, 0] && self.active_banks == 0;
            let is_quarter = writes as u32 * 4 > self.settings.entries || reads == 0;
            if self.front.draining == 0 && (is_full || (is_idle && is_quarter)) {
                self.front.draining = writes;
            }
            let kind = if self.front.draining > 0 {
                BurstKind::Write
            } else {
                BurstKind::Read
            };
            let has_entry = |entry: &FrontEntry| {
                let bank = entry.waiting.bank as usize;
                let lists = BurstKind::BOTH.map(|kind| self.queues.list(kind, bank).len);
                let active = u32::from(self.active[bank] != NONE);
                lists[0] + lists[1] + active < bank_entries
            };
            let found = self.front.queues[kind.index()].iter().position(has_entry);
            let taken = found.and_then(|index| self.front.queues[kind.index()].remove(index));
            let Some(FrontEntry {
                waiting,
                busy,
                turned,
            }) = taken
            else {
                return;
            };
            self.front.draining -= usize::from(kind == BurstKind::Write);
            let open = self.banks.banks[waiting.bank as usize].row;
            self.queues.push(waiting, open, busy, turned);
        }
    }

    /// The earliest command that the banks' queues can give; of several at the same clock, that of the oldest
    /// request.
    ///
    /// A bank gives hits before it closes its row. The row is closed when nothing hits it any more, or when
    /// it has had [`COLUMNS_MAX`] column commands and the request that waits longest wants another row.
    pub(crate) fn first_of_banks(&self, blocked: u64) -> (Clock, Next) {
        let banks = (self.queues.banks[0] | self.queues.banks[1]) & !blocked;
        let mut best = (Clock::MAX, OrderKey::LAST, Next::Nothing);
        for bank in bits(banks) {
            let lists = BurstKind::BOTH.map(|kind| (kind, *self.queues.list(kind, bank)));
            let state = &self.banks.banks[bank];
            let mut consider = |at: Clock, key: OrderKey, candidate: Candidate| {
                let at = at.max(self.now);
                if (at, key) < (best.0, best.1) {
                    best = (at, key, Next::Waiting(candidate));
                }
            };
            let oldest = lists.iter().min_by_key(|(_, list)| list.miss_key);
            let (miss, miss_key) = oldest.map_or((NONE, OrderKey::LAST), |(_, list)| {
                (list.miss, list.miss_key)
            });
            if state.row == CLOSED {
                consider(
                    self.banks.activate_from(bank),
                    miss_key,
                    Candidate::Activate(miss),
                );
                continue;
            }
            let hit_key = lists[0].1.hit_key.min(lists[1].1.hit_key);
            let is_spent = state.columns >= COLUMNS_MAX && miss_key < hit_key;
            for (kind, list) in lists {
                if list.hit != NONE && !is_spent {
                    let at = self.banks.column_from(bank, kind);
                    consider(at, list.hit_key, Candidate::Hit(list.hit));
                }
            }
            let closes = miss != NONE && (hit_key == OrderKey::LAST || is_spent);
            if closes && self.active[bank] == NONE {
                consider(
                    self.banks.precharge_from(bank),
                    miss_key,
                    Candidate::Precharge(miss),
                );
            }
        }
        (best.0, best.2)
    }
}
