// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ticks: those that the table leads to, and those that stand on pages that nothing leads to.

use super::pages::Place;
use super::rollup::{Anew, Covered, numbering};
use super::sessions::Sessions;
use super::walk::walk;
use super::{DamagedFile, Recovered, Strays, Target};
use crate::format::frame::Decoder;
use crate::format::session;
use crate::format::tick::{RawTick, Start, Tick};
use crate::writer::{put_actions, unwritable};
use rusqlite::types::Value;

/// Takes ticks in the order of their numbers.
struct Taking<'a, 'b> {
    to: &'a mut Target<'b>,
    sessions: &'a mut Sessions,
    figures: Anew,
    recovered: &'a mut Recovered,
    frames: Decoder,
    last: i64,
    /// The last one that was not what was written.
    broken: i64,
    is_whole: bool,
}

/// Copies ticks with what belongs to them. Says whether the table could not be read everywhere.
pub(super) fn copy(
    from: &DamagedFile,
    mut strays: Strays,
    to: &mut Target,
    sessions: &mut Sessions,
    covered: Covered,
    recovered: &mut Recovered,
) -> rusqlite::Result<bool> {
    let mut taking = Taking {
        to,
        sessions,
        figures: Anew::new(covered),
        recovered,
        frames: Decoder::new().map_err(unwritable)?,
        last: 0,
        broken: 0,
        is_whole: false,
    };
    let places = std::mem::take(&mut strays.ticks);
    let mut places = places.into_iter().peekable();
    let mut budget = strays.budget;
    let mut stray = |taking: &mut Taking, place: Place| -> rusqlite::Result<()> {
        if place.id <= taking.last {
            return Ok(());
        }
        let row = from.pages.and_then(|pages| pages.row(place, &mut budget));
        row.map_or(Ok(()), |row| taking.take(row))
    };
    let was_damaged = walk(from.database, "tick", &mut |row| {
        let Some(Value::Integer(id)) = row.first() else {
            return Ok(());
        };
        let id = *id;
        while let Some(place) = places.next_if(|place| place.id < id) {
            stray(&mut taking, place)?;
        }
        taking.take(row)
    })?;
    for place in places {
        stray(&mut taking, place)?;
    }
    let Taking {
        to,
        figures,
        recovered,
        ..
    } = &mut taking;
    figures.end(&mut numbering(&mut to.texts, to.database))?;
    recovered.spans += figures.made();
    Ok(was_damaged)
}

fn raw(row: Vec<Value>) -> Option<RawTick> {
    let row: [Value; 7] = row.try_into().ok()?;
    let [
        Value::Integer(id),
        Value::Integer(session),
        Value::Integer(wall_unix_ms),
        Value::Integer(is_key),
        Value::Integer(lost_before),
        Value::Blob(document),
        Value::Integer(sum),
    ] = row
    else {
        return None;
    };
    let numbers = [id, session, wall_unix_ms, is_key, lost_before];
    Some(RawTick::new(numbers, document, sum))
}

/// A tick, and the copy of its session if it is the first of one. Nothing if the bytes are no document that
/// can follow the one before: the next must then be a key.
fn read(frames: &mut Decoder, row: &RawTick) -> Option<(Tick, Option<Start>)> {
    let text = frames.read(&row.document, row.is_key != 0).ok()?;
    let tick = serde_json::from_slice(text).ok()?;
    // The first tick of a session begins a frame.
    let copy = (row.is_key != 0).then(|| serde_json::from_slice::<serde_json::Value>(text));
    let copy = copy.and_then(Result::ok);
    Some((tick, copy.as_ref().and_then(session::copy)))
}

impl Taking<'_, '_> {
    fn take(&mut self, row: Vec<Value>) -> rusqlite::Result<()> {
        let Some(row) = raw(row) else {
            return Ok(());
        };
        if row.id <= self.last {
            return Ok(());
        }
        if !self.sessions.can_be(row.session) || !row.is_sound {
            // It may come twice: by its table, and as a stray.
            let was_broken = std::mem::replace(&mut self.broken, row.id);
            self.recovered.damaged += u64::from(was_broken != row.id);
            return Ok(());
        }
        let follows = self.is_whole && row.id == self.last.saturating_add(1);
        let read = if follows || row.is_key != 0 {
            read(&mut self.frames, &row)
        } else {
            None
        };
        self.is_whole = read.is_some();
        match read {
            Some((tick, copy)) => self.put(row, tick, copy),
            None => Ok(()),
        }
    }

    /// Writes a tick, and what belongs to it.
    fn put(
        &mut self,
        mut row: RawTick,
        mut tick: Tick,
        copy: Option<Start>,
    ) -> rusqlite::Result<()> {
        let missing = self
            .sessions
            .missing_before(&row, self.last, copy.is_some());
        row.wall_unix_ms = row.wall_unix_ms.max(0);
        row.lost_before = row.lost_before.max(0).saturating_add(missing);
        tick.wall_unix_ms = row.wall_unix_ms.unsigned_abs();
        let lost = &mut self.recovered.lost_ticks;
        *lost = lost.saturating_add(missing.unsigned_abs());
        let follows = row.id == self.last.saturating_add(1);
        row.insert(self.to.database)?;
        self.recovered.ticks += 1;
        let interval = self.sessions.note(&row, &tick, copy);
        let mut texts = numbering(&mut self.to.texts, self.to.database);
        put_actions(&mut texts, row.id, &tick)?;
        let place = (row.id, row.session, interval);
        self.figures.add(&mut texts, place, &tick, follows)?;
        self.last = row.id;
        Ok(())
    }
}
