// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ticks of a session in order: rows that hold what was written, and then what their documents say.

use super::Recording;
use crate::error::StoreError;
use crate::format::frame::Decoder;
use crate::format::session::unsigned;
use crate::format::tick::{RawTick, Tick};
use rusqlite::{OptionalExtension, params};
use std::collections::VecDeque;

/// Ticks read from the file at once.
const BATCH: u32 = 64;

/// Rows of ticks of one session, each as it was written or an error. After the error the rows go on.
pub(super) struct Rows<'a> {
    recording: &'a Recording,
    number: i64,
    /// The last one that was handed out or passed over.
    last: i64,
    /// Whether it is known which one comes first.
    is_begun: bool,
    /// The last one there must be, as far as that is known.
    end: Option<i64>,
    batch: VecDeque<RawTick>,
    is_over: bool,
}

impl<'a> Rows<'a> {
    /// All of them, or from one on.
    pub(super) fn new(recording: &'a Recording, number: i64, from: Option<i64>) -> Rows<'a> {
        let session = recording.session(number);
        let first = from.or(session.map(|session| session.extent.first_tick));
        let next = recording.session(number.saturating_add(1));
        let end = match (session, next) {
            (Some(session), _) if session.extent.last_tick.is_some() => session.extent.last_tick,
            (Some(_), Some(next)) => next.extent.first_tick.checked_sub(1),
            (Some(_), None) => last_of_spans(recording, number),
            (None, _) => None,
        };
        Rows {
            recording,
            number,
            last: first.map_or(0, |first| first.saturating_sub(1)),
            is_begun: first.is_some(),
            end,
            batch: VecDeque::new(),
            is_over: false,
        }
    }

    fn refill(&mut self) -> rusqlite::Result<()> {
        let query = "SELECT * FROM tick WHERE id > ? AND session = ? ORDER BY id LIMIT ?";
        let mut statement = self.recording.database.prepare_cached(query)?;
        let rows = statement.query_map(params![self.last, self.number, BATCH], RawTick::read)?;
        // Ticks before a damaged page are handed out before the error is.
        for row in rows {
            match row {
                Ok(row) => self.batch.push_back(row),
                Err(error) if self.batch.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn fault(&mut self, what: impl ToString) -> Option<Result<RawTick, StoreError>> {
        Some(Err(self.recording.damaged(what)))
    }

    /// The rows from `last` on to before this one are not there.
    fn missing(&self, before: i64) -> String {
        let (first, last) = (self.last.saturating_add(1), before.saturating_sub(1));
        if first == last {
            format!("tick {first} is missing")
        } else {
            format!("ticks {first} to {last} are missing")
        }
    }

    fn at_end(&mut self) -> Option<Result<RawTick, StoreError>> {
        self.is_over = true;
        let end = self.end.filter(|end| *end > self.last)?;
        let what = self.missing(end.saturating_add(1));
        self.fault(format!("{what} at the end of session {}", self.number))
    }
}

/// No span ends after the last tick.
fn last_of_spans(recording: &Recording, session: i64) -> Option<i64> {
    let query = "SELECT last_tick FROM span WHERE session = ? ORDER BY id DESC LIMIT 1";
    let last = recording
        .database
        .query_row(query, [session], |row| row.get(0));
    // If it cannot be read, that is said where spans are.
    last.optional().ok().flatten()
}

impl Iterator for Rows<'_> {
    type Item = Result<RawTick, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        if self.batch.is_empty()
            && let Err(error) = self.refill()
        {
            self.is_over = true;
            return Some(Err(self.recording.trouble(&error)));
        }
        let Some(row) = self.batch.pop_front() else {
            return self.at_end();
        };
        if row.id <= self.last {
            self.is_over = true;
            return self.fault(format!("tick {} comes after tick {}", row.id, self.last));
        }
        let missing = row.id.saturating_sub(self.last).saturating_sub(1);
        // Ticks that could not be recovered are counted where they are missing.
        if self.is_begun && missing > row.lost_before.max(0) {
            let what = self.missing(row.id);
            self.last = row.id.saturating_sub(1);
            self.batch.push_front(row);
            return self.fault(what);
        }
        (self.last, self.is_begun) = (row.id, true);
        if row.is_sound {
            Some(Ok(row))
        } else {
            self.fault(format!("tick {}: its checksum differs", row.id))
        }
    }
}

pub struct Ticks<'a> {
    rows: Rows<'a>,
    /// Made with the first tick.
    frames: Option<Decoder>,
    /// The row that was decoded last.
    last: i64,
    /// After an error only what begins a frame can be read.
    is_lost: bool,
}

impl<'a> Ticks<'a> {
    pub(super) fn new(recording: &'a Recording, session: i64, from: Option<i64>) -> Ticks<'a> {
        Ticks {
            rows: Rows::new(recording, session, from),
            frames: None,
            last: 0,
            is_lost: true,
        }
    }

    fn decode(&mut self, raw: &RawTick) -> Result<Tick, String> {
        let frames = match self.frames.take() {
            Some(frames) => frames,
            None => Decoder::new().map_err(|error| error.to_string())?,
        };
        let frames = self.frames.insert(frames);
        let text = frames.read(&raw.document, raw.is_key != 0)?;
        let mut tick: Tick = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        tick.wall_unix_ms = unsigned("wall_unix_ms", raw.wall_unix_ms)?;
        tick.lost_before = unsigned("lost_before", raw.lost_before)?;
        Ok(tick)
    }
}

impl Iterator for Ticks<'_> {
    type Item = Result<Tick, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let raw = match self.rows.next()? {
                Ok(raw) => raw,
                Err(error) => {
                    self.is_lost = true;
                    return Some(Err(error));
                }
            };
            // The ticks between are gone, and with them the one that this one is compared with.
            self.is_lost |= raw.id != self.last.saturating_add(1);
            self.last = raw.id;
            if self.is_lost && raw.is_key == 0 {
                continue;
            }
            let decoded = self.decode(&raw);
            self.is_lost = decoded.is_err();
            let recording = self.rows.recording;
            let damaged =
                |what| recording.damaged(format!("the document of tick {}: {what}", raw.id));
            return Some(decoded.map_err(damaged));
        }
    }
}
