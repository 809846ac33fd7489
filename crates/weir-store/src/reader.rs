// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading. A recording may come from anybody: its tables are compared with ours before they are
//! asked, ids must go up, documents are bounded, and what cannot be is named with the tick it is in.

use crate::code::{Lookup, Reader};
use crate::error::StoreError;
use crate::file;
use crate::tick::{Start, Tick};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use weir_core::Config;

/// Ticks read from the file at once.
const BATCH: u32 = 64;
/// Memory for texts that were looked up.
const TEXTS_MAX_BYTES: usize = 64 << 20;
/// Sessions of one file: each costs a description in memory.
const SESSIONS_MAX: usize = 10_000;

/// A run of weir that was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Its number in the file.
    pub id: i64,
    /// What was known when it began.
    pub start: Start,
    /// When it ended, milliseconds since the Unix epoch; nothing if weir was killed or still runs.
    pub ended_unix_ms: Option<u64>,
}

/// A recording, opened to be read.
pub struct Recording {
    pub(crate) database: Connection,
    pub(crate) path: PathBuf,
    sessions: Vec<Session>,
}

impl Recording {
    /// Opens a recording; one that is being written is as good as any.
    ///
    /// # Errors
    /// It is not there, no recording, of a newer format, or damaged where it begins.
    pub fn open(path: &Path) -> Result<Recording, StoreError> {
        let path = file::settle(path)?;
        // Closed before the database is opened: closing it later would let go of the database's locks.
        drop(file::inspect(&path)?);
        let database = file::connect(&path, false)?;
        file::check_schema(&path, &database)?;
        let sessions = sessions(&path, &database)?;
        Ok(Recording {
            database,
            path,
            sessions,
        })
    }

    /// The runs in it, in the order in which they began.
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// All ticks of a session in order. After an error the ticks go on with the next document that
    /// needs none before it.
    pub fn ticks(&self, session: i64) -> Ticks<'_> {
        Ticks::new(self, session)
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
        let key = key.map_err(|error| file::trouble(&self.path, &error))?;
        let mut ticks = Ticks::new(self, session);
        ticks.last = key.map_or(0, |id| id.saturating_sub(1));
        Ok(ticks)
    }

    /// When the last tick of a session was, if it has any; milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn last_unix_ms(&self, session: i64) -> Result<Option<u64>, StoreError> {
        let query = "SELECT wall_unix_ms FROM tick WHERE session = ? ORDER BY id DESC LIMIT 1";
        let last = self
            .database
            .query_row(query, [session], |row| row.get::<_, i64>(0))
            .optional();
        let last = last.map_err(|error| file::trouble(&self.path, &error))?;
        Ok(last.and_then(|ms| u64::try_from(ms).ok()))
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
            let found = found.map_err(|error| file::trouble(&self.path, &error))?;
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
    let read = || -> rusqlite::Result<Vec<(i64, Raw)>> {
        let mut statement = database.prepare("SELECT * FROM session ORDER BY id LIMIT ?")?;
        let rows = statement.query_map([SESSIONS_MAX as i64], |row| {
            Ok((row.get("id")?, Raw::new(row)?))
        })?;
        rows.collect()
    };
    let rows = read().map_err(|error| file::trouble(path, &error))?;
    let sound = |(id, raw): (i64, Raw)| {
        let what = |error| StoreError::damaged(path, format!("session {id}: {error}"));
        raw.session(id).map_err(what)
    };
    rows.into_iter().map(sound).collect()
}

/// A session as it stands in the file.
struct Raw {
    started_unix_ms: i64,
    ended_unix_ms: Option<i64>,
    writer_version: String,
    writer_pid: i64,
    interval_ms: i64,
    policy: String,
    config: String,
    description: String,
}

impl Raw {
    fn new(row: &Row) -> rusqlite::Result<Raw> {
        Ok(Raw {
            started_unix_ms: row.get("started_unix_ms")?,
            ended_unix_ms: row.get("ended_unix_ms")?,
            writer_version: row.get("writer_version")?,
            writer_pid: row.get("writer_pid")?,
            interval_ms: row.get("interval_ms")?,
            policy: row.get("policy")?,
            config: row.get("config")?,
            description: row.get("description")?,
        })
    }

    fn session(self, id: i64) -> Result<Session, String> {
        Ok(Session {
            id,
            start: Start {
                started_unix_ms: unsigned("started_unix_ms", self.started_unix_ms)?,
                writer_version: self.writer_version,
                writer_pid: u32::try_from(self.writer_pid).map_err(|_| "writer_pid")?,
                interval_ms: unsigned("interval_ms", self.interval_ms)?,
                policy: self.policy,
                config: config(&self.config)?,
                description: from_json("description", &self.description)?,
            },
            ended_unix_ms: self
                .ended_unix_ms
                .map(|ms| unsigned("ended_unix_ms", ms))
                .transpose()?,
        })
    }
}

fn unsigned(what: &str, value: i64) -> Result<u64, String> {
    u64::try_from(value).map_err(|_| format!("{what} is negative"))
}

/// Settings that this weir does not know are passed over, unlike in a file that somebody writes for
/// it: a newer weir of the same format may have more of them.
pub(crate) fn config(text: &str) -> Result<Config, String> {
    let wrong = |error| format!("config: {error}");
    let mut found: Map<String, Value> = from_json("config", text)?;
    let known = serde_json::to_value(Config::default()).map_err(wrong)?;
    found.retain(|name, _| known.get(name).is_some());
    serde_json::from_value(Value::Object(found)).map_err(wrong)
}

fn from_json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{what}: {error}"))
}

/// A row of `tick`.
struct RawTick {
    id: i64,
    wall_unix_ms: i64,
    is_key: bool,
    lost_before: i64,
    document: Vec<u8>,
}

/// Ticks of one session.
pub struct Ticks<'a> {
    recording: &'a Recording,
    session: i64,
    last: i64,
    batch: VecDeque<RawTick>,
    code: Reader,
    /// After an error only a key can be read.
    is_lost: bool,
    is_over: bool,
    texts: TextCache<'a>,
}

impl<'a> Ticks<'a> {
    fn new(recording: &'a Recording, session: i64) -> Ticks<'a> {
        Ticks {
            recording,
            session,
            last: 0,
            batch: VecDeque::new(),
            code: Reader::default(),
            is_lost: true,
            is_over: false,
            texts: TextCache::new(&recording.database),
        }
    }

    fn refill(&mut self) -> rusqlite::Result<()> {
        let mut statement = self.recording.database.prepare_cached(
            "SELECT id, wall_unix_ms, is_key, lost_before, document FROM tick
             WHERE id > ? AND session = ? ORDER BY id LIMIT ?",
        )?;
        let rows = statement.query_map(params![self.last, self.session, BATCH], |row| {
            Ok(RawTick {
                id: row.get(0)?,
                wall_unix_ms: row.get(1)?,
                is_key: row.get(2)?,
                lost_before: row.get(3)?,
                document: row.get(4)?,
            })
        })?;
        // What stands before a damaged page is handed out before the error is.
        for row in rows {
            match row {
                Ok(row) => self.batch.push_back(row),
                Err(error) if self.batch.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn decode(&mut self, raw: &RawTick) -> Result<Tick, String> {
        if raw.is_key {
            self.code.restart();
        }
        let document = self.code.read(&raw.document, &mut self.texts);
        let document = document.map_err(|error| error.to_string())?;
        let mut tick = Tick::deserialize(document).map_err(|error| error.to_string())?;
        tick.wall_unix_ms = unsigned("wall_unix_ms", raw.wall_unix_ms)?;
        tick.lost_before = unsigned("lost_before", raw.lost_before)?;
        Ok(tick)
    }
}

impl Iterator for Ticks<'_> {
    type Item = Result<Tick, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.is_over {
                return None;
            }
            if self.batch.is_empty()
                && let Err(error) = self.refill()
            {
                self.is_over = true;
                return Some(Err(file::trouble(&self.recording.path, &error)));
            }
            let Some(raw) = self.batch.pop_front() else {
                self.is_over = true;
                return None;
            };
            let damaged = |what: String| StoreError::damaged(&self.recording.path, what);
            if raw.id <= self.last {
                self.is_over = true;
                return Some(Err(damaged(format!(
                    "tick {} comes after tick {}",
                    raw.id, self.last
                ))));
            }
            // What stands between is gone, and with it what this one is compared with.
            self.is_lost |= raw.id != self.last + 1;
            self.last = raw.id;
            if self.is_lost && !raw.is_key {
                continue;
            }
            let decoded = self.decode(&raw);
            self.is_lost = decoded.is_err();
            let damaged = |what| {
                let what = format!("the document of tick {}: {what}", raw.id);
                StoreError::damaged(&self.recording.path, what)
            };
            return Some(decoded.map_err(damaged));
        }
    }
}

/// Texts of the file that were looked up.
struct TextCache<'a> {
    database: &'a Connection,
    known: HashMap<u64, String>,
    bytes: usize,
}

impl<'a> TextCache<'a> {
    fn new(database: &'a Connection) -> TextCache<'a> {
        TextCache {
            database,
            known: HashMap::new(),
            bytes: 0,
        }
    }
}

impl Lookup for TextCache<'_> {
    fn text(&mut self, number: u64) -> Option<String> {
        if let Some(text) = self.known.get(&number) {
            return Some(text.clone());
        }
        let id = i64::try_from(number).ok()?;
        let mut statement = self
            .database
            .prepare_cached("SELECT text FROM text WHERE id = ?")
            .ok()?;
        // A text that cannot be read is one that is not there: the document says which tick it breaks.
        let text: String = statement
            .query_row([id], |row| row.get(0))
            .optional()
            .ok()??;
        self.bytes += text.len();
        if self.bytes > TEXTS_MAX_BYTES {
            self.known.clear();
            self.bytes = text.len();
        }
        self.known.insert(number, text.clone());
        Some(text)
    }
}
