// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The next command of a channel: candidates of each bank, and the one that is ready first.

use crate::banks::command::BurstKind;
use crate::banks::device::{BankState, CLOSED};
use crate::banks::refresh::RefreshDue;
use crate::channel::DramChannel;
use crate::order::HitRule;
use crate::part::timing::Clock;
use crate::queues::waiting::OrderKey;
use crate::queues::{BankList, NONE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// Its column command.
    Hit(u32),
    /// Opens its row.
    Activate(u32),
    /// Closes the row that is in its way.
    Precharge(u32),
}

/// A command that can be issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    /// Column command of the request that the bank's row was opened for.
    Active(usize),
    Waiting(Candidate),
    /// Closes a bank for a refresh or by the page policy.
    Close(usize),
    /// Closes a rank for a refresh.
    CloseAll(u32),
    Refresh,
}

/// The numbers of the bits of a mask, from low to high.
pub(crate) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        (mask != 0).then(|| {
            mask &= mask - 1;
            bit
        })
    })
}

/// The best candidate so far: the earliest, of these the smallest key.
struct Best<T> {
    at: Clock,
    key: OrderKey,
    next: Option<T>,
}

impl<T> Best<T> {
    fn none() -> Best<T> {
        Best {
            at: Clock::MAX,
            key: OrderKey::LAST,
            next: None,
        }
    }

    #[inline(always)]
    fn consider(&mut self, at: Clock, key: OrderKey, next: T) {
        if at < self.at || (at == self.at && key < self.key) {
            self.at = at;
            self.key = key;
            self.next = Some(next);
        }
    }
}

impl DramChannel {
    /// The next command and its clock. The order is that of Ramulator 2.1, so that the same settings give the
    /// same bandwidth (docs/explanation/dram-model.md): requests whose row was opened for them; a refresh
    /// that is due, which blocks its banks; the precharge of a spent row, beside which nothing begins; and
    /// the requests that wait.
    pub(crate) fn next_command(&mut self) -> (Clock, Next) {
        let (active_at, active) = self.first_active();
        if active_at == self.now {
            return (active_at, active);
        }
        let mut blocked = 0;
        let mut first = Best::none();
        if let Some(due) = self.refreshes.due.front().copied() {
            blocked = self.refresh_command(&due, &mut first);
        }
        if let (Some(bank), true) = (self.spent.first(), blocked != u64::MAX) {
            blocked = u64::MAX;
            self.spent_row(bank, &mut first);
        }
        let mut other = (first.at, first.next.unwrap_or(Next::Nothing));
        if blocked != u64::MAX && other.0 > self.now {
            let (at, waiting) = if self.settings.bank_entries.is_some() {
                self.first_of_banks(blocked)
            } else {
                let kind = self.choose_direction();
                self.first_waiting(kind, blocked)
            };
            if at < other.0 {
                other = (at, waiting);
            }
        }
        if active_at <= other.0 {
            (active_at, active)
        } else {
            other
        }
    }

    /// The first column command of the requests whose rows were opened for them.
    #[inline]
    fn first_active(&self) -> (Clock, Next) {
        let mut best = Best::none();
        for bank in bits(self.active_banks) {
            let entry = self.queues.entry(self.active[bank]);
            let at = self.banks.column_from(bank, entry.waiting.request.kind);
            best.consider(at.max(self.now), entry.key, bank);
        }
        (best.at, best.next.map_or(Next::Nothing, Next::Active))
    }

    /// What a refresh that is due needs next. Gives the banks that wait for it.
    fn refresh_command(&self, due: &RefreshDue, best: &mut Best<Next>) -> u64 {
        let Some(bank_of_group) = due.bank_of_group else {
            let active = self
                .banks
                .banks_of(due.rank)
                .any(|bank| self.active[bank] != NONE);
            let (at, next) = match self.banks.precharge_all_from(due.rank) {
                Some(at) => (at, Next::CloseAll(due.rank)),
                None => (self.banks.refresh_from(due.rank), Next::Refresh),
            };
            if !active {
                best.consider(at.max(self.now), OrderKey::LAST, next);
            }
            return u64::MAX;
        };
        let mut blocked = 0;
        let (mut is_open, mut ready) = (false, self.now);
        for bank in self.banks.same_banks(due.rank, bank_of_group) {
            blocked |= 1 << bank;
            let state = &self.banks.banks[bank];
            is_open |= state.row != CLOSED;
            // An activate may begin earlier, because the part has it whole later.
            ready = ready.max(state.activate + self.banks.gaps.activate_bus - 1);
            if state.row != CLOSED && self.active[bank] == NONE {
                let at = self.banks.precharge_from(bank).max(self.now);
                best.consider(at, OrderKey::LAST, Next::Close(bank));
            }
        }
        if !is_open {
            best.consider(ready, OrderKey::LAST, Next::Refresh);
        }
        blocked
    }

    /// The precharge of a row that has had its column commands.
    fn spent_row(&self, bank: usize, best: &mut Best<Next>) {
        if self.active[bank] == NONE {
            let at = self.banks.precharge_from(bank).max(self.now);
            best.consider(at, OrderKey::LAST, Next::Close(bank));
        }
    }

    /// The first command for a request of this direction, without those of blocked banks.
    fn first_waiting(&self, kind: BurstKind, blocked: u64) -> (Clock, Next) {
        let mut banks = self.queues.banks[kind.index()] & !blocked;
        if self.rules.is_in_order {
            banks &= self.first_in_order(kind);
        }
        let is_plain = self.rules.hits == HitRule::Equal && !self.rules.is_in_order;
        let best = if is_plain {
            self.first_of_equals(kind, banks)
        } else {
            self.first_of_allowed(kind, banks)
        };
        let Some((bank, is_hit)) = best.next else {
            return (Clock::MAX, Next::Nothing);
        };
        let list = self.queues.list(kind, bank);
        let candidate = match (is_hit, self.banks.banks[bank].row) {
            (true, _) => Candidate::Hit(list.hit),
            (false, CLOSED) => Candidate::Activate(list.miss),
            (false, _) => Candidate::Precharge(list.miss),
        };
        (best.at, Next::Waiting(candidate))
    }

    /// The same where hits stand as all others: one loop for each command, without a choice in it. Most of a
    /// replay's time is spent here.
    fn first_of_equals(&self, kind: BurstKind, banks: u64) -> Best<(usize, bool)> {
        let (now, open) = (self.now, self.banks.open);
        let (hits, misses) = (
            self.queues.hits[kind.index()],
            self.queues.misses[kind.index()],
        );
        let mut best = Best::none();
        for bank in bits(banks & open & hits) {
            let at = self.banks.column_from(bank, kind).max(now);
            best.consider(at, self.queues.list(kind, bank).hit_key, (bank, true));
        }
        for bank in bits(banks & open & misses & !self.active_banks) {
            let at = self.banks.precharge_from(bank).max(now);
            best.consider(at, self.queues.list(kind, bank).miss_key, (bank, false));
        }
        for bank in bits(banks & !open) {
            let at = self.banks.activate_from(bank).max(now);
            best.consider(at, self.queues.list(kind, bank).miss_key, (bank, false));
        }
        best
    }

    /// The same in an order that keeps rows for hits, or serves in the order of arrival.
    fn first_of_allowed(&self, kind: BurstKind, banks: u64) -> Best<(usize, bool)> {
        let now = self.now;
        let mut best = Best::none();
        for bank in bits(banks) {
            let (list, state) = (self.queues.list(kind, bank), &self.banks.banks[bank]);
            if state.row == CLOSED {
                let at = self.banks.activate_from(bank).max(now);
                best.consider(at, self.miss_key(list), (bank, false));
                continue;
            }
            let (takes_hit, takes_miss) = self.allowed(list, state, bank);
            if takes_hit {
                let at = self.banks.column_from(bank, kind).max(now);
                best.consider(at, list.hit_key, (bank, true));
            }
            if takes_miss {
                let at = self.banks.precharge_from(bank).max(now);
                best.consider(at, self.miss_key(list), (bank, false));
            }
        }
        best
    }

    /// The bank of the first request, alone, if no opened row waits for its column command.
    fn first_in_order(&self, kind: BurstKind) -> u64 {
        if self.active_banks != 0 {
            return 0;
        }
        let head = self.queues.head(kind);
        let is_head = |bank: &usize| {
            let list = self.queues.list(kind, *bank);
            list.hit_key.min(list.miss_key) == head
        };
        let found = bits(self.queues.banks[kind.index()]).find(is_head);
        found.map_or(0, |bank| 1 << bank)
    }

    fn miss_key(&self, list: &BankList) -> OrderKey {
        match self.rules.hits {
            HitRule::First { .. } => list.miss_key.without_hit(),
            HitRule::Equal | HitRule::KeptForEarlier => list.miss_key,
        }
    }

    /// Whether the first hit of an open bank may go, and whether its row may be closed for the first other.
    fn allowed(&self, list: &BankList, state: &BankState, bank: usize) -> (bool, bool) {
        let (has_hit, has_miss) = (list.hit != NONE, list.miss != NONE);
        // A row that was opened for a request stays open until that request was served.
        let may_close = has_miss && self.active[bank] == NONE;
        if !(has_hit && has_miss) {
            return (has_hit, may_close);
        }
        let is_earlier = list.miss_key < list.hit_key;
        if self.rules.is_in_order {
            return (!is_earlier, is_earlier && may_close);
        }
        match self.rules.hits {
            HitRule::Equal => (true, may_close),
            HitRule::KeptForEarlier => (true, is_earlier && may_close),
            HitRule::First {
                columns_max,
                open_max,
            } => {
                let is_spent = state.columns >= columns_max || self.now - state.opened >= open_max;
                let is_before = list.miss_key.before() < list.hit_key.before();
                let miss_first = is_before || (is_spent && is_earlier);
                (!miss_first, miss_first && may_close)
            }
        }
    }
}
