// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of a recording as rows for other programs. Each format is a [`Sink`] of its own; what the
//! columns mean is said once, in `docs/reference/recording-format.md`.

mod csv;
mod influx;
mod influx_live;
mod jsonl;
mod parquet;
pub(crate) mod snapshot;
mod tables;

use crate::error::StoreError;
use crate::open;
use crate::reader::Recording;
use crate::writer::signed;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use tables::Source;

pub use influx_live::Live;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    Workloads,
    Devices,
    Actions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 4180, with a line of titles.
    Csv,
    /// One JSON object a line.
    JsonLines,
    Influx,
    Parquet,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// One session; nothing is all of them.
    pub session: Option<i64>,
    /// Rows that ended later than this, milliseconds since the Unix epoch.
    pub from_unix_ms: Option<u64>,
    /// Rows that ended at this time or before.
    pub to_unix_ms: Option<u64>,
}

impl Range {
    fn has(&self, session: i64, unix_ms: i64) -> bool {
        self.session.is_none_or(|wanted| wanted == session)
            && self.from_unix_ms.is_none_or(|from| unix_ms > signed(from))
            && self.to_unix_ms.is_none_or(|to| unix_ms <= signed(to))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Real,
    Text,
}

/// A column's name, which ends in its unit, and what it holds.
type Column = (&'static str, Kind);

#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Missing,
    Whole(i64),
    Real(f64),
    Text(String),
}

trait Sink {
    fn row(&mut self, cells: &[Cell]) -> Result<(), StoreError>;
    /// The end of the file, if it has one.
    fn finish(self: Box<Self>) -> Result<(), StoreError>;
}

/// The columns that distinguish rows besides time: tags, to InfluxDB.
const TAGS: [&str; 3] = ["session", "device", "workload"];
const TIME: [&str; 2] = ["end_unix_ms", "wall_unix_ms"];

/// Writes the rows of a table, and says how many.
///
/// # Errors
/// The recording is damaged (what stands before the damage has been written), or the output cannot
/// be written.
pub fn export(
    recording: &Recording,
    table: Table,
    format: Format,
    range: Range,
    out: impl Write + Send,
) -> Result<u64, StoreError> {
    let source = table.source();
    let out = BufWriter::new(out);
    let mut sink: Box<dyn Sink> = match format {
        Format::Csv => Box::new(csv::Csv::new(source.columns, out)?),
        Format::JsonLines => Box::new(jsonl::JsonLines::new(source.columns, out)),
        Format::Influx => Box::new(influx::Influx::new(source.name, source.columns, out)),
        Format::Parquet => Box::new(parquet::Parquet::new(source.columns, out)?),
    };
    let count = rows(recording, table, range, &mut *sink)?;
    sink.finish()?;
    Ok(count)
}

/// Each group of rows is compared with its checksum before any of it is written, also where it is out of
/// range: that, too, stands in it.
fn rows(
    recording: &Recording,
    table: Table,
    range: Range,
    sink: &mut dyn Sink,
) -> Result<u64, StoreError> {
    let trouble = |error| open::trouble(&recording.path, &error);
    let damaged = |what: String| StoreError::damaged(&recording.path, what);
    let source = table.source();
    let mut checks = recording.checks();
    checks.missing().map_err(damaged)?;
    let mut statement = recording.database.prepare(source.groups).map_err(trouble)?;
    let mut groups = statement.query([]).map_err(trouble)?;
    let (mut count, mut before) = (0, i64::MIN);
    while let Some(group) = groups.next().map_err(trouble)? {
        let group = group.get(0).map_err(trouble)?;
        if group <= before {
            let name = source.name;
            return Err(damaged(format!("{group} of {name} comes after {before}")));
        }
        before = group;
        let (session, time) = match table {
            Table::Workloads | Table::Devices => recording.sound_span(group, &mut checks)?,
            Table::Actions => recording.sound_actions(group, &mut checks)?,
        };
        if range.has(session, time) {
            count += rows_of(recording, source, group, sink)?;
        }
    }
    Ok(count)
}

fn rows_of(
    recording: &Recording,
    source: &Source,
    group: i64,
    sink: &mut dyn Sink,
) -> Result<u64, StoreError> {
    let trouble = |error| open::trouble(&recording.path, &error);
    let mut statement = recording
        .database
        .prepare_cached(source.query)
        .map_err(trouble)?;
    let mut rows = statement.query([group]).map_err(trouble)?;
    let mut count = 0;
    let mut before = i64::MIN;
    let mut cells = Vec::new();
    while let Some(row) = rows.next().map_err(trouble)? {
        let place = row.get(0).map_err(trouble)?;
        let (path, name) = (&recording.path, source.name);
        if place <= before {
            let what = format!("row {place} of {group} of {name} comes after {before}");
            return Err(StoreError::damaged(path, what));
        }
        before = place;
        cells.clear();
        for (index, (column, kind)) in source.columns.iter().enumerate() {
            let what = || format!("{column} in row {place} of {group} of {name}");
            let cell = cell(row, index + 1, *kind);
            cells.push(cell.ok_or_else(|| StoreError::damaged(path, what()))?);
        }
        sink.row(&cells)?;
        count += 1;
    }
    Ok(count)
}

fn cell(row: &Row, index: usize, kind: Kind) -> Option<Cell> {
    match (row.get_ref(index).ok()?, kind) {
        (ValueRef::Null, _) => Some(Cell::Missing),
        (ValueRef::Integer(value), Kind::Whole) => Some(Cell::Whole(value)),
        (ValueRef::Real(value), Kind::Real) if value.is_finite() => Some(Cell::Real(value)),
        (ValueRef::Text(bytes), Kind::Text) => {
            Some(Cell::Text(spelled(std::str::from_utf8(bytes).ok()?)))
        }
        _ => None,
    }
}

/// The text with everything that could break a line or move a cursor written as `\ooo` (octal), byte by byte:
/// the way in which names of workloads have bytes that are not UTF-8, so that it can be undone the
/// same way. Not only for terminals: not every program that reads an export quotes what it shows.
pub(crate) fn spelled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || changes_lines_or_direction(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing into a String cannot fail.
                let _ = write!(out, "\\{byte:03o}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Line and paragraph separators, and bidirectional controls (UAX #9).
fn changes_lines_or_direction(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{061C}' | '\u{200E}' | '\u{200F}'
        | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_neither_lines_nor_screens() {
        assert_eq!(
            spelled("/a\nb\u{1b}[2J\u{202e}"),
            "/a\\012b\\033[2J\\342\\200\\256"
        );
        assert_eq!(spelled("/Größe,\"日本\" =x"), "/Größe,\"日本\" =x");
    }
}
