// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ticks: those that the table leads to, and those that stand on pages that nothing leads to.

use super::documents::Documents;
use super::pages::Place;
use super::rollup::{Anew, Covered, numbering};
use super::sessions::Sessions;
use super::walk::walk;
use super::{DamagedFile, Recovered, Strays, Target};
use crate::format::frame::Encoder;
use crate::format::tick::{Document, RawTick, Seal, Start, Tick};
use crate::format1;
use crate::writer::{put_actions, unwritable};
use rusqlite::types::Value;
use std::collections::HashSet;

/// Takes ticks in the order of their numbers.
struct Taking<'a, 'b> {
    from: &'a DamagedFile<'a>,
    to: &'a mut Target<'b>,
    sessions: &'a mut Sessions,
    /// Sessions with a tick that has the sum it must have; searched for when it is first needed.
    sealed: Option<HashSet<i64>>,
    figures: Anew,
    recovered: &'a mut Recovered,
    documents: Documents,
    /// For documents of format 1.
    frames: Encoder,
    last: i64,
    last_session: i64,
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
        from,
        to,
        sessions,
        sealed: None,
        figures: Anew::new(covered),
        recovered,
        documents: Documents::new(from.format)?,
        frames: Encoder::new().map_err(unwritable)?,
        last: 0,
        last_session: 0,
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

fn raw(mut row: Vec<Value>, format: u32) -> Option<RawTick> {
    let sum = match format {
        format1::FORMAT => None,
        _ => match row.pop()? {
            Value::Integer(sum) => Some(sum),
            _ => return None,
        },
    };
    let row: [Value; 6] = row.try_into().ok()?;
    let [
        Value::Integer(id),
        Value::Integer(session),
        Value::Integer(wall_unix_ms),
        Value::Integer(is_key),
        Value::Integer(lost_before),
        Value::Blob(document),
    ] = row
    else {
        return None;
    };
    let numbers = [id, session, wall_unix_ms, is_key, lost_before];
    Some(RawTick::new(numbers, document, sum))
}

/// Sessions with a tick that the table leads to and that has the sum it must have.
fn sealed(from: &DamagedFile) -> rusqlite::Result<HashSet<i64>> {
    let mut sealed = HashSet::new();
    walk(from.database, "tick", &mut |row| {
        let found = raw(row, from.format).filter(|row| row.seal == Seal::Holds);
        sealed.extend(found.map(|row| row.session));
        Ok(())
    })?;
    Ok(sealed)
}

impl Taking<'_, '_> {
    /// Whether a tick with this seal can be of that session: all of its ticks have sums, or none has one. A
    /// tick may have lost the sign that it has a sum, and the session its row: then its other ticks decide.
    fn fits(&mut self, seal: Seal, session: i64) -> rusqlite::Result<bool> {
        Ok(match (seal, self.sessions.is_sealed(session)) {
            (Seal::Broken, _) => false,
            (Seal::Holds, known) => known != Some(false),
            (Seal::Missing, Some(known)) => !known,
            (Seal::Missing, None) => {
                let sealed = match self.sealed.take() {
                    Some(sealed) => sealed,
                    None => sealed(self.from)?,
                };
                let fits = !sealed.contains(&session);
                self.sealed = Some(sealed);
                fits
            }
        })
    }

    fn take(&mut self, row: Vec<Value>) -> rusqlite::Result<()> {
        let Some(row) = raw(row, self.from.format) else {
            return Ok(());
        };
        if row.id <= self.last {
            return Ok(());
        }
        if !self.sessions.can_be(row.session) || !self.fits(row.seal, row.session)? {
            // It may come twice: by its table, and as a stray.
            let was_broken = std::mem::replace(&mut self.broken, row.id);
            self.recovered.damaged += u64::from(was_broken != row.id);
            return Ok(());
        }
        let follows = self.is_whole && row.id == self.last.saturating_add(1);
        let read = match follows || row.is_key != 0 {
            true => self.documents.read(&row, self.to.database),
            false => None,
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
        if self.from.format == format1::FORMAT {
            // Behind a hole, too, a reader waits for a key.
            if !follows || row.session != self.last_session {
                self.frames.restart();
            }
            let document = self.frames.add(&Document::new(&tick, copy.as_ref()));
            let (document, is_key) = document.map_err(unwritable)?;
            (row.document, row.is_key) = (document, is_key.into());
        }
        row.insert(self.to.database)?;
        self.recovered.ticks += 1;
        let interval = self.sessions.note(&row, &tick, copy);
        let mut texts = numbering(&mut self.to.texts, self.to.database);
        put_actions(&mut texts, row.id, &tick)?;
        let place = (row.id, row.session, interval);
        self.figures.add(&mut texts, place, &tick, follows)?;
        (self.last, self.last_session) = (row.id, row.session);
        Ok(())
    }
}
