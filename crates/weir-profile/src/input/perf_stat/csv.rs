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
    let (of, workload) = place(&mut fields, separator)?;
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
fn place(
    fields: &mut Vec<&str>,
    separator: char,
) -> Result<(CountScope, Option<String>), PerfStatError> {
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
        None => {
            let columns = thread_columns(fields).ok_or_else(|| no_count(first))?;
            let thread: Vec<&str> = fields.drain(..columns).collect();
            let thread = thread.join(&separator.to_string());
            Ok((CountScope::All, Some(thread.trim().to_owned())))
        }
    }
}

/// How many columns `COMM-TID` takes: a name of 15 bytes can hold separators.
fn thread_columns(fields: &[&str]) -> Option<usize> {
    (1..fields.len().min(17)).find(|next| {
        let tid = fields[next - 1].rsplit_once('-').map(|(_, tid)| tid.trim());
        tid.is_some_and(is_digits) && is_count_or_metric(&fields[*next..])
    })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// A further metric of the event above stands alone: count, unit, event and what follows are empty.
fn is_metric(fields: &[&str]) -> bool {
    let is_empty = |field: &&str| field.trim().is_empty();
    fields.iter().take_while(|field| is_empty(field)).count() >= 3 && !fields.iter().all(is_empty)
}

/// Whether a text is what `--metric-only` prints: names of metrics, and below them figures alone.
pub fn is_metrics_only(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| super::is_data(line.trim()));
    let first = lines.next().unwrap_or_default();
    let second = lines.next();
    let line = second.unwrap_or(first);
    let is_blank = |field: &str| field.trim().is_empty();
    super::SEPARATORS.into_iter().any(|separator| {
        let fields: Vec<&str> = line.split(separator).collect();
        let is_figure = |field: &&str| is_blank(field) || number(field).is_some();
        let mut others = fields.iter().filter(|field| !is_figure(field));
        let is_place = |field: &str| !matches!(scope(field.trim()), Ok(None));
        let has_place =
            others.next().is_none_or(|field| is_place(field)) && others.next().is_none();
        let is_all_blank = fields.iter().all(|field| is_blank(field));
        let is_ended = fields.len() > 2 && fields.last().is_some_and(|field| is_blank(field));
        is_ended && has_place && (second.is_some() || is_all_blank)
    })
}

fn is_count_or_metric(fields: &[&str]) -> bool {
    fields.first().is_some_and(|next| is_value(next)) || is_metric(fields)
}

/// The count's text. Where a locale writes `0,57` and the separator is a comma too, the unit's column would
/// be digits, which no unit is.
fn decimal(fields: &mut Vec<&str>, separator: char) -> String {
    let first = fields.first().map_or("", |field| field.trim()).to_owned();
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

/// Run time and percent are the first two columns of numbers of which the second is a percentage with two
/// digits behind its decimal sign; what is before them is the cgroup, and with `-r` the spread.
fn tail(rest: &[&str], separator: char) -> Tail {
    // `99,56` of a locale whose comma is the separator stands in two columns.
    let field = |place: usize| rest.get(place).map_or("", |field| field.trim());
    let is_split = |place: usize| {
        let [one, other] = [place, place + 1].map(field);
        separator == ',' && is_digits(one) && other.len() == 2 && is_digits(other)
    };
    let run = |place: usize| {
        let text = field(place);
        let percent = if is_split(place + 1) {
            number(&format!("{},{}", field(place + 1), field(place + 2)))?
        } else {
            number(field(place + 1)).filter(|_| field(place + 1).contains(['.', ',']))?
        };
        (is_digits(text) && percent.whole <= 100).then_some(())?;
        Some((Nanos(text.parse().ok()?), percent))
    };
    let found = (0..rest.len()).find_map(|place| Some((place, run(place)?)));
    let before = found.map_or(0, |(place, _)| place);
    let names =
        rest[..before - spread_columns(&rest[..before], separator)].join(&separator.to_string());
    let ratio = found.map(|(_, (_, percent))| (percent.whole as f64 + percent.fraction) / 100.0);
    Tail {
        cgroup: (!names.is_empty()).then_some(names),
        running: found.map(|(_, (running, _))| running),
        ratio: ratio.map(|ratio| ratio.min(1.0)),
    }
}

/// How many columns before the run time are the spread of `-r`: `0.02%`, or `0,02%` in one or in two.
fn spread_columns(before: &[&str], separator: char) -> usize {
    let Some((last, before)) = before.split_last() else {
        return 0;
    };
    match last.trim().strip_suffix('%') {
        Some(spread) if spread.contains(['.', ',']) && number(spread).is_some() => 1,
        Some(cents) if separator == ',' && cents.len() == 2 && is_digits(cents) => {
            let is_whole = before.last().is_some_and(|whole| is_digits(whole.trim()));
            2 * usize::from(is_whole)
        }
        _ => 0,
    }
}
