// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which roles are counted in which set. The sets of a PMU take turns: what is in one counts over the same
//! time, and no set is larger than the PMU, so that the kernel multiplexes nothing inside of it.
//!
//! - An occupancy, its inserts and its busy cycles are in one set where they fit: a quotient of counts of
//!   other times is none.
//! - What counts cycles has the clock of its PMU beside it. A clock is in several sets, and so is an event
//!   that a fixed counter has: these run more of the time than others.
//! - A sum that does not fit in one set is spread over several. A difference never is.
//! - A role that no set has is absent, with the reason.

mod lane;

pub use lane::{Lane, LaneSet, RolePart};

use crate::role::RoleSum;
use crate::table::{Event, Scope, Table};
use std::collections::BTreeMap;

/// Sets of a PMU that counts may take turns in: each then runs for 6 % of the time, and weir-profile refuses
/// what ran for less than 5 %.
pub const SETS_MAX: usize = 16;

/// A role that is wanted, and the table that has it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub table: &'a Table,
    pub role: &'a RoleSum,
}

/// What sets must keep to besides the PMUs' own limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanLimits {
    /// Counters of each CPU that others hold: the NMI watchdog has one.
    pub held: u32,
    /// Counters of a PMU of which only the device knows how many it has.
    pub unknown_counters: u32,
    /// Sets of a PMU: with more, each counts for too little of the time.
    pub sets_max: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyAbsent<R> {
    /// One of its events is not here, for the caller's reason.
    NotHere(R),
    /// Its events are more than the PMU has counters or registers for.
    TooLarge,
    /// All sets are full, and there are as many as there may be.
    LeftOut,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AbsentRole<'a, R> {
    /// The first that was tried of this name.
    pub wanted: &'a RoleSum,
    pub why: WhyAbsent<R>,
}

/// All sets, and what none of them has.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPlan<'a, R> {
    pub lanes: Vec<Lane<'a>>,
    pub absent: Vec<AbsentRole<'a, R>>,
}

/// Quantities of one place that make a figure together.
const TOGETHER: &[&str] = &["occupancy", "inserts", "busy", "time-ns", "samples"];

/// A kind of request or time at a place, and its quantity: `tor.drd.cxl` and `occupancy`.
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or((name, ""))
}

/// Ways to count a role, best first, and why the others cannot be taken.
struct RoleWays<'a, R> {
    first: &'a RoleSum,
    ways: Vec<Wanted<'a>>,
    why: Option<R>,
}

/// Makes the sets. The most important roles come first; of several of one name the first that can be counted
/// is taken. `countable` says why an event is not here.
pub fn plan<'a, R>(
    wanted: &[Wanted<'a>],
    limits: &PlanLimits,
    countable: &mut dyn FnMut(&'a Table, &'a Event) -> Result<(), R>,
) -> EventPlan<'a, R> {
    let (order, mut roles) = ways(wanted, countable);
    let mut lanes = lanes(&order, &roles, limits);
    let mut absent = Vec::new();
    for name in &order {
        let Some(role) = roles.remove(name) else {
            continue;
        };
        let (place, quantity) = split(name);
        let mut bundle: Vec<(&str, RoleWays<R>)> = vec![(name, role)];
        if TOGETHER.contains(&quantity) {
            let mates = TOGETHER.iter().filter_map(|other| {
                let (name, _) = roles.get_key_value(&*format!("{place}.{other}"))?;
                Some(*name)
            });
            for mate in mates.collect::<Vec<_>>() {
                bundle.extend(roles.remove(mate).map(|role| (mate, role)));
            }
        }
        let firsts: Vec<Wanted> = bundle
            .iter()
            .filter_map(|(_, role)| role.ways.first().copied())
            .collect();
        if firsts.len() == bundle.len() && lane::put_together(&mut lanes, &firsts) {
            continue;
        }
        absent.extend(
            bundle
                .into_iter()
                .filter_map(|(_, role)| alone(&mut lanes, role)),
        );
    }
    lanes.retain(|lane| !lane.sets.is_empty());
    EventPlan { lanes, absent }
}

/// Puts a role into a set by the first way that fits.
fn alone<'a, R>(lanes: &mut [Lane<'a>], role: RoleWays<'a, R>) -> Option<AbsentRole<'a, R>> {
    let absent = |why| {
        Some(AbsentRole {
            wanted: role.first,
            why,
        })
    };
    let mut is_left_out = false;
    for way in &role.ways {
        if lane::put_together(lanes, &[*way]) || lane::put_spread(lanes, *way) {
            return None;
        }
        is_left_out |= lane::would_fit(lanes, *way);
    }
    match role.why {
        _ if is_left_out => absent(WhyAbsent::LeftOut),
        Some(why) if role.ways.is_empty() => absent(WhyAbsent::NotHere(why)),
        _ => absent(WhyAbsent::TooLarge),
    }
}

type Ways<'a, R> = (Vec<&'a str>, BTreeMap<&'a str, RoleWays<'a, R>>);

/// The ways of each role that can be counted here, and the order of their names.
fn ways<'a, R>(
    wanted: &[Wanted<'a>],
    countable: &mut dyn FnMut(&'a Table, &'a Event) -> Result<(), R>,
) -> Ways<'a, R> {
    let mut order = Vec::new();
    let mut roles: BTreeMap<&str, RoleWays<R>> = BTreeMap::new();
    for way in wanted {
        let name = way.role.name.as_str();
        let role = roles.entry(name).or_insert_with(|| {
            order.push(name);
            RoleWays {
                first: way.role,
                ways: Vec::new(),
                why: None,
            }
        });
        let events = way.role.plus.iter().chain(&way.role.minus);
        let events = events.filter_map(|name| way.table.event(name));
        let checked = events
            .map(|event| countable(way.table, event))
            .collect::<Result<Vec<()>, R>>();
        match checked {
            Ok(_) => role.ways.push(*way),
            Err(why) => role.why = role.why.take().or(Some(why)),
        }
    }
    (order, roles)
}

/// A lane for each PMU that can count one of the roles, with the clock and what its fixed counters have.
fn lanes<'a, R>(
    order: &[&'a str],
    roles: &BTreeMap<&'a str, RoleWays<'a, R>>,
    limits: &PlanLimits,
) -> Vec<Lane<'a>> {
    let mut lanes: Vec<Lane> = Vec::new();
    let all = order.iter().filter_map(|name| roles.get(name));
    for way in all.flat_map(|role| &role.ways) {
        let Some((name, pmu)) = lane::pmu_of(*way) else {
            continue;
        };
        let is_own = |lane: &&mut Lane| lane.is_of(way.table, name);
        if lanes.iter_mut().find(is_own).is_none() {
            let held = match pmu.scope {
                Scope::Cpu => limits.held,
                _ => 0,
            };
            let mut pmu = pmu.clone();
            pmu.counters.get_or_insert(limits.unknown_counters);
            lanes.push(Lane::new(way.table, name, pmu, held, limits.sets_max));
        }
        if let Some(lane) = lanes.iter_mut().find(is_own) {
            lane.note_clock(*way);
        }
    }
    lanes
}

#[cfg(test)]
mod tests;
