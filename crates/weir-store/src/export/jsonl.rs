// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One JSON object a line. A missing value is null.

use super::{Cell, Column, Sink};
use crate::error::StoreError;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::io::Write;

pub(super) struct JsonLines<W> {
    columns: &'static [Column],
    out: W,
}

impl<W> JsonLines<W> {
    pub(super) fn new(columns: &'static [Column], out: W) -> Self {
        JsonLines { columns, out }
    }
}

/// A row with the names of its columns, in their order.
struct Line<'a>(&'static [Column], &'a [Cell]);

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for ((name, _), cell) in self.0.iter().zip(self.1) {
            match cell {
                Cell::Missing => map.serialize_entry(name, &None::<i64>)?,
                Cell::Whole(value) => map.serialize_entry(name, value)?,
                Cell::Real(value) => map.serialize_entry(name, value)?,
                Cell::Text(text) => map.serialize_entry(name, text)?,
            }
        }
        map.end()
    }
}

impl<W: Write> Sink for JsonLines<W> {
    fn row(&mut self, cells: &[Cell]) -> Result<(), StoreError> {
        let line = Line(self.columns, cells);
        serde_json::to_writer(&mut self.out, &line)
            .map_err(|error| StoreError::ExportTo(error.into()))?;
        self.out.write_all(b"\n").map_err(StoreError::ExportTo)
    }

    fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        self.out.flush().map_err(StoreError::ExportTo)
    }
}
