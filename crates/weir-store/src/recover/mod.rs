// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be read of a damaged recording, as a new and sound one.
//!
//! A database of pages loses what stood on the pages that are gone or wrong, and what could only be found
//! through them. So rows are read by number past the holes ([`walk`]), and then each page is searched for
//! rows that nothing leads to any more ([`pages`]). A row counts only if it holds what was written, by its
//! checksum. After a hole documents go on with the next that begins a frame.
//!
//! Actions are read from documents, and figures too where their own rows are lost. A session's row
//! has a copy in the session's first tick ([`sessions`]).

mod pages;
mod rollup;
mod sessions;
mod ticks;
mod walk;

use crate::error::StoreError;
use crate::open;
use crate::reader::Checks;
use crate::writer::{self, TextTable, put_text};
use pages::{Pages, Place, Shape};
use rusqlite::types::Value;
use rusqlite::{Connection, Transaction};
use serde::Serialize;
use sessions::Sessions;
use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use walk::walk;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Recovered {
    pub sessions: u64,
    /// Sessions of which the settings and the machine are lost: no row and no copy of it could be read.
    pub sessions_without_settings: u64,
    pub ticks: u64,
    pub spans: u64,
    /// Ticks that were there by their numbers, and are not any more; of those at the end of a session see
    /// the next two.
    pub lost_ticks: u64,
    /// Ticks that are missing at the ends of sessions, where their number is known.
    pub missing_at_end: u64,
    /// Sessions that ended with a part of the file that is gone, so that it is not known how many ticks more
    /// they had.
    pub unknown_ends: u64,
    /// Rows that are not what was written.
    pub damaged: u64,
    /// Rows that should have a checksum which cannot be read.
    pub unchecked: u64,
}

/// Writes what can be read of `path` into the new recording `new`.
///
/// # Errors
/// `new` is there already or cannot be written; or nothing can be read.
pub fn recover(path: &Path, new: &Path) -> Result<Recovered, StoreError> {
    let path = open::settle(path)?;
    let new = open::settle(new)?;
    let (file, missing) = open::inspect_leniently(&path)?;
    // Closed after the database: closing it before would let go of the database's locks.
    let pages = Pages::new(File::from(file));
    let damaged = connect(&path)?;
    let (target, made) = writer::create(&new)?;
    let from = DamagedFile {
        checks: Checks::new(&damaged),
        database: &damaged,
        pages: pages.as_ref(),
        is_truncated: missing.is_some(),
    };
    let result = StoreError::recovering(&path, &new, copy(&from, &target));
    if result.is_err() {
        drop(target);
        // It is ours and of no use.
        let _ = made.remove();
    }
    result
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let unrecoverable = |why: String| StoreError::Unrecoverable {
        path: path.to_owned(),
        why,
    };
    let database =
        open::connect_leniently(path).map_err(|error| unrecoverable(error.to_string()))?;
    match open::check_schema(path, &database) {
        Err(StoreError::Damaged { what, .. }) => {
            Err(unrecoverable(format!("its first page: {what}")))
        }
        other => other.map(|()| database),
    }
}

struct DamagedFile<'a> {
    database: &'a Connection,
    checks: Checks<'a>,
    pages: Option<&'a Pages>,
    is_truncated: bool,
}

/// Rows that no table leads to, by their shape.
#[derive(Default)]
struct Strays {
    sessions: Vec<Place>,
    texts: Vec<Place>,
    ticks: Vec<Place>,
    /// Bytes that may still be read: rows do not overlap.
    budget: u64,
}

impl Strays {
    fn find(pages: &Pages) -> Strays {
        let mut strays = Strays {
            budget: pages.bytes().saturating_mul(2),
            ..Strays::default()
        };
        pages.scan(&mut |shape, place| match shape {
            Shape::Session => strays.sessions.push(place),
            Shape::Text => strays.texts.push(place),
            Shape::Tick => strays.ticks.push(place),
        });
        strays.ticks.sort_by_key(|place| place.id);
        strays
    }
}

struct Target<'a> {
    database: &'a Transaction<'a>,
    texts: TextTable,
    known: HashSet<i64>,
}

fn copy(from: &DamagedFile, target: &Connection) -> rusqlite::Result<Option<Recovered>> {
    let mut recovered = Recovered::default();
    let transaction = target.unchecked_transaction()?;
    let mut strays = from.pages.map(Strays::find).unwrap_or_default();
    let mut sessions = Sessions::read(from, &mut strays)?;
    let mut to = Target {
        database: &transaction,
        texts: TextTable::beginning_at(1),
        known: HashSet::new(),
    };
    copy_texts(from, &mut strays, &mut to, &mut recovered)?;
    let covered = rollup::copy(from, &to, &mut sessions, &mut recovered)?;
    let covered = rollup::Covered::new(covered);
    let was_damaged = ticks::copy(
        from,
        strays,
        &mut to,
        &mut sessions,
        covered,
        &mut recovered,
    )?;
    let is_torn = from.is_truncated || was_damaged;
    sessions.write(&transaction, is_torn, &mut recovered)?;
    if recovered.sessions == 0 {
        return Ok(None);
    }
    transaction.commit()?;
    Ok(Some(recovered))
}

fn copy_texts(
    from: &DamagedFile,
    strays: &mut Strays,
    to: &mut Target,
    recovered: &mut Recovered,
) -> rusqlite::Result<()> {
    // Most come twice: by their table, and from their page.
    let mut broken = HashSet::new();
    let mut take = |row: Vec<Value>| {
        let [Value::Integer(id), Value::Text(text)] = row.as_slice() else {
            return Ok(());
        };
        if to.known.contains(id) || *id <= 0 {
            return Ok(());
        }
        match from.checks.text_holds(*id, text) {
            Some(false) => {
                recovered.damaged += u64::from(broken.insert(*id));
                return Ok(());
            }
            None => recovered.unchecked += 1,
            Some(true) => {}
        }
        put_text(to.database, *id, text)?;
        to.texts.remember(*id, text);
        to.known.insert(*id);
        Ok(())
    };
    walk(from.database, "text", &mut take)?;
    for place in std::mem::take(&mut strays.texts) {
        if let Some(row) = from
            .pages
            .and_then(|pages| pages.row(place, &mut strays.budget))
        {
            take(row)?;
        }
    }
    Ok(())
}
