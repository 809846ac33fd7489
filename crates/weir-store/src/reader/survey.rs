// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a session has, and whether all of it is what was written. No document is decoded for that, because
//! checksums cover bytes.

use super::Recording;
use super::ticks::Rows;
use crate::error::StoreError;

/// Places where something is not what was written, or is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    pub places: u64,
    /// What is wrong at the first of them.
    pub first: Option<String>,
}

impl Damage {
    fn note(&mut self, what: impl ToString) {
        self.places += 1;
        self.first.get_or_insert_with(|| what.to_string());
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    pub ticks: u64,
    pub spans: u64,
    /// Ticks that were never written, or are lost.
    pub lost_ticks: u64,
    pub damage: Damage,
}

type Check<'a> = &'a mut dyn FnMut(i64) -> Result<(), String>;

impl Recording {
    /// Reads all of a session and compares it with its checksums.
    ///
    /// # Errors
    /// The tables cannot be queried at all.
    pub fn survey(&self, session: i64) -> Result<Survey, StoreError> {
        let [ticks, spans, lost_ticks] = self.counts(session)?;
        let mut damage = Damage::default();
        for row in Rows::new(self, session, None) {
            match row {
                Ok(_) => {}
                Err(StoreError::Damaged { what, .. }) => damage.note(what),
                Err(error) => return Err(error),
            }
        }
        let mut checks = self.checks();
        let spans_of = "SELECT id FROM span WHERE session = ? ORDER BY id";
        self.each(spans_of, session, &mut damage, &mut |id| checks.span(id));
        Ok(Survey {
            ticks,
            spans,
            lost_ticks,
            damage,
        })
    }

    /// The same of what is not a session's own: names, actions, rows of no session, and whether each checksum
    /// has its row.
    pub fn survey_shared(&self) -> Damage {
        let mut damage = Damage::default();
        let mut checks = self.checks();
        if let Err(what) = checks.missing() {
            damage.note(what);
        }
        for table in ["span", "tick"] {
            let of_none = format!(
                "SELECT id FROM {table} WHERE ? IS NOT NULL
                 AND (session IS NULL OR session NOT IN (SELECT id FROM session)) ORDER BY id"
            );
            self.each(&of_none, 0, &mut damage, &mut |id| {
                Err(format!("{table} {id} is of no session"))
            });
        }
        let texts = "SELECT id FROM text WHERE ? IS NOT NULL ORDER BY id";
        self.each(texts, 0, &mut damage, &mut |id| checks.text(id).map(drop));
        let ticks = "SELECT DISTINCT tick FROM action WHERE ? IS NOT NULL ORDER BY tick";
        self.each(ticks, 0, &mut damage, &mut |id| {
            let sound = self.sound_actions(id, &mut checks);
            sound.map(drop).map_err(|error| error.to_string())
        });
        damage
    }

    /// Checks rows by number. They must go up: a table could go round for ever.
    fn each(&self, query: &str, session: i64, damage: &mut Damage, check: Check) {
        let mut visit = || -> rusqlite::Result<()> {
            let mut statement = self.database.prepare(query)?;
            let mut rows = statement.query([session])?;
            let mut last = i64::MIN;
            while let Some(row) = rows.next()? {
                let id = row.get(0)?;
                if id <= last {
                    damage.note(format!("row {id} comes after row {last}"));
                    return Ok(());
                }
                last = id;
                if let Err(what) = check(id) {
                    damage.note(what);
                }
            }
            Ok(())
        };
        if let Err(error) = visit() {
            damage.note(error);
        }
    }
}
