// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that the content of a table is possible.

use crate::TableError;
use crate::counters::CounterSet;
use crate::encoding::{Field, encode};
use crate::role::check_role;
use crate::table::{
    Amount, Counts, Event, Latency, Pmu, Provenance, Sample, Scope, Store, Table, Traffic,
};
use crate::terms::is_name;
use std::collections::BTreeSet;

/// More bytes than this are no single transfer.
const BYTES_MAX: u32 = 4096;

fn wrong<T>(place: &str, what: impl Into<String>) -> Result<T, TableError> {
    Err(TableError::Wrong {
        place: place.to_owned(),
        what: what.into(),
    })
}

pub(crate) fn check(table: &Table) -> Result<(), TableError> {
    if table.event.is_empty() || table.title.is_empty() {
        return wrong(&table.family, "a table has a title and events");
    }
    for models in &table.cpu {
        let upside_down = |run: &&[u32; 2]| run[0] > run[1];
        if models.models.is_empty() || models.models.iter().any(|run| upside_down(&run)) {
            return wrong(&table.family, "models are runs of first and last");
        }
    }
    for (name, pmu) in &table.pmu {
        check_pmu(name, pmu)?;
    }
    let mut seen = BTreeSet::new();
    for event in &table.event {
        if !seen.insert(&event.name) {
            return wrong(&event.name, "the name stands twice");
        }
        check_event(table, event)?;
    }
    table
        .amount
        .iter()
        .try_for_each(|amount| check_amount(table, amount))?;
    table
        .store
        .iter()
        .try_for_each(|store| check_store(table, store))?;
    table
        .latency
        .iter()
        .try_for_each(|latency| check_latency(table, latency))?;
    table
        .sample
        .iter()
        .try_for_each(|sample| check_sample(table, sample))?;
    table
        .role
        .iter()
        .try_for_each(|role| check_role(table, role))
}

fn check_pmu(name: &str, pmu: &Pmu) -> Result<(), TableError> {
    if pmu.names.is_empty() || !pmu.names.iter().all(crate::Pattern::is_sound) {
        return wrong(name, "names are letters, digits, _ . - and # for a number");
    }
    if pmu.counters.is_some_and(|count| !(1..=64).contains(&count)) {
        return wrong(name, "a PMU has 1 to 64 counters");
    }
    if pmu
        .limited
        .iter()
        .any(|l| l.at_once == 0 || !is_name(&l.term))
    {
        return wrong(name, "a limited term has a name and at least one value");
    }
    for (term, format) in &pmu.format {
        if let Err(why) = Field::parse(format.as_bytes()) {
            return wrong(&format!("{name}.{term}"), why);
        }
    }
    Ok(())
}

fn check_event(table: &Table, event: &Event) -> Result<(), TableError> {
    let name = &event.name;
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | '"' | '\\');
    if name.is_empty() || name.len() > 80 || !name.chars().all(plain) {
        return wrong(name, "a name is 1 to 80 letters, digits and signs");
    }
    let Some(pmu) = table.pmu.get(&event.pmu) else {
        return wrong(name, format!("there is no pmu {}", event.pmu));
    };
    if !table.source.contains_key(&event.source) {
        return wrong(name, format!("there is no source {}", event.source));
    }
    if let (Some(counters), Some(count)) = (event.counters, pmu.counters)
        && !counters.is_within(CounterSet::first(count))
    {
        return wrong(name, format!("counters {counters} of {count}"));
    }
    let moves = matches!(event.counts, Counts::Bytes | Counts::Lines | Counts::Beats);
    if moves != event.bytes.is_some() || moves != event.traffic.is_some() {
        return wrong(
            name,
            "bytes and traffic belong to bytes, lines and beats, and only there",
        );
    }
    if event
        .bytes
        .is_some_and(|bytes| !(1..=BYTES_MAX).contains(&bytes))
    {
        return wrong(name, format!("a count is 1 to {BYTES_MAX} bytes"));
    }
    if !pmu.format.is_empty() {
        check_encoding(event, pmu)?;
    }
    Ok(())
}

fn check_encoding(event: &Event, pmu: &Pmu) -> Result<(), TableError> {
    let fields = pmu.fields();
    match encode(&event.terms, |name| fields.get(name)) {
        Ok(_) => Ok(()),
        Err(why) => wrong(&event.name, why.to_string()),
    }
}

fn check_amount(table: &Table, amount: &Amount) -> Result<(), TableError> {
    let place = format!("amount {:?} of {:?}", amount.traffic, amount.of);
    if amount.plus.is_empty() || !table.source.contains_key(&amount.source) {
        return wrong(&place, "it has events and a source");
    }
    let mut seen = BTreeSet::new();
    for name in amount.plus.iter().chain(&amount.minus) {
        let Some(event) = table.event(name) else {
            return wrong(&place, format!("there is no event {name}"));
        };
        if event.traffic != Some(amount.traffic) || !seen.insert(name) {
            return wrong(
                &place,
                format!("{name} is no {:?}, or stands twice", amount.traffic),
            );
        }
        let trust = event.provenance == amount.provenance
            || matches!(event.provenance, Provenance::Documented);
        if !trust {
            return wrong(&place, format!("{name} is {:?}", event.provenance));
        }
        let seen_by = table.pmu.get(&event.pmu).map(|pmu| pmu.scope);
        if seen_by.is_none_or(|scope| scope != amount.of) {
            return wrong(&place, format!("{name} does not see that"));
        }
    }
    if amount.minus.is_empty() == (amount.provenance == Provenance::Difference) {
        return wrong(
            &place,
            "a difference takes something off, and nothing else does",
        );
    }
    Ok(())
}

fn check_store(table: &Table, store: &Store) -> Result<(), TableError> {
    let place = format!("store by {}", store.event);
    let Some(event) = table.event(&store.event) else {
        return wrong(&place, "there is no such event");
    };
    let pmu = table.pmu.get(&event.pmu);
    if pmu.is_none_or(|pmu| pmu.scope != Scope::Cpu) {
        return wrong(&place, "only a CPU's own events count by task");
    }
    if event.traffic != Some(Traffic::Read) || !table.source.contains_key(&store.source) {
        return wrong(
            &place,
            "it has a source, and a line that is stored to is read first",
        );
    }
    Ok(())
}

fn check_latency(table: &Table, latency: &Latency) -> Result<(), TableError> {
    let place = format!("latency of {:?}", latency.of);
    if latency.clock.is_some() == latency.ns.is_some() {
        return wrong(&place, "it has a clock, or nanoseconds a count");
    }
    if latency.ns == Some(0) || !table.source.contains_key(&latency.source) {
        return wrong(&place, "it has a source, and a count is some time");
    }
    let names = [
        Some(&latency.total),
        Some(&latency.requests),
        latency.clock.as_ref(),
    ];
    let mut pmus = BTreeSet::new();
    for name in names.into_iter().flatten() {
        let Some(event) = table.event(name) else {
            return wrong(&place, format!("there is no event {name}"));
        };
        pmus.insert(&event.pmu);
    }
    let of = |scope: Scope| {
        pmus.iter()
            .all(|p| table.pmu.get(*p).is_some_and(|p| p.scope == scope))
    };
    if pmus.len() != 1 || !of(latency.of) {
        return wrong(&place, "its events are of one PMU, which sees that");
    }
    Ok(())
}

fn check_sample(table: &Table, sample: &Sample) -> Result<(), TableError> {
    let place = format!("sample of {}", sample.event);
    let Some(event) = table.event(&sample.event) else {
        return wrong(&place, "there is no such event");
    };
    let pmu = table.pmu.get(&event.pmu);
    if pmu.is_none_or(|pmu| pmu.scope != Scope::Cpu) {
        return wrong(&place, "only a CPU's own events are sampled");
    }
    if !table.source.contains_key(&sample.source) || sample.precise > 3 {
        return wrong(&place, "it has a source, and precise is at most 3");
    }
    if !(1..=BYTES_MAX).contains(&sample.bytes) {
        return wrong(&place, format!("an event is 1 to {BYTES_MAX} bytes"));
    }
    let steps = sample.period.checked_div(sample.step);
    let is_whole = steps.and_then(|n| n.checked_mul(sample.step)) == Some(sample.period);
    if sample.period > u64::from(u32::MAX) || !is_whole || !steps.is_some_and(is_prime) {
        return wrong(&place, "the period is a prime, or a prime number of steps");
    }
    Ok(())
}

fn is_prime(n: u64) -> bool {
    let divides = |d: &u64| n.is_multiple_of(*d);
    n > 1
        && !(2..n)
            .take_while(|d| d.saturating_mul(*d) <= n)
            .any(|d| divides(&d))
}

#[cfg(test)]
mod tests {
    use crate::{SOURCES, Table, TableError};
    use proptest::prelude::*;

    const SMALL: &str = r#"
family = "f"
title = "F"
[source]
s = "a book"
[pmu.box]
names = ["box_#"]
counters = 4
scope = "socket"
format = { event = "config:0-7" }
[[event]]
name = "READS"
pmu = "box"
terms = "event=0x1"
counters = "0-3"
counts = "lines"
bytes = 64
traffic = "read"
provenance = "documented"
source = "s"
[[amount]]
traffic = "read"
of = "socket"
plus = ["READS"]
provenance = "documented"
source = "s"
"#;

    const SAMPLED: &str = r#"
[[sample]]
event = "READS"
period = 112
step = 16
bytes = 64
source = "s"
"#;

    #[test]
    fn sample_periods_are_prime_multiples() {
        let of_cpu = SMALL.replace("socket", "cpu") + SAMPLED;
        let table = Table::parse(&of_cpu).unwrap();
        assert_eq!((table.sample[0].period, table.sample[0].precise), (112, 0));
        for (old, new, said) in [
            ("period = 112", "period = 113", "prime number of steps"),
            ("period = 112", "period = 128", "prime number of steps"),
            ("step = 16", "step = 0", "prime number of steps"),
            ("step = 16", "precise = 4", "at most 3"),
            ("event = \"READS\"", "event = \"WRITES\"", "no such event"),
        ] {
            let why = Table::parse(&of_cpu.replace(old, new)).unwrap_err();
            assert!(why.to_string().contains(said), "{why}");
        }
        let why = Table::parse(&(SMALL.to_owned() + SAMPLED)).unwrap_err();
        assert!(why.to_string().contains("CPU's own events"), "{why}");
    }

    const STORE: &str = r#"
[[store]]
event = "READS"
source = "s"
"#;

    #[test]
    fn store_events_are_counted_on_cpus_and_are_reads() {
        let (event, _) = SMALL.split_once("[[amount]]").unwrap();
        let of_socket = event.to_owned() + STORE;
        let of_cpu = of_socket.replace("socket", "cpu");
        assert_eq!(Table::parse(&of_cpu).unwrap().store[0].event, "READS");
        let why = Table::parse(&of_socket).unwrap_err();
        assert!(why.to_string().contains("count by task"), "{why}");
        let line = "counts = \"lines\"\nbytes = 64\ntraffic = \"read\"";
        for (old, new, said) in [
            ("event = \"READS\"", "event = \"FILLS\"", "no such event"),
            (
                "READS\"\nsource = \"s\"",
                "READS\"\nsource = \"t\"",
                "it has a source",
            ),
            (
                "READS\"\nsource",
                "READS\"\nbytes = 64\nsource",
                "unknown field `bytes`",
            ),
            (line, "counts = \"loads\"", "is read first"),
            (line, &line.replace("read", "write"), "is read first"),
        ] {
            let changed = of_cpu.replace(old, new);
            assert_ne!(changed, of_cpu, "{old}");
            let why = Table::parse(&changed).unwrap_err().to_string();
            assert!(why.contains(said), "{old} -> {new}: {why}");
        }
    }

    #[test]
    fn a_small_table_is_read() {
        let table = Table::parse(SMALL).unwrap();
        assert_eq!(table.event("READS").unwrap().bytes, Some(64));
    }

    #[test]
    fn each_mistake_is_named() {
        for (old, new, said) in [
            ("pmu = \"box\"", "pmu = \"bax\"", "there is no pmu bax"),
            ("source = \"s\"", "source = \"t\"", "there is no source t"),
            ("counters = \"0-3\"", "counters = \"4\"", "counters 4 of 4"),
            ("counters = 4", "counters = 65", "1 to 64 counters"),
            (
                "terms = \"event=0x1\"",
                "terms = \"event=0x100\"",
                "does not fit its 8 bits",
            ),
            (
                "terms = \"event=0x1\"",
                "terms = \"mask=0x1\"",
                "has no field mask",
            ),
            ("terms = \"event=0x1\"", "terms = \"event\"", ""),
            ("bytes = 64", "bytes = 0", "1 to 4096 bytes"),
            ("bytes = 64", "", "bytes and traffic belong"),
            (
                "plus = [\"READS\"]",
                "plus = [\"WRITES\"]",
                "there is no event WRITES",
            ),
            (
                "plus = [\"READS\"]",
                "plus = [\"READS\", \"READS\"]",
                "stands twice",
            ),
            ("of = \"socket\"", "of = \"port\"", "does not see that"),
            ("box_#", "../box", "names are letters"),
            (
                "title = \"F\"",
                "title = \"F\"\ncolour = 1",
                "unknown field `colour`",
            ),
            ("config:0-7", "config:7-0", "a format such as"),
            (
                "counts = \"lines\"",
                "counts = \"cows\"",
                "unknown variant `cows`",
            ),
            (
                "name = \"READS\"",
                "name = \"READS\\u001b[2J\"",
                "letters, digits and signs",
            ),
        ] {
            let changed = SMALL.replacen(old, new, 1);
            assert_ne!(changed, SMALL, "{old}");
            match Table::parse(&changed) {
                Err(why) => assert!(why.to_string().contains(said), "{old} -> {new}: {why}"),
                Ok(_) => assert_eq!(said, "", "{old} -> {new} was taken"),
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,200}") {
            let _ = Table::parse(&text);
        }

        /// A real table, damaged anywhere.
        #[test]
        fn damaged_tables_are_survived(which in 0..SOURCES.len(), at: prop::sample::Index, removed in 0usize..40, put in "[ -~\n]{0,6}") {
            let text = SOURCES[which].table;
            let at = at.index(text.len());
            let (Some(head), Some(tail)) = (text.get(..at), text.get((at + removed).min(text.len())..)) else { return Ok(()) };
            if let Err(TableError::Wrong { place, what }) = Table::parse(&format!("{head}{put}{tail}")) {
                prop_assert!(!what.is_empty() && place.len() < 4096);
            }
        }
    }
}
