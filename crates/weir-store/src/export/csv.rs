// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comma-separated values (RFC 4180). A missing value is an empty field.

use super::{Cell, Column, Sink};
use crate::error::StoreError;
use std::io::Write;

pub(super) struct Csv<W: Write> {
    out: csv::Writer<W>,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(columns: &[Column], out: W) -> Result<Self, StoreError> {
        let mut out = csv::Writer::from_writer(out);
        let titles = columns.iter().map(|(name, _)| name);
        out.write_record(titles).map_err(failed)?;
        Ok(Csv { out })
    }
}

impl<W: Write> Sink for Csv<W> {
    fn row(&mut self, cells: &[Cell]) -> Result<(), StoreError> {
        for cell in cells {
            let text = match cell {
                Cell::Missing => String::new(),
                Cell::Whole(value) => value.to_string(),
                Cell::Real(value) => value.to_string(),
                Cell::Text(text) => text.clone(),
            };
            self.out.write_field(text).map_err(failed)?;
        }
        self.out.write_record(None::<&[u8]>).map_err(failed)
    }

    fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        self.out.flush().map_err(StoreError::ExportTo)
    }
}

fn failed(error: csv::Error) -> StoreError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => StoreError::ExportTo(error),
        other => StoreError::Export(format!("{other:?}")),
    }
}
