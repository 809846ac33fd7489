// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Intel's tables against a recorded extract of Intel's lists: bits and counters, both ways. (The same bits
//! are compared with a real perf in `testbed/harness/tests/vm/events.rs`, which knows nothing of counters.)
//! What that extract does not have is compared with an extract of perf's own lists, and AMD's tables are too.

#![allow(clippy::unwrap_used)] // In helpers of tests, which clippy takes for code.

use std::collections::{BTreeMap, BTreeSet};
use weir_events::{Event, Provenance, Table, Terms, tables_with_roles};

const EXTRACT: &str = include_str!("data/perfmon.tsv");

struct Fact {
    unit: &'static str,
    terms: String,
    counters: BTreeSet<u32>,
}

fn facts() -> BTreeMap<(&'static str, &'static str), Fact> {
    let rows = EXTRACT.lines().filter(|line| !line.starts_with('#'));
    let fact = |line: &'static str| {
        let [
            family,
            unit,
            name,
            event,
            umask,
            extension,
            response,
            counters,
        ] = line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("not eight columns: {line}")
        };
        let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        let umask = number(extension) << 8 | number(umask);
        let mut terms = format!("event={event}");
        if umask != 0 {
            terms += &format!(",umask={umask:#x}");
        }
        if response != "0x0" {
            terms += &format!(",offcore_rsp={response}");
        }
        let counters = counters.split(',').map(|c| c.parse().unwrap()).collect();
        let fact = Fact {
            unit,
            terms,
            counters,
        };
        ((family, name), fact)
    };
    rows.map(fact).collect()
}

fn intel() -> impl Iterator<Item = &'static Table> {
    tables_with_roles()
        .iter()
        .filter(|t| t.cpu.iter().any(|models| models.vendor == "GenuineIntel"))
}

#[test]
fn published_events_have_the_published_encoding() {
    let facts = facts();
    let mut compared = 0;
    for table in intel() {
        let published = |e: &&Event| e.provenance != Provenance::Raw;
        for event in table.event.iter().filter(published) {
            let key = (table.family.as_str(), event.name.as_str());
            let Some(fact) = facts.get(&key) else {
                assert_eq!(event.source, "perf", "not published: {key:?}");
                continue;
            };
            assert_eq!(event.terms, Terms::parse(&fact.terms).unwrap(), "{key:?}");
            let counters: BTreeSet<u32> = event.counters.unwrap().iter().collect();
            assert_eq!(counters, fact.counters, "{key:?}");
            assert_eq!(event.pmu.replace("cpu", "core"), fact.unit, "{key:?}");
            compared += 1;
        }
        for event in table.event.iter().filter(|e| !published(e)) {
            let key = (table.family.as_str(), event.name.as_str());
            assert!(!facts.contains_key(&key), "published after all: {key:?}");
        }
    }
    assert_eq!(compared, 162);
}

/// The raw event of Sapphire and Emerald Rapids has the bits that have a name on Granite Rapids, and the
/// differences of published events leave exactly these bits.
#[test]
fn raw_bits_and_differences_are_the_bits_with_a_name_elsewhere() {
    let facts = facts();
    let response = |family, name| {
        let fact: &Fact = &facts[&(family, name)];
        Terms::parse(&fact.terms)
            .unwrap()
            .get("offcore_rsp")
            .unwrap()
    };
    let named = |what: &'static str| response("granite-rapids", what);
    for family in ["sapphire-rapids", "emerald-rapids"] {
        let table = tables_with_roles()
            .iter()
            .find(|t| t.family == family)
            .unwrap();
        let raw = table.event("OCR.READS_TO_CORE.CXL_MEM").unwrap();
        assert_eq!(
            raw.terms.get("offcore_rsp"),
            Some(named("OCR.READS_TO_CORE.CXL_MEM"))
        );
        for (more, less, left) in [
            ("L3_MISS_LOCAL_SOCKET", "LOCAL_SOCKET_DRAM", "LOCAL_CXL_MEM"),
            ("REMOTE_MEMORY", "REMOTE_DRAM", "REMOTE_CXL_MEM"),
        ] {
            let of = |what: &str| {
                let name = format!("OCR.READS_TO_CORE.{what}");
                let (_, fact) = facts
                    .iter()
                    .find(|(key, _)| key.0 == family && key.1 == name)
                    .unwrap();
                Terms::parse(&fact.terms)
                    .unwrap()
                    .get("offcore_rsp")
                    .unwrap()
            };
            let left = facts.iter().find(|(key, _)| {
                key.0 == "granite-rapids" && key.1 == format!("OCR.READS_TO_CORE.{left}")
            });
            let left = Terms::parse(&left.unwrap().1.terms)
                .unwrap()
                .get("offcore_rsp")
                .unwrap();
            // The bits of the request, and of an answer by a supplier, are in all of them.
            let suppliers = 0xff << 22;
            assert_eq!(
                (of(more) ^ of(less)) & suppliers,
                left & suppliers,
                "{family}: {more} - {less}"
            );
            assert_eq!(of(more) & !suppliers, left & !suppliers);
        }
    }
}

const PERF_LIST: &str = include_str!("data/perf-list.tsv");

/// Encodings by family and name, as perf lists them.
fn listed() -> BTreeMap<(&'static str, &'static str), (&'static str, Terms)> {
    let rows = PERF_LIST.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let [family, pmu, name, terms] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not four columns: {line}")
        };
        ((family, name), (pmu, Terms::parse(terms).unwrap()))
    };
    rows.map(row).collect()
}

/// Terms whatever their order; a term that is 0 is left out.
fn sorted(terms: &Terms) -> BTreeMap<String, u64> {
    let set = terms.iter().filter(|(_, value)| *value != 0);
    set.map(|(name, value)| (name.to_owned(), value)).collect()
}

#[test]
fn events_of_the_kernels_lists_have_their_encoding() {
    let (facts, listed) = (facts(), listed());
    let mut compared = 0;
    for table in tables_with_roles().iter().filter(|t| !t.cpu.is_empty()) {
        for event in &table.event {
            let key = (table.family.as_str(), event.name.as_str());
            let Some((pmu, terms)) = listed.get(&key) else {
                assert!(
                    event.source != "perf" || facts.contains_key(&key),
                    "not listed: {key:?}"
                );
                continue;
            };
            assert_eq!(event.pmu, *pmu, "{key:?}");
            assert_eq!(sorted(&event.terms), sorted(terms), "{key:?}");
            compared += 1;
        }
    }
    assert_eq!(compared, listed.len(), "facts of events that no table has");
}
