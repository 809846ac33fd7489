// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replays a stream of commands against a profile's timings. It shares no line with the channel: it keeps the
//! times at which the part had commands whole, and asks each rule anew for each command.

use crate::{BurstKind, Clock, DramCommand, DramProfile, IssuedCommand};
use std::collections::VecDeque;

/// A rule of the part that a command breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: &'static str,
    pub command: IssuedCommand,
    /// First clock at which the command would keep the rule; none if no clock would do.
    pub earliest: Option<Clock>,
}

/// When the part had a command whole.
type Whole = Option<i64>;

#[derive(Clone, Debug, Default)]
struct CheckedBank {
    row: Option<u32>,
    activate: Whole,
    precharge: Whole,
    read: Whole,
    write: Whole,
    /// Start of the precharge that a column command brought with it.
    auto: Whole,
    refresh: Whole,
    same_bank_refresh: Whole,
}

#[derive(Clone, Debug, Default)]
struct CheckedGroup {
    activate: Whole,
    read: Whole,
    write: Whole,
}

#[derive(Clone, Debug, Default)]
struct CheckedRank {
    activates: VecDeque<i64>,
    precharge: Whole,
    read: Whole,
    write: Whole,
    refreshed: i64,
}

#[derive(Clone, Debug)]
pub struct TimingChecker {
    profile: DramProfile,
    banks: Vec<CheckedBank>,
    groups: Vec<CheckedGroup>,
    ranks: Vec<CheckedRank>,
    /// First clock at which the command bus is free.
    bus_free: i64,
    /// Rank, kind and end of the last data on the bus.
    data: Option<(u32, BurstKind, i64)>,
}

/// Rules of one command: the name, and the first clock at which it is kept.
#[derive(Default)]
struct Rules(Vec<(&'static str, i64)>);

impl Rules {
    /// The part may have the command whole so long after an earlier one.
    fn after(&mut self, rule: &'static str, earlier: Whole, clocks: Clock, late: i64) {
        if let Some(earlier) = earlier {
            self.0.push((rule, earlier + clocks as i64 - late));
        }
    }
}

impl TimingChecker {
    pub fn new(profile: &DramProfile) -> TimingChecker {
        let parts = &profile.organisation;
        TimingChecker {
            profile: profile.clone(),
            banks: vec![CheckedBank::default(); parts.banks() as usize],
            groups: vec![CheckedGroup::default(); (parts.ranks * parts.bank_groups) as usize],
            ranks: vec![CheckedRank::default(); parts.ranks as usize],
            bus_free: 0,
            data: None,
        }
    }

    fn group_of(&self, bank: u32) -> usize {
        (bank / self.profile.organisation.banks_per_group) as usize
    }

    fn rank_of(&self, bank: u32) -> usize {
        self.group_of(bank) / self.profile.organisation.bank_groups as usize
    }

    fn banks_of(&self, rank: u32, bank_of_group: Option<u32>) -> Vec<usize> {
        let each = self.profile.organisation.banks_per_group;
        let all = (0..self.banks.len()).filter(|bank| self.rank_of(*bank as u32) == rank as usize);
        all.filter(|bank| bank_of_group.is_none_or(|number| *bank as u32 % each == number))
            .collect()
    }

    /// Clocks that a command holds the bus beyond its first.
    fn late(&self, command: &DramCommand) -> i64 {
        let t = &self.profile.timing;
        match command {
            DramCommand::Activate { .. } => t.activate_bus_clocks as i64 - 1,
            DramCommand::Column { .. } => t.column_bus_clocks as i64 - 1,
            _ => 0,
        }
    }

    /// Banks that a command needs in another state than they are in.
    fn wrong_state(&self, command: &DramCommand) -> Option<&'static str> {
        let row = |bank: &u32| self.banks[*bank as usize].row;
        let any_open = |banks: Vec<usize>| banks.iter().any(|bank| self.banks[*bank].row.is_some());
        match command {
            DramCommand::Activate { bank, .. } => row(bank).map(|_| "activate of an open bank"),
            DramCommand::Precharge { bank } => match row(bank) {
                None => Some("precharge of a closed bank"),
                Some(_) => None,
            },
            DramCommand::PrechargeAll { .. } => None,
            DramCommand::Column {
                bank, row: wanted, ..
            } => match row(bank) {
                Some(open) if open == *wanted => None,
                _ => Some("column command to a row that is not open"),
            },
            DramCommand::Refresh { rank } => {
                any_open(self.banks_of(*rank, None)).then_some("refresh of an open bank")
            }
            DramCommand::RefreshSameBank {
                rank,
                bank_of_group,
            } => {
                let banks = self.banks_of(*rank, Some(*bank_of_group));
                any_open(banks).then_some("refresh of an open bank")
            }
        }
    }

    fn activate_rules(&self, bank: u32, rules: &mut Rules) {
        let t = &self.profile.timing;
        let (state, group) = (&self.banks[bank as usize], self.group_of(bank));
        let rank = self.rank_of(bank);
        let late = t.activate_bus_clocks as i64 - 1;
        rules.after("rc", state.activate, t.rc_clocks, late);
        rules.after("rp", state.precharge, t.rp_clocks, late);
        rules.after("rp", state.auto, t.rp_clocks, late);
        rules.after("rfc", state.refresh, self.profile.refresh.rfc_clocks, late);
        let same_bank = self.profile.refresh.rfc_same_bank_clocks.unwrap_or(0);
        rules.after("rfc_same_bank", state.same_bank_refresh, same_bank, late);
        rules.after("rrd_l", self.groups[group].activate, t.rrd_l_clocks, late);
        let activates = &self.ranks[rank].activates;
        rules.after("rrd_s", activates.back().copied(), t.rrd_s_clocks, late);
        if activates.len() == 4 {
            rules.after("faw", activates.front().copied(), t.faw_clocks, late);
        }
    }

    fn precharge_rules(&self, bank: usize, rules: &mut Rules) {
        let t = &self.profile.timing;
        let state = &self.banks[bank];
        if state.row.is_none() {
            return;
        }
        let written = t.cwl_clocks + t.bl_clocks + t.wr_clocks;
        rules.after("ras", state.activate, t.ras_clocks, 0);
        rules.after("rtp", state.read, t.rtp_clocks, 0);
        rules.after("wr", state.write, written, 0);
        let rank = &self.ranks[self.rank_of(bank as u32)];
        rules.after("ppd", rank.precharge, t.ppd_clocks, 0);
    }

    fn column_rules(&self, bank: u32, kind: BurstKind, rules: &mut Rules) {
        let t = &self.profile.timing;
        let late = t.column_bus_clocks as i64 - 1;
        let (group, rank) = (
            &self.groups[self.group_of(bank)],
            &self.ranks[self.rank_of(bank)],
        );
        rules.after(
            "rcd",
            self.banks[bank as usize].activate,
            t.rcd_clocks,
            late,
        );
        let written = t.cwl_clocks + t.bl_clocks;
        match kind {
            BurstKind::Read => {
                rules.after("ccd_s", rank.read, t.ccd_s_clocks, late);
                rules.after("ccd_l", group.read, t.ccd_l_clocks, late);
                rules.after("wtr_s", rank.write, written + t.wtr_s_clocks, late);
                rules.after("wtr_l", group.write, written + t.wtr_l_clocks, late);
            }
            BurstKind::Write => {
                let short = t.ccd_s_write_clocks.unwrap_or(t.ccd_s_clocks);
                let long = t.ccd_l_write_clocks.unwrap_or(t.ccd_l_clocks);
                rules.after("ccd_s_write", rank.write, short, late);
                rules.after("ccd_l_write", group.write, long, late);
                rules.after("rtw", rank.read, t.rtw_clocks, late);
            }
        }
        let to_data = match kind {
            BurstKind::Read => t.cl_clocks,
            BurstKind::Write => t.cwl_clocks,
        } as i64;
        if let Some((last, last_kind, end)) = self.data {
            let is_other = last as usize != self.rank_of(bank);
            let is_driven = [last_kind, kind] != [BurstKind::Write; 2];
            let pause = if is_other && is_driven {
                t.cs_clocks
            } else {
                0
            };
            let rule = if is_other { "cs" } else { "data bus" };
            rules.0.push((rule, end + pause as i64 - to_data - late));
        }
    }

    fn refresh_rules(&self, banks: &[usize], rules: &mut Rules) {
        let t = &self.profile.timing;
        for bank in banks {
            let state = &self.banks[*bank];
            rules.after("rp before refresh", state.precharge, t.rp_clocks, 0);
            rules.after("rp before refresh", state.auto, t.rp_clocks, 0);
            rules.after("rc before refresh", state.activate, t.rc_clocks, 0);
            rules.after("rfc", state.refresh, self.profile.refresh.rfc_clocks, 0);
            let same_bank = self.profile.refresh.rfc_same_bank_clocks.unwrap_or(0);
            rules.after("rfc_same_bank", state.same_bank_refresh, same_bank, 0);
        }
    }

    fn rules(&self, command: &DramCommand) -> Rules {
        let mut rules = Rules(vec![("command bus", self.bus_free)]);
        match command {
            DramCommand::Activate { bank, .. } => self.activate_rules(*bank, &mut rules),
            DramCommand::Precharge { bank } => self.precharge_rules(*bank as usize, &mut rules),
            DramCommand::PrechargeAll { rank } => {
                for bank in self.banks_of(*rank, None) {
                    self.precharge_rules(bank, &mut rules);
                }
            }
            DramCommand::Column { bank, kind, .. } => self.column_rules(*bank, *kind, &mut rules),
            DramCommand::Refresh { rank } => {
                self.refresh_rules(&self.banks_of(*rank, None), &mut rules);
            }
            DramCommand::RefreshSameBank {
                rank,
                bank_of_group,
            } => {
                self.refresh_rules(&self.banks_of(*rank, Some(*bank_of_group)), &mut rules);
            }
        }
        rules
    }

    /// First clock at which a command keeps all rules of time; none if a bank's state forbids it.
    pub fn earliest(&self, command: &DramCommand) -> Option<Clock> {
        if self.wrong_state(command).is_some() {
            return None;
        }
        let rules = self.rules(command);
        let latest = rules.0.iter().map(|(_, clock)| *clock).max();
        Some(latest.unwrap_or(0).max(0) as Clock)
    }

    pub fn follow(&mut self, issued: &IssuedCommand) -> Vec<Violation> {
        let violation = |rule, earliest| Violation {
            rule,
            command: *issued,
            earliest,
        };
        let mut found = Vec::new();
        if let Some(rule) = self.wrong_state(&issued.command) {
            found.push(violation(rule, None));
        }
        for (rule, earliest) in self.rules(&issued.command).0 {
            if (issued.at as i64) < earliest {
                found.push(violation(rule, Some(earliest as Clock)));
            }
        }
        let at = issued.at as i64;
        let refi = self.profile.refresh.refi_clocks as i64;
        let has_refresh = self.profile.refresh.kind != crate::RefreshKind::None;
        if has_refresh && self.ranks.iter().any(|rank| at - rank.refreshed > 2 * refi) {
            found.push(violation("refi", None));
        }
        self.apply(issued);
        found
    }

    fn apply(&mut self, issued: &IssuedCommand) {
        let late = self.late(&issued.command);
        let (at, whole) = (issued.at as i64, issued.at as i64 + late);
        self.bus_free = whole + 1;
        match issued.command {
            DramCommand::Activate { bank, row } => {
                let (group, rank) = (self.group_of(bank), self.rank_of(bank));
                let state = &mut self.banks[bank as usize];
                *state = CheckedBank {
                    row: Some(row),
                    activate: Some(whole),
                    ..CheckedBank::default()
                };
                self.groups[group].activate = Some(whole);
                let activates = &mut self.ranks[rank].activates;
                activates.push_back(whole);
                if activates.len() > 4 {
                    activates.pop_front();
                }
            }
            DramCommand::Precharge { bank } => self.close(bank as usize, whole),
            DramCommand::PrechargeAll { rank } => {
                for bank in self.banks_of(rank, None) {
                    if self.banks[bank].row.is_some() {
                        self.close(bank, whole);
                    }
                }
            }
            DramCommand::Column {
                bank,
                kind,
                is_auto,
                ..
            } => {
                self.column(bank, kind, is_auto, whole);
            }
            DramCommand::Refresh { rank } => {
                for bank in self.banks_of(rank, None) {
                    self.banks[bank].refresh = Some(whole);
                }
                self.ranks[rank as usize].refreshed = at;
            }
            DramCommand::RefreshSameBank {
                rank,
                bank_of_group,
            } => {
                for bank in self.banks_of(rank, Some(bank_of_group)) {
                    self.banks[bank].same_bank_refresh = Some(whole);
                }
                self.ranks[rank as usize].refreshed = at;
            }
        }
    }

    fn close(&mut self, bank: usize, whole: i64) {
        let rank = self.rank_of(bank as u32);
        self.banks[bank].row = None;
        self.banks[bank].precharge = Some(whole);
        self.ranks[rank].precharge = Some(whole);
    }

    fn column(&mut self, bank: u32, kind: BurstKind, is_auto: bool, whole: i64) {
        let t = self.profile.timing;
        let (group, rank) = (self.group_of(bank), self.rank_of(bank));
        let (to_data, to_close) = match kind {
            BurstKind::Read => (t.cl_clocks, t.rtp_clocks),
            BurstKind::Write => (t.cwl_clocks, t.cwl_clocks + t.bl_clocks + t.wr_clocks),
        };
        let state = &mut self.banks[bank as usize];
        let slots = match kind {
            BurstKind::Read => [
                &mut state.read,
                &mut self.groups[group].read,
                &mut self.ranks[rank].read,
            ],
            BurstKind::Write => [
                &mut state.write,
                &mut self.groups[group].write,
                &mut self.ranks[rank].write,
            ],
        };
        for slot in slots {
            *slot = Some(whole);
        }
        if is_auto {
            let state = &mut self.banks[bank as usize];
            state.row = None;
            let since_activate = state.activate.unwrap_or(whole) + t.ras_clocks as i64;
            state.auto = Some((whole + to_close as i64).max(since_activate));
        }
        self.data = Some((rank as u32, kind, whole + (to_data + t.bl_clocks) as i64));
    }
}
