// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of weir-events as recipes of weir-profile: which of them fits the events that perf counted, and
//! what they are called there.

use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::window::CountProvenance;
use weir_events::{Event, Provenance, RoleSum, Table, Terms, tables_with_roles};
use weir_linux::Roots;
use weir_linux::pmu::Machine;
use weir_profile::perf_stat::{PerfStat, event_name};
use weir_profile::recipes::{Recipe, Recipes};

/// Events of a family and of devices.
pub struct Events {
    family: Option<&'static Table>,
    by_name: BTreeMap<String, (&'static Table, &'static Event)>,
}

impl Events {
    fn new(family: Option<&'static Table>) -> Events {
        let devices = tables_with_roles()
            .iter()
            .filter(|table| table.cpu.is_empty());
        let events = family.into_iter().chain(devices);
        let named = events.flat_map(|table| table.event.iter().map(move |event| (table, event)));
        let by_name = named.map(|(table, event)| (event.name.to_ascii_lowercase(), (table, event)));
        Events {
            family,
            by_name: by_name.collect(),
        }
    }

    /// The table's name of an event that perf names. An event of another PMU is another event, whatever its
    /// name.
    pub fn canonical(&self, pmu: Option<&str>, inside: &str) -> Option<String> {
        let is_of = |(table, event): &(&'static Table, &'static Event)| {
            pmu.is_none_or(|pmu| is_pmu(table, event, pmu))
        };
        if let Some(found) = self.by_name.get(&inside.to_ascii_lowercase()) {
            return is_of(found).then(|| found.1.name.clone());
        }
        let terms = Terms::parse(inside)
            .ok()
            .filter(|_| inside.contains('=') && pmu.is_some())?;
        let same =
            |(_, event): &&(&'static Table, &'static Event)| set(&event.terms) == set(&terms);
        let mut all = self.by_name.values().filter(|found| is_of(found));
        all.find(same).map(|(_, event)| event.name.clone())
    }

    pub fn recipes(&self) -> Recipes {
        let devices = tables_with_roles()
            .iter()
            .filter(|table| table.cpu.is_empty());
        let roles = self
            .family
            .into_iter()
            .chain(devices)
            .flat_map(|table| &table.role);
        Recipes {
            family: self.family.map(|table| table.family.clone()),
            all: roles.filter_map(recipe).collect(),
        }
    }
}

/// perf names a PMU with its number or without.
fn is_pmu(table: &Table, event: &Event, pmu: &str) -> bool {
    let kind = |pattern: &weir_events::Pattern| {
        let text = pattern.to_string();
        text.trim_end_matches(['#', '_', '.']) == pmu
    };
    let names = table.pmu.get(&event.pmu).map(|pmu| &pmu.names);
    names.is_some_and(|names| names.iter().any(|name| name.fits(pmu) || kind(name)))
}

/// Terms whatever their order, without zeros.
fn set(terms: &Terms) -> BTreeSet<(String, u64)> {
    let set = terms.iter().filter(|(_, value)| *value != 0);
    set.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn recipe(role: &RoleSum) -> Option<Recipe> {
    Some(Recipe {
        role: role.name.parse().ok()?,
        plus: role.plus.clone(),
        minus: role.minus.clone(),
        provenance: match role.provenance {
            Provenance::Documented => CountProvenance::Documented,
            Provenance::OtherName => CountProvenance::OtherName,
            Provenance::Difference => CountProvenance::Difference,
            Provenance::Raw => CountProvenance::Raw,
        },
        capacity: role.capacity,
        ns: role.ns,
    })
}

/// The table that the counted events stand in: the one asked for, this machine's, or the only one that has
/// most of them.
///
/// # Errors
/// There is no such family, or several have the events.
pub fn choose(counted: &PerfStat, family: Option<&str>, roots: &Roots) -> Result<Events> {
    let families = || {
        tables_with_roles()
            .iter()
            .filter(|table| !table.role.is_empty() && !table.cpu.is_empty())
    };
    if let Some(name) = family {
        let names: Vec<&str> = families().map(|table| table.family.as_str()).collect();
        let Some(table) = families().find(|table| table.family == name) else {
            bail!(
                "there is no family {name:?} with roles; there are {}",
                names.join(", ")
            );
        };
        return Ok(Events::new(Some(table)));
    }
    let names: BTreeSet<&str> = counted.rows.iter().map(|row| row.event.as_str()).collect();
    let known = |table: &'static Table| {
        let events = Events::new(Some(table));
        let is_known = |name: &&&str| {
            let name = event_name(name);
            let found = events.canonical(name.pmu, name.inside);
            found.is_some_and(|found| table.event(&found).is_some())
        };
        names.iter().filter(is_known).count()
    };
    let scores: Vec<(&'static Table, usize)> =
        families().map(|table| (table, known(table))).collect();
    let most = scores.iter().map(|(_, count)| *count).max().unwrap_or(0);
    if most == 0 {
        return Ok(Events::new(None));
    }
    let machine = Machine::probe(roots);
    let best: Vec<&'static Table> = scores
        .iter()
        .filter(|(_, count)| *count == most)
        .map(|(table, _)| *table)
        .collect();
    let here = best.iter().find(|table| machine.has(table));
    match (here, &best[..]) {
        (Some(table), _) | (None, [table]) => Ok(Events::new(Some(table))),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|table| table.family.as_str()).collect();
            bail!(
                "{} have these events: say which with --family",
                names.join(" and ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(family: &str) -> Events {
        Events::new(
            tables_with_roles()
                .iter()
                .find(|table| table.family == family),
        )
    }

    /// weir-events does not know the words of roles.
    #[test]
    fn each_role_of_a_table_is_one() {
        let roles = tables_with_roles().iter().flat_map(|table| &table.role);
        let mut read = 0;
        for role in roles {
            assert!(recipe(role).is_some(), "{}", role.name);
            read += 1;
        }
        assert!(read > 400, "{read}");
    }

    #[test]
    fn an_event_is_found_by_name_and_by_terms_on_its_own_pmu() {
        let events = of("emerald-rapids");
        let occupancy = "UNC_CHA_TOR_OCCUPANCY.IA_MISS_DRD_CXL_ACC_LOCAL";
        let name = Some(occupancy.to_owned());
        assert_eq!(events.canonical(None, &occupancy.to_lowercase()), name);
        assert_eq!(events.canonical(Some("uncore_cha_17"), occupancy), name);
        assert_eq!(
            events.canonical(Some("uncore_cha"), "umask=0x10c8168201,event=0x36"),
            name
        );
        assert_eq!(events.canonical(Some("uncore_imc_0"), occupancy), None);
        assert_eq!(
            events.canonical(Some("cpu"), "umask=0x10c8168201,event=0x36"),
            None
        );
        assert_eq!(events.canonical(None, "page-faults"), None);
    }

    /// A public recording asked the core's PMU for an event of the cache's: bits that count something else.
    #[test]
    fn a_name_on_another_pmu_is_another_event() {
        let events = of("zen4");
        let latency = "l3_xi_sampled_latency.ext_near";
        assert!(events.canonical(Some("amd_l3"), latency).is_some());
        assert_eq!(events.canonical(Some("cpu"), latency), None);
        assert_eq!(events.canonical(Some("cpu"), "event=0xac,umask=0x10"), None);
    }
}
