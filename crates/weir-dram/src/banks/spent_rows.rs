// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows that have had their column commands, under a policy that closes them then.
//!
//! The precharge of such a row goes into a line of its own as soon as there could be one, and nothing else
//! begins until the line is empty (Ramulator 2.1, `ClosedCAP`). A row that was opened for a request is closed
//! after that request was served; until then the line waits.

use crate::banks::device::{BankArray, CLOSED};
use crate::part::timing::Clock;
use std::collections::VecDeque;

#[derive(Clone, Debug, Default)]
pub(crate) struct SpentRows {
    /// Banks whose row is spent and not in the line; those that were closed since still have their bit.
    waiting: u64,
    line: VecDeque<usize>,
}

impl SpentRows {
    /// The bank's row has had its column commands.
    pub(crate) fn note(&mut self, bank: usize) {
        if !self.line.contains(&bank) {
            self.waiting |= 1 << bank;
        }
    }

    pub(crate) fn opened(&mut self, bank: usize) {
        self.waiting &= !(1 << bank);
    }

    fn soon<'a>(&self, banks: &'a BankArray) -> impl Iterator<Item = (usize, Clock)> + 'a {
        let mut mask = self.waiting & banks.open;
        std::iter::from_fn(move || {
            let bank = mask.trailing_zeros() as usize;
            (mask != 0).then(|| {
                mask &= mask - 1;
                (bank, banks.precharge_from(bank))
            })
        })
    }

    /// Puts the rows into the line that can be closed at this clock.
    pub(crate) fn advance(&mut self, banks: &BankArray, now: Clock) {
        if self.waiting == 0 && self.line.is_empty() {
            return;
        }
        for (bank, at) in self.soon(banks) {
            if at <= now {
                self.line.push_back(bank);
                self.waiting &= !(1 << bank);
            }
        }
        while let Some(bank) = self.line.front()
            && banks.banks[*bank].row == CLOSED
        {
            self.line.pop_front();
        }
    }

    /// When the next row comes into the line.
    #[inline]
    pub(crate) fn next(&self, banks: &BankArray) -> Clock {
        if self.waiting == 0 {
            return Clock::MAX;
        }
        let clocks = self.soon(banks).map(|(_, at)| at);
        clocks.min().unwrap_or(Clock::MAX)
    }

    pub(crate) fn first(&self) -> Option<usize> {
        self.line.front().copied()
    }
}
