// SPDX-License-Identifier: Apache-2.0 OR MIT
//! InfluxDB line protocol: `weir_workload,session=1,workload=/a bytes_per_sec=5i 1700000000000000000`.
//! A missing value is a field left out; a row without any field is left out.

use super::{Cell, Column, Sink, TAGS, TIME, spelled};
use crate::error::StoreError;
use std::fmt::Write as _;
use std::io::Write;

pub(super) struct Influx<W> {
    name: &'static str,
    columns: &'static [Column],
    /// Tags that all lines have, as text.
    common: String,
    out: W,
}

impl<W> Influx<W> {
    pub(super) fn new(name: &'static str, columns: &'static [Column], out: W) -> Self {
        let common = String::new();
        Influx {
            name,
            columns,
            common,
            out,
        }
    }

    /// All lines get this tag too; an empty one is left out.
    pub(super) fn tagged(mut self, name: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.common += &format!(",{name}={}", tag(&spelled(value)));
        }
        self
    }

    pub(super) fn line(&self, cells: &[Cell]) -> Option<String> {
        let mut tags = String::new();
        let mut fields = String::new();
        let mut time = None;
        for ((name, _), cell) in self.columns.iter().zip(cells) {
            // Writing into a String cannot fail.
            let _ = match cell {
                Cell::Missing => Ok(()),
                Cell::Whole(ms) if TIME.contains(name) => {
                    time = ms.checked_mul(1_000_000);
                    Ok(())
                }
                Cell::Whole(value) if TAGS.contains(name) => write!(tags, ",{name}={value}"),
                Cell::Text(text) if TAGS.contains(name) && text.is_empty() => Ok(()),
                Cell::Text(text) if TAGS.contains(name) => write!(tags, ",{name}={}", tag(text)),
                Cell::Whole(value) => write!(fields, ",{name}={value}i"),
                Cell::Real(value) => write!(fields, ",{name}={value}"),
                Cell::Text(text) => write!(fields, ",{name}=\"{}\"", quoted(text)),
            };
        }
        let fields = fields.strip_prefix(',')?;
        Some(format!(
            "{}{}{tags} {fields} {}\n",
            self.name, self.common, time?
        ))
    }
}

impl<W: Write> Sink for Influx<W> {
    fn row(&mut self, cells: &[Cell]) -> Result<(), StoreError> {
        let line = self.line(cells).unwrap_or_default();
        self.out
            .write_all(line.as_bytes())
            .map_err(StoreError::ExportTo)
    }

    fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        self.out.flush().map_err(StoreError::ExportTo)
    }
}

/// In a tag, commas, equals signs and spaces are escaped. A backslash stands for itself, except that
/// at the end it would escape what follows.
fn tag(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (text, end) = match text.strip_suffix('\\') {
        Some(text) => (text, "\\134"),
        None => (text, ""),
    };
    for c in text.chars() {
        if matches!(c, ',' | '=' | ' ') {
            // A backslash right before would be one pair with ours.
            if out.ends_with('\\') {
                out.push_str("134");
            }
            out.push('\\');
        }
        out.push(c);
    }
    out + end
}

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::super::Table;
    use super::*;

    #[test]
    fn names_stay_within_their_tag() {
        assert_eq!(tag("/a b,c=d"), "/a\\ b\\,c\\=d");
        assert_eq!(tag("/a\\"), "/a\\134");
        assert_eq!(tag("/a\\ b"), "/a\\134\\ b");
        assert_eq!(quoted("a\"b\\"), "a\\\"b\\\\");
    }

    #[test]
    fn a_line_has_tags_fields_and_nanoseconds() {
        let source = Table::Actions.source();
        let influx = Influx::new(source.name, source.columns, Vec::<u8>::new());
        let cells = [
            Cell::Whole(1),
            Cell::Whole(1_700_000_000_000),
            Cell::Text("/a b".into()),
            Cell::Real(0.25),
            Cell::Missing,
            Cell::Text("why \"not\"".into()),
        ];
        assert_eq!(
            influx.line(&cells).as_deref(),
            Some(
                "weir_action,session=1,workload=/a\\ b limit_cpus=0.25,detail=\"why \\\"not\\\"\" \
                 1700000000000000000\n"
            )
        );
        assert_eq!(
            influx.line(&[Cell::Whole(1), Cell::Whole(5), Cell::Text("/a".into())]),
            None
        );
    }
}
