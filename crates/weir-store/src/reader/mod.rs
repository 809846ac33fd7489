// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading. A recording may come from any source: its tables are compared with ours before they are
//! queried, ids must go up, documents are bounded, and what cannot be is named with the tick it is in.
//!
//! Nothing is handed out before its checksum was compared, where it has one ([`crate::checksum`]), and
//! what is missing is named like what is wrong: rows are numbered without holes, and a session says with
//! which tick it begins and ends.

mod checks;
mod survey;
mod ticks;

use crate::error::StoreError;
use crate::format::session::{Extent, SessionRow, unsigned};
use crate::format::tick::{RawTick, Seal, Start};
use crate::rollup::WORDS;
use crate::{format1, open};
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
    /// Its number in the file.
    pub id: i64,
    /// What was known when it began.
    pub start: Start,
    /// When it ended, milliseconds since the Unix epoch; nothing if weir was killed or still runs.
    pub ended_unix_ms: Option<u64>,
    /// Ticks that came after its last one and are lost; nothing where that is not known.
    pub missing_at_end: Option<u64>,
    pub(crate) extent: Extent,
    /// Whether it has checksums, which only sessions of format 1 can lack.
    is_checked: bool,
}

impl Session {
    fn new(row: SessionRow, format: u32) -> Result<Session, String> {
        let extent = row.check()?;
        let row = match format {
            format1::FORMAT => row.of_today(),
            _ if extent.is_none() => return Err("it has no checksum".to_owned()),
            _ => row,
        };
        let ended = row.ended_unix_ms;
        Ok(Session {
            id: row.id,
            start: row.start()?,
            ended_unix_ms: ended.map(|ms| unsigned("ended_unix_ms", ms)).transpose()?,
            missing_at_end: extent.and_then(|extent| extent.missing_at_end),
            extent: extent.unwrap_or_default(),
            is_checked: extent.is_some(),
        })
    }
}

/// A recording, opened to be read.
pub struct Recording {
    pub(crate) database: Connection,
    pub(crate) path: PathBuf,
    format: u32,
    sessions: Vec<Session>,
    has_checks: bool,
}

impl Recording {
    /// Opens a recording; one that is being written is as good as any.
    ///
    /// # Errors
    /// It is not there, no recording, of another format, or damaged where it begins or in a session's
    /// own row.
    pub fn open(path: &Path) -> Result<Recording, StoreError> {
        let recording = Recording::open_for_export(path)?;
        open::must_be_newest(&recording.path, recording.format)?;
        Ok(recording)
    }

    /// The same of an older format too, for [`crate::export`]: its ticks cannot be read, its tables can.
    ///
    /// # Errors
    /// As above.
    pub fn open_for_export(path: &Path) -> Result<Recording, StoreError> {
        let path = open::settle(path)?;
        // Closed before the database is opened: closing it later would let go of the database's locks.
        let (file, format) = open::inspect(&path)?;
        drop(file);
        let database = open::connect(&path, false)?;
        let has_checks = open::check_schema(&path, &database, format)?;
        let sessions = sessions(&path, &database, format)?;
        let recording = Recording {
            database,
            path,
            format,
            sessions,
            has_checks,
        };
        recording.check_opening()?;
        Ok(recording)
    }

    /// Checks the parts that the whole file depends on.
    fn check_opening(&self) -> Result<(), StoreError> {
        let is_checked = self.sessions.iter().any(|session| session.is_checked);
        if self.format == format1::FORMAT && !is_checked {
            return Ok(());
        }
        if !self.has_checks {
            return Err(self.damaged("its tables of checksums are missing"));
        }
        for (place, session) in self.sessions.iter().enumerate() {
            let before = place.checked_sub(1).and_then(|n| self.sessions.get(n));
            if session.is_checked
                && before.map_or(0, |before| before.id).saturating_add(1) != session.id
            {
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
                // The first builds that wrote format 2 had the words of format 1.
                let found = found.map(|word| format1::renamed::word(kind, word));
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

    /// The number of its format.
    pub fn format(&self) -> u32 {
        self.format
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
        Checks::new(&self.database, self.has_checks)
    }

    /// Whether the sums of a session must be there.
    fn must_check(&self, session: i64) -> bool {
        let session = self.session(session);
        session.is_some_and(|session| session.is_checked)
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
        let sound = checks.span(span, self.must_check(session));
        sound.map_err(|what| self.damaged(what))?;
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
        let must = self.must_check(row.session);
        match row.seal {
            Seal::Missing if must => Err(format!("tick {tick}: it has no checksum")),
            Seal::Broken => Err(format!("tick {tick}: its checksum differs")),
            Seal::Holds | Seal::Missing => checks.actions(tick, must),
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
                if tick.seal == Seal::Holds {
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

fn sessions(path: &Path, database: &Connection, format: u32) -> Result<Vec<Session>, StoreError> {
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
    let sound = |row: SessionRow| {
        let id = row.id;
        let what = |error| StoreError::damaged(path, format!("session {id}: {error}"));
        Session::new(row, format).map_err(what)
    };
    rows.into_iter().map(sound).collect()
}
