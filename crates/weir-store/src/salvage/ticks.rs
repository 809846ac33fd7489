// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ticks: those that the table leads to, and those that stand on pages that nothing leads to.

use super::figures::{Anew, Covered, numbering};
use super::pages::Place;
use super::sessions::Sessions;
use super::walk::walk;
use super::{Saved, Saving, Source, Strays, Target};
use crate::code::Reader;
use crate::tick::{RawTick, Seal, Tick};
use crate::writer::put_actions;
use rusqlite::types::Value;
use serde::Deserialize;
use std::collections::HashSet;

/// Takes ticks in the order of their numbers.
struct Taking<'a, 'b> {
    from: &'a Source<'a>,
    to: &'a mut Target<'b>,
    sessions: &'a mut Sessions,
    /// Sessions with a tick that has the sum it must have; looked for when it is asked.
    sealed: Option<HashSet<i64>>,
    figures: Anew,
    saved: &'a mut Saved,
    code: Reader,
    last: i64,
    /// The last one that was not what was written.
    broken: i64,
    is_whole: bool,
}

/// Copies ticks with what belongs to them. Says whether the table could not be read everywhere.
pub(super) fn copy(
    from: &Source,
    mut strays: Strays,
    to: &mut Target,
    sessions: &mut Sessions,
    covered: Covered,
    saved: &mut Saved,
) -> rusqlite::Result<bool> {
    let mut taking = Taking {
        from,
        to,
        sessions,
        sealed: None,
        figures: Anew::new(covered),
        saved,
        code: Reader::default(),
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
        to, figures, saved, ..
    } = &mut taking;
    figures.end(&mut numbering(&mut to.texts, to.database))?;
    saved.spans += figures.made();
    Ok(was_damaged)
}

fn raw(row: Vec<Value>) -> Option<RawTick> {
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
    Some(RawTick {
        id,
        session,
        wall_unix_ms,
        is_key,
        lost_before,
        document,
    })
}

/// Sessions with a tick that the table leads to and that has the sum it must have.
fn sealed(from: &Source) -> rusqlite::Result<HashSet<i64>> {
    let mut sealed = HashSet::new();
    walk(from.database, "tick", &mut |row| {
        let found = raw(row).filter(|row| row.seal() == Seal::Holds);
        sealed.extend(found.map(|row| row.session));
        Ok(())
    })?;
    Ok(sealed)
}

impl Taking<'_, '_> {
    /// Whether a tick with this seal can be of that session: all of its ticks have sums, or none has one. A tick
    /// may have lost the sign that it has a sum, and the session its row: then its other ticks tell.
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
        let Some(mut row) = raw(row) else {
            return Ok(());
        };
        if row.id <= self.last {
            return Ok(());
        }
        let seal = row.seal();
        if !self.sessions.can_be(row.session) || !self.fits(seal, row.session)? {
            // It may come twice: by its table, and as a stray.
            let was_broken = std::mem::replace(&mut self.broken, row.id);
            self.saved.damaged += u64::from(was_broken != row.id);
            return Ok(());
        }
        let follows = self.is_whole && row.id == self.last.saturating_add(1);
        if row.is_key != 0 {
            self.code.restart();
        } else if !follows {
            self.is_whole = false;
            return Ok(());
        }
        let mut texts = Saving(self.to.database);
        let document = self.code.read(&row.document, &mut texts).ok();
        let copy = document.and_then(crate::session::copy);
        let tick = document.and_then(|document| Tick::deserialize(document).ok());
        let Some(mut tick) = tick else {
            self.is_whole = false;
            return Ok(());
        };
        self.is_whole = true;
        let missing = self
            .sessions
            .missing_before(&row, self.last, copy.is_some());
        row.wall_unix_ms = row.wall_unix_ms.max(0);
        row.lost_before = row.lost_before.max(0).saturating_add(missing);
        row.put_sum();
        tick.wall_unix_ms = row.wall_unix_ms.unsigned_abs();
        self.saved.lost_ticks = self.saved.lost_ticks.saturating_add(missing.unsigned_abs());
        row.insert(self.to.database)?;
        self.saved.ticks += 1;
        let interval = self.sessions.note(&row, &tick, seal, copy);
        let mut texts = numbering(&mut self.to.texts, self.to.database);
        put_actions(&mut texts, row.id, &tick)?;
        let place = (row.id, row.session, interval);
        self.figures.add(
            &mut texts,
            place,
            &tick,
            row.id == self.last.saturating_add(1),
        )?;
        self.last = row.id;
        Ok(())
    }
}
