// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures: rows that are what was written, and for the rest of the time means of the ticks anew.

use super::sessions::Sessions;
use super::walk::{value, walk};
use super::{DamagedFile, Recovered, Target};
use crate::format::tick::Tick;
use crate::reader::Checks;
use crate::rollup::{SPAN, Span};
use crate::writer::{Numbering, TextTable, put_span};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use std::collections::BTreeMap;
use weir_core::{Nanos, WorkloadId};

/// Copies spans with their figures; gives the first and the last tick of each, in order.
pub(super) fn copy(
    from: &DamagedFile,
    to: &Target,
    sessions: &mut Sessions,
    recovered: &mut Recovered,
) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut covered: Vec<(i64, i64)> = Vec::new();
    let written = Checks::new(to.database);
    walk(from.database, "span", &mut |row| {
        let [
            Value::Integer(id),
            Value::Integer(session),
            Value::Integer(first),
            Value::Integer(last),
            ..,
        ] = row.as_slice()
        else {
            return Ok(());
        };
        let (id, first) = (*id, *first);
        let follows = covered.last().is_none_or(|(_, before)| first > *before);
        if *last != id || first > id || !follows || !sessions.can_be(*session) {
            recovered.damaged += 1;
            return Ok(());
        }
        let holds = from.checks.span_holds(id);
        if holds == Some(false) {
            // In a truncated file the figures may be gone, and nothing else.
            recovered.damaged += u64::from(!from.is_truncated);
            return Ok(());
        }
        if insert(to.database, "span", &row) {
            let figures = copy_figures(from.database, to, id)?;
            // Its figures may lie where nothing can be read any more.
            if figures == 0 && holds.is_none() {
                to.database.execute("DELETE FROM span WHERE id = ?", [id])?;
                return Ok(());
            }
            written.put_span_sum(id)?;
            recovered.unchecked += u64::from(holds.is_none());
            sessions.meet(*session);
            recovered.spans += 1;
            covered.push((first, id));
        }
        Ok(())
    })?;
    Ok(covered)
}

/// A row that the format does not allow is one more that is lost.
fn insert(database: &Connection, table: &str, row: &[Value]) -> bool {
    let marks = vec!["?"; row.len()].join(", ");
    let statement = format!("INSERT OR IGNORE INTO {table} VALUES ({marks})");
    let done = database
        .prepare_cached(&statement)
        .and_then(|mut statement| statement.execute(params_from_iter(row)));
    done == Ok(1)
}

fn copy_figures(from: &Connection, to: &Target, span: i64) -> rusqlite::Result<u64> {
    let mut count = 0;
    for table in ["device_figures", "workload_figures"] {
        let query = format!("SELECT * FROM {table} WHERE span = ?");
        let Ok(mut statement) = from.prepare_cached(&query) else {
            return Ok(count);
        };
        let width = statement.column_count();
        let mut rows = statement.query([span])?;
        while let Ok(Some(row)) = rows.next() {
            let row: Result<Vec<Value>, _> = (0..width).map(|n| value(row, n, table)).collect();
            let Ok(row) = row else { continue };
            let is_named = match row.get(1) {
                Some(Value::Integer(name)) => to.known.contains(name),
                _ => false,
            };
            let is_named = table == "device_figures" || is_named;
            count += u64::from(is_named && insert(to.database, table, &row));
        }
    }
    Ok(count)
}

pub(super) struct Covered {
    spans: Vec<(i64, i64)>,
    next: usize,
}

impl Covered {
    pub(super) fn new(spans: Vec<(i64, i64)>) -> Covered {
        Covered { spans, next: 0 }
    }

    /// Called with numbers that go up.
    fn has(&mut self, tick: i64) -> bool {
        while self.spans.get(self.next).is_some_and(|span| span.1 < tick) {
            self.next += 1;
        }
        self.spans
            .get(self.next)
            .is_some_and(|span| (span.0..=span.1).contains(&tick))
    }
}

/// Means of ticks that no span covers, as the recorder makes them.
pub(super) struct Anew {
    covered: Covered,
    span: Span,
    throttled: BTreeMap<WorkloadId, Nanos>,
    last_at: Option<Nanos>,
    last_unix_ms: u64,
    session: i64,
    made: u64,
}

impl Anew {
    pub(super) fn new(covered: Covered) -> Anew {
        Anew {
            covered,
            span: Span::default(),
            throttled: BTreeMap::new(),
            last_at: None,
            last_unix_ms: 0,
            session: 0,
            made: 0,
        }
    }

    /// The next tick that was saved; `follows` if none is missing before it.
    pub(super) fn add(
        &mut self,
        texts: &mut Numbering,
        (id, session, interval): (i64, i64, Nanos),
        tick: &Tick,
        follows: bool,
    ) -> rusqlite::Result<()> {
        if !follows || session != self.session {
            self.end(texts)?;
            self.last_at = None;
            self.throttled.clear();
        }
        self.session = session;
        let dt = self.last_at.and_then(|before| tick.plan.at.since(before));
        self.last_at = Some(tick.plan.at);
        if self.covered.has(id) {
            self.end(texts)?;
            self.last_unix_ms = tick.wall_unix_ms;
            return Ok(());
        }
        self.last_unix_ms = tick.wall_unix_ms;
        let latencies = &tick.observation.latencies;
        self.span
            .add(id, dt.unwrap_or_default(), &tick.plan, latencies);
        self.span.skipped += tick.observation.skipped.len();
        if self.span.is_done(SPAN, interval) {
            self.end(texts)
        } else {
            Ok(())
        }
    }

    /// A span that ends with the tick before.
    pub(super) fn end(&mut self, texts: &mut Numbering) -> rusqlite::Result<()> {
        let span = std::mem::take(&mut self.span);
        if span.span.0 > 0 {
            let end = (self.session, self.last_unix_ms);
            put_span(texts, end, &span, &self.throttled)?;
            self.made += 1;
        }
        self.throttled = span.ends();
        Ok(())
    }

    pub(super) fn made(&self) -> u64 {
        self.made
    }
}

/// The table of texts of the new recording, which gives numbers to texts.
pub(super) fn numbering<'a>(texts: &'a mut TextTable, database: &'a Connection) -> Numbering<'a> {
    Numbering {
        table: texts,
        database,
    }
}
