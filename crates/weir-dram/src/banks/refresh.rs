// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When refreshes are due, and how long each bank was kept busy by them.

use crate::part::profile::{DramProfile, RefreshKind};
use crate::part::timing::Clock;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefreshDue {
    pub(crate) rank: u32,
    /// The bank of each group; all banks without it.
    pub(crate) bank_of_group: Option<u32>,
    pub(crate) since: Clock,
}

/// Clocks that a bank was kept busy.
#[derive(Clone, Copy, Debug, Default)]
struct KeptBusy {
    earlier: Clock,
    begin: Clock,
    end: Clock,
}

impl KeptBusy {
    fn until(&self, at: Clock) -> Clock {
        self.earlier + at.min(self.end).saturating_sub(self.begin)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RefreshSchedule {
    pub(crate) due: VecDeque<RefreshDue>,
    /// When the next one becomes due.
    pub(crate) next: Clock,
    kind: RefreshKind,
    interval: Clock,
    ranks: u32,
    banks_of_group: u32,
    next_bank: u32,
    busy: Vec<KeptBusy>,
}

impl RefreshSchedule {
    pub(crate) fn new(profile: &DramProfile) -> RefreshSchedule {
        let (parts, figures) = (profile.organisation, profile.refresh);
        let interval = match figures.kind {
            RefreshKind::AllBank => figures.refi_clocks,
            RefreshKind::SameBank => figures.refi_clocks / u64::from(parts.banks_per_group),
            RefreshKind::None => Clock::MAX,
        };
        RefreshSchedule {
            due: VecDeque::new(),
            next: interval,
            kind: figures.kind,
            interval,
            ranks: parts.ranks,
            banks_of_group: parts.banks_per_group,
            next_bank: 0,
            busy: vec![KeptBusy::default(); parts.banks() as usize],
        }
    }

    pub(crate) fn advance(&mut self, now: Clock) {
        while now >= self.next {
            let bank_of_group = (self.kind == RefreshKind::SameBank).then_some(self.next_bank);
            self.next_bank = (self.next_bank + 1) % self.banks_of_group;
            for rank in 0..self.ranks {
                self.due.push_back(RefreshDue {
                    rank,
                    bank_of_group,
                    since: self.next,
                });
            }
            self.next = self.next.saturating_add(self.interval);
        }
    }

    /// A bank is kept busy from here on, until `released`.
    pub(crate) fn keep(&mut self, bank: usize, from: Clock) {
        let busy = &mut self.busy[bank];
        if busy.end == Clock::MAX {
            return;
        }
        busy.earlier = busy.until(Clock::MAX - 1);
        (busy.begin, busy.end) = (from, Clock::MAX);
    }

    /// The bank's refresh ends at this time.
    pub(crate) fn released(&mut self, bank: usize, end: Clock) {
        self.busy[bank].end = end;
    }

    /// Clocks up to `at` in which the bank was kept busy.
    #[inline]
    pub(crate) fn busy_until(&self, bank: usize, at: Clock) -> Clock {
        self.busy[bank].until(at)
    }
}
