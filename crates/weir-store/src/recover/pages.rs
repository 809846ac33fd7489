// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows on pages that nothing leads to any more.
//!
//! A table's rows are found by way of pages that point at pages. If one of these is gone, the rows below it
//! are still there. Here each page is read for itself, by the file format of the database
//! (sqlite.org/fileformat2.html, 1.6 and 2.1), and a row is known by its shape: how many columns, of
//! which types. The content of a row is checked where the row is used.

use rusqlite::types::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Kind of a page that holds rows of a table with numbers.
const LEAF: u8 = 0x0d;
/// No row is longer.
const ROW_MAX_BYTES: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Session,
    Text,
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) id: i64,
    page: u32,
    offset: u16,
}

pub(super) struct Pages {
    file: File,
    page_bytes: usize,
    /// Without what is kept free at each page's end.
    usable: usize,
    count: u32,
}

/// One row as its page has it: its number, its length, the bytes of it that lie on this page, and the page on
/// which the rest begins.
struct PageCell<'a> {
    id: i64,
    bytes: usize,
    local: &'a [u8],
    more: u32,
}

impl Pages {
    /// Nothing if the head is not that of a database.
    pub(super) fn new(file: File) -> Option<Pages> {
        let mut head = [0; 24];
        file.read_exact_at(&mut head, 0).ok()?;
        let page_bytes = match head.get(16..18)? {
            [0, 1] => 65_536,
            &[high, low] => usize::from(u16::from_be_bytes([high, low])),
            _ => return None,
        };
        let usable = page_bytes.checked_sub(usize::from(*head.get(20)?))?;
        if !page_bytes.is_power_of_two() || usable < 480 {
            return None;
        }
        let bytes = file.metadata().ok()?.len();
        let count = u32::try_from(bytes / page_bytes as u64).ok()?;
        Some(Pages {
            file,
            page_bytes,
            usable,
            count,
        })
    }

    /// All bytes that are there.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.count) * self.page_bytes as u64
    }

    fn read(&self, page: u32, into: &mut Vec<u8>) -> Option<()> {
        let at = u64::from(page.checked_sub(1)?) * self.page_bytes as u64;
        into.resize(self.page_bytes, 0);
        self.file.read_exact_at(into, at).ok()
    }

    /// Scans each page for rows of a known shape.
    pub(super) fn scan(&self, take: &mut dyn FnMut(Shape, Place)) {
        let mut bytes = Vec::new();
        // Rows are on the second page at the earliest: the first is the schema's.
        for page in 2..=self.count {
            if self.read(page, &mut bytes).is_none() || bytes.first() != Some(&LEAF) {
                continue;
            }
            for index in 0..number(&bytes, 3).unwrap_or(0) {
                let offset = number(&bytes, 8 + 2 * usize::from(index));
                let found = offset.and_then(|offset| {
                    let cell = self.cell(&bytes, offset)?;
                    let place = Place {
                        id: cell.id,
                        page,
                        offset,
                    };
                    Some((shape(cell.local)?, place))
                });
                if let Some((shape, place)) = found {
                    take(shape, place);
                }
            }
        }
    }

    /// A row, its number first; if all of it is there, and not longer than what may still be read.
    pub(super) fn row(&self, place: Place, budget: &mut u64) -> Option<Vec<Value>> {
        let mut page = Vec::new();
        self.read(place.page, &mut page)?;
        let cell = self.cell(&page, place.offset)?;
        *budget = budget.checked_sub(cell.bytes as u64)?;
        let mut record = cell.local.to_vec();
        let mut next = cell.more;
        let mut more = Vec::new();
        while record.len() < cell.bytes {
            self.read(next, &mut more)?;
            let (pointer, rest) = more.split_first_chunk::<4>()?;
            next = u32::from_be_bytes(*pointer);
            let wanted = (cell.bytes - record.len()).min(self.usable - 4);
            record.extend_from_slice(rest.get(..wanted)?);
        }
        let mut row = values(&record)?;
        *row.first_mut()? = Value::Integer(cell.id);
        Some(row)
    }

    /// One row of a leaf page, by the file format of the database (sqlite.org/fileformat2.html, 1.6): how
    /// much of it lies on the page follows from the size of a page alone. Where the row is longer, the rest
    /// is in a chain of other pages, and the first of them is named behind the part on this one.
    fn cell<'a>(&self, page: &'a [u8], offset: u16) -> Option<PageCell<'a>> {
        let mut rest = page.get(usize::from(offset)..)?;
        let bytes = varint(&mut rest)?;
        let id = varint(&mut rest)?.cast_signed();
        if bytes > ROW_MAX_BYTES {
            return None;
        }
        let bytes = usize::try_from(bytes).ok()?;
        let most = self.usable - 35;
        if bytes <= most {
            let local = rest.get(..bytes)?;
            return Some(PageCell {
                id,
                bytes,
                local,
                more: 0,
            });
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let wanted = least + (bytes - least) % (self.usable - 4);
        let local = if wanted <= most { wanted } else { least };
        let (local, rest) = rest.split_at_checked(local)?;
        let more = u32::from_be_bytes(*rest.first_chunk::<4>()?);
        Some(PageCell {
            id,
            bytes,
            local,
            more,
        })
    }
}

/// Two bytes of a page's head.
fn number(page: &[u8], at: usize) -> Option<u16> {
    let bytes = page.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*bytes))
}

/// A number in the database's own way: seven bits a byte, highest first; a ninth byte has eight.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for place in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if place == 8 {
            return Some(value << 8 | u64::from(*byte));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(value)
}

/// The types of a row's values, and the bytes of these.
fn types(record: &[u8]) -> Option<(Vec<u64>, &[u8])> {
    let mut rest = record;
    let length = usize::try_from(varint(&mut rest)?).ok()?;
    let head = length.checked_sub(record.len() - rest.len())?;
    let mut types = Vec::new();
    let (mut head, body) = rest.split_at_checked(head)?;
    while !head.is_empty() {
        types.push(varint(&mut head)?);
    }
    Some((types, body))
}

fn shape(record: &[u8]) -> Option<Shape> {
    let (types, _) = types(record)?;
    let kind = |kind: &u64| match kind {
        0 => 'n',
        1..=6 | 8 | 9 => 'i',
        12.. if kind.is_multiple_of(2) => 'b',
        13.. => 't',
        _ => '?',
    };
    let kinds: String = types.iter().map(kind).collect();
    match kinds.as_str() {
        "niiiibi" => Some(Shape::Tick),
        "nt" => Some(Shape::Text),
        "niitiititt" | "nintiititt" => Some(Shape::Session),
        _ => None,
    }
}

fn values(record: &[u8]) -> Option<Vec<Value>> {
    let (types, mut body) = types(record)?;
    let mut values = Vec::with_capacity(types.len());
    for kind in types {
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(kind).ok()?,
            5 => 6,
            6 | 7 => 8,
            12.. => usize::try_from((kind - 12) / 2).ok()?,
            _ => return None,
        };
        let (bytes, rest) = body.split_at_checked(length)?;
        body = rest;
        values.push(match kind {
            0 => Value::Null,
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            1..=6 => Value::Integer(signed(bytes)),
            7 => Value::Real(f64::from_be_bytes(*bytes.first_chunk::<8>()?)),
            _ if kind.is_multiple_of(2) => Value::Blob(bytes.to_vec()),
            _ => Value::Text(String::from_utf8(bytes.to_vec()).ok()?),
        });
    }
    Some(values)
}

/// The signed number in at most eight bytes, the highest byte first.
fn signed(bytes: &[u8]) -> i64 {
    let start = match bytes.first() {
        Some(first) if first & 0x80 != 0 => -1,
        _ => 0,
    };
    let add = |value: i64, byte: &u8| value << 8 | i64::from(*byte);
    bytes.iter().fold(start, add)
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
