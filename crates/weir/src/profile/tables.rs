// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of weir-events as recipes of weir-profile: which of them fits the events that perf counted, and
//! what they are called there.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::window::CountProvenance;
use weir_events::table::Pmu;
use weir_events::{
    Event, Field, Pattern, Provenance, RoleSum, Table, Terms, encode, tables_with_roles,
};
use weir_linux::Roots;
use weir_linux::pmu::Machine;
use weir_profile::perf_stat::{PerfStat, event_name};
use weir_profile::recipes::{Recipe, Recipes};

/// Fields of every PMU: perf puts these terms into the numbers of the event as they are.
const RAW_FIELDS: [(&str, &str); 4] = [
    ("config", "config:0-63"),
    ("config1", "config1:0-63"),
    ("config2", "config2:0-63"),
    ("config3", "config3:0-63"),
];
/// Terms that tell perf how to count, and not what.
const TERMS_OF_PERF: [&str; 3] = ["name=", "period=", "freq="];

/// Events of a family and of devices.
pub struct Events {
    family: Option<&'static Table>,
    by_name: BTreeMap<String, (&'static Pmu, &'static Event)>,
    pmus: Vec<PmuEvents>,
}

/// The events of a PMU by the numbers that the kernel is asked for. Whatever their spelling, two names are
/// the same event where these are the same.
struct PmuEvents {
    pmu: &'static Pmu,
    fields: BTreeMap<&'static str, Field>,
    by_config: BTreeMap<[u64; 4], &'static Event>,
}

impl PmuEvents {
    fn new(pmu: &'static Pmu, events: &[&'static Event]) -> PmuEvents {
        let raw = RAW_FIELDS.into_iter();
        let raw = raw.filter_map(|(name, text)| Some((name, Field::parse(text.as_bytes()).ok()?)));
        let mut made = PmuEvents {
            pmu,
            fields: raw.chain(pmu.fields()).collect(),
            by_config: BTreeMap::new(),
        };
        for event in events {
            if let Some(config) = made.config(&event.terms) {
                made.by_config.entry(config).or_insert(event);
            }
        }
        made
    }

    fn config(&self, terms: &Terms) -> Option<[u64; 4]> {
        let config = encode(terms, |name| self.fields.get(name));
        config.ok().map(|config| config.0)
    }
}

impl Events {
    pub fn new(family: Option<&'static Table>) -> Events {
        let devices = tables_with_roles()
            .iter()
            .filter(|table| table.cpu.is_empty());
        let events = family.into_iter().chain(devices);
        let (mut by_name, mut pmus) = (BTreeMap::new(), Vec::new());
        for table in events {
            for (key, pmu) in &table.pmu {
                let events = table.event.iter().filter(|event| event.pmu == *key);
                let events: Vec<&Event> = events.collect();
                pmus.push(PmuEvents::new(pmu, &events));
                let named = events.iter();
                by_name.extend(named.map(|e| (e.name.to_ascii_lowercase(), (pmu, *e))));
            }
        }
        Events {
            family,
            by_name,
            pmus,
        }
    }

    /// The table's name of an event that perf names. An event of another PMU is another event, whatever its
    /// name.
    pub fn canonical(&self, pmu: Option<&str>, inside: &str) -> Option<String> {
        if let Some((of, event)) = self.by_name.get(&inside.to_ascii_lowercase()) {
            let is_of = pmu.is_none_or(|pmu| is_pmu(of, pmu));
            return is_of.then(|| event.name.clone());
        }
        let (pmu, terms) = terms_of(pmu, inside)?;
        let mut all = self.pmus.iter().filter(|all| is_pmu(all.pmu, pmu));
        let found = all.find_map(|all| all.by_config.get(&all.config(&terms)?));
        found.map(|event| event.name.clone())
    }

    /// Whether a role is made of some of these events.
    fn has_role(&self, names: &BTreeSet<&str>) -> bool {
        let found = names.iter().filter_map(|name| {
            let name = event_name(name);
            self.canonical(name.pmu, name.inside)
        });
        let found: BTreeSet<String> = found.collect();
        let recipes = self.recipes().all;
        let is_made = |recipe: &Recipe| {
            let mut of = recipe.plus.iter().chain(&recipe.minus);
            of.all(|event| found.contains(event))
        };
        recipes.iter().any(is_made)
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
fn is_pmu(pmu: &Pmu, name: &str) -> bool {
    let mut names = pmu.names.iter();
    names.any(|pattern| pattern.fits(name) || kind(pattern) == name)
}

/// The name that perf takes for all PMUs of a kind: `uncore_cha`.
pub fn kind(pattern: &Pattern) -> String {
    let text = pattern.to_string();
    text.trim_end_matches(['#', '_', '.']).to_owned()
}

/// The PMU and the terms of an event without a name: terms between slashes, or perf's raw event of the core,
/// such as `r20d1`.
fn terms_of<'a>(pmu: Option<&'a str>, inside: &str) -> Option<(&'a str, Terms)> {
    let raw = inside.strip_prefix('r').filter(|digits| {
        let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        is_hex && (1..=16).contains(&digits.len())
    });
    if let Some(digits) = raw {
        let terms = Terms::parse(&format!("config=0x{digits}"));
        return Some((pmu.unwrap_or("cpu"), terms.ok()?));
    }
    let is_of_pmu = |part: &&str| !TERMS_OF_PERF.iter().any(|own| part.starts_with(own));
    let terms: Vec<&str> = inside.split(',').filter(is_of_pmu).collect();
    let terms = Terms::parse(&terms.join(",")).ok();
    Some((pmu?, terms.filter(|_| inside.contains('='))?))
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

/// Families of CPUs whose events have roles.
fn families() -> impl Iterator<Item = &'static Table> {
    let all = tables_with_roles().iter();
    all.filter(|table| !table.role.is_empty() && !table.cpu.is_empty())
}

fn family_names() -> String {
    let names: Vec<&str> = families().map(|table| table.family.as_str()).collect();
    names.join(", ")
}

/// The family of this name.
fn named(name: &str) -> Result<&'static Table> {
    let mut all = families();
    all.find(|table| table.family == name).with_context(|| {
        let names = family_names();
        format!("there is no family {name:?} with roles; there are {names}")
    })
}

/// The family that is asked for, or this machine's.
///
/// # Errors
/// There is none of this name, or this CPU is of none that has roles.
pub fn family(name: Option<&str>, roots: &Roots) -> Result<&'static Table> {
    if let Some(name) = name {
        return named(name);
    }
    let machine = Machine::probe(roots);
    let mut all = families();
    all.find(|table| machine.has(table)).with_context(|| {
        let names = family_names();
        format!(
            "this machine's CPU is of no family whose events have roles: say which with --family, of {names}"
        )
    })
}

fn names(counted: &PerfStat) -> BTreeSet<&str> {
    counted.rows.iter().map(|row| row.event.as_str()).collect()
}

/// How many of these events the table has.
fn known(table: &'static Table, names: &BTreeSet<&str>) -> usize {
    let events = Events::new(Some(table));
    let is_known = |name: &&&str| {
        let name = event_name(name);
        let found = events.canonical(name.pmu, name.inside);
        found.is_some_and(|found| table.event(&found).is_some())
    };
    names.iter().filter(is_known).count()
}

/// Why nothing can be said of counts none of which has a role, and what to do.
pub fn no_role(counted: &PerfStat, events: &Events) -> String {
    let names = names(counted);
    let chosen = events.family.map(|table| table.family.as_str());
    let others = families().filter(|table| Events::new(Some(table)).has_role(&names));
    let others: Vec<&str> = others.map(|table| table.family.as_str()).collect();
    let next = match (&others[..], chosen) {
        ([first, ..], _) => format!(
            "they have by those of {}: if the CPU is one of these, --family {first}",
            others.join(" and ")
        ),
        ([], Some(family)) => format!("`weir events --family {family}` lists what to count"),
        ([], None) => "`weir events` lists families of CPUs, and what to count".into(),
    };
    format!(
        "none of its {} events has a role by the tables of {} (the first is {:?}), so that no figure can be made \
         of them; {next}",
        names.len(),
        chosen.unwrap_or("any family"),
        names.first().copied().unwrap_or_default()
    )
}

/// The table that the counted events stand in: the one asked for, this machine's, or the only one that has
/// most of them.
///
/// # Errors
/// There is no such family, or several have the events.
pub fn choose(counted: &PerfStat, family: Option<&str>, roots: &Roots) -> Result<Events> {
    if let Some(name) = family {
        return Ok(Events::new(Some(named(name)?)));
    }
    let names = names(counted);
    let scores: Vec<(&'static Table, usize)> = families()
        .map(|table| (table, known(table, &names)))
        .collect();
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
        // The number that the kernel is asked for: umask is split over two runs of bits.
        let raw = "config=0x10c8168200000136";
        assert_eq!(events.canonical(Some("uncore_cha"), raw), name);
        assert_eq!(events.canonical(Some("uncore_cha"), "config=0x136"), None);
        let misses = Some("MEM_LOAD_RETIRED.L3_MISS".to_owned());
        for (pmu, raw) in [
            (None, "r20d1"),
            (Some("cpu"), "r20d1"),
            (Some("cpu"), "config=0x20d1,period=100003"),
            (Some("cpu"), "edge=0,umask=0x20,event=0xd1"),
        ] {
            assert_eq!(events.canonical(pmu, raw), misses, "{raw}");
        }
        assert_eq!(events.canonical(Some("cpu"), "config=0x120d1"), None);
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
