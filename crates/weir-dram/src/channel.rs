// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A DDR channel: queues, banks and the command bus, from one command to the next.
//!
//! The channel is told the time. [`DramChannel::offer`] brings a request; [`DramChannel::step`] issues the
//! next command that can be issued up to a given clock. Nothing happens between two commands, so nothing
//! ticks.
//!
//! The candidate that is ready first goes; [`crate::queues::candidates`] names them. At one
//! clock:
//!
//! 1. a request whose row was opened for it (such a request has left its queue);
//! 2. refreshes that are due: their rows are closed first, and nothing else begins meanwhile;
//! 3. waiting requests of the direction that is served.

use super::order::{DramOrder, OrderRules, QueueState};
use super::queues::{BankQueues, NONE, RowOutcome};
use super::settings::{ChannelSettings, PagePolicy};
use crate::banks::command::{BurstKind, DramCommand, IssuedCommand};
use crate::banks::device::{BankArray, CLOSED};
use crate::banks::refresh::RefreshSchedule;
use crate::banks::spent_rows::SpentRows;
use crate::part::profile::DramProfile;
use crate::part::timing::Clock;
use crate::queues::candidates::{Candidate, Next};
use crate::queues::direction::ServedDirection;
use crate::queues::front::{FrontEntry, FrontQueues};
use crate::queues::waiting::{BurstRequest, WaitingBurst};
use crate::queues::write_filter::WriteFilter;
use crate::served::events::{ChannelStep, Offered, ServedBurst};
use crate::served::latency::LatencyParts;
use crate::served::tally::Tallies;

/// A DDR channel with its controller.
pub struct DramChannel {
    pub(super) profile: DramProfile,
    pub(super) settings: ChannelSettings,
    pub(super) order: Box<dyn DramOrder>,
    pub(super) rules: OrderRules,
    pub(super) banks: BankArray,
    pub(super) queues: BankQueues,
    pub(super) front: FrontQueues,
    /// For each bank, the request that its row was opened for.
    pub(super) active: Vec<u32>,
    pub(super) active_banks: u64,
    pub(super) refreshes: RefreshSchedule,
    pub(super) spent: SpentRows,
    pub(super) direction: ServedDirection,
    /// First clock at which the command bus is free.
    pub(super) now: Clock,
    /// First clock at which a request can be offered: that after the last command.
    offer_from: Clock,
    writes: WriteFilter,
    arrivals: u64,
    tallies: Tallies,
    log: Option<Vec<IssuedCommand>>,
}

impl DramChannel {
    pub fn new(
        profile: &DramProfile,
        settings: ChannelSettings,
        order: Box<dyn DramOrder>,
    ) -> DramChannel {
        let banks = profile.organisation.banks();
        let rules = order.rules();
        DramChannel {
            profile: profile.clone(),
            settings,
            order,
            rules,
            banks: BankArray::new(profile),
            queues: BankQueues::new(banks, !rules.has_standings),
            front: FrontQueues::default(),
            active: vec![NONE; banks as usize],
            active_banks: 0,
            refreshes: RefreshSchedule::new(profile),
            spent: SpentRows::default(),
            direction: ServedDirection::default(),
            now: 0,
            offer_from: 0,
            writes: WriteFilter::default(),
            arrivals: 0,
            tallies: Tallies::default(),
            log: None,
        }
    }

    pub fn keep_commands(&mut self) {
        self.log = Some(Vec::new());
    }

    /// The kept commands, which are forgotten.
    pub fn take_commands(&mut self) -> Vec<IssuedCommand> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Gives sources shares or rates; see [`DramOrder::set_shares`].
    pub fn set_shares(&mut self, shares: &[f64]) {
        self.order.set_shares(shares);
    }

    /// First clock at which the next command can be issued.
    pub fn now(&self) -> Clock {
        self.now
    }

    /// First clock at which a request can be offered.
    pub fn offer_from(&self) -> Clock {
        self.offer_from
    }

    pub fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    pub fn is_empty(&self) -> bool {
        self.queues.len == [0, 0] && self.active_banks == 0 && self.front.is_empty()
    }

    /// Whether a request of this kind would find an entry, if the order lets it in.
    pub fn has_room(&self, kind: BurstKind) -> bool {
        let len = match self.settings.bank_entries {
            Some(_) => self.front.queues[kind.index()].len() as u32,
            None => self.queues.len[kind.index()],
        };
        len < self.settings.entries
    }

    /// Whether a request finds no entry now, and no waiting write to the same burst.
    pub fn is_full_for(&self, request: &BurstRequest) -> bool {
        !self.has_room(request.kind) && !self.writes.may_have(request.burst)
    }

    /// Brings a request at this time, which is not before the last command and not before the last request.
    ///
    /// A request to a burst that a waiting write will write needs no command, and is asked first, also where
    /// the queue is full. An order is asked for a standing before it is asked for admission, and told of the
    /// request only when it has its entry: a request that is refused comes again, and must not count twice.
    pub fn offer(&mut self, request: BurstRequest, at: Clock) -> Offered {
        let parts = &self.profile.organisation;
        let place = self.settings.mapping.place(parts, request.burst);
        let bank = place.bank as usize;
        if self.writes.may_have(request.burst) && self.has_write(bank, request.burst) {
            self.merged(request);
            return Offered::Merged;
        }
        if !self.has_room(request.kind) {
            return Offered::Refused;
        }
        let mut waiting = WaitingBurst {
            request,
            bank: place.bank,
            row: place.row,
            number: self.arrivals,
            arrived: at,
            standing: super::Standing::default(),
        };
        if self.rules.has_standings {
            waiting.standing = self.order.standing(&waiting);
            if self.rules.has_admission {
                let state = self.queue_state(at);
                if !self.order.admits(&waiting, &state) {
                    return Offered::Refused;
                }
            }
            self.order.on_accept(&waiting);
        }
        self.arrivals += 1;
        if request.kind == BurstKind::Write {
            self.writes.add(request.burst);
        }
        let busy = self.refreshes.busy_until(bank, at);
        let turned = self.direction.away(request.kind, at);
        if self.settings.bank_entries.is_some() {
            let entry = FrontEntry {
                waiting,
                busy,
                turned,
            };
            self.front.queues[request.kind.index()].push_back(entry);
        } else {
            let open = self.banks.banks[bank].row;
            self.queues.push(waiting, open, busy, turned);
        }
        Offered::Queued
    }

    fn has_write(&self, bank: usize, burst: u64) -> bool {
        self.queues.has_write(bank, burst) || self.front.has_write(burst)
    }

    /// A read that needs no command, or a write that needs none of its own.
    fn merged(&mut self, request: BurstRequest) {
        let tally = self.tallies.of_mut(request.source);
        tally.merged[request.kind.index()] += 1;
        let parts = LatencyParts {
            queue: 1,
            ..LatencyParts::default()
        };
        match request.kind {
            BurstKind::Read => tally.read_latency.add(&parts),
            BurstKind::Write => tally.write_latency.add(&parts),
        }
    }

    pub(super) fn queue_state(&self, now: Clock) -> QueueState {
        let head = |kind: BurstKind| {
            let is_asked = self.rules.has_direction || self.rules.has_admission;
            let has = is_asked && self.queues.len[kind.index()] > 0;
            has.then(|| self.queues.head(kind).standing())
        };
        QueueState {
            now,
            len: self.queues.len,
            entries: self.settings.entries,
            head: BurstKind::BOTH.map(head),
            direction: self.direction.kind(),
            by_watermarks: self.by_watermarks(),
        }
    }

    /// Issues the next command, if there can be one up to this clock. An empty channel goes on to that clock.
    ///
    /// Between two commands nothing changes but refreshes and spent rows that become due, and they are what
    /// the clock stops at. So the model goes from command to command. It handles 12 to 34 times as many
    /// requests in a second as Ramulator 2.1, which asks in each clock (docs/evidence/dram.md, "Speed").
    pub fn step(&mut self, until: Clock) -> ChannelStep {
        while self.now <= until {
            self.refreshes.advance(self.now);
            self.spent.advance(&self.banks, self.now);
            if self.rules.has_standings && self.order.has_changed(self.now) {
                self.restate();
            }
            if let Some(bank_entries) = self.settings.bank_entries {
                self.refill(bank_entries);
            }
            let (at, next) = self.next_command();
            let due = self.refreshes.next.min(self.spent.next(&self.banks));
            if at <= until && at < due {
                return self.issue(next, at);
            }
            // Until a refresh or a precharge of a spent row is due, or to the end.
            self.now = due.min(until.saturating_add(1));
            self.offer_from = self.now;
        }
        ChannelStep::Idle
    }

    /// Asks the order for the places of all that wait.
    fn restate(&mut self) {
        let mut all = self.queues.waiting();
        all.sort_by_key(|(_, waiting)| waiting.number);
        let mut waiting: Vec<WaitingBurst> = all.iter().map(|(_, waiting)| *waiting).collect();
        self.order.restate(&mut waiting);
        for ((index, _), waiting) in all.iter().zip(waiting) {
            self.queues.restate(*index, waiting);
        }
        for bank in 0..self.banks.banks.len() {
            self.queues.row_changed(bank, self.banks.banks[bank].row);
        }
    }

    /// Issues a command, and brings everything to the state after it. A request leaves its queue with its
    /// activate, not with its column command: from then on its bank is reserved for it (`active`) until its
    /// column command.
    fn issue(&mut self, next: Next, at: Clock) -> ChannelStep {
        match next {
            Next::Nothing => ChannelStep::Idle,
            Next::Active(bank) => {
                let index = self.active[bank];
                self.active[bank] = NONE;
                self.active_banks &= !(1 << bank);
                ChannelStep::Served(self.column(index, at))
            }
            Next::Waiting(Candidate::Hit(index)) => {
                let bank = self.queues.entry(index).waiting.bank as usize;
                self.take(index, self.banks.banks[bank].row);
                ChannelStep::Served(self.column(index, at))
            }
            Next::Waiting(Candidate::Activate(index)) => {
                self.activate(index, at);
                ChannelStep::Row
            }
            Next::Waiting(Candidate::Precharge(index)) => {
                self.begin(index, RowOutcome::Conflict, at);
                let bank = self.queues.entry(index).waiting.bank as usize;
                self.precharge(bank, at);
                ChannelStep::Row
            }
            Next::Close(bank) => {
                self.precharge(bank, at);
                ChannelStep::Row
            }
            Next::CloseAll(rank) => {
                self.banks.precharge_all(rank, at);
                for bank in self.banks.banks_of(rank) {
                    self.queues.row_changed(bank, CLOSED);
                }
                self.note(at, DramCommand::PrechargeAll { rank }, 1);
                ChannelStep::Row
            }
            Next::Refresh => {
                self.refresh(at);
                ChannelStep::Row
            }
        }
    }

    fn note(&mut self, at: Clock, command: DramCommand, bus: Clock) {
        self.now = at + bus;
        self.offer_from = at + 1;
        if let Some(log) = &mut self.log {
            log.push(IssuedCommand { at, command });
        }
    }

    /// Notes the first command of a request.
    fn begin(&mut self, index: u32, outcome: RowOutcome, at: Clock) {
        let kind = self.queues.entry(index).waiting.request.kind;
        let turned = self.direction.away(kind, at);
        let entry = self.queues.entry_mut(index);
        if entry.begun.is_none() {
            entry.begun = Some((outcome, at));
            entry.turned_at_begin = turned;
        }
    }

    fn take(&mut self, index: u32, open: u32) {
        let request = self.queues.entry(index).waiting.request;
        if request.kind == BurstKind::Write {
            self.writes.remove(request.burst);
        }
        self.queues.take(index, open);
    }

    fn activate(&mut self, index: u32, at: Clock) {
        self.begin(index, RowOutcome::Miss, at);
        let waiting = self.queues.entry(index).waiting;
        let (bank, row) = (waiting.bank as usize, waiting.row);
        self.take(index, CLOSED);
        self.banks.activate(bank, row, at);
        self.spent.opened(bank);
        self.queues.row_changed(bank, row);
        self.active[bank] = index;
        self.active_banks |= 1 << bank;
        self.tallies.of_mut(waiting.request.source).activates += 1;
        let command = DramCommand::Activate {
            bank: bank as u32,
            row,
        };
        self.note(at, command, self.banks.gaps.activate_bus);
    }

    fn precharge(&mut self, bank: usize, at: Clock) {
        self.banks.precharge(bank, at);
        self.queues.row_changed(bank, CLOSED);
        self.note(at, DramCommand::Precharge { bank: bank as u32 }, 1);
    }

    /// Issues the refresh that is due first. Banks are told since when they had to stand still for it and
    /// when they are free again: that time is a part of their requests' latency.
    fn refresh(&mut self, at: Clock) {
        let Some(due) = self.refreshes.due.pop_front() else {
            return;
        };
        let rank = due.rank;
        let (command, gap, banks): (_, _, Vec<usize>) = match due.bank_of_group {
            None => {
                self.banks.refresh(rank, at);
                let gap = self.banks.gaps.refresh_to_activate;
                (
                    DramCommand::Refresh { rank },
                    gap,
                    self.banks.banks_of(rank).collect(),
                )
            }
            Some(bank_of_group) => {
                self.banks.refresh_same_bank(rank, bank_of_group, at);
                let gap = self.banks.gaps.same_bank_refresh_to_activate;
                let command = DramCommand::RefreshSameBank {
                    rank,
                    bank_of_group,
                };
                (
                    command,
                    gap,
                    self.banks.same_banks(rank, bank_of_group).collect(),
                )
            }
        };
        for bank in banks {
            self.refreshes.keep(bank, due.since);
            self.refreshes.released(bank, at + gap);
        }
        self.note(at, command, 1);
    }

    /// Moves the data of a request that has left its queue.
    fn column(&mut self, index: u32, at: Clock) -> ServedBurst {
        self.begin(index, RowOutcome::Hit, at);
        let entry = *self.queues.entry(index);
        self.queues.release(index);
        let waiting = entry.waiting;
        let (bank, kind) = (waiting.bank as usize, waiting.request.kind);
        let is_spent = match self.settings.page {
            PagePolicy::Open => false,
            PagePolicy::Closed => true,
            PagePolicy::Capped(most) => self.banks.banks[bank].columns >= most,
        };
        // A row that was opened for another request stays open until that one is served.
        let is_auto = is_spent && self.active[bank] == NONE;
        self.banks.column(bank, kind, is_auto, at);
        if self.settings.bank_entries.is_some() {
            self.direction.turn(kind, at);
        }
        if is_auto {
            self.queues.row_changed(bank, CLOSED);
        } else if let PagePolicy::Capped(most) = self.settings.page
            && self.banks.banks[bank].columns >= most
        {
            self.spent.note(bank);
        }
        if self.rules.has_standings {
            self.order.on_column(&waiting, at);
        }
        let (outcome, begun) = entry.begun.unwrap_or((RowOutcome::Hit, at));
        let transfer = self.banks.gaps.to_last_data[kind.index()];
        let all = at - waiting.arrived;
        let refresh = (self.refreshes.busy_until(bank, at) - entry.refresh_at_arrival).min(all);
        let conflict = (at - begun).min(all - refresh);
        let turned = entry.turned_at_begin - entry.turned_at_arrival;
        let turn_around = turned.min(all - refresh - conflict);
        let parts = LatencyParts {
            queue: all - refresh - conflict - turn_around,
            turn_around,
            conflict,
            refresh,
            transfer,
        };
        let tally = self.tallies.of_mut(waiting.request.source);
        tally.served(kind, outcome, &parts);
        let row = waiting.row;
        let command = DramCommand::Column {
            bank: bank as u32,
            row,
            kind,
            is_auto,
        };
        self.note(at, command, self.banks.gaps.column_bus);
        ServedBurst {
            request: waiting.request,
            arrived: waiting.arrived,
            done: at + transfer,
            outcome,
        }
    }
}
