// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which lines belong together. `--summary` prints the sums of all intervals once more, below them; and with
//! `--append`, `-r 0` or a shell's `>>` several runs are in one text. Counts of two runs are never added up.

use super::{LineProblem, PerfRow, PerfStatError, event_name};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::Nanos;
use weir_core::window::CountScope;

/// A row with the number of its line, from 1.
pub struct Line {
    pub number: usize,
    pub row: PerfRow,
}

/// Rows that count each event once, and what was found when that was made so.
#[derive(Default)]
pub struct CountedRun {
    pub rows: Vec<PerfRow>,
    pub notes: Vec<String>,
    pub problems: Vec<LineProblem>,
}

/// What a row is by its first column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Interval,
    /// The line has the word `summary`.
    Summary,
    /// The line has no time: it is a sum of intervals, if it is below them.
    Untimed,
}

type RowKey<'a> = (Option<Nanos>, CountScope, Option<&'a str>, &'a str);

/// A sum may differ by so much for each value that perf rounded.
const ROUNDED: f64 = 1.0;

impl PerfRow {
    fn kind(&self) -> Kind {
        match self.at {
            _ if self.is_summary => Kind::Summary,
            Some(_) => Kind::Interval,
            None => Kind::Untimed,
        }
    }

    fn key(&self) -> RowKey<'_> {
        (self.at, self.of, self.workload.as_deref(), &self.event)
    }

    /// Whether the same line once more comes from another box of an uncore PMU: by CPU older perf does not
    /// tell them apart.
    fn is_of_boxes(&self) -> bool {
        matches!(self.of, CountScope::Cpu(_)) && event_name(&self.event).is_of_boxes()
    }

    fn is_whole_time(&self) -> bool {
        self.running_ratio.is_none_or(|ratio| ratio > 0.9999)
    }
}

/// The places in `lines` at which runs begin. `heads` are the numbers of lines `# started on`.
pub fn starts(lines: &[Line], heads: &[usize]) -> Vec<usize> {
    let mut starts = vec![0];
    let (mut run, mut section) = (0, 0);
    // Where the section's second event is first.
    let mut second: Option<usize> = None;
    for place in 1..lines.len() {
        let [before, here] = [place - 1, place].map(|place| &lines[place]);
        let kinds = [&before.row, &here.row].map(PerfRow::kind);
        let head = heads.partition_point(|head| *head < before.number);
        let is_headed = heads.get(head).is_some_and(|head| *head < here.number);
        let is_alone = section == run;
        let is_new = match kinds {
            _ if is_headed => true,
            [Kind::Interval, Kind::Interval] => here.row.at < before.row.at,
            [Kind::Interval, _] => false,
            [one, other] if one == other => is_anew(lines, section, place, second, is_alone),
            _ => true,
        };
        if is_new {
            starts.push(place);
            run = place;
        }
        if is_new || kinds[0] != kinds[1] {
            (section, second) = (place, None);
        } else if second.is_none() && here.row.event != lines[section].row.event {
            second = Some(place);
        }
    }
    starts
}

/// Whether lines without a time begin anew at `place`: the first of the section and the first of its second
/// event come again. By CPU an event has a line for each CPU, and in older perf for each box of its PMU. One
/// event alone that comes again below intervals is one that was asked for twice.
fn is_anew(
    lines: &[Line],
    section: usize,
    place: usize,
    second: Option<usize>,
    is_alone: bool,
) -> bool {
    let is_same = |one: usize, other: usize| match (lines.get(one), lines.get(other)) {
        (Some(one), Some(other)) => one.row.key() == other.row.key(),
        _ => false,
    };
    is_same(section, place)
        && match second {
            Some(second) => is_same(second, place + (second - section)),
            None => is_alone && !lines[place].row.is_of_boxes(),
        }
}

/// A run without its summary, which must be the sum of its intervals.
pub fn counted_once(lines: Vec<Line>) -> CountedRun {
    let has_intervals = lines.iter().any(|line| line.row.kind() == Kind::Interval);
    let is_summary = |line: &Line| has_intervals && line.row.kind() != Kind::Interval;
    let (summary, counted): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(is_summary);
    let (counted, twice) = once(counted);
    let problems = unbalanced(&counted, &once(summary).0);
    let notes = twice.into_iter().map(|event| {
        let event = crate::figure::printable(&event);
        format!("{event} was asked for twice: it is taken once, from the counter that ran longer")
    });
    CountedRun {
        rows: counted.into_iter().map(|line| line.row).collect(),
        notes: notes.collect(),
        problems,
    }
}

/// Leaves out lines of an event that was asked for twice, and names these events.
fn once(lines: Vec<Line>) -> (Vec<Line>, BTreeSet<String>) {
    let mut kept: BTreeMap<RowKey<'_>, usize> = BTreeMap::new();
    let mut is_kept = vec![true; lines.len()];
    let mut twice = BTreeSet::new();
    for (place, Line { row, .. }) in lines.iter().enumerate() {
        if row.is_of_boxes() {
            continue;
        }
        let first = *kept.entry(row.key()).or_insert(place);
        if first == place {
            continue;
        }
        twice.insert(row.event.clone());
        let ran = |row: &PerfRow| (row.value.is_ok(), row.running_ratio.unwrap_or(1.0));
        if ran(row) > ran(&lines[first].row) {
            is_kept[first] = false;
            kept.insert(row.key(), place);
        } else {
            is_kept[place] = false;
        }
    }
    drop(kept);
    let lines = lines.into_iter().zip(is_kept).filter(|(_, kept)| *kept);
    (lines.map(|(line, _)| line).collect(), twice)
}

/// A sum of values; nothing where perf scaled one, so that the sum of all need not be the scaled sum.
struct Sum {
    line: usize,
    value: Option<f64>,
    rows: f64,
}

fn sums(lines: &[Line]) -> BTreeMap<RowKey<'_>, Sum> {
    let mut sums: BTreeMap<RowKey<'_>, Sum> = BTreeMap::new();
    for Line { number, row } in lines {
        let (_, of, workload, event) = row.key();
        let value = row.value.as_ref().ok().filter(|_| row.is_whole_time());
        let value = value.map(|value| value.whole as f64 + value.fraction);
        let sum = sums.entry((None, of, workload, event)).or_insert(Sum {
            line: *number,
            value: Some(0.0),
            rows: 0.0,
        });
        sum.value = sum.value.zip(value).map(|(sum, value)| sum + value);
        sum.rows += 1.0;
    }
    sums
}

/// Lines of the summary that are not the sum of their intervals.
fn unbalanced(intervals: &[Line], summary: &[Line]) -> Vec<LineProblem> {
    let parts = sums(intervals);
    let wrong = sums(summary).into_iter().filter_map(|(key, whole)| {
        let (sum, rows) = match parts.get(&key) {
            Some(part) => (part.value?, part.rows),
            None => (0.0, 0.0),
        };
        let all = whole.value?;
        let slack = ROUNDED * (rows + whole.rows) + 1e-9 * all;
        ((all - sum).abs() > slack).then(|| LineProblem {
            line: whole.line,
            why: PerfStatError::Unbalanced {
                summary: format!("{all:.0}"),
                intervals: format!("{sum:.0}"),
            },
        })
    });
    let mut wrong: Vec<LineProblem> = wrong.collect();
    wrong.sort_by_key(|problem| problem.line);
    wrong
}
