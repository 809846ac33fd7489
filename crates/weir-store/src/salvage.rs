// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be read of a damaged recording, as a sound one.
//!
//! A database of pages loses what stood on the pages that are gone or wrong, and what could only be
//! found through them. Rows are therefore asked for by number: where that fails, the next number that
//! can be read is looked for, in doubling steps and then by halving. Documents are taken over only if
//! they can be decoded; after a hole, from the next one that needs none before it.

use crate::code::{Lookup, Reader};
use crate::error::StoreError;
use crate::file;
use crate::reader;
use crate::tick::Tick;
use crate::writer;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params, params_from_iter};
use serde::{Deserialize, Serialize};
use std::path::Path;
use weir_core::{Config, Description};

/// Rows asked for at once.
const BATCH: i64 = 256;
/// No recording has this many rows of a kind.
const ID_MAX: i64 = 1 << 48;

/// What was saved, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Sessions.
    pub sessions: u64,
    /// Ticks.
    pub ticks: u64,
    /// Spans of figures.
    pub spans: u64,
    /// Ticks that were there by their numbers, and are not any more. What is missing at the end has no
    /// number, and is not counted.
    pub lost_ticks: u64,
}

/// Writes what can be read of `path` into the new recording `new`.
///
/// # Errors
/// `new` is there already or cannot be written; or nothing can be read.
pub fn salvage(path: &Path, new: &Path) -> Result<Saved, StoreError> {
    let path = file::settle(path)?;
    let new = file::settle(new)?;
    drop(file::inspect_leniently(&path)?);
    let damaged = open(&path)?;
    let (target, _lock) = writer::create(&new)?;
    let result = copy(&path, &damaged, &target).map_err(|error| match error {
        Fault::Ours(error) => error,
        Fault::Writing(error) => StoreError::write(&new, error),
    });
    if result.is_err() {
        drop(target);
        // It is ours and of no use.
        let _ = std::fs::remove_file(&new);
    }
    result
}

fn open(path: &Path) -> Result<Connection, StoreError> {
    let beyond = |why: String| StoreError::BeyondSaving {
        path: path.to_owned(),
        why,
    };
    let database = file::connect_leniently(path).map_err(|error| beyond(error.to_string()))?;
    match file::check_schema(path, &database) {
        Err(StoreError::Damaged { what, .. }) => Err(beyond(format!("its first page: {what}"))),
        other => other.map(|()| database),
    }
}

enum Fault {
    Ours(StoreError),
    Writing(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Writing(error)
    }
}

fn copy(path: &Path, damaged: &Connection, target: &Connection) -> Result<Saved, Fault> {
    let mut saved = Saved::default();
    let transaction = target.unchecked_transaction()?;
    writer::put_words(&transaction)?;
    saved.sessions = copy_rows(damaged, &transaction, "session", 10, mend)?;
    if saved.sessions == 0 {
        let (path, why) = (path.to_owned(), "no session can be read".to_owned());
        return Err(Fault::Ours(StoreError::BeyondSaving { path, why }));
    }
    copy_rows(damaged, &transaction, "text", 2, |_| ())?;
    copy_ticks(damaged, &transaction, &mut saved)?;
    saved.spans = copy_rows(damaged, &transaction, "span", 7, |_| ())?;
    for table in ["device_figures", "workload_figures"] {
        copy_parts(damaged, &transaction, table, ("span", "span"))?;
    }
    copy_parts(damaged, &transaction, "action", ("tick", "tick"))?;
    transaction.commit()?;
    Ok(saved)
}

/// Makes a session readable: ticks must not be lost because the settings they were made with are.
/// In the order of the columns.
fn mend(row: &mut [Value]) {
    let count =
        |value: &Value, most: i64| matches!(value, Value::Integer(n) if (0..=most).contains(n));
    for (place, value) in row.iter_mut().enumerate() {
        let default = match place {
            1 | 5 if !count(value, i64::MAX) => Value::Integer(0),
            2 if !count(value, i64::MAX) => Value::Null,
            4 if !count(value, i64::from(u32::MAX)) => Value::Integer(0),
            7 if !count(value, 1) => Value::Integer(0),
            3 | 6 if !matches!(value, Value::Text(_)) => Value::Text(String::new()),
            8 => sound(
                value,
                |text| reader::config(text).is_ok(),
                &Config::default(),
            ),
            9 => sound(value, is_description, &Description::default()),
            _ => continue,
        };
        *value = default;
    }
}

fn is_description(text: &str) -> bool {
    serde_json::from_str::<Description>(text).is_ok()
}

/// The JSON that is there if it can be read, or else that of nothing in particular.
fn sound(value: &Value, can_be_read: fn(&str) -> bool, default: &impl Serialize) -> Value {
    match value {
        Value::Text(text) if can_be_read(text) => value.clone(),
        _ => Value::Text(serde_json::to_string(default).unwrap_or_default()),
    }
}

/// Rows of a table that has numbers.
fn copy_rows(
    damaged: &Connection,
    target: &Transaction,
    table: &str,
    columns: usize,
    mend: fn(&mut [Value]),
) -> rusqlite::Result<u64> {
    let marks = vec!["?"; columns].join(", ");
    let mut insert = target.prepare(&format!("INSERT OR IGNORE INTO {table} VALUES ({marks})"))?;
    let mut count = 0;
    walk(damaged, table, &mut |mut row| {
        mend(&mut row);
        // A row that the format does not allow is one more that is lost.
        count += insert.execute(params_from_iter(row)).unwrap_or(0) as u64;
        Ok(())
    })?;
    Ok(count)
}

/// Rows that belong to a row that was saved.
fn copy_parts(
    damaged: &Connection,
    target: &Transaction,
    table: &str,
    (owner, key): (&str, &str),
) -> rusqlite::Result<()> {
    let mut owners = target.prepare(&format!("SELECT id FROM {owner} ORDER BY id"))?;
    let Ok(mut parts) = damaged.prepare(&format!("SELECT * FROM {table} WHERE {key} = ?")) else {
        return Ok(());
    };
    let marks = vec!["?"; parts.column_count()].join(", ");
    let mut insert = target.prepare(&format!("INSERT OR IGNORE INTO {table} VALUES ({marks})"))?;
    for owner in owners.query_map([], |row| row.get::<_, i64>(0))? {
        let width = parts.column_count();
        let Ok(mut rows) = parts.query([owner?]) else {
            continue;
        };
        while let Ok(Some(row)) = rows.next() {
            let values: Result<Vec<Value>, _> = (0..width).map(|n| value(row, n, table)).collect();
            if let Ok(values) = values {
                // As above.
                let _ = insert.execute(params_from_iter(values));
            }
        }
    }
    Ok(())
}

/// Ticks whose documents can be decoded.
fn copy_ticks(
    damaged: &Connection,
    target: &Transaction,
    saved: &mut Saved,
) -> rusqlite::Result<()> {
    let mut insert = target.prepare("INSERT INTO tick VALUES (?, ?, ?, ?, ?, ?)")?;
    let mut texts = Saving(target);
    let mut code = Reader::default();
    let mut last = 0;
    let mut is_whole = false;
    walk(damaged, "tick", &mut |row| {
        let [
            Value::Integer(id),
            Value::Integer(session),
            Value::Integer(wall),
            Value::Integer(is_key),
            Value::Integer(lost),
            Value::Blob(document),
        ] = row.as_slice()
        else {
            return Ok(());
        };
        if *is_key != 0 {
            code.restart();
        } else if !is_whole || *id != last + 1 {
            is_whole = false;
            return Ok(());
        }
        is_whole = code
            .read(document, &mut texts)
            .is_ok_and(|document| Tick::deserialize(document).is_ok());
        if is_whole {
            let missing = id.saturating_sub(last).saturating_sub(1);
            saved.lost_ticks = saved.lost_ticks.saturating_add(missing.unsigned_abs());
            let lost = (*lost).max(0).saturating_add(missing);
            insert.execute(params![id, session, (*wall).max(0), is_key, lost, document])?;
            saved.ticks += 1;
            last = *id;
        }
        Ok(())
    })
}

/// All rows that can be read, in the order of their numbers.
fn walk(
    damaged: &Connection,
    table: &str,
    take: &mut dyn FnMut(Vec<Value>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut last = 0;
    while last < ID_MAX {
        let query = format!("SELECT * FROM {table} WHERE id > ? ORDER BY id LIMIT ?");
        let Ok(mut statement) = damaged.prepare_cached(&query) else {
            return Ok(());
        };
        let width = statement.column_count();
        let mut is_damaged = false;
        let mut count = 0;
        if let Ok(mut rows) = statement.query([last, BATCH]) {
            loop {
                let values = match rows.next() {
                    Ok(Some(row)) => (0..width).map(|n| value(row, n, table)).collect(),
                    Ok(None) => break,
                    Err(error) => Err(error),
                };
                let values: rusqlite::Result<Vec<Value>> = values;
                let id = values.as_ref().map(|values| values.first().cloned());
                let Ok(Some(Value::Integer(id))) = id else {
                    is_damaged = true;
                    break;
                };
                // Pages that point at each other could go round for ever.
                if id <= last {
                    return Ok(());
                }
                (last, count) = (id, count + 1);
                take(values?)?;
            }
        } else {
            is_damaged = true;
        }
        if is_damaged {
            last = after_hole(damaged, &query, last);
        } else if count < BATCH {
            return Ok(());
        }
    }
    Ok(())
}

/// A value; of a session also a text of which a part is no text any more, since [`mend`] looks after
/// it. Names are taken whole or not at all.
fn value(row: &Row, column: usize, table: &str) -> rusqlite::Result<Value> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Integer(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        ValueRef::Text(bytes) if table == "session" => {
            Value::Text(String::from_utf8_lossy(bytes).into_owned())
        }
        // Not by way of `Value`'s own conversion, which panics where this is an error.
        ValueRef::Text(_) => Value::Text(row.get(column)?),
    })
}

/// The smallest number behind `last` from which on there is something to read again.
fn after_hole(damaged: &Connection, query: &str, last: i64) -> i64 {
    let can_read = |from: i64| {
        let one = damaged.prepare_cached(query).and_then(|mut statement| {
            statement
                .query_row([from, 1], |row| {
                    row.get_ref(row.as_ref().column_count() - 1).map(|_| ())
                })
                .optional()
        });
        one.is_ok()
    };
    let mut step = 1;
    while !can_read(last.saturating_add(step)) {
        step *= 2;
        if step >= ID_MAX {
            return ID_MAX;
        }
    }
    let (mut bad, mut good) = (step / 2, step);
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        if can_read(last.saturating_add(middle)) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    last.saturating_add(good)
}

/// Texts that were saved.
struct Saving<'a>(&'a Transaction<'a>);

impl Lookup for Saving<'_> {
    fn text(&mut self, number: u64) -> Option<String> {
        let id = i64::try_from(number).ok()?;
        let mut statement = self
            .0
            .prepare_cached("SELECT text FROM text WHERE id = ?")
            .ok()?;
        statement
            .query_row([id], |row| row.get(0))
            .optional()
            .ok()?
    }
}
