// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sets of one kind of PMU, and how a role gets into one of them.

use super::{Wanted, split};
use crate::groups::fit_beside;
use crate::role::RoleSum;
use crate::table::{Event, Pmu, Table};

/// Quantities that are numbers of cycles, or of requests in each cycle.
const IN_CYCLES: &[&str] = &["occupancy", "busy", "full", "stalls"];

/// Sets of one kind of PMU, which take turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane<'a> {
    pub table: &'a Table,
    /// The PMU, as the table's events name it.
    pub pmu: &'a str,
    pub sets: Vec<LaneSet<'a>>,
    kind: Pmu,
    held: u32,
    sets_max: usize,
    clock: Option<&'a RoleSum>,
    /// Roles that fixed counters count: they take nothing, and are in every set.
    free: Vec<&'a RoleSum>,
}

/// Events that count at the same time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneSet<'a> {
    pub events: Vec<&'a Event>,
    pub roles: Vec<RolePart<'a>>,
}

/// A role, or a part of its sum, that a set counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolePart<'a> {
    pub role: &'a RoleSum,
    /// Places of the events that are added, in [`LaneSet::events`].
    pub plus: Vec<usize>,
    /// Places of those that are taken off.
    pub minus: Vec<usize>,
    /// Whether each of its sets counts all of it, as with a clock. Else the sum of its parts is the role's.
    pub is_repeated: bool,
}

/// The PMU that all events of a role are of.
pub(super) fn pmu_of(way: Wanted<'_>) -> Option<(&str, &Pmu)> {
    let names = way.role.plus.iter().chain(&way.role.minus);
    let mut pmus = names.filter_map(|name| Some(way.table.event(name)?.pmu.as_str()));
    let first = pmus.next()?;
    if pmus.any(|other| other != first) {
        return None;
    }
    let (name, pmu) = way.table.pmu.get_key_value(first)?;
    Some((name, pmu))
}

fn events<'a>(table: &'a Table, names: &[String]) -> Vec<&'a Event> {
    names.iter().filter_map(|name| table.event(name)).collect()
}

impl<'a> Lane<'a> {
    pub(super) fn new(
        table: &'a Table,
        pmu: &'a str,
        kind: Pmu,
        held: u32,
        sets_max: usize,
    ) -> Self {
        Lane {
            table,
            pmu,
            sets: Vec::new(),
            kind,
            held,
            sets_max,
            clock: None,
            free: Vec::new(),
        }
    }

    pub(super) fn is_of(&self, table: &Table, pmu: &str) -> bool {
        self.table.family == table.family && self.pmu == pmu
    }

    /// Takes note of a role that stands in several sets.
    pub(super) fn note_clock(&mut self, way: Wanted<'a>) {
        let all = events(way.table, &way.role.plus);
        let is_known = self.free.iter().any(|role| role.name == way.role.name);
        if !is_known && way.role.minus.is_empty() && all.iter().all(|e| e.fixed.is_some()) {
            self.free.push(way.role);
        }
        if self.clock.is_none() && split(&way.role.name).1 == "clock" {
            self.clock = Some(way.role);
        }
    }

    /// Roles of which a set that counts these has all events besides.
    fn beside(&self, roles: &[Wanted<'a>]) -> Vec<&'a RoleSum> {
        let is_in_cycles =
            |way: &Wanted| IN_CYCLES.contains(&split(&way.role.name).1) && self.clock.is_some();
        let clock = self.clock.filter(|_| roles.iter().any(is_in_cycles));
        let mut all = self.free.clone();
        all.extend(clock.filter(|clock| self.free.iter().all(|role| role.name != clock.name)));
        all
    }

    fn is_repeated(&self, role: &RoleSum) -> bool {
        let is_clock = self.clock.is_some_and(|clock| clock.name == role.name);
        is_clock || self.free.iter().any(|free| free.name == role.name)
    }

    /// A set with more roles, if it then still fits.
    fn with(&self, set: &LaneSet<'a>, roles: &[Wanted<'a>]) -> Option<LaneSet<'a>> {
        let mut set = set.clone();
        let wanted = roles.iter().map(|way| way.role);
        for role in self.beside(roles).into_iter().chain(wanted) {
            set.add(
                self.table,
                role,
                &role.plus,
                &role.minus,
                self.is_repeated(role),
            );
        }
        self.fits(&set).then_some(set)
    }

    fn fits(&self, set: &LaneSet) -> bool {
        fit_beside(&self.kind, &set.events, self.held)
    }

    /// Puts roles into one set: one that has their events already, one that has room for them, or a new one.
    fn put(&mut self, roles: &[Wanted<'a>]) -> bool {
        let grown: Vec<Option<LaneSet>> =
            self.sets.iter().map(|set| self.with(set, roles)).collect();
        let added = |(place, set): (usize, &Option<LaneSet>)| {
            let set = set.as_ref()?;
            Some((set.events.len() - self.sets.get(place)?.events.len(), place))
        };
        let all = grown.iter().enumerate().filter_map(added);
        // The first of those with room, but for one that need not grow.
        let best = all.min_by_key(|(more, place)| (*more > 0, *place));
        if let Some((_, place)) = best
            && let Some(Some(set)) = grown.into_iter().nth(place)
        {
            self.sets[place] = set;
            return true;
        }
        let new = (self.sets.len() < self.sets_max)
            .then(|| self.with(&LaneSet::default(), roles))
            .flatten();
        let is_new = new.is_some();
        self.sets.extend(new);
        is_new
    }

    /// Puts each event of a sum where there is room for it.
    fn put_parts(&mut self, way: Wanted<'a>) -> bool {
        let before = self.sets.clone();
        for name in &way.role.plus {
            let grown = |set: &LaneSet<'a>| self.with_part(set, way, name);
            let mut found = self.sets.iter().enumerate();
            let found = found.find_map(|(place, set)| Some((place, grown(set)?)));
            let new = || grown(&LaneSet::default()).filter(|_| self.sets.len() < self.sets_max);
            match found.or_else(|| Some((self.sets.len(), new()?))) {
                Some((place, set)) if place == self.sets.len() => self.sets.push(set),
                Some((place, set)) => self.sets[place] = set,
                None => {
                    self.sets = before;
                    return false;
                }
            }
        }
        true
    }

    /// A set with one event of a sum, if it then still fits.
    fn with_part(&self, set: &LaneSet<'a>, way: Wanted<'a>, name: &String) -> Option<LaneSet<'a>> {
        let mut set = set.clone();
        for role in self.beside(&[way]) {
            set.add(self.table, role, &role.plus, &role.minus, true);
        }
        let part = std::slice::from_ref(name);
        set.add(self.table, way.role, part, &[], false);
        self.fits(&set).then_some(set)
    }
}

impl<'a> LaneSet<'a> {
    fn add(
        &mut self,
        table: &'a Table,
        role: &'a RoleSum,
        plus: &[String],
        minus: &[String],
        is_repeated: bool,
    ) {
        if is_repeated && self.roles.iter().any(|part| part.role.name == role.name) {
            return;
        }
        let mut places = |names: &[String]| -> Vec<usize> {
            let all = events(table, names).into_iter();
            all.map(|event| self.place(event)).collect()
        };
        let (plus, minus) = (places(plus), places(minus));
        match self
            .roles
            .iter_mut()
            .find(|part| part.role.name == role.name)
        {
            Some(part) => part.plus.extend(plus),
            None => self.roles.push(RolePart {
                role,
                plus,
                minus,
                is_repeated,
            }),
        }
    }

    /// The place of an event, which is added if it is not there.
    fn place(&mut self, event: &'a Event) -> usize {
        let known = self.events.iter().position(|e| e.name == event.name);
        known.unwrap_or_else(|| {
            self.events.push(event);
            self.events.len() - 1
        })
    }
}

fn lane_of<'l, 'a>(lanes: &'l mut [Lane<'a>], way: Wanted<'a>) -> Option<&'l mut Lane<'a>> {
    let (pmu, _) = pmu_of(way)?;
    lanes.iter_mut().find(|lane| lane.is_of(way.table, pmu))
}

/// Puts roles into one set. False if they do not fit into any, or if their events belong to several PMUs.
pub(super) fn put_together<'a>(lanes: &mut [Lane<'a>], roles: &[Wanted<'a>]) -> bool {
    let Some(first) = roles.first() else {
        return true;
    };
    let is_same = |way: &Wanted| pmu_of(*way).map(|pmu| pmu.0) == pmu_of(*first).map(|pmu| pmu.0);
    roles.iter().all(is_same) && lane_of(lanes, *first).is_some_and(|lane| lane.put(roles))
}

/// Whether its events may count at different times: a sum.
fn may_spread(role: &RoleSum) -> bool {
    role.minus.is_empty() && role.plus.len() > 1
}

/// Puts the events of a sum into several sets.
pub(super) fn put_spread<'a>(lanes: &mut [Lane<'a>], way: Wanted<'a>) -> bool {
    may_spread(way.role) && lane_of(lanes, way).is_some_and(|lane| lane.put_parts(way))
}

/// Whether a set of its own would hold it.
pub(super) fn would_fit<'a>(lanes: &mut [Lane<'a>], way: Wanted<'a>) -> bool {
    let lane = lane_of(lanes, way);
    lane.is_some_and(|lane| {
        may_spread(way.role) || lane.with(&LaneSet::default(), &[way]).is_some()
    })
}
