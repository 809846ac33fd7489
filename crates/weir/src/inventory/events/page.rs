// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir events` as text.

use super::list::{EventRow, EventsReport, Family, Sum, Writers};
use serde::Serialize;
use std::fmt::Write as _;
use weir_figures::{Cell, Setting, Table, terminal_table, text};

/// The word that stands for a value in JSON stands for it here too.
fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "–".into(),
    }
}

/// Families, one a line; those of this machine, or the one of `--family`, in full.
pub fn page(report: &EventsReport, in_full: bool) -> String {
    // Writing into a String cannot fail, here and below.
    let mut out = String::new();
    let cpu = match &report.cpu {
        Ok(cpu) => text::harmless(cpu),
        Err(why) => format!("not known: {}", text::harmless(&why.to_string())),
    };
    let guest = report.guest.as_ref().map_or_else(String::new, |what| {
        format!(", in a virtual machine ({})", text::harmless(what))
    });
    let _ = writeln!(out, "CPU {cpu}{guest}");
    if let Some(obstacle) = &report.obstacle {
        let _ = writeln!(out, "   {}", text::harmless(&obstacle.why));
        let _ = writeln!(
            out,
            "   → {}",
            text::harmless(&obstacle.next_move.to_string())
        );
    }
    let count = |family: &Family| {
        let here = family.events.iter().filter(|row| !row.here.is_empty());
        here.count()
    };
    let rows = report.families.iter().map(|family| {
        let here = match (family.is_this_cpu, count(family)) {
            (false, _) => "another CPU".into(),
            (true, 0) => "none".into(),
            (true, count) => count.to_string(),
        };
        let total = family.events.len().to_string();
        vec![
            Cell::words(family.name),
            Cell::number(total),
            Cell::words(here),
            Cell::words(family.title),
        ]
    });
    let table = Table::new("", &["family", "events", "here", ""], rows);
    out += &format!("\n{}", terminal_table(&table, Setting::WIDE));
    for family in &report.families {
        if in_full || count(family) > 0 {
            let _ = writeln!(out, "\n{}", family.name);
            full(&mut out, family);
        }
    }
    if !in_full {
        out += "\nweir events --family NAME shows one in full\n";
    }
    out
}

fn full(out: &mut String, family: &Family) {
    for note in family.notes {
        let _ = writeln!(out, "   {note}");
    }
    for (name, unit) in &family.pmus {
        let counters = unit
            .counters
            .map_or_else(|| "any number of".into(), |n| n.to_string());
        let needs = unit
            .needs
            .map(|needs| format!("; needs {needs}"))
            .unwrap_or_default();
        let names = unit.names.join(", ");
        let scope = word(unit.scope);
        let _ = writeln!(
            out,
            "\n   {name}: {names}, {counters} counters, sees one {scope}{needs}"
        );
        for row in family.events.iter().filter(|row| row.pmu == *name) {
            event(out, row);
        }
    }
    if !family.amounts.is_empty() {
        let _ = writeln!(out, "\n   bytes, best first:");
    }
    for amount in &family.amounts {
        sum(out, amount);
    }
    for store in &family.stores {
        writers(out, store);
    }
    for latency in &family.latencies {
        let unit = match (latency.clock, latency.ns_per_count) {
            (Some(clock), _) => format!("cycles of {clock}"),
            (None, ns) => format!("{} ns", ns.unwrap_or(1)),
        };
        let (total, requests) = (latency.total, latency.requests);
        let here = if latency.is_here { "here" } else { "not here" };
        let of = word(latency.of);
        let _ = writeln!(
            out,
            "   latency of a {of}: {total} / {requests}, in {unit} ({here})"
        );
    }
    out.push('\n');
}

fn event(out: &mut String, row: &EventRow) {
    let traffic = row.traffic.map(word).unwrap_or_default();
    let unit = match row.bytes_per_count {
        Some(1) => format!("{traffic} bytes"),
        Some(bytes) => format!("{traffic} {}, {bytes} B each", word(row.counts)),
        None => word(row.counts),
    };
    let here = match &row.here[..] {
        [] => String::new(),
        [one] => format!(" · on {}", text::harmless(one)),
        [one, rest @ ..] => format!(" · on {} and {} more", text::harmless(one), rest.len()),
    };
    let _ = writeln!(out, "     {}", row.name);
    let note = row
        .note
        .map(|note| format!(" · {note}"))
        .unwrap_or_default();
    let counters = row
        .counters
        .as_ref()
        .map(|c| format!(" · counters {c}"))
        .unwrap_or_default();
    let provenance = word(row.provenance);
    let _ = writeln!(
        out,
        "       {} · {unit}{counters} · {provenance}{note}{here}",
        row.perf
    );
    if let ([], Some(why)) = (&row.here[..], row.why_not.first()) {
        let _ = writeln!(out, "       – {}", text::harmless(&why.to_string()));
    }
}

fn sum(out: &mut String, amount: &Sum) {
    let scaled = match amount.sets {
        0 | 1 => String::new(),
        sets => format!(", {sets} sets are multiplexed: scaled"),
    };
    let here = if amount.is_here { "here" } else { "not here" };
    let (traffic, of) = (word(amount.traffic), word(amount.of));
    let provenance = word(amount.provenance);
    let _ = writeln!(
        out,
        "     {traffic} of a {of} ({provenance}{scaled}; {here})"
    );
    let _ = writeln!(out, "       {}", amount.plus.join(" + "));
    if !amount.minus.is_empty() {
        let _ = writeln!(out, "       less {}", amount.minus.join(" + "));
    }
    if let Some(note) = amount.note {
        let _ = writeln!(out, "       {note}");
    }
}

fn writers(out: &mut String, store: &Writers) {
    let here = if store.is_here { "here" } else { "not here" };
    let _ = writeln!(out, "     attribution of writes to tasks ({here})");
    let _ = writeln!(out, "       in the ratio of {}", store.event);
    if let Some(note) = store.note {
        let _ = writeln!(out, "       {note}");
    }
}
