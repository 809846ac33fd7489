// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of weir-events, a section each.

use super::page::{cell, code, plain, table, wrapped};
use serde::Serialize;
use weir_events::table::{Event, Latency, Pmu, Sample};
use weir_events::{Amount, RoleSum, Table, tables_with_roles};

/// All families, in the order of `weir events`.
pub fn section() -> String {
    let row = |family: &Table| {
        let name = &family.family;
        let link = format!("[{}](#{name})", code(name));
        vec![link, cell(&family.title), family.event.len().to_string()]
    };
    let list = table(
        &["family", "of", "events"],
        tables_with_roles().iter().map(row),
    );
    list + &tables_with_roles().iter().map(describe).collect::<String>()
}

fn describe(family: &Table) -> String {
    let mut out = format!("\n## {}\n\n", family.family);
    let models = family.cpu.iter().map(|m| {
        let of = |[first, last]: &[u32; 2]| {
            if first == last {
                format!("{first:#x}")
            } else {
                format!("{first:#x} to {last:#x}")
            }
        };
        let models: Vec<String> = m.models.iter().map(of).collect();
        format!(
            "{}, family {}, models {}",
            m.vendor,
            m.family,
            models.join(", ")
        )
    });
    let models: Vec<String> = models.collect();
    let cpus = if models.is_empty() {
        "Any machine that has such a PMU.".to_owned()
    } else {
        format!("CPUs: {}.", models.join("; "))
    };
    out += &wrapped("", "", &plain(&format!("{}. {cpus}", family.title)));
    for note in &family.notes {
        out += "\n";
        out += &wrapped("", "", &plain(note));
    }
    let pmus = family.pmu.iter().map(|(name, pmu)| pmu_row(name, pmu));
    out += "\n";
    out += &table(
        &["PMU", "name in sysfs", "counters", "scope", "needs"],
        pmus,
    );
    out += "\n";
    let titles = [
        "event",
        "PMU",
        "encoding",
        "counts",
        "bytes",
        "traffic",
        "counters",
        "provenance",
        "source",
        "note",
    ];
    out += &table(&titles, family.event.iter().map(event_row));
    out += &sums(family);
    out += "\nSources:\n\n";
    for (name, text) in &family.source {
        out += &wrapped("- ", "  ", &format!("`{name}`: {}", plain(text)));
    }
    out
}

/// The word that stands for a value in the tables.
fn word(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("JSON");
    value.as_str().expect("a word").to_owned()
}

fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "–".into(), |text| cell(&text.to_string()))
}

fn pmu_row(name: &str, pmu: &Pmu) -> Vec<String> {
    let names: Vec<String> = pmu
        .names
        .iter()
        .map(|name| code(&name.to_string()))
        .collect();
    vec![
        code(name),
        names.join(", "),
        or_dash(pmu.counters),
        word(pmu.scope),
        or_dash(pmu.needs.as_ref()),
    ]
}

fn event_row(event: &Event) -> Vec<String> {
    vec![
        code(&event.name),
        event.pmu.clone(),
        code(&event.terms.to_string()),
        word(event.counts),
        or_dash(event.bytes),
        or_dash(event.traffic.map(word)),
        or_dash(event.counters.as_ref()),
        word(event.provenance),
        event.source.clone(),
        or_dash(event.note.as_ref()),
    ]
}

/// What weir makes of the events, best first.
fn sums(family: &Table) -> String {
    let mut rows: Vec<Vec<String>> = family.amount.iter().map(amount_row).collect();
    rows.extend(family.store.iter().map(|store| {
        let what = "ratio of tasks' writes".to_owned();
        vec![
            what,
            code(&store.event),
            store.source.clone(),
            or_dash(store.note.as_ref()),
        ]
    }));
    rows.extend(family.latency.iter().map(latency_row));
    rows.extend(family.sample.iter().map(sample_row));
    rows.extend(family.role.iter().map(role_row));
    if rows.is_empty() {
        return String::new();
    }
    let titles = ["weir makes of them", "by", "source", "note"];
    format!("\n{}", table(&titles, rows))
}

fn amount_row(amount: &Amount) -> Vec<String> {
    let what = format!(
        "{} bytes of a {} ({})",
        word(amount.traffic),
        word(amount.of),
        word(amount.provenance)
    );
    vec![
        what,
        difference(&amount.plus, &amount.minus),
        amount.source.clone(),
        or_dash(amount.note.as_ref()),
    ]
}

fn difference(plus: &[String], minus: &[String]) -> String {
    let names = |events: &[String]| {
        let names = events.iter().map(|event| code(event));
        names.collect::<Vec<_>>().join(" + ")
    };
    if minus.is_empty() {
        names(plus)
    } else {
        format!("{} − ({})", names(plus), names(minus))
    }
}

fn role_row(role: &RoleSum) -> Vec<String> {
    let capacity = role.capacity.map(|entries| format!(", {entries} entries"));
    let what = format!(
        "role {} ({}{})",
        code(&role.name),
        word(role.provenance),
        capacity.unwrap_or_default()
    );
    vec![
        what,
        difference(&role.plus, &role.minus),
        role.source.clone(),
        or_dash(role.note.as_ref()),
    ]
}

fn latency_row(latency: &Latency) -> Vec<String> {
    let (total, requests) = (code(&latency.total), code(&latency.requests));
    let unit = match (&latency.clock, latency.ns) {
        (Some(clock), _) => format!("cycles of {}", code(clock)),
        (None, ns) => format!("units of {} ns", ns.unwrap_or(1)),
    };
    vec![
        format!("latency of a {}", word(latency.of)),
        format!("{total} ÷ {requests}, in {unit}"),
        latency.source.clone(),
        or_dash(latency.note.as_ref()),
    ]
}

fn sample_row(sample: &Sample) -> Vec<String> {
    vec![
        format!("samples with addresses, one in {}", sample.period),
        code(&sample.event),
        sample.source.clone(),
        or_dash(sample.note.as_ref()),
    ]
}

#[test]
fn each_event_has_a_row_with_its_encoding() {
    let text = section();
    for family in tables_with_roles() {
        assert!(
            text.contains(&format!("\n## {}\n", family.family)),
            "{}",
            family.family
        );
        for event in &family.event {
            let row = format!("| `{}` | {} | `{}` | ", event.name, event.pmu, event.terms);
            assert!(text.contains(&row), "no row `{row}…`");
        }
        for source in family.source.keys() {
            assert!(text.contains(&format!("- `{source}`: ")), "{source}");
        }
    }
    assert!(
        text.contains("CPUs: GenuineIntel, family 6, models 0xad to 0xae."),
        "{text}"
    );
    assert!(text.contains(
        "| read bytes of a port (documented) | `UNC_CXLCM_RxC_PACK_BUF_INSERTS.MEM_DATA` |"
    ));
}
