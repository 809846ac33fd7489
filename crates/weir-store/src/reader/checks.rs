// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Texts, spans and actions against their checksums.

use crate::format::checksum::{self, Sum};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};
use std::collections::HashSet;

/// Numbers of texts remembered as good.
const GOOD_MAX: usize = 1 << 20;

/// Compares rows with their sums. Each error says which row, and what is wrong with it.
pub(crate) struct Checks<'a> {
    database: &'a Connection,
    good: HashSet<i64>,
}

/// What a group of rows is called, where its sum is, and the rows, in the order in which it takes them.
struct Group {
    name: &'static str,
    table: &'static str,
    rows: &'static [&'static str],
    /// Columns with numbers of texts, by the place of the query above.
    texts: &'static [(usize, usize)],
}

const SPAN: Group = Group {
    name: "span",
    table: "span_check",
    rows: &[
        "SELECT * FROM span WHERE id = ?",
        "SELECT * FROM device_figures WHERE span = ? ORDER BY device",
        "SELECT * FROM workload_figures WHERE span = ? ORDER BY workload",
    ],
    texts: &[(2, 1)],
};

const ACTIONS: Group = Group {
    name: "action",
    table: "action_check",
    rows: &["SELECT * FROM action WHERE tick = ? ORDER BY position"],
    texts: &[(0, 2), (0, 5)],
};

impl<'a> Checks<'a> {
    pub(crate) fn new(database: &'a Connection) -> Checks<'a> {
        Checks {
            database,
            good: HashSet::new(),
        }
    }

    /// The sum that a row is to have.
    fn wanted(&self, table: &str, id: i64) -> Result<u32, String> {
        let found = self
            .database
            .prepare_cached(&format!("SELECT crc32 FROM {table} WHERE id = ?"))
            .and_then(|mut query| query.query_row([id], |row| row.get(0)).optional())
            .map_err(|error| format!("its checksum cannot be read: {error}"))?;
        found.ok_or_else(|| "it has no checksum".to_owned())
    }

    /// Whether this is the text that was written; nothing if there is no sum that can be read.
    pub(crate) fn text_holds(&self, id: i64, text: &str) -> Option<bool> {
        let wanted = self.wanted("text_check", id).ok();
        wanted.map(|sum| sum == checksum::of_text(id, text))
    }

    /// The same of a span with its figures.
    pub(crate) fn span_holds(&self, id: i64) -> Option<bool> {
        let wanted = self.wanted(SPAN.table, id).ok();
        wanted.map(|wanted| self.sum(&SPAN, id).is_ok_and(|(sum, _)| sum == wanted))
    }

    /// Writes the sum of a span, as it stands there now.
    pub(crate) fn put_span_sum(&self, id: i64) -> rusqlite::Result<()> {
        let (sum, _) = self.sum(&SPAN, id)?;
        self.database
            .prepare_cached("INSERT INTO span_check VALUES (?, ?)")?
            .execute(rusqlite::params![id, sum])
            .map(drop)
    }

    pub(crate) fn text(&mut self, id: i64) -> Result<(), String> {
        let text: Option<String> = self
            .database
            .prepare_cached("SELECT text FROM text WHERE id = ?")
            .and_then(|mut query| query.query_row([id], |row| row.get(0)).optional())
            .map_err(|error| format!("text {id} cannot be read: {error}"))?;
        let text = text.ok_or_else(|| format!("text {id} is not there"))?;
        let wrong = |what: String| format!("text {id}: {what}");
        match self.wanted("text_check", id).map_err(wrong)? {
            sum if sum == checksum::of_text(id, &text) => Ok(()),
            _ => Err(wrong("its checksum differs".to_owned())),
        }
    }

    /// The span of this number with its figures, and the names in it.
    pub(crate) fn span(&mut self, id: i64) -> Result<(), String> {
        self.group(&SPAN, id)
    }

    /// The actions of this tick, and the names in them.
    pub(crate) fn actions(&mut self, tick: i64) -> Result<(), String> {
        self.group(&ACTIONS, tick)
    }

    fn group(&mut self, group: &Group, id: i64) -> Result<(), String> {
        let wrong = |what: String| format!("{} {id}: {what}", group.name);
        let wanted = self.wanted(group.table, id).map_err(wrong)?;
        let (sum, texts) = self
            .sum(group, id)
            .map_err(|error| wrong(error.to_string()))?;
        if sum != wanted {
            return Err(wrong("its checksum differs".to_owned()));
        }
        for text in texts {
            if self.good.contains(&text) {
                continue;
            }
            self.text(text).map_err(wrong)?;
            if self.good.len() >= GOOD_MAX {
                self.good.clear();
            }
            self.good.insert(text);
        }
        Ok(())
    }

    fn sum(&self, group: &Group, id: i64) -> rusqlite::Result<(u32, Vec<i64>)> {
        let mut sum = Sum::of(group.name);
        let mut texts = Vec::new();
        for (place, query) in group.rows.iter().enumerate() {
            let mut statement = self.database.prepare_cached(query)?;
            let columns = statement.column_count();
            let mut rows = statement.query([id])?;
            while let Some(row) = rows.next()? {
                for column in 0..columns {
                    let value = row.get_ref(column)?;
                    sum.value(value);
                    if let ValueRef::Integer(number) = value
                        && group.texts.contains(&(place, column))
                    {
                        texts.push(number);
                    }
                }
            }
        }
        Ok((sum.end(), texts))
    }

    /// Whether each sum has the rows that it is of.
    pub(crate) fn missing(&self) -> Result<(), String> {
        for (name, check, table, id) in [
            ("text", "text_check", "text", "id"),
            ("span", "span_check", "span", "id"),
            ("action", "action_check", "action", "tick"),
        ] {
            let query = format!(
                "SELECT c.id FROM {check} AS c
                 WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.{id} = c.id) LIMIT 1"
            );
            let found = self
                .database
                .query_row(&query, [], |row| row.get::<_, i64>(0))
                .optional();
            let found = found.map_err(|error| format!("checksums cannot be read: {error}"))?;
            if let Some(id) = found {
                return Err(format!("{name} {id} is missing"));
            }
        }
        Ok(())
    }
}
