// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables and this machine, as one report.

use super::cli::EventsArgs;
use super::page;
use crate::cli::exit::{Exit, print, print_json};
use crate::cli::output::suggestion;
use anyhow::{Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use weir_core::Missing;
use weir_core::seam::next_move::NextMove;
use weir_events::{
    Amount, Config, Counts, Event, Field, Latency, Pmu, Provenance, Scope, Store, Table, Traffic,
    encode, tables_with_roles,
};
use weir_linux::Roots;
use weir_linux::pmu::Machine;

#[derive(Serialize)]
pub struct EventsReport {
    /// Vendor, family and model of the CPU as `perf` writes them, or why that is not known.
    pub cpu: Result<String, Missing>,
    /// What says that this is a virtual machine, if so.
    pub guest: Option<String>,
    /// Why this machine can have no events but those of devices, if so.
    pub obstacle: Option<Obstacle>,
    pub families: Vec<Family>,
}

/// Why this machine has no such events with any kernel.
#[derive(Serialize)]
pub struct Obstacle {
    pub why: String,
    pub next_move: NextMove,
}

/// A table and how it stands here.
#[derive(Serialize)]
pub struct Family {
    pub name: &'static str,
    pub title: &'static str,
    pub notes: &'static [String],
    /// CPUs that the table describes, as vendor-family-model, one a run; empty for any.
    pub cpus: Vec<String>,
    /// Whether this machine's CPU is one of them.
    pub is_this_cpu: bool,
    pub sources: &'static BTreeMap<String, String>,
    pub pmus: BTreeMap<&'static str, Unit>,
    pub events: Vec<EventRow>,
    pub amounts: Vec<Sum>,
    /// Events by which writes are attributed to tasks.
    pub stores: Vec<Writers>,
    pub latencies: Vec<Mean>,
}

/// A kind of PMU.
#[derive(Serialize)]
pub struct Unit {
    /// Its names; # is a number.
    pub names: Vec<String>,
    pub counters: Option<u32>,
    pub scope: Scope,
    /// The term that must be added to say which.
    pub each: Option<&'static str>,
    pub needs: Option<&'static str>,
    pub format: &'static BTreeMap<String, String>,
}

#[derive(Serialize)]
pub struct EventRow {
    pub name: &'static str,
    pub pmu: &'static str,
    /// What `perf stat -e` takes for the first PMU of that kind.
    pub perf: String,
    /// `config` … `config3` on a kernel with the fields that the table expects.
    pub config: Option<[u64; 4]>,
    pub counters: Option<String>,
    pub counts: Counts,
    pub bytes_per_count: Option<u32>,
    pub traffic: Option<Traffic>,
    pub provenance: Provenance,
    pub source: &'static str,
    pub note: Option<&'static str>,
    /// PMUs of this machine that can count it.
    pub here: Vec<String>,
    /// Why others of that kind cannot, or why there is none.
    pub why_not: Vec<Missing>,
}

#[derive(Serialize)]
pub struct Sum {
    pub traffic: Traffic,
    pub of: Scope,
    pub plus: &'static [String],
    pub minus: &'static [String],
    pub provenance: Provenance,
    pub source: &'static str,
    pub note: Option<&'static str>,
    /// How many sets of events take turns on one PMU: more than one is scaled.
    pub sets: usize,
    /// Whether this machine can count all of its events.
    pub is_here: bool,
}

/// An event that counts stores of tasks: writes are attributed in the ratio of its counts.
#[derive(Serialize)]
pub struct Writers {
    pub event: &'static str,
    pub source: &'static str,
    pub note: Option<&'static str>,
    pub is_here: bool,
}

#[derive(Serialize)]
pub struct Mean {
    pub of: Scope,
    pub total: &'static str,
    pub requests: &'static str,
    pub clock: Option<&'static str>,
    pub ns_per_count: Option<u32>,
    pub source: &'static str,
    pub note: Option<&'static str>,
    pub is_here: bool,
}

/// Lists.
///
/// # Errors
/// There is no such family, or stdout cannot be written.
pub fn list(args: &EventsArgs, roots: &Roots) -> Result<Exit> {
    let machine = Machine::probe(roots);
    let wanted = |table: &&Table| {
        args.family
            .as_ref()
            .is_none_or(|name| *name == table.family)
    };
    let families: Vec<Family> = tables_with_roles()
        .iter()
        .filter(wanted)
        .map(|t| family(t, &machine))
        .collect();
    if let (Some(name), true) = (&args.family, families.is_empty()) {
        let names: Vec<&str> = tables_with_roles()
            .iter()
            .map(|t| t.family.as_str())
            .collect();
        bail!(
            "there is no family {name:?}{}; there are {}",
            suggestion::perhaps(name, &names),
            names.join(", ")
        );
    }
    let report = EventsReport {
        cpu: machine
            .cpu
            .as_ref()
            .map(ToString::to_string)
            .map_err(Clone::clone),
        obstacle: machine.obstacle().map(|next_move| Obstacle {
            why: next_move.why.clone(),
            next_move,
        }),
        guest: machine.guest,
        families,
    };
    if args.json {
        print_json(&report)?;
    } else {
        print(&page::page(&report, args.family.is_some()))?;
    }
    Ok(Exit::Done)
}

fn family(table: &'static Table, machine: &Machine) -> Family {
    let runs = table.cpu.iter().flat_map(|models| {
        models.models.iter().map(|[first, last]| {
            let (vendor, family) = (&models.vendor, models.family);
            if first == last {
                format!("{vendor}-{family}-{first:X}")
            } else {
                format!("{vendor}-{family}-{first:X}..{last:X}")
            }
        })
    });
    let events: Vec<EventRow> = table
        .event
        .iter()
        .map(|event| row(table, event, machine))
        .collect();
    let here = |name: &String| {
        events
            .iter()
            .any(|row| row.name == name && !row.here.is_empty())
    };
    Family {
        name: &table.family,
        title: &table.title,
        notes: &table.notes,
        cpus: runs.collect(),
        is_this_cpu: machine.has(table),
        sources: &table.source,
        pmus: table
            .pmu
            .iter()
            .map(|(name, pmu)| (name.as_str(), unit(pmu)))
            .collect(),
        amounts: table
            .amount
            .iter()
            .map(|amount| sum(table, amount, &here))
            .collect(),
        stores: table
            .store
            .iter()
            .map(|store| writers(store, &here))
            .collect(),
        latencies: table
            .latency
            .iter()
            .map(|latency| mean(latency, &here))
            .collect(),
        events,
    }
}

fn unit(pmu: &'static Pmu) -> Unit {
    Unit {
        names: pmu.names.iter().map(ToString::to_string).collect(),
        counters: pmu.counters,
        scope: pmu.scope,
        each: pmu.each.as_deref(),
        needs: pmu.needs.as_deref(),
        format: &pmu.format,
    }
}

/// The encoding that the table's own fields give.
fn expected(pmu: &Pmu, event: &Event) -> Option<Config> {
    let fields: Option<BTreeMap<&str, Field>> = pmu
        .format
        .iter()
        .map(|(name, text)| Some((name.as_str(), Field::parse(text.as_bytes()).ok()?)))
        .collect();
    let fields = fields?;
    encode(&event.terms, |name| fields.get(name)).ok()
}

fn row(table: &'static Table, event: &'static Event, machine: &Machine) -> EventRow {
    let standing = machine.standing(table, event);
    let pmu = table.pmu.get(&event.pmu);
    let example = pmu
        .and_then(|pmu| pmu.names.first())
        .map(weir_events::Pattern::example);
    let each = pmu
        .and_then(|pmu| pmu.each.as_ref())
        .map(|each| format!(",{each}=0"));
    let name = example.unwrap_or_default();
    EventRow {
        name: &event.name,
        pmu: &event.pmu,
        perf: format!("{name}/{}{}/", event.terms, each.unwrap_or_default()),
        config: pmu
            .and_then(|pmu| expected(pmu, event))
            .map(|config| config.0),
        counters: event.counters.map(|counters| counters.to_string()),
        counts: event.counts,
        bytes_per_count: event.bytes,
        traffic: event.traffic,
        provenance: event.provenance,
        source: &event.source,
        note: event.note.as_deref(),
        here: standing
            .here
            .iter()
            .map(|(pmu, _)| pmu.name.clone())
            .collect(),
        why_not: standing.why,
    }
}

fn sum(table: &Table, amount: &'static Amount, here: &impl Fn(&String) -> bool) -> Sum {
    let names = || amount.plus.iter().chain(&amount.minus);
    let events: Vec<&Event> = names().filter_map(|name| table.event(name)).collect();
    // An amount of a table that was checked needs one kind of PMU, or kinds that do not disturb each other:
    // then the longest queue counts.
    let sets = table.pmu.iter().map(|(name, pmu)| {
        let of_it: Vec<&Event> = events.iter().filter(|e| e.pmu == *name).copied().collect();
        weir_events::groups::sets(pmu, &of_it).len()
    });
    Sum {
        traffic: amount.traffic,
        of: amount.of,
        plus: &amount.plus,
        minus: &amount.minus,
        provenance: amount.provenance,
        source: &amount.source,
        note: amount.note.as_deref(),
        sets: sets.max().unwrap_or(0),
        is_here: names().all(here),
    }
}

fn writers(store: &'static Store, here: &impl Fn(&String) -> bool) -> Writers {
    Writers {
        event: &store.event,
        source: &store.source,
        note: store.note.as_deref(),
        is_here: here(&store.event),
    }
}

fn mean(latency: &'static Latency, here: &impl Fn(&String) -> bool) -> Mean {
    let needed = [
        Some(&latency.total),
        Some(&latency.requests),
        latency.clock.as_ref(),
    ];
    Mean {
        of: latency.of,
        total: &latency.total,
        requests: &latency.requests,
        clock: latency.clock.as_deref(),
        ns_per_count: latency.ns,
        source: &latency.source,
        note: latency.note.as_deref(),
        is_here: needed.into_iter().flatten().all(here),
    }
}
