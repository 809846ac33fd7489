// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the banks of a channel hold, and the first clock at which they take each command.
//!
//! Each command raises the first clocks of those that may follow it, so that a question is two or three
//! loads. Nothing is looked up in a history, and nothing ticks.

use crate::banks::command::BurstKind;
use crate::part::profile::{DramProfile, Organisation};
use crate::part::timing::{Clock, CommandGaps};

/// Row of a bank that has none open.
pub(crate) const CLOSED: u32 = u32::MAX;

/// A bank: its row and first clocks of commands as far as the bank alone is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BankState {
    pub(crate) row: u32,
    /// The bank group, counted over all ranks.
    pub(crate) group: u32,
    pub(crate) rank: u32,
    pub(crate) activate: Clock,
    pub(crate) precharge: Clock,
    pub(crate) column: Clock,
    pub(crate) opened: Clock,
    /// Column commands since the row was opened.
    pub(crate) columns: u32,
}

/// First clocks that a bank group and its rank allow.
#[derive(Clone, Copy, Debug, Default)]
struct GroupState {
    column: [Clock; 2],
    activate: Clock,
}

#[derive(Clone, Copy, Debug, Default)]
struct RankState {
    precharge: Clock,
    refresh: Clock,
    /// For each of the last four activates: when its window ends.
    windows: [Clock; 4],
    next_window: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct BankArray {
    pub(crate) gaps: CommandGaps,
    parts: Organisation,
    pub(crate) banks: Vec<BankState>,
    /// Banks with an open row.
    pub(crate) open: u64,
    groups: Vec<GroupState>,
    ranks: Vec<RankState>,
}

impl BankArray {
    pub(crate) fn new(profile: &DramProfile) -> BankArray {
        let parts = profile.organisation;
        let bank = |number: u32| BankState {
            row: CLOSED,
            group: number / parts.banks_per_group,
            rank: number / (parts.banks_per_group * parts.bank_groups),
            activate: 0,
            precharge: 0,
            column: 0,
            opened: 0,
            columns: 0,
        };
        BankArray {
            gaps: CommandGaps::of(profile),
            parts,
            banks: (0..parts.banks()).map(bank).collect(),
            open: 0,
            groups: vec![GroupState::default(); (parts.ranks * parts.bank_groups) as usize],
            ranks: vec![RankState::default(); parts.ranks as usize],
        }
    }

    /// First clock of a column command to the bank's open row.
    #[inline]
    pub(crate) fn column_from(&self, bank: usize, kind: BurstKind) -> Clock {
        let state = &self.banks[bank];
        state
            .column
            .max(self.groups[state.group as usize].column[kind.index()])
    }

    /// First clock of an activate of the closed bank.
    #[inline]
    pub(crate) fn activate_from(&self, bank: usize) -> Clock {
        let state = &self.banks[bank];
        state
            .activate
            .max(self.groups[state.group as usize].activate)
    }

    /// First clock of a precharge of the open bank.
    #[inline]
    pub(crate) fn precharge_from(&self, bank: usize) -> Clock {
        let state = &self.banks[bank];
        state
            .precharge
            .max(self.ranks[state.rank as usize].precharge)
    }

    pub(crate) fn banks_of(&self, rank: u32) -> std::ops::Range<usize> {
        let each = (self.parts.bank_groups * self.parts.banks_per_group) as usize;
        rank as usize * each..(rank as usize + 1) * each
    }

    /// Banks with this number in each group of a rank.
    pub(crate) fn same_banks(&self, rank: u32, bank_of_group: u32) -> impl Iterator<Item = usize> {
        let each = self.parts.banks_per_group as usize;
        self.banks_of(rank)
            .skip(bank_of_group as usize)
            .step_by(each)
    }

    /// First clock of a refresh of these banks, which are closed.
    pub(crate) fn refresh_from(&self, rank: u32) -> Clock {
        self.ranks[rank as usize].refresh
    }

    /// First clock at which all open rows of the rank can be closed at once; none if no row is open.
    pub(crate) fn precharge_all_from(&self, rank: u32) -> Option<Clock> {
        let open = self
            .banks_of(rank)
            .filter(|bank| self.banks[*bank].row != CLOSED);
        open.map(|bank| self.precharge_from(bank)).max()
    }

    fn groups_of(&self, rank: u32) -> std::ops::Range<usize> {
        let each = self.parts.bank_groups as usize;
        rank as usize * each..(rank as usize + 1) * each
    }

    pub(crate) fn activate(&mut self, bank: usize, row: u32, at: Clock) {
        let gaps = self.gaps;
        self.open |= 1 << bank;
        let state = &mut self.banks[bank];
        let (rank, group) = (state.rank, state.group as usize);
        state.row = row;
        state.opened = at;
        state.columns = 0;
        state.column = at + gaps.activate_to_column;
        state.precharge = at + gaps.activate_to_precharge;
        state.activate = at + gaps.activate_to_activate;
        let of_rank = &mut self.ranks[rank as usize];
        of_rank.refresh = of_rank.refresh.max(at + gaps.activate_to_refresh);
        of_rank.windows[of_rank.next_window] = at + gaps.four_activates;
        of_rank.next_window = (of_rank.next_window + 1) % 4;
        let window = of_rank.windows[of_rank.next_window];
        let other = window.max(at + gaps.activate_other_group);
        let same = other.max(at + gaps.activate_same_group);
        for index in self.groups_of(rank) {
            let least = if index == group { same } else { other };
            let group = &mut self.groups[index];
            group.activate = group.activate.max(least);
        }
    }

    pub(crate) fn precharge(&mut self, bank: usize, at: Clock) {
        let gaps = self.gaps;
        self.open &= !(1 << bank);
        let state = &mut self.banks[bank];
        state.row = CLOSED;
        state.activate = state.activate.max(at + gaps.precharge_to_activate);
        let rank = &mut self.ranks[state.rank as usize];
        rank.precharge = at + gaps.precharge_to_precharge;
        rank.refresh = rank.refresh.max(at + gaps.precharge_to_refresh);
    }

    /// Reads or writes a burst of the open row; with `is_auto` the row closes by itself.
    ///
    /// Each command raises the first clocks of those that may follow it: of its bank, its bank group and its
    /// rank. A candidate's clock is then the largest of two or three numbers.
    pub(crate) fn column(&mut self, bank: usize, kind: BurstKind, is_auto: bool, at: Clock) {
        let gaps = self.gaps;
        let state = &mut self.banks[bank];
        state.columns += 1;
        let (rank, group) = (state.rank, state.group as usize);
        if is_auto {
            self.open &= !(1 << bank);
            state.row = CLOSED;
            state.activate = state.activate.max(at + gaps.auto_to_activate[kind.index()]);
            let rank = &mut self.ranks[rank as usize];
            rank.refresh = rank.refresh.max(at + gaps.auto_to_refresh[kind.index()]);
        } else {
            let closes = match kind {
                BurstKind::Read => gaps.read_to_precharge,
                BurstKind::Write => gaps.write_to_precharge,
            };
            state.precharge = state.precharge.max(at + closes);
        }
        let raise = |clock: &mut Clock, gap: Clock| *clock = (*clock).max(at + gap);
        for index in self.groups_of(rank) {
            let same = usize::from(index == group);
            let [read, write] = &mut self.groups[index].column;
            match kind {
                BurstKind::Read => {
                    raise(read, gaps.read_to_read[same]);
                    raise(write, gaps.read_to_write);
                }
                BurstKind::Write => {
                    raise(write, gaps.write_to_write[same]);
                    raise(read, gaps.write_to_read[same]);
                }
            }
        }
        if self.ranks.len() > 1 {
            self.column_of_other_rank(rank, kind, at);
        }
    }

    /// The data bus changes its driver between two ranks.
    fn column_of_other_rank(&mut self, rank: u32, kind: BurstKind, at: Clock) {
        let gaps = self.gaps;
        let own = self.groups_of(rank);
        for (index, group) in self.groups.iter_mut().enumerate() {
            if own.contains(&index) {
                continue;
            }
            let [read, write] = &mut group.column;
            let (to_read, to_write) = match kind {
                BurstKind::Read => (gaps.read_to_read_other_rank, gaps.read_to_write_other_rank),
                BurstKind::Write => (
                    gaps.write_to_read_other_rank,
                    gaps.write_to_write_other_rank,
                ),
            };
            *read = (*read).max(at + to_read);
            *write = (*write).max(at + to_write);
        }
    }

    pub(crate) fn precharge_all(&mut self, rank: u32, at: Clock) {
        for bank in self.banks_of(rank) {
            if self.banks[bank].row != CLOSED {
                self.precharge(bank, at);
            }
        }
    }

    pub(crate) fn refresh(&mut self, rank: u32, at: Clock) {
        let until = at + self.gaps.refresh_to_activate;
        for bank in self.banks_of(rank) {
            self.banks[bank].activate = self.banks[bank].activate.max(until);
        }
        // The next refresh may not begin before this one ends; an activate's last clock may be its first.
        let state = &mut self.ranks[rank as usize];
        state.refresh = state.refresh.max(until + self.gaps.activate_bus - 1);
    }

    pub(crate) fn refresh_same_bank(&mut self, rank: u32, bank_of_group: u32, at: Clock) {
        let until = at + self.gaps.same_bank_refresh_to_activate;
        let banks: Vec<usize> = self.same_banks(rank, bank_of_group).collect();
        for bank in banks {
            self.banks[bank].activate = self.banks[bank].activate.max(until);
        }
    }
}
