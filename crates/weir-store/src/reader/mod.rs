// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading. A recording may come from any source: its tables are compared with ours before they are
//! queried, ids must go up, documents are bounded, and what cannot be is named with the tick it is in.
//!
//! Nothing is handed out before its checksum was compared ([`crate::format::checksum`]), and what is missing
//! is named like what is wrong: rows are numbered without holes, and a session says with which tick it begins
//! and ends.

mod checks;
mod survey;
mod ticks;

use crate::error::StoreError;
use crate::format::session::{Extent, SessionRow, unsigned};
use crate::format::tick::{RawTick, Start};
use crate::open;
use crate::rollup::WORDS;
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};

pub(crate) use checks::Checks;
pub use survey::{Damage, Survey};
pub use ticks::Ticks;

/// Sessions of one file: each costs a description in memory.
const SESSIONS_MAX: usize = 10_000;
/// Ticks tried for one that can be read, from the last one back.
const LAST_TRIED: u32 = 512;

/// A run of weir that was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub id: i64,
    pub start: Start,
    /// When it ended, milliseconds since the Unix epoch; nothing if weir was killed or still runs.
    pub ended_unix_ms: Option<u64>,
    /// Ticks that came after its last one and are lost; nothing where that is not known.
    pub missing_at_end: Option<u64>,
    pub(crate) extent: Extent,
}

impl Session {
    fn new(row: &SessionRow) -> Result<Session, String> {
        let extent = row.check()?;
        let ended = row.ended_unix_ms;
        Ok(Session {
            id: row.id,
            start: row.start()?,
            ended_unix_ms: ended.map(|ms| unsigned("ended_unix_ms", ms)).transpose()?,
            missing_at_end: extent.missing_at_end,
            extent,
        })
    }
}

pub struct Recording {
    pub(crate) database: Connection,
    pub(crate) path: PathBuf,
    sessions: Vec<Session>,
}

impl Recording {
    /// Opens a recording; one that is being written is as good as any.
    ///
    /// # Errors
    /// It is not there, no recording, of another format, or damaged where it begins or in a session's
    /// own row.
    pub fn open(path: &Path) -> Result<Recording, StoreError> {
        let path = open::settle(path)?;
        // Closed before the database is opened: closing it later would let go of the database's locks.
        drop(open::inspect(&path)?);
        let database = open::connect(&path, false)?;
        open::check_schema(&path, &database)?;
        let sessions = sessions(&path, &database)?;
        let recording = Recording {
            database,
            path,
            sessions,
        };
        recording.check_opening()?;
        Ok(recording)
    }

    /// Checks the parts that the whole file depends on.
    fn check_opening(&self) -> Result<(), StoreError> {
        for (place, session) in self.sessions.iter().enumerate() {
            let before = place.checked_sub(1).and_then(|n| self.sessions.get(n));
            if before.map_or(0, |before| before.id).saturating_add(1) != session.id {
                let what = format!("the session before session {} is missing", session.id);
                return Err(self.damaged(what));
            }
        }
        self.check_words()
    }

    /// The meaning of codes is ours to know.
    fn check_words(&self) -> Result<(), StoreError> {
        let query = "SELECT word FROM word WHERE kind = ? AND code = ?";
        for (kind, words) in WORDS {
            for (code, wanted) in (0i64..).zip(words) {
                let found = self
                    .database
                    .prepare_cached(query)
                    .and_then(|mut statement| {
                        statement.query_row(params![kind, code], |row| row.get(0))
                    })
                    .optional();
                let found: Option<String> = found.map_err(|error| self.trouble(&error))?;
                if found.as_deref() != Some(*wanted) {
                    let what = format!("the word for {kind} {code} is not {wanted}");
                    return Err(self.damaged(what));
                }
            }
        }
        Ok(())
    }

    fn damaged(&self, what: impl ToString) -> StoreError {
        StoreError::damaged(&self.path, what)
    }

    fn trouble(&self, error: &rusqlite::Error) -> StoreError {
        open::trouble(&self.path, error)
    }

    /// The runs in it, in the order in which they began.
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    pub(crate) fn session(&self, id: i64) -> Option<&Session> {
        self.sessions.iter().find(|session| session.id == id)
    }

    pub(crate) fn checks(&self) -> Checks<'_> {
        Checks::new(&self.database)
    }

    /// The session of a span and when it ended, if it is what was written.
    pub(crate) fn sound_span(
        &self,
        span: i64,
        checks: &mut Checks,
    ) -> Result<(i64, i64), StoreError> {
        let query = "SELECT session, end_unix_ms FROM span WHERE id = ?";
        let found = self
            .database
            .prepare_cached(query)
            .and_then(|mut statement| {
                statement.query_row([span], |row| Ok((row.get(0)?, row.get(1)?)))
            });
        let (session, end) = found.map_err(|error| self.trouble(&error))?;
        checks.span(span).map_err(|what| self.damaged(what))?;
        Ok((session, end))
    }

    /// The session of a tick and when it was, if it and its actions are what was written.
    pub(crate) fn sound_actions(
        &self,
        tick: i64,
        checks: &mut Checks,
    ) -> Result<(i64, i64), StoreError> {
        let found = self
            .database
            .prepare_cached("SELECT * FROM tick WHERE id = ?")
            .and_then(|mut statement| statement.query_row([tick], RawTick::read).optional());
        let found = found.map_err(|error| self.trouble(&error))?;
        let row = found.ok_or_else(|| self.damaged(format!("tick {tick} is missing")))?;
        if row.is_sound {
            checks.actions(tick)
        } else {
            Err(format!("tick {tick}: its checksum differs"))
        }
        .map_err(|what| self.damaged(what))?;
        Ok((row.session, row.wall_unix_ms))
    }

    /// All ticks of a session in order. After an error they go on with the next that begins a frame.
    pub fn ticks(&self, session: i64) -> Ticks<'_> {
        Ticks::new(self, session, None)
    }

    /// The same from some tick on that is not later than this, or from the first.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn ticks_from(&self, session: i64, wall_unix_ms: u64) -> Result<Ticks<'_>, StoreError> {
        let query = "SELECT max(id) FROM tick WHERE session = ? AND is_key AND wall_unix_ms <= ?";
        let before = params![session, i64::try_from(wall_unix_ms).unwrap_or(i64::MAX)];
        let key = self
            .database
            .query_one(query, before, |row| row.get::<_, Option<i64>>(0));
        let key = key.map_err(|error| self.trouble(&error))?;
        Ok(Ticks::new(self, session, key))
    }

    /// When the last tick of a session that can be read was, if it has any; milliseconds since the Unix
    /// epoch.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn last_unix_ms(&self, session: i64) -> Result<Option<u64>, StoreError> {
        let query = "SELECT * FROM tick WHERE session = ? ORDER BY id DESC LIMIT ?";
        let find = || -> rusqlite::Result<Option<u64>> {
            let mut statement = self.database.prepare(query)?;
            let mut rows = statement.query(params![session, LAST_TRIED])?;
            while let Some(row) = rows.next()? {
                let tick = RawTick::read(row)?;
                if tick.is_sound {
                    return Ok(u64::try_from(tick.wall_unix_ms).ok());
                }
            }
            Ok(None)
        };
        find().map_err(|error| self.trouble(&error))
    }

    /// How many rows there are in a session: ticks, spans, and ticks that could not be recorded.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn counts(&self, session: i64) -> Result<[u64; 3], StoreError> {
        let count = |query: &str| {
            let found = self
                .database
                .query_one(query, [session], |row| row.get::<_, i64>(0));
            let found = found.map_err(|error| self.trouble(&error))?;
            Ok(u64::try_from(found).unwrap_or(0))
        };
        Ok([
            count("SELECT count(*) FROM tick WHERE session = ?")?,
            count("SELECT count(*) FROM span WHERE session = ?")?,
            count(
                "SELECT coalesce(sum(min(lost_before, 1 << 40)), 0) FROM tick WHERE session = ?",
            )?,
        ])
    }
}

fn sessions(path: &Path, database: &Connection) -> Result<Vec<Session>, StoreError> {
    let read = || -> rusqlite::Result<(Option<i64>, Vec<SessionRow>)> {
        // Queried first: another session may begin meanwhile.
        let newest = "SELECT session FROM tick ORDER BY id DESC LIMIT 1";
        let newest = database
            .query_row(newest, [], |row| row.get(0))
            .optional()?;
        let mut statement = database.prepare("SELECT * FROM session ORDER BY id LIMIT ?")?;
        let rows = statement.query_map([SESSIONS_MAX as i64], SessionRow::read)?;
        Ok((newest, rows.collect::<rusqlite::Result<_>>()?))
    };
    let (newest, rows) = read().map_err(|error| open::trouble(path, &error))?;
    let is_full = rows.len() == SESSIONS_MAX;
    if newest.is_some_and(|id| !is_full && rows.iter().all(|row| row.id != id)) {
        let what = "its last tick is of a session that is not there";
        return Err(StoreError::damaged(path, what));
    }
    let sound = |row: &SessionRow| {
        let what = |error| StoreError::damaged(path, format!("session {}: {error}", row.id));
        Session::new(row).map_err(what)
    };
    rows.iter().map(sound).collect()
}
