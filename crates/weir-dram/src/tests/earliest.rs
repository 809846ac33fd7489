// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock at which the channel believes that a command can come is the first at which the checker allows
//! it: legal at t, illegal at t − 1.

use super::checker::TimingChecker;
use super::{changed, same_bank, two_ranks};
use crate::banks::device::{BankArray, CLOSED};
use crate::traffic::trace::XorShift64;
use crate::{BurstKind, Clock, DramCommand, DramProfile, IssuedCommand};

struct Walk {
    banks: BankArray,
    checker: TimingChecker,
    random: XorShift64,
    bus_free: Clock,
    ranks: u32,
    /// A rank whose rows were all closed.
    closed: Option<u32>,
}

impl Walk {
    fn new(profile: &DramProfile) -> Walk {
        Walk {
            banks: BankArray::new(profile),
            checker: TimingChecker::new(profile),
            random: XorShift64(99),
            bus_free: 0,
            ranks: profile.organisation.ranks,
            closed: None,
        }
    }

    fn below(&mut self, count: u64) -> u64 {
        // The low bits of consecutive draws go together too well.
        (self.random.draw() >> 20) % count
    }

    /// A command that the banks' states allow, and its first clock as the channel sees it.
    fn choose(&mut self) -> (DramCommand, Clock) {
        if let Some(rank) = self.closed.take() {
            return (DramCommand::Refresh { rank }, self.banks.refresh_from(rank));
        }
        let bank = self.below(self.banks.banks.len() as u64) as usize;
        let rank = self.below(u64::from(self.ranks)) as u32;
        let number = bank as u32;
        let row = self.banks.banks[bank].row;
        match self.below(40) {
            0 => match self.banks.precharge_all_from(rank) {
                Some(at) => (DramCommand::PrechargeAll { rank }, at),
                None => (DramCommand::Refresh { rank }, self.banks.refresh_from(rank)),
            },
            draw if row == CLOSED => {
                let command = DramCommand::Activate {
                    bank: number,
                    row: draw as u32,
                };
                (command, self.banks.activate_from(bank))
            }
            1..=8 => (
                DramCommand::Precharge { bank: number },
                self.banks.precharge_from(bank),
            ),
            draw => {
                let kind = BurstKind::BOTH[usize::from(draw % 3 == 0)];
                let is_auto = draw % 10 == 0;
                let command = DramCommand::Column {
                    bank: number,
                    row,
                    kind,
                    is_auto,
                };
                (command, self.banks.column_from(bank, kind))
            }
        }
    }

    fn issue(&mut self, command: DramCommand, at: Clock) {
        let gaps = self.banks.gaps;
        let bus = match command {
            DramCommand::Activate { bank, row } => {
                self.banks.activate(bank as usize, row, at);
                gaps.activate_bus
            }
            DramCommand::Precharge { bank } => {
                self.banks.precharge(bank as usize, at);
                1
            }
            DramCommand::PrechargeAll { rank } => {
                self.banks.precharge_all(rank, at);
                self.closed = (self.below(2) == 0).then_some(rank);
                1
            }
            DramCommand::Column {
                bank,
                kind,
                is_auto,
                ..
            } => {
                self.banks.column(bank as usize, kind, is_auto, at);
                gaps.column_bus
            }
            DramCommand::Refresh { rank } => {
                self.banks.refresh(rank, at);
                1
            }
            DramCommand::RefreshSameBank {
                rank,
                bank_of_group,
            } => {
                self.banks.refresh_same_bank(rank, bank_of_group, at);
                1
            }
        };
        self.bus_free = at + bus;
    }
}

#[test]
fn a_command_is_legal_at_its_clock_and_illegal_one_before() {
    let plain = DramProfile::names()
        .into_iter()
        .map(|name| changed(name, |_| ()));
    for profile in plain.chain([two_ranks(), same_bank()]) {
        let mut walk = Walk::new(&profile);
        let mut by_kind = [0; 5];
        for _ in 0..200_000 {
            let (command, at) = walk.choose();
            let at = at.max(walk.bus_free);
            let earliest = walk.checker.earliest(&command);
            assert_eq!(earliest, Some(at), "{}: {command:?}", profile.name);
            let late = if walk.below(2) == 0 {
                0
            } else {
                walk.below(60)
            };
            // Refreshes are rarer here than a part needs them.
            let mut found = walk.checker.follow(&IssuedCommand {
                at: at + late,
                command,
            });
            found.retain(|violation| violation.rule != "refi");
            assert_eq!(found, []);
            walk.issue(command, at + late);
            by_kind[match command {
                DramCommand::Activate { .. } => 0,
                DramCommand::Precharge { .. } => 1,
                DramCommand::PrechargeAll { .. } => 2,
                DramCommand::Column { .. } => 3,
                DramCommand::Refresh { .. } | DramCommand::RefreshSameBank { .. } => 4,
            }] += 1;
        }
        assert!(
            by_kind.iter().all(|count| *count > 500),
            "{}: {by_kind:?}",
            profile.name
        );
    }
}
