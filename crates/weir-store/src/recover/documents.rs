// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the documents of either format say.

use crate::format::frame::Decoder;
use crate::format::session;
use crate::format::tick::{RawTick, Start, Tick};
use crate::format1::documents::Reader;
use crate::format1::{self, renamed};
use rusqlite::{Connection, OptionalExtension};
use serde::Deserialize;
use serde_json::Value;

/// Reads documents in the order of their rows.
pub(super) enum Documents {
    /// Of format 1: what changed since the document before.
    Deltas(Box<Reader>),
    /// Of format 2.
    Frames(Box<Decoder>),
}

impl Documents {
    /// # Errors
    /// There is no memory.
    pub(super) fn new(format: u32) -> rusqlite::Result<Documents> {
        Ok(match format {
            format1::FORMAT => Documents::Deltas(Box::default()),
            _ => Documents::Frames(Box::new(Decoder::new().map_err(crate::writer::unwritable)?)),
        })
    }

    /// A tick, and the copy of its session if it is the first of one. Nothing if the bytes are no document
    /// that can follow the one before: the next must then be a key. Texts are those of `texts`.
    pub(super) fn read(
        &mut self,
        row: &RawTick,
        texts: &Connection,
    ) -> Option<(Tick, Option<Start>)> {
        match self {
            Documents::Deltas(reader) => {
                if row.is_key != 0 {
                    reader.restart();
                }
                let document = reader.read(&row.document, &mut |number| text(texts, number));
                let document = of_today(document.ok()?.clone());
                Some((Tick::deserialize(&document).ok()?, session::copy(&document)))
            }
            Documents::Frames(frames) => {
                let text = frames.read(&row.document, row.is_key != 0).ok()?;
                let tick = serde_json::from_slice(text).ok()?;
                // The first tick of a session begins a frame.
                let copy = (row.is_key != 0).then(|| serde_json::from_slice::<Value>(text));
                let copy = copy.and_then(Result::ok);
                Some((tick, copy.as_ref().and_then(session::copy)))
            }
        }
    }
}

/// A document of format 1 with the names of today.
fn of_today(document: Value) -> Value {
    let mut document = renamed::rename("document", document);
    for part in ["config", "description"] {
        if let Some(value) = document.pointer_mut(&format!("/session/{part}")) {
            *value = renamed::rename(part, value.take());
        }
    }
    document
}

fn text(database: &Connection, number: u64) -> Option<String> {
    let id = i64::try_from(number).ok()?;
    let mut statement = database
        .prepare_cached("SELECT text FROM text WHERE id = ?")
        .ok()?;
    statement
        .query_row([id], |row| row.get(0))
        .optional()
        .ok()?
}
