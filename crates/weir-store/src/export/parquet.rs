// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Apache Parquet: optional columns of 64-bit integers, doubles and UTF-8 texts, Snappy-compressed.

use super::{Cell, Column, Kind, Sink};
use crate::error::StoreError;
use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;

/// Rows that are held in memory.
const GROUP_ROWS: usize = 65_536;

pub(super) struct Parquet<W: Write + Send> {
    columns: &'static [Column],
    rows: Vec<Vec<Cell>>,
    out: SerializedFileWriter<W>,
}

impl<W: Write + Send> Parquet<W> {
    pub(super) fn new(columns: &'static [Column], out: W) -> Result<Self, StoreError> {
        let fields = columns
            .iter()
            .map(field)
            .collect::<Result<Vec<_>, _>>()
            .map_err(failed)?;
        let schema = Type::group_type_builder("weir")
            .with_fields(fields)
            .build()
            .map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .build();
        let out = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties));
        Ok(Parquet {
            columns,
            rows: Vec::new(),
            out: out.map_err(failed)?,
        })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.out.next_row_group()?;
        for (index, (_, kind)) in self.columns.iter().enumerate() {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            write_column(&mut column, *kind, cells)?;
            column.close()?;
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }
}

fn field((name, kind): &Column) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match kind {
        Kind::Whole => (Physical::INT64, None),
        Kind::Real => (Physical::DOUBLE, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()
        .map(Arc::new)
}

fn write_column<'a>(
    column: &mut SerializedColumnWriter,
    kind: Kind,
    cells: impl Iterator<Item = &'a Cell>,
) -> Result<(), ParquetError> {
    let (mut wholes, mut reals, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    // 1 where there is a value.
    let mut present = Vec::new();
    for cell in cells {
        present.push(i16::from(*cell != Cell::Missing));
        match cell {
            Cell::Missing => {}
            Cell::Whole(value) => wholes.push(*value),
            Cell::Real(value) => reals.push(*value),
            Cell::Text(text) => texts.push(ByteArray::from(text.as_str())),
        }
    }
    let present = Some(present.as_slice());
    match kind {
        Kind::Whole => column
            .typed::<Int64Type>()
            .write_batch(&wholes, present, None),
        Kind::Real => column
            .typed::<DoubleType>()
            .write_batch(&reals, present, None),
        Kind::Text => column
            .typed::<ByteArrayType>()
            .write_batch(&texts, present, None),
    }?;
    Ok(())
}

impl<W: Write + Send> Sink for Parquet<W> {
    fn row(&mut self, cells: &[Cell]) -> Result<(), StoreError> {
        self.rows.push(cells.to_vec());
        if self.rows.len() >= GROUP_ROWS {
            self.write_group().map_err(failed)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        if !self.rows.is_empty() {
            self.write_group().map_err(failed)?;
        }
        self.out.finish().map_err(failed)?;
        self.out.inner_mut().flush().map_err(StoreError::ExportTo)
    }
}

fn failed(error: ParquetError) -> StoreError {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => StoreError::ExportTo(*io),
            Err(other) => StoreError::Export(other.to_string()),
        },
        other => StoreError::Export(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Table;
    use super::*;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;

    #[test]
    fn what_is_written_is_read_by_the_makers_of_the_format() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let columns = Table::Actions.source().columns;
        let mut sink = Box::new(Parquet::new(columns, path.reopen().unwrap()).unwrap());
        let count = GROUP_ROWS + 3;
        for number in 0..count {
            let limit = if number % 2 == 0 {
                Cell::Real(0.25)
            } else {
                Cell::Missing
            };
            let cells = [
                Cell::Whole(1),
                Cell::Whole(number as i64),
                Cell::Text(format!("/w{}", number % 7)),
                limit,
                Cell::Text("applied".into()),
                Cell::Missing,
            ];
            sink.row(&cells).unwrap();
        }
        sink.finish().unwrap();
        let reader = SerializedFileReader::new(path.reopen().unwrap()).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows.len(), count);
        let last: Vec<(&String, &Field)> = rows[count - 1].get_column_iter().collect();
        let names: Vec<&str> = last.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.iter().eq(columns.iter().map(|(name, _)| name)));
        assert_eq!(last[1].1, &Field::Long(count as i64 - 1));
        assert_eq!(last[2].1, &Field::Str(format!("/w{}", (count - 1) % 7)));
        assert_eq!(last[3].1, &Field::Double(0.25));
        assert_eq!(last[5].1, &Field::Null);
    }
}
