// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A line of `perf stat -x`:
//!
//! ```text
//! [time,] [S0,nr, | CPU0, | COMM-TID,] count, unit, event, [cgroup,] [n.nn%,] run time, percent, …
//! ```
//!
//! Each optional column is known by its form. Two things make it harder: events with terms hold commas
//! (`cpu/event=0x3c,umask=0x0/`), and in some locales numbers hold one, the separator's own.

use super::number::{is_value, no_count, number, value};
use super::{PerfRow, PerfStatError, scope};
use weir_core::Nanos;
use weir_core::window::CountScope;

/// Reads a line; nothing where it has a metric and no count.
pub fn row(line: &str, separator: char) -> Result<Option<PerfRow>, PerfStatError> {
    let mut fields: Vec<&str> = line.split(separator).collect();
    if fields.len() < 3 {
        return Err(PerfStatError::Columns);
    }
    let is_summary = fields[0].trim() == "summary";
    let at = time(fields[0])?;
    if is_summary || at.is_some() {
        fields.remove(0);
    }
    let (of, workload) = place(&mut fields)?;
    if is_metric(&fields) {
        return Ok(None);
    }
    let text = decimal(&mut fields, separator);
    let [_, unit, ..] = fields[..] else {
        return Err(PerfStatError::Columns);
    };
    if unit.bytes().any(|b| b.is_ascii_digit()) {
        return Err(PerfStatError::Columns);
    }
    let (event, next) = event(&fields, separator).ok_or(PerfStatError::Columns)?;
    let value = value(&text, &event).ok_or_else(|| no_count(&text))?;
    let rest = fields.get(next..).unwrap_or_default();
    let tail = tail(rest, separator);
    Ok(Some(PerfRow {
        at,
        of,
        workload: workload.or(tail.cgroup),
        event,
        value,
        unit: unit.trim().to_owned(),
        running: tail.running,
        running_ratio: tail.ratio,
        is_summary,
    }))
}

/// The end of an interval: seconds, a point and nine digits, in every locale.
fn time(text: &str) -> Result<Option<Nanos>, PerfStatError> {
    let text = text.trim();
    let Some((secs, nanos)) = text.split_once('.') else {
        return Ok(None);
    };
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(secs) || nanos.len() != 9 || !is_digits(nanos) {
        return Ok(None);
    }
    let wrong = || PerfStatError::Time(text.chars().take(40).collect());
    let secs: u64 = secs.parse().map_err(|_| wrong())?;
    let nanos: u64 = nanos.parse().map_err(|_| wrong())?;
    let all = secs
        .checked_mul(1_000_000_000)
        .and_then(|ns| ns.checked_add(nanos));
    all.map(|ns| Some(Nanos(ns))).ok_or_else(wrong)
}

/// Takes the columns that say where, if there are any.
fn place(fields: &mut Vec<&str>) -> Result<(CountScope, Option<String>), PerfStatError> {
    let first = fields.first().map_or("", |field| field.trim());
    if is_value(first) || is_metric(fields) {
        return Ok((CountScope::All, None));
    }
    match scope(first)? {
        Some(of @ CountScope::Socket(_)) => {
            // How many CPUs were added up stands behind it.
            fields.drain(..2.min(fields.len()));
            Ok((of, None))
        }
        Some(of) => {
            fields.remove(0);
            Ok((of, None))
        }
        None if first.contains('-') && is_count_or_metric(&fields[1..]) => {
            let thread = first.to_owned();
            fields.remove(0);
            Ok((CountScope::All, Some(thread)))
        }
        None => Err(no_count(first)),
    }
}

/// A further metric of the event above stands alone: count, unit, event and what follows are empty.
fn is_metric(fields: &[&str]) -> bool {
    let is_empty = |field: &&str| field.trim().is_empty();
    fields.iter().take_while(|field| is_empty(field)).count() >= 3 && !fields.iter().all(is_empty)
}

fn is_count_or_metric(fields: &[&str]) -> bool {
    fields.first().is_some_and(|next| is_value(next)) || is_metric(fields)
}

/// The count's text. Where a locale writes `0,57` and the separator is a comma too, the unit's column would
/// be digits, which no unit is.
fn decimal(fields: &mut Vec<&str>, separator: char) -> String {
    let first = fields.first().map_or("", |field| field.trim()).to_owned();
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match fields.get(1).map(|field| field.trim()) {
        Some(second) if separator == ',' && is_digits(&first) && is_digits(second) => {
            let text = format!("{first},{second}");
            fields.remove(0);
            text
        }
        _ => first,
    }
}

/// The event from the third column on, and the column behind it. Terms between slashes may hold separators.
fn event(fields: &[&str], separator: char) -> Option<(String, usize)> {
    let mut name = (*fields.get(2)?).to_owned();
    let mut next = 3;
    if name.contains('=') || name.ends_with('/') {
        while name.matches('/').count() == 1 && next < fields.len() {
            name.push(separator);
            name += fields[next];
            next += 1;
        }
    }
    let name = name.trim();
    let is_name = name.contains(char::is_alphabetic);
    is_name.then(|| (name.to_owned(), next))
}

struct Tail {
    cgroup: Option<String>,
    running: Option<Nanos>,
    ratio: Option<f64>,
}

/// Run time and percent are the first two columns of numbers of which the second is a percentage; what is
/// before them is the cgroup, and with `-r` the spread.
fn tail(rest: &[&str], separator: char) -> Tail {
    let run = |place: usize| {
        let text = rest.get(place)?.trim();
        let is_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let percent = number(rest.get(place + 1)?)?;
        (is_digits && percent.whole <= 100).then_some(())?;
        Some((Nanos(text.parse().ok()?), percent))
    };
    let found = (0..rest.len()).find_map(|place| Some((place, run(place)?)));
    let before = found.map_or(rest.len(), |(place, _)| place);
    let is_name = |field: &&&str| !field.ends_with('%') || field.contains('/');
    let names: Vec<&str> = rest[..before].iter().filter(is_name).copied().collect();
    let cgroup = names.join(&separator.to_string());
    let ratio = found.map(|(place, (_, percent))| {
        let whole = percent.whole as f64 + percent.fraction;
        // `99,56` of a locale whose comma is the separator.
        let behind = rest.get(place + 2).map_or("", |field| field.trim());
        let is_split = percent.fraction == 0.0 && !rest[place + 1].contains('.');
        let is_two = behind.len() == 2 && behind.bytes().all(|b| b.is_ascii_digit());
        let more = if is_split && is_two && separator == ',' {
            behind.parse::<f64>().unwrap_or(0.0) / 100.0
        } else {
            0.0
        };
        ((whole + more) / 100.0).min(1.0)
    });
    Tail {
        cgroup: (found.is_some() && !cgroup.is_empty()).then_some(cgroup),
        running: found.map(|(_, (running, _))| running),
        ratio,
    }
}
