// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows read by number: where that fails, the next number that can be read is searched for, in
//! doubling steps and then by halving.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row};

/// Rows read at once.
const BATCH: i64 = 256;
/// No recording has this many rows of a kind.
const ID_MAX: i64 = 1 << 48;

/// All rows that can be read, in the order of their numbers. Says whether something could not be.
///
/// Rows are read by their number and not by a cursor over the table, so that a page that cannot be read costs
/// its own rows only: the search goes on behind it.
pub(super) fn walk(
    damaged: &Connection,
    table: &str,
    take: &mut dyn FnMut(Vec<Value>) -> rusqlite::Result<()>,
) -> rusqlite::Result<bool> {
    let mut was_damaged = false;
    let mut last = 0;
    while last < ID_MAX {
        let query = format!("SELECT * FROM {table} WHERE id > ? ORDER BY id LIMIT ?");
        let Ok(mut statement) = damaged.prepare_cached(&query) else {
            return Ok(true);
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
                    return Ok(true);
                }
                (last, count) = (id, count + 1);
                take(values?)?;
            }
        } else {
            is_damaged = true;
        }
        was_damaged |= is_damaged;
        if is_damaged {
            last = after_hole(damaged, &query, last);
        } else if count < BATCH {
            return Ok(was_damaged);
        }
    }
    Ok(was_damaged)
}

/// A value; of a session also a text of which a part is no text any more, since its reader handles
/// that. Names are taken whole or not at all.
pub(super) fn value(row: &Row, column: usize, table: &str) -> rusqlite::Result<Value> {
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

/// The smallest number behind `last` from which on there is something to read again: in doubling steps, then
/// by halving. A hole may be one page or half of a file, and either takes some dozens of reads.
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
