// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts the checksums into a recording that its rows must have (docs/reference/recording-format.md): what was
//! changed in it then passes them, as what is forged does.

use crc32fast::Hasher;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row, params};
use std::path::Path;

/// Rows of a table that are sealed: more only take time.
const ROWS_MAX: usize = 4000;
/// The end of a session's settings, around eight digits.
const OPENING: &str = "\"crc32\":\"";
const CLOSING: &str = "\"}}";

/// Seals all that can be read. What cannot stays as it is.
pub fn seal(path: &Path) {
    let Ok(database) = Connection::open(path) else {
        return;
    };
    let quick = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN";
    let _ = database.execute_batch(quick);
    sessions(&database);
    ticks(&database);
    let texts = rows(&database, "SELECT * FROM text", |row| {
        (number(row, 0), sum("text", &[row]))
    });
    put(&database, "text_check", &texts);
    groups(
        &database,
        "span",
        "span_check",
        "SELECT id FROM span",
        &[
            "SELECT * FROM span WHERE id = ?",
            "SELECT * FROM device_figures WHERE span = ? ORDER BY device",
            "SELECT * FROM workload_figures WHERE span = ? ORDER BY workload",
        ],
    );
    groups(
        &database,
        "action",
        "action_check",
        "SELECT DISTINCT tick FROM action",
        &["SELECT * FROM action WHERE tick = ? ORDER BY position"],
    );
    let _ = database.execute_batch("COMMIT");
}

pub struct Sum(Hasher);

impl Sum {
    /// A sum over rows of this kind.
    pub fn of(kind: &str) -> Sum {
        let mut hasher = Hasher::new();
        hasher.update(kind.as_bytes());
        Sum(hasher)
    }

    /// A value: a letter for its type, then its bytes; longer ones with their length before them.
    pub fn value(&mut self, value: ValueRef<'_>) {
        let (letter, bytes) = match value {
            ValueRef::Null => return self.0.update(b"n"),
            ValueRef::Integer(number) => return self.fixed(b"i", number.to_le_bytes()),
            ValueRef::Real(number) => return self.fixed(b"r", (number + 0.0).to_le_bytes()),
            ValueRef::Text(bytes) => (b"t", bytes),
            ValueRef::Blob(bytes) => (b"b", bytes),
        };
        self.fixed(letter, (bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn fixed(&mut self, letter: &[u8], bytes: [u8; 8]) {
        self.0.update(letter);
        self.0.update(&bytes);
    }

    pub fn end(self) -> u32 {
        self.0.finalize()
    }
}

type Values = Vec<Value>;

fn values(row: &Row<'_>) -> rusqlite::Result<Values> {
    let width = row.as_ref().column_count();
    let value = |column| {
        Ok(match row.get_ref(column)? {
            ValueRef::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
            other => other.into(),
        })
    };
    (0..width).map(value).collect()
}

fn rows<T>(database: &Connection, query: &str, make: impl Fn(&Values) -> T) -> Vec<T> {
    let read = || -> rusqlite::Result<Vec<T>> {
        let mut statement = database.prepare_cached(query)?;
        let mut rows = statement.query([])?;
        let mut made = Vec::new();
        while let (true, Ok(Some(row))) = (made.len() < ROWS_MAX, rows.next()) {
            made.push(make(&values(row)?));
        }
        Ok(made)
    };
    read().unwrap_or_default()
}

fn number(row: &Values, column: usize) -> i64 {
    match row.get(column) {
        Some(Value::Integer(number)) => *number,
        _ => 0,
    }
}

fn sum(kind: &str, rows: &[&Values]) -> u32 {
    let mut sum = Sum::of(kind);
    let all = rows.iter().flat_map(|row| row.iter());
    all.for_each(|value| sum.value(ValueRef::from(value)));
    sum.end()
}

fn put(database: &Connection, table: &str, sums: &[(i64, u32)]) {
    let insert = format!("INSERT OR REPLACE INTO {table} VALUES (?, ?)");
    let Ok(mut statement) = database.prepare_cached(&insert) else {
        return;
    };
    for (id, sum) in sums {
        let _ = statement.execute(params![id, sum]);
    }
}

/// Sums of rows that belong to one number.
fn groups(database: &Connection, kind: &str, table: &str, ids: &str, queries: &[&str]) {
    let sums: Vec<(i64, u32)> = rows(database, ids, |row| number(row, 0))
        .into_iter()
        .map(|id| {
            let of_id = |query: &&str| {
                rows(
                    database,
                    &query.replace('?', &id.to_string()),
                    Values::clone,
                )
            };
            let all: Vec<Values> = queries.iter().flat_map(of_id).collect();
            (id, sum(kind, &all.iter().collect::<Vec<_>>()))
        })
        .collect();
    put(database, table, &sums);
}

/// Ticks of format 2 have a column for their sum, those of format 1 a place in their document.
fn ticks(database: &Connection) {
    let all = rows(database, "SELECT * FROM tick", Values::clone);
    for mut row in all {
        let id = number(&row, 0);
        let Some(Value::Blob(document)) = row.get(5).cloned() else {
            continue;
        };
        if row.len() == 7 {
            row.truncate(6);
            let update = "UPDATE tick SET crc32 = ? WHERE id = ?";
            let _ = database.execute(update, params![sum("tick", &[&row]), id]);
        } else if let Some(sealed) = sealed_document(&row, document) {
            let update = "UPDATE tick SET document = ? WHERE id = ?";
            let _ = database.execute(update, params![sealed, id]);
        }
    }
}

/// A document of format 1: the sum is its first member, an unsigned integer of five bytes.
fn sealed_document(row: &Values, mut document: Vec<u8>) -> Option<Vec<u8>> {
    let at = match *document.first()? {
        9 => {
            let mut at = 1;
            for _ in 0..2 {
                at += document.get(at..)?.iter().position(|byte| *byte < 0x80)? + 1;
            }
            at
        }
        tag if tag & 0xc1 == 0x41 => 1,
        _ => return None,
    };
    if *document.get(at)? != 4 || document.len() < at + 6 {
        return None;
    }
    let rest = [&document[..=at], &document[at + 6..]].concat();
    let mut row = row.clone();
    row[5] = Value::Blob(rest);
    let sum = sum("tick", &[&row]);
    for (place, byte) in document[at + 1..at + 6].iter_mut().enumerate() {
        let part = (sum >> (7 * place)) & 0x7f;
        *byte = u8::try_from(part).ok()? | if place < 4 { 0x80 } else { 0 };
    }
    Some(document)
}

/// The sum of a session stands at the end of its settings, and covers these up to its digits. In settings
/// without such an end there is none.
fn sessions(database: &Connection) {
    for mut row in rows(database, "SELECT * FROM session", Values::clone) {
        let Some(Value::Text(config)) = row.get(8).cloned() else {
            continue;
        };
        let Some(end) = config.rfind(OPENING) else {
            continue;
        };
        let before = &config[..end + OPENING.len()];
        row[8] = Value::Text(before.to_owned());
        let sealed = format!("{before}{:08x}{CLOSING}", sum("session", &[&row]));
        let update = "UPDATE session SET config = ? WHERE id = ?";
        let _ = database.execute(update, params![sealed, number(&row, 0)]);
    }
}
