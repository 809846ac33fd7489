// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `perf stat` prints for programs: `-x SEP`, with `-I`, `--per-socket`, `-A`, `--for-each-cgroup`,
//! `--per-thread`, `-r`; and `-j`, with the same. The columns depend on these options and on perf's version:
//! each line is read by what its columns are, not by their number. Each count is taken once: sums of others
//! are compared with them, and runs are told apart.
//!
//! The output is hostile input: names are chosen by others. A line that cannot be read is named and left out.

mod csv;
mod event_name;
mod json;
mod number;
mod runs;

pub use event_name::{EventName, event_name};
pub use number::PerfValue;

use serde::Serialize;
use weir_core::window::CountScope;
use weir_core::{Missing, Nanos};

/// Bytes of a line.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Lines that cannot be read and are kept by name; the others are only counted.
const PROBLEMS_KEPT: usize = 20;
/// How perf heads a run in a file.
const STARTED: &str = "# started on";
/// The head of perf's table for people with `-I`; `--interval-clear` has it above other lines too.
const TABLE_HEAD: &str = "counts unit events";
/// Separators that are tried where none is given.
const SEPARATORS: [char; 5] = [',', ';', '\t', '|', '@'];

#[derive(Clone, Debug, PartialEq)]
pub struct PerfRow {
    /// The end of its interval, with `-I`.
    pub at: Option<Nanos>,
    /// Where it was counted.
    pub of: CountScope,
    /// The cgroup, or the thread (`COMM-TID`), that it was counted for.
    pub workload: Option<String>,
    /// The event as perf prints it.
    pub event: String,
    /// The count, scaled by perf where it did not run all the time; or why there is none.
    pub value: Result<PerfValue, Missing>,
    /// The unit that perf gives it: `msec`, `ns`, `MiB`; empty for a count.
    pub unit: String,
    /// Time for which it was counted, added up over all counters that perf summed.
    pub running: Option<Nanos>,
    /// The same ÷ the time for which it was to be counted.
    pub running_ratio: Option<f64>,
    /// Whether perf says that the line covers all intervals (`--summary`).
    pub is_summary: bool,
}

impl PerfRow {
    /// Time for which it was to be counted, and for which it was.
    pub fn times(&self) -> (Nanos, Nanos) {
        let running = self.running.unwrap_or_default();
        let enabled = match self.running_ratio {
            Some(ratio) if ratio > 0.0 => Nanos::rounded(running.0 as f64 / ratio),
            _ => running,
        };
        (enabled.max(running), running)
    }
}

/// Why a line, or the whole text, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum PerfStatError {
    /// The table for people.
    #[error("this is perf's table for people; count with -x, or with -j")]
    ForPeople,
    /// No line can be read.
    #[error("no line of `perf stat -x,` or `perf stat -j` is in it")]
    Nothing,
    /// Metrics without the counts that they are made of.
    #[error("it has metrics and no counts: count without --metric-only")]
    MetricsOnly,
    /// A line of other columns.
    #[error("its columns are none of `perf stat -x`: a count, a unit and an event are wanted")]
    Columns,
    #[error("it is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// A line of a core, die, cache or node.
    #[error("counts by {0} are not read: count by --per-socket, by -A, or without")]
    Aggregation(String),
    /// More runs than one.
    #[error(
        "a second run begins at line {line}, and counts of {count} runs are not added up: choose one with --run, from 1 to {count}"
    )]
    Runs {
        /// Where the second begins.
        line: usize,
        count: usize,
    },
    #[error("there is no run {run}: runs in it are {count}")]
    NoRun { run: usize, count: usize },
    /// A line of a summary that is not the sum of what is above it.
    #[error(
        "it says {summary} for all intervals, and their sum is {intervals}: lines are missing, or changed"
    )]
    Unbalanced { summary: String, intervals: String },
    /// A count that is none.
    #[error("{0:?} is no count")]
    Number(String),
    /// A time that is none, or went back.
    #[error("{0:?} is no time of an interval")]
    Time(String),
    /// A line of broken JSON.
    #[error("it is no JSON ({0}); where numbers have decimal commas, count again with LC_ALL=C")]
    Json(String),
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineProblem {
    /// Number of the line, from 1.
    pub line: usize,
    pub why: PerfStatError,
}

/// All that could be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerfStat {
    /// Lines that count, in their order: no sums of others.
    pub rows: Vec<PerfRow>,
    /// What must be known beside them.
    pub notes: Vec<String>,
    /// Lines that could not be read, the first of them.
    pub problems: Vec<LineProblem>,
    pub problem_count: usize,
}

/// Reads the output of one run. Where no separator is given, it is found.
///
/// # Errors
/// No line can be read, it is the table for people, or there are several runs.
pub fn read(text: &str, separator: Option<char>) -> Result<PerfStat, PerfStatError> {
    read_run(text, separator, None)
}

/// Reads one run, of several if one is chosen, from 1.
///
/// # Errors
/// As [`read`]; or there is no such run.
pub fn read_run(
    text: &str,
    separator: Option<char>,
    run: Option<usize>,
) -> Result<PerfStat, PerfStatError> {
    if text.contains("Performance counter stats for") {
        return Err(PerfStatError::ForPeople);
    }
    let (mut lines, heads, problems) = lines_of(text, separator)?;
    let starts = runs::starts(&lines, &heads);
    let chosen = match (run, starts.get(1)) {
        (None, Some(second)) => {
            return Err(PerfStatError::Runs {
                line: lines[*second].number,
                count: starts.len(),
            });
        }
        (run, _) => run.unwrap_or(1),
    };
    let Some(start) = chosen.checked_sub(1).and_then(|place| starts.get(place)) else {
        return Err(PerfStatError::NoRun {
            run: chosen,
            count: starts.len(),
        });
    };
    let after = starts.get(chosen).and_then(|end| lines.get(*end));
    // What cannot be read belongs to the run that it stands in.
    let first = if chosen == 1 { 0 } else { lines[*start].number };
    let span = first..after.map_or(usize::MAX, |line| line.number);
    lines.retain(|line| span.contains(&line.number));
    let problems = problems.into_iter().filter(|p| span.contains(&p.line));
    let run = runs::counted_once(lines);
    let mut problems: Vec<LineProblem> = problems.chain(run.problems).collect();
    let problem_count = problems.len();
    problems.truncate(PROBLEMS_KEPT);
    Ok(PerfStat {
        rows: run.rows,
        notes: run.notes,
        problems,
        problem_count,
    })
}

type Lines = (Vec<runs::Line>, Vec<usize>, Vec<LineProblem>);

/// Lines with counts, numbers of lines that begin a run, and lines that cannot be read.
fn lines_of(text: &str, separator: Option<char>) -> Result<Lines, PerfStatError> {
    if !text.lines().any(|line| is_data(line.trim())) {
        return Err(PerfStatError::Nothing);
    }
    let mut columns = columns_of(text);
    let is_json = columns
        .next()
        .is_some_and(|line| line.trim_start().starts_with('{'));
    let separator = separator.or_else(|| found(text));
    let (mut lines, mut heads, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    let mut has_metrics = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with(STARTED) {
            heads.push(number);
        }
        if !is_data(line.trim()) {
            continue;
        }
        let row = match separator {
            _ if line.len() > LINE_BYTES_MAX => Err(PerfStatError::TooLong),
            _ if is_json => json::row(line),
            Some(separator) => csv::row(line, separator),
            None => Err(PerfStatError::Columns),
        };
        match row {
            Ok(Some(row)) => lines.push(runs::Line { number, row }),
            Ok(None) => has_metrics = true,
            Err(why) => problems.push(LineProblem { line: number, why }),
        }
    }
    let has_metrics = has_metrics || csv::is_metrics_only(text);
    match problems.first() {
        _ if lines.is_empty() && text.contains(TABLE_HEAD) => Err(PerfStatError::ForPeople),
        _ if lines.is_empty() && has_metrics => Err(PerfStatError::MetricsOnly),
        Some(problem) if lines.is_empty() => Err(problem.why.clone()),
        None if lines.is_empty() => Err(PerfStatError::Nothing),
        _ => Ok((lines, heads, problems)),
    }
}

/// Comments and empty lines are none.
fn is_data(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

/// Lines that can be of counts: what perf says of itself with `-v` has no columns.
fn columns_of(text: &str) -> impl Iterator<Item = &str> {
    let data = text.lines().filter(|line| is_data(line.trim()));
    data.filter(|line| {
        let is_two = |separator| line.matches(separator).nth(1).is_some();
        line.trim_start().starts_with('{') || SEPARATORS.into_iter().any(is_two)
    })
}

/// The separator by which most of the first lines can be read, or are known to be by core and the like.
fn found(text: &str) -> Option<char> {
    let lines: Vec<&str> = columns_of(text).take(40).collect();
    let readable = |separator: char| {
        let short = lines.iter().filter(|line| line.len() <= LINE_BYTES_MAX);
        short
            .filter(|line| match csv::row(line, separator) {
                Ok(row) => row.is_some(),
                Err(why) => matches!(why, PerfStatError::Aggregation(_)),
            })
            .count()
    };
    let best = SEPARATORS.into_iter().max_by_key(|separator| {
        // The first of equals is wanted, and max_by_key takes the last.
        let place = SEPARATORS.iter().position(|other| other == separator);
        (readable(*separator), std::cmp::Reverse(place))
    });
    best.filter(|separator| readable(*separator) > 0)
}

/// Where a scope's text says that something was counted: `S0`, `CPU3`.
fn scope(text: &str) -> Result<Option<CountScope>, PerfStatError> {
    let numbered = |prefix: &str| text.strip_prefix(prefix)?.parse::<u32>().ok();
    let parts: Vec<&str> = text.split('-').collect();
    let is_part = |part: &&str| {
        let digits = part.trim_start_matches(|c: char| c.is_ascii_uppercase() || c == ',');
        digits.len() < part.len()
            && !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
    };
    if let Some(cpu) = numbered("CPU") {
        return Ok(Some(CountScope::Cpu(cpu)));
    }
    if let Some(socket) = numbered("S") {
        return Ok(Some(CountScope::Socket(socket)));
    }
    if parts.len() > 1 && parts.iter().all(is_part) && text.starts_with('S') {
        let last = parts.last().map_or("", |part| {
            part.trim_end_matches(|c: char| c.is_ascii_digit())
        });
        let by = match last {
            "C" => "core",
            "D" => "die",
            "CLS" => "cluster",
            "ID" => "cache",
            _ => "parts of a socket",
        };
        return Err(PerfStatError::Aggregation(by.into()));
    }
    if numbered("N").is_some() {
        return Err(PerfStatError::Aggregation("node".into()));
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
