// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing: each tick is one transaction, so that a kill loses at most the tick it falls into.
//!
//! While it is written a recording has a write-ahead log beside it (`-wal`): readers are not kept out
//! and a kill tears nothing. At the end the log is folded in, and one file remains. Nothing is flushed
//! to the disk at each tick: a power failure may lose the ticks since the last checkpoint (about 4 MiB),
//! but never the file.

mod rows;

use crate::error::StoreError;
use crate::format::frame::Encoder;
use crate::format::session::{Extent, SessionRow};
use crate::format::tick::{Document, RawTick, Start, Tick};
use crate::rollup::{SPAN, Span, WORDS};
use crate::{APPLICATION_ID, FORMAT, format, open};
use rusqlite::{Connection, Transaction, params};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_core::{Nanos, WorkloadId};
use weir_files::CreatedFile;

pub(crate) use rows::{Numbering, TextTable, put_actions, put_span, put_text, signed};

/// Texts without a meaning; together they do not fit a page. [`put_spare`] says what they are for.
const SPARE_TEXTS: i64 = 2;
const SPARE: &str = "room, see docs/reference/recording-format.md, Damage ";
const SPARE_CHARS: usize = 2100;

pub struct Recorder {
    // Closed before the lock is let go.
    database: Connection,
    path: PathBuf,
    session: SessionRow,
    extent: Extent,
    /// What the session's first tick has a copy of, until it is written.
    copy: Option<Start>,
    interval: Nanos,
    next_tick: i64,
    lost: u64,
    frames: Encoder,
    texts: TextTable,
    last_at: Option<Nanos>,
    last_unix_ms: u64,
    span: Span,
    throttled: BTreeMap<WorkloadId, Nanos>,
    _lock: LockedFile,
}

/// Locked while it is open.
enum LockedFile {
    Made(CreatedFile),
    Found(#[expect(dead_code, reason = "closed at the end")] OwnedFd),
}

impl Recorder {
    /// Begins a session in a new file, or at the end of a recording that is there.
    ///
    /// # Errors
    /// There is something else at `path` (which is left as it is), another weir process records there, or it
    /// cannot be written.
    pub fn open(path: &Path, start: &Start) -> Result<Recorder, StoreError> {
        let path = open::settle(path)?;
        let is_new = path.symlink_metadata().is_err();
        let (database, lock) = if is_new {
            create(&path).map(|(database, made)| (database, LockedFile::Made(made)))?
        } else {
            extend(&path).map(|(database, found)| (database, LockedFile::Found(found)))?
        };
        let begun = Encoder::new().map_err(unwritable);
        let begun = begun.and_then(|frames| Ok((frames, begin(&database, start)?)));
        let (frames, (session, extent, texts)) = begun.map_err(|error| {
            if let LockedFile::Made(made) = &lock {
                // It is ours and empty; if it cannot be removed, the error below is still the one to say.
                let _ = made.remove();
            }
            StoreError::write(&path, error)
        })?;
        Ok(Recorder {
            database,
            path,
            session,
            extent,
            copy: Some(start.clone()),
            interval: Nanos::from_millis(start.interval_ms),
            next_tick: extent.first_tick,
            lost: 0,
            frames,
            texts,
            last_at: None,
            last_unix_ms: 0,
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
            // The database has undone what it was given, so what was remembered of it is wrong.
            self.frames.restart();
            self.texts.forget();
            self.lost += 1 + tick.lost_before;
            return Err(StoreError::write(&self.path, error));
        }
        self.lost = 0;
        self.next_tick += 1;
        Ok(())
    }

    fn try_add(&mut self, tick: &Tick) -> rusqlite::Result<()> {
        let document = Document::new(tick, self.copy.as_ref());
        let (document, is_key) = self.frames.add(&document).map_err(unwritable)?;
        let transaction = self.database.unchecked_transaction()?;
        let row = RawTick {
            id: self.next_tick,
            session: self.session.id,
            wall_unix_ms: signed(tick.wall_unix_ms),
            is_key: is_key.into(),
            lost_before: signed(self.lost + tick.lost_before),
            document,
            is_sound: true,
        };
        row.insert(&transaction)?;
        let mut texts = Numbering {
            table: &mut self.texts,
            database: &transaction,
        };
        put_actions(&mut texts, self.next_tick, tick)?;
        let dt = self.last_at.and_then(|before| tick.plan.at.since(before));
        (self.last_at, self.last_unix_ms) = (Some(tick.plan.at), tick.wall_unix_ms);
        let latencies = &tick.observation.latencies;
        self.span.add(
            self.next_tick,
            dt.unwrap_or_default(),
            &tick.plan,
            latencies,
        );
        self.span.skipped += tick.observation.skipped.len();
        let is_done = self.span.is_done(SPAN, self.interval);
        if is_done {
            let end = (self.session.id, tick.wall_unix_ms);
            put_span(&mut texts, end, &self.span, &self.throttled)?;
        }
        transaction.commit()?;
        self.copy = None;
        // If it could not be written it goes on: figures of that time come with the next tick that can be.
        if is_done {
            self.throttled = std::mem::take(&mut self.span).ends();
        }
        Ok(())
    }

    /// Ends the session and begins another of the same run: the machine has changed.
    ///
    /// # Errors
    /// It could not be written. The session that was is as it was, or has ended; nothing may be added to it,
    /// but this may be tried again.
    pub fn turn(&mut self, start: &Start) -> Result<(), StoreError> {
        let result = self.try_turn(start);
        result.map_err(|error| StoreError::write(&self.path, error))
    }

    fn try_turn(&mut self, start: &Start) -> rusqlite::Result<()> {
        self.try_finish(start.started_unix_ms)?;
        self.span = Span::default();
        let (session, extent, texts) = begin(&self.database, start)?;
        (self.session, self.extent, self.texts) = (session, extent, texts);
        self.next_tick = extent.first_tick;
        self.copy = Some(start.clone());
        self.frames.restart();
        // They are missing at the end of the session that was.
        self.lost = 0;
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
        // A reader that is active just now keeps the log alive; the next writer folds it in.
        let _ = self.database.pragma_update(None, "journal_mode", "DELETE");
        Ok(self.path.clone())
    }

    fn try_finish(&mut self, ended_unix_ms: u64) -> rusqlite::Result<()> {
        let transaction = self.database.unchecked_transaction()?;
        // A last tick that could not be written is in no span.
        self.span.last_tick = self.span.last_tick.min(self.next_tick - 1);
        if self.span.span.0 > 0 && self.span.first_tick <= self.span.last_tick {
            let mut texts = Numbering {
                table: &mut self.texts,
                database: &transaction,
            };
            // It ends with the last tick, and not when the end was written.
            let end = (self.session.id, self.last_unix_ms);
            put_span(&mut texts, end, &self.span, &self.throttled)?;
        }
        self.extent.last_tick = Some(self.next_tick - 1);
        self.extent.missing_at_end = Some(self.lost);
        let ended = self.session.end(signed(ended_unix_ms), &self.extent);
        ended.map_err(unwritable)?;
        transaction.execute(
            "UPDATE session SET ended_unix_ms = ?, config = ? WHERE id = ?",
            params![
                self.session.ended_unix_ms,
                self.session.config,
                self.session.id
            ],
        )?;
        transaction.commit()
    }
}

pub(crate) fn unwritable(
    why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(why.into())
}

/// A new recording without sessions, and its lock.
pub(crate) fn create(path: &Path) -> Result<(Connection, CreatedFile), StoreError> {
    let file = open::make(path)?;
    let fill = || {
        open::lock(path, file.file())?;
        let database = open::connect(path, true)?;
        let made = lay_out(&database);
        made.map_err(|error| StoreError::write(path, error))?;
        Ok(database)
    };
    match fill() {
        Ok(database) => Ok((database, file)),
        Err(error) => {
            // It is ours and empty; if it cannot be removed, the error below is still the one to say.
            let _ = file.remove();
            Err(error)
        }
    }
}

/// In one transaction, and before there is a log: the file is empty, or it is a recording that a reader
/// takes, without sessions yet.
fn lay_out(database: &Connection) -> rusqlite::Result<()> {
    let transaction = database.unchecked_transaction()?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.execute_batch(format::SCHEMA)?;
    put_words(&transaction)?;
    transaction.commit()
}

/// A recording that is there, and its lock.
fn extend(path: &Path) -> Result<(Connection, OwnedFd), StoreError> {
    let file = open::inspect(path)?;
    open::must_have_one_name(path)?;
    open::lock(path, &file)?;
    let database = open::connect(path, true)?;
    open::check_schema(path, &database)?;
    Ok((database, file))
}

/// The session, where its ticks begin, and the texts that are there.
fn begin(
    database: &Connection,
    start: &Start,
) -> rusqlite::Result<(SessionRow, Extent, TextTable)> {
    database.pragma_update(None, "synchronous", "NORMAL")?;
    // Where there can be no log (some network file systems) the journal does as well, more slowly.
    database.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    let transaction = database.unchecked_transaction()?;
    let after = |table: &str| -> rusqlite::Result<i64> {
        let query = format!("SELECT coalesce(max(id), 0) FROM {table}");
        let last: i64 = transaction.query_one(&query, [], |row| row.get(0))?;
        last.checked_add(1)
            .ok_or(rusqlite::Error::IntegralValueOutOfRange(0, last))
    };
    let (id, first_tick, text) = (after("session")?, after("tick")?, after("text")?);
    let extent = Extent {
        first_tick,
        ..Extent::default()
    };
    let text = if text == 1 {
        put_spare(&transaction)?
    } else {
        text
    };
    let session = SessionRow::begin(id, start, &extent).map_err(unwritable)?;
    session.insert(&transaction)?;
    transaction.commit()?;
    Ok((session, extent, TextTable::beginning_at(text)))
}

/// Makes the table of texts longer than a page at once, and gives the next number. When a table outgrows
/// its first page, the rows that were there move to a new page. Later that would be one far from the
/// beginning: the names in a first session would be lost with the end of a file that has a second.
fn put_spare(transaction: &Transaction) -> rusqlite::Result<i64> {
    for id in 1..=SPARE_TEXTS {
        let text = format!("{SPARE:.<SPARE_CHARS$}");
        put_text(transaction, id, &text)?;
    }
    Ok(SPARE_TEXTS + 1)
}

fn put_words(transaction: &Transaction) -> rusqlite::Result<()> {
    for (kind, words) in WORDS {
        for (code, word) in (0i64..).zip(words) {
            transaction
                .prepare_cached("INSERT INTO word VALUES (?, ?, ?)")?
                .execute(params![kind, code, word])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recording;

    #[test]
    fn a_recording_can_be_read_before_its_first_session_begins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new.weir");
        let (_database, _lock) = create(&path).unwrap();
        let recording = Recording::open(&path).unwrap();
        assert!(recording.sessions().is_empty());
        assert_eq!(recording.survey_shared().places, 0);
    }
}
