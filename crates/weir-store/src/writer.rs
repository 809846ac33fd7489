// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing: each tick is one transaction, so that a kill loses at most the tick it falls into.
//!
//! While it is written a recording has a write-ahead log beside it (`-wal`): readers are not kept out
//! and a kill tears nothing. At the end the log is folded in, and one file remains. Nothing is flushed
//! to the disk at each tick: a power cut may lose the ticks since the last checkpoint (about 4 MiB),
//! but never the file.

use crate::code::{Texts, Writer};
use crate::error::StoreError;
use crate::figures::{SPAN, Span, WORDS, outcome_code};
use crate::tick::{Start, Tick};
use crate::{APPLICATION_ID, FORMAT, file};
use rusqlite::{Connection, Transaction, params};
use rustix::fd::OwnedFd;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use weir_core::plan::ActionKind;
use weir_core::{Nanos, WorkloadId};

/// A document that needs none before it comes this often: what damage makes unreadable is not more.
const TICKS_PER_KEY: u32 = 128;
/// Texts remembered at most. Beyond, they are written anew: processes come and go for months.
const TEXTS_MAX: usize = 200_000;

/// A recording that is being written.
pub struct Recorder {
    // Closed before the lock is let go.
    database: Connection,
    path: PathBuf,
    session: i64,
    interval: Nanos,
    next_tick: i64,
    since_key: u32,
    lost: u64,
    code: Writer,
    texts: TextTable,
    last_at: Option<Nanos>,
    span: Span,
    throttled: BTreeMap<WorkloadId, Nanos>,
    _lock: OwnedFd,
}

impl Recorder {
    /// Begins a session in a new file, or at the end of a recording that is there.
    ///
    /// # Errors
    /// There is something else at `path` (which is left as it is), another weir records there, or it
    /// cannot be written.
    pub fn open(path: &Path, start: &Start) -> Result<Recorder, StoreError> {
        let path = file::settle(path)?;
        let (database, lock) = if path.symlink_metadata().is_ok() {
            extend(&path)?
        } else {
            create(&path)?
        };
        let begun = begin(&database, start);
        let (session, next_tick, texts) = begun.map_err(|error| StoreError::write(&path, error))?;
        Ok(Recorder {
            database,
            path,
            session,
            interval: Nanos::from_millis(start.interval_ms),
            next_tick,
            since_key: 0,
            lost: 0,
            code: Writer::default(),
            texts,
            last_at: None,
            span: Span::default(),
            throttled: BTreeMap::new(),
            _lock: lock,
        })
    }

    /// Records a tick. After this returns, a kill does not lose it.
    ///
    /// # Errors
    /// It could not be written, and is counted as lost. The next may succeed.
    pub fn add(&mut self, tick: &Tick) -> Result<(), StoreError> {
        let result = self.try_add(tick);
        if let Err(error) = result {
            // What was told to the database is undone, so what was remembered of it is wrong.
            self.code.restart();
            self.texts.forget();
            self.since_key = 0;
            self.lost += 1 + tick.lost_before;
            return Err(StoreError::write(&self.path, error));
        }
        self.lost = 0;
        self.next_tick += 1;
        self.since_key = (self.since_key + 1) % TICKS_PER_KEY;
        Ok(())
    }

    fn try_add(&mut self, tick: &Tick) -> rusqlite::Result<()> {
        let is_key = self.since_key == 0;
        if is_key {
            self.code.restart();
        }
        let transaction = self.database.unchecked_transaction()?;
        let mut texts = Numbering {
            table: &mut self.texts,
            database: &transaction,
        };
        self.code.take(tick).map_err(other)?;
        let document = self.code.write(&mut texts)?;
        transaction
            .prepare_cached("INSERT INTO tick VALUES (?, ?, ?, ?, ?, ?)")?
            .execute(params![
                self.next_tick,
                self.session,
                signed(tick.wall_unix_ms),
                is_key,
                signed(self.lost + tick.lost_before),
                document
            ])?;
        put_actions(&mut texts, self.next_tick, tick)?;
        let dt = self.last_at.and_then(|before| tick.plan.at.since(before));
        self.last_at = Some(tick.plan.at);
        let latencies = &tick.observation.latencies;
        self.span.add(
            self.next_tick,
            dt.unwrap_or_default(),
            &tick.plan,
            latencies,
        );
        self.span.skipped += tick.observation.skipped.len();
        if self.span.is_done(SPAN, self.interval) {
            let span = std::mem::take(&mut self.span);
            put_span(
                &mut texts,
                (self.session, tick.wall_unix_ms),
                &span,
                &self.throttled,
            )?;
            self.throttled = span.ends();
        }
        transaction.commit()
    }

    /// Ends the session and begins another of the same run: the machine has changed.
    ///
    /// # Errors
    /// It could not be written. The session that was is as it was, or has ended; nothing may be added to it, but this may
    /// be tried again.
    pub fn turn(&mut self, start: &Start) -> Result<(), StoreError> {
        let result = self.try_turn(start);
        result.map_err(|error| StoreError::write(&self.path, error))
    }

    fn try_turn(&mut self, start: &Start) -> rusqlite::Result<()> {
        self.try_finish(start.started_unix_ms)?;
        self.span = Span::default();
        let (session, next_tick, texts) = begin(&self.database, start)?;
        (self.session, self.next_tick, self.texts) = (session, next_tick, texts);
        self.code = Writer::default();
        self.since_key = 0;
        self.last_at = None;
        self.throttled.clear();
        Ok(())
    }

    /// Ends the session and leaves one plain file.
    ///
    /// # Errors
    /// The end could not be written. All ticks are there nevertheless.
    pub fn finish(mut self, ended_unix_ms: u64) -> Result<PathBuf, StoreError> {
        let result = self.try_finish(ended_unix_ms);
        result.map_err(|error| StoreError::write(&self.path, error))?;
        // A reader that is looking just now keeps the log alive; the next one who writes folds it in.
        let _ = self.database.pragma_update(None, "journal_mode", "DELETE");
        Ok(self.path.clone())
    }

    fn try_finish(&mut self, ended_unix_ms: u64) -> rusqlite::Result<()> {
        let transaction = self.database.unchecked_transaction()?;
        if self.span.span.0 > 0 {
            let mut texts = Numbering {
                table: &mut self.texts,
                database: &transaction,
            };
            put_span(
                &mut texts,
                (self.session, ended_unix_ms),
                &self.span,
                &self.throttled,
            )?;
        }
        transaction.execute(
            "UPDATE session SET ended_unix_ms = ? WHERE id = ?",
            params![signed(ended_unix_ms), self.session],
        )?;
        transaction.commit()
    }
}

/// Times and counts of this century are far below 2^63.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn other(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

/// A new recording without sessions, and its lock.
pub(crate) fn create(path: &Path) -> Result<(Connection, OwnedFd), StoreError> {
    let file = file::make(path)?;
    let fill = || {
        file::lock(path, &file)?;
        let database = file::connect(path, true)?;
        let made = lay_out(&database);
        made.map_err(|error| StoreError::write(path, error))?;
        Ok(database)
    };
    match fill() {
        Ok(database) => Ok((database, file)),
        Err(error) => {
            // It is ours and empty; if it cannot be removed there is nobody left to tell.
            let _ = std::fs::remove_file(path);
            Err(error)
        }
    }
}

/// In one transaction, and before there is a log: the file is a recording or it is empty.
fn lay_out(database: &Connection) -> rusqlite::Result<()> {
    let transaction = database.unchecked_transaction()?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.execute_batch(file::SCHEMA_1)?;
    transaction.commit()
}

fn extend(path: &Path) -> Result<(Connection, OwnedFd), StoreError> {
    let file = file::inspect(path)?;
    file::lock(path, &file)?;
    let database = file::connect(path, true)?;
    file::check_schema(path, &database)?;
    Ok((database, file))
}

/// The session's number, the first tick's, and the texts that are there.
fn begin(database: &Connection, start: &Start) -> rusqlite::Result<(i64, i64, TextTable)> {
    database.pragma_update(None, "synchronous", "NORMAL")?;
    // Where there can be no log (some network file systems) the journal does as well, more slowly.
    database.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    let transaction = database.unchecked_transaction()?;
    put_words(&transaction)?;
    let after = |table: &str| -> rusqlite::Result<i64> {
        let query = format!("SELECT coalesce(max(id), 0) FROM {table}");
        let last: i64 = transaction.query_one(&query, [], |row| row.get(0))?;
        last.checked_add(1)
            .ok_or(rusqlite::Error::IntegralValueOutOfRange(0, last))
    };
    let (session, tick, text) = (after("session")?, after("tick")?, after("text")?);
    transaction.execute(
        "INSERT INTO session VALUES (?, ?, NULL, ?, ?, ?, ?, ?, ?, ?)",
        params![
            session,
            signed(start.started_unix_ms),
            start.writer_version,
            start.writer_pid,
            signed(start.interval_ms),
            start.policy,
            start.config.limit,
            serde_json::to_string(&start.config).map_err(other)?,
            serde_json::to_string(&start.description).map_err(other)?,
        ],
    )?;
    transaction.commit()?;
    Ok((session, tick, TextTable::beginning_at(text)))
}

/// Those that this weir knows; an older one may have begun the file.
pub(crate) fn put_words(transaction: &Transaction) -> rusqlite::Result<()> {
    for (kind, words) in WORDS {
        for (code, word) in (0i64..).zip(words) {
            transaction
                .prepare_cached("INSERT OR IGNORE INTO word VALUES (?, ?, ?)")?
                .execute(params![kind, code, word])?;
        }
    }
    Ok(())
}

fn put_actions(texts: &mut Numbering, id: i64, tick: &Tick) -> rusqlite::Result<()> {
    for (position, action) in (0i64..).zip(&tick.plan.actions) {
        let outcome = usize::try_from(position)
            .ok()
            .and_then(|n| tick.outcomes.get(n));
        let outcome = outcome.map(|outcome| outcome_code(&outcome.result));
        let detail = outcome.and_then(|(_, why)| why);
        let detail = detail.map(|why| texts.number(why)).transpose()?;
        let workload = texts.number(action.workload.as_str())?;
        let limit = match action.kind {
            ActionKind::Limit { cpus } => Some(cpus.get()),
            ActionKind::Release => None,
        };
        texts
            .database
            .prepare_cached("INSERT INTO action VALUES (?, ?, ?, ?, ?, ?)")?
            .execute(params![
                id,
                position,
                signed(workload),
                limit,
                outcome.map(|(code, _)| code),
                detail.map(signed),
            ])?;
    }
    Ok(())
}

fn put_span(
    texts: &mut Numbering,
    (session, end_unix_ms): (i64, u64),
    span: &Span,
    throttled: &BTreeMap<WorkloadId, Nanos>,
) -> rusqlite::Result<()> {
    // Spans are found by their last tick, which no other span has.
    let id = span.last_tick;
    texts
        .database
        .prepare_cached("INSERT INTO span VALUES (?, ?, ?, ?, ?, ?, ?)")?
        .execute(params![
            id,
            session,
            span.first_tick,
            span.last_tick,
            signed(end_unix_ms),
            signed(span.span.0),
            signed(span.skipped as u64),
        ])?;
    for (device, figures) in &span.devices {
        let row = figures.row(span.span);
        texts
            .database
            .prepare_cached("INSERT INTO device_figures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?
            .execute(params![
                id,
                device.0,
                row.read_bytes_per_sec,
                row.write_bytes_per_sec,
                row.unattributed_bytes_per_sec,
                row.set_point_bytes_per_sec,
                row.correction_ratio,
                row.latency_ns,
                row.unknown_ns,
            ])?;
    }
    for (workload, figures) in &span.workloads {
        let row = figures.row(span.span, throttled.get(workload).copied());
        let workload = signed(texts.number(workload.as_str())?);
        texts
            .database
            .prepare_cached("INSERT INTO workload_figures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?
            .execute(params![
                id,
                workload,
                row.bytes_per_sec,
                row.provenance,
                row.unknown_ns,
                row.cpu_microcpus,
                row.throttled_microcpus,
                row.allowed_bytes_per_sec,
                row.limit_microcpus,
                row.why,
            ])?;
    }
    Ok(())
}

/// Texts and their numbers in the file.
struct TextTable {
    numbers: HashMap<String, u64>,
    next: i64,
}

impl TextTable {
    fn beginning_at(next: i64) -> TextTable {
        let numbers = HashMap::new();
        TextTable { numbers, next }
    }

    /// A text may have several numbers; a number never has several texts.
    fn forget(&mut self) {
        self.numbers.clear();
    }
}

struct Numbering<'a> {
    table: &'a mut TextTable,
    database: &'a Transaction<'a>,
}

impl Texts for Numbering<'_> {
    type Error = rusqlite::Error;

    fn number(&mut self, text: &str) -> rusqlite::Result<u64> {
        if let Some(number) = self.table.numbers.get(text) {
            return Ok(*number);
        }
        if self.table.numbers.len() >= TEXTS_MAX {
            self.table.forget();
        }
        let id = self.table.next;
        self.database
            .prepare_cached("INSERT INTO text VALUES (?, ?)")?
            .execute(params![id, text])?;
        self.table.next += 1;
        let number = id.unsigned_abs();
        self.table.numbers.insert(text.to_owned(), number);
        Ok(number)
    }
}
