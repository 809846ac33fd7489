// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows that a tick or a span leaves, each group with its checksum.

use crate::format::checksum::{self, Sum};
use crate::format::tick::Tick;
use crate::rollup::{Span, outcome_code};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params, params_from_iter};
use std::collections::{BTreeMap, HashMap};
use weir_core::seam::plan::ActionKind;
use weir_core::{Nanos, WorkloadId};

/// Texts remembered at most. Above that number they are written anew: processes come and go for months.
const TEXTS_MAX: usize = 200_000;

/// Texts and their numbers in the file.
pub(crate) struct TextTable {
    numbers: HashMap<String, u64>,
    next: i64,
}

impl TextTable {
    pub(crate) fn beginning_at(next: i64) -> TextTable {
        let numbers = HashMap::new();
        TextTable { numbers, next }
    }

    /// A text may have several numbers; a number never has several texts.
    pub(crate) fn forget(&mut self) {
        self.numbers.clear();
    }

    /// A text that is in the file already.
    pub(crate) fn remember(&mut self, number: i64, text: &str) {
        if self.numbers.len() < TEXTS_MAX {
            self.numbers.insert(text.to_owned(), number.unsigned_abs());
        }
        self.next = self.next.max(number.saturating_add(1));
    }
}

/// The table of texts with the file that it stands in.
pub(crate) struct Numbering<'a> {
    pub(crate) table: &'a mut TextTable,
    pub(crate) database: &'a Connection,
}

impl Numbering<'_> {
    /// The number of a text, which may be a new one.
    fn number(&mut self, text: &str) -> rusqlite::Result<u64> {
        if let Some(number) = self.table.numbers.get(text) {
            return Ok(*number);
        }
        if self.table.numbers.len() >= TEXTS_MAX {
            self.table.forget();
        }
        let id = self.table.next;
        put_text(self.database, id, text)?;
        self.table.next += 1;
        let number = id.unsigned_abs();
        self.table.numbers.insert(text.to_owned(), number);
        Ok(number)
    }
}

pub(crate) fn put_text(database: &Connection, id: i64, text: &str) -> rusqlite::Result<()> {
    database
        .prepare_cached("INSERT INTO text VALUES (?, ?)")?
        .execute(params![id, text])?;
    put_check(database, "text_check", id, checksum::of_text(id, text))
}

fn put_check(database: &Connection, table: &str, id: i64, sum: u32) -> rusqlite::Result<()> {
    database
        .prepare_cached(&format!("INSERT INTO {table} VALUES (?, ?)"))?
        .execute(params![id, sum])
        .map(drop)
}

/// A row, which its group's sum takes in.
fn put(database: &Connection, sum: &mut Sum, insert: &str, row: &[Value]) -> rusqlite::Result<()> {
    row.iter()
        .for_each(|value| sum.value(ValueRef::from(value)));
    database
        .prepare_cached(insert)?
        .execute(params_from_iter(row))
        .map(drop)
}

fn whole(value: impl Into<Option<i64>>) -> Value {
    value.into().map_or(Value::Null, Value::Integer)
}

/// Times and counts of this century are far below 2^63.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// What a tick changed, and what became of it.
pub(crate) fn put_actions(texts: &mut Numbering, id: i64, tick: &Tick) -> rusqlite::Result<()> {
    if tick.plan.actions.is_empty() {
        return Ok(());
    }
    let mut sum = Sum::of("action");
    for (position, action) in (0i64..).zip(&tick.plan.actions) {
        let outcome = usize::try_from(position)
            .ok()
            .and_then(|n| tick.outcomes.get(n));
        let outcome = outcome.map(|outcome| outcome_code(&outcome.result));
        let detail = outcome.and_then(|(_, why)| why);
        let detail = detail.map(|why| texts.number(why)).transpose()?;
        let workload = texts.number(action.workload.as_str())?;
        let limit = match action.kind {
            ActionKind::Limit(limit) => Value::Real(limit.cpus().get()),
            ActionKind::Release => Value::Null,
        };
        let row = [
            whole(id),
            whole(position),
            whole(signed(workload)),
            limit,
            whole(outcome.map(|(code, _)| code.into())),
            whole(detail.map(signed)),
        ];
        let insert = "INSERT INTO action VALUES (?, ?, ?, ?, ?, ?)";
        put(texts.database, &mut sum, insert, &row)?;
    }
    put_check(texts.database, "action_check", id, sum.end())
}

/// The figures of a span that ended then. The sum takes rows in the order of their keys.
pub(crate) fn put_span(
    texts: &mut Numbering,
    (session, end_unix_ms): (i64, u64),
    span: &Span,
    throttled: &BTreeMap<WorkloadId, Nanos>,
) -> rusqlite::Result<()> {
    // Spans are found by their last tick, which no other span has.
    let id = span.last_tick;
    let mut sum = Sum::of("span");
    let row = [
        whole(id),
        whole(session),
        whole(span.first_tick),
        whole(span.last_tick),
        whole(signed(end_unix_ms)),
        whole(signed(span.span.0)),
        whole(signed(span.skipped as u64)),
    ];
    let insert = "INSERT INTO span VALUES (?, ?, ?, ?, ?, ?, ?)";
    put(texts.database, &mut sum, insert, &row)?;
    for (device, figures) in &span.devices {
        let figures = figures.row(span.span);
        let row = [
            whole(id),
            whole(i64::from(device.0)),
            whole(figures.read_bytes_per_sec),
            whole(figures.write_bytes_per_sec),
            whole(figures.unattributed_bytes_per_sec),
            whole(figures.set_point_bytes_per_sec),
            Value::Real(figures.correction_ratio),
            whole(figures.latency_ns),
            whole(figures.unknown_ns),
        ];
        let insert = "INSERT INTO device_figures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        put(texts.database, &mut sum, insert, &row)?;
    }
    let mut rows = Vec::with_capacity(span.workloads.len());
    for (workload, figures) in &span.workloads {
        let figures = figures.row(span.span, throttled.get(workload).copied());
        let workload = signed(texts.number(workload.as_str())?);
        rows.push((workload, figures));
    }
    rows.sort_unstable_by_key(|(workload, _)| *workload);
    for (workload, figures) in rows {
        let row = [
            whole(id),
            whole(workload),
            whole(figures.bytes_per_sec),
            whole(i64::from(figures.provenance)),
            whole(figures.unknown_ns),
            whole(figures.cpu_microcpus),
            whole(figures.throttled_microcpus),
            whole(figures.allowed_bytes_per_sec),
            whole(figures.limit_microcpus),
            whole(i64::from(figures.why)),
        ];
        let insert = "INSERT INTO workload_figures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        put(texts.database, &mut sum, insert, &row)?;
    }
    put_check(texts.database, "span_check", id, sum.end())
}
