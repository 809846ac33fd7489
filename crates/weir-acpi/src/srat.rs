// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which memory and which processors belong to one domain (ACPI 6.5, 5.2.16).

use crate::bytes::{put, u32_at, u64_at};
use crate::error::AcpiError;
use crate::table::{HEADER_BYTES, Kind, Table};
use std::collections::BTreeSet;
use std::ops::Range;

/// Table revision (always 1) and reserved bytes before the first structure.
const PROLOGUE_BYTES: usize = 12;
/// Bytes that each structure begins with: type, length.
const STRUCTURE_BYTES_MIN: usize = 2;
/// Type and length of a memory affinity structure (ACPI 6.5, 5.2.16.2).
const MEMORY: u8 = 1;
const MEMORY_BYTES: usize = 40;
/// Offset of the flags in a memory structure.
const FLAGS: usize = 28;
const ENABLED: u32 = 1;
const NOTE_COUNT_MAX: usize = 8;
/// The domain of a table of revision 1 has one byte.
const WIDE_DOMAINS_REVISION: u8 = 2;

/// A piece of host-physical address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub base_bytes: u64,
    /// Its length, above 0; its end is a number too.
    pub length_bytes: u64,
}

impl Span {
    /// The first byte behind it.
    pub fn end_bytes(self) -> u64 {
        self.base_bytes.saturating_add(self.length_bytes)
    }
}

#[derive(Clone, Debug)]
enum SratEntry {
    /// Memory of a domain that is in use.
    Memory(u32, Span),
    Processor(u32),
    /// Something else of a domain: an initiator, a port, an interrupt translator.
    Other(u32),
    /// Memory of a domain that ends above all addresses: Linux leaves it out (`numa_add_memblk`).
    OutOfRange(u32),
    /// Memory that is switched off or has no length, or a structure of a later edition.
    Ignored,
}

#[derive(Clone, Debug)]
pub struct Srat {
    table: Table,
    /// In the table's order, with their places in its body.
    entries: Vec<(Range<usize>, SratEntry)>,
}

impl Srat {
    /// Reads all structures.
    ///
    /// # Errors
    /// One is truncated, shorter than its kind, or runs past the end.
    pub fn read(table: Table) -> Result<Self, AcpiError> {
        let length = |rest: &[u8]| rest.get(1).copied().map(usize::from);
        let wide = table.revision() >= WIDE_DOMAINS_REVISION;
        let entries = table.structures(PROLOGUE_BYTES, STRUCTURE_BYTES_MIN, length, |bytes| {
            interpret(bytes, wide)
        })?;
        Ok(Srat { table, entries })
    }

    /// Memory structures with their places in the table, in the order of addresses.
    fn memories(&self) -> Vec<(Span, usize, u32)> {
        let memory = |(place, entry): &(Range<usize>, SratEntry)| match entry {
            SratEntry::Memory(domain, span) => Some((*span, HEADER_BYTES + place.start, *domain)),
            _ => None,
        };
        let mut all: Vec<_> = self.entries.iter().filter_map(memory).collect();
        all.sort_unstable();
        all
    }

    /// Memory of a domain that is to be split, in the order of addresses.
    ///
    /// # Errors
    /// It overlaps memory of another domain, or itself with other flags: Linux would use no table like that.
    pub(crate) fn memory_to_split(&self, domain: u32) -> Result<Vec<Span>, AcpiError> {
        let all = self.memories();
        let meets =
            |a: &Span, b: &Span| a.base_bytes < b.end_bytes() && b.base_bytes < a.end_bytes();
        let own: Vec<_> = all.iter().filter(|(_, _, of)| *of == domain).collect();
        let merged = self.memory(domain);
        for (span, at, of) in all.iter().filter(|(_, _, of)| *of != domain) {
            // Sorted and apart: only the first that ends behind its beginning can overlap it.
            let place = merged.partition_point(|whole| whole.end_bytes() <= span.base_bytes);
            if let Some(whole) = merged.get(place).filter(|whole| meets(whole, span)) {
                return Err(Kind::Srat.damaged(*at, overlap(domain, whole, *of, span)));
            }
        }
        for (first, second) in own.iter().zip(own.iter().skip(1)) {
            let ((a, _, _), (b, at, _)) = (first, second);
            if meets(a, b) && self.flags(first.1) != self.flags(*at) {
                let what = overlap(domain, a, domain, b) + ", with other flags";
                return Err(Kind::Srat.damaged(*at, what));
            }
        }
        Ok(merged)
    }

    /// Flags of the memory structure at an offset of the table.
    fn flags(&self, at: usize) -> Option<u32> {
        u32_at(self.table.bytes(), at + FLAGS)
    }

    /// Oddities that do no harm here.
    pub(crate) fn notes(&self, split: u32) -> Vec<String> {
        let mut notes = Vec::new();
        let mut last: Option<(Span, u32)> = None;
        for (span, _, domain) in self.memories() {
            if let Some((before, of)) = last
                && before.end_bytes() > span.base_bytes
                && (of, domain) != (split, split)
            {
                let what = overlap(of, &before, domain, &span);
                notes.push(if of == domain {
                    format!("{what}: Linux takes them for one")
                } else {
                    format!("{what}: Linux uses no NUMA at all if there is memory")
                });
            }
            if last.is_none_or(|(before, _)| before.end_bytes() < span.end_bytes()) {
                last = Some((span, domain));
            }
        }
        for (_, entry) in &self.entries {
            if let SratEntry::OutOfRange(domain) = entry {
                notes.push(format!(
                    "a range of domain {domain} ends above the last address: Linux leaves it out"
                ));
            }
        }
        // A fault that a table repeats is noted a few times.
        notes.truncate(NOTE_COUNT_MAX);
        notes
    }

    /// Memory of a domain, in the order of addresses; ranges that overlap are one.
    pub fn memory(&self, domain: u32) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for (span, _, of) in self.memories() {
            if of != domain {
                continue;
            }
            match spans.last_mut() {
                Some(last) if span.base_bytes < last.end_bytes() => {
                    let end = last.end_bytes().max(span.end_bytes());
                    last.length_bytes = end - last.base_bytes;
                }
                _ => spans.push(span),
            }
        }
        spans
    }

    /// Domains with memory and without processors, ascending: CXL memory is one of these.
    pub fn memory_only(&self) -> Vec<u32> {
        let mut memory = BTreeSet::new();
        let mut processors = BTreeSet::new();
        for (_, entry) in &self.entries {
            match entry {
                SratEntry::Memory(domain, _) => memory.insert(*domain),
                SratEntry::Processor(domain) => processors.insert(*domain),
                SratEntry::Other(_) | SratEntry::OutOfRange(_) | SratEntry::Ignored => false,
            };
        }
        memory.difference(&processors).copied().collect()
    }

    pub fn has_memory(&self, domain: u32) -> bool {
        !self.memory(domain).is_empty()
    }

    pub fn processors(&self) -> BTreeSet<u32> {
        let of = |entry: &SratEntry| match entry {
            SratEntry::Processor(domain) => Some(*domain),
            _ => None,
        };
        self.entries
            .iter()
            .filter_map(|(_, entry)| of(entry))
            .collect()
    }

    pub(crate) fn highest(&self) -> u32 {
        let of = |entry: &SratEntry| match entry {
            SratEntry::Memory(domain, _)
            | SratEntry::Processor(domain)
            | SratEntry::Other(domain)
            | SratEntry::OutOfRange(domain) => *domain,
            SratEntry::Ignored => 0,
        };
        self.entries
            .iter()
            .map(|(_, entry)| of(entry))
            .max()
            .unwrap_or(0)
    }

    /// Highest domain that this edition of the table can name.
    pub(crate) fn highest_possible(&self) -> u32 {
        if self.table.revision() >= WIDE_DOMAINS_REVISION {
            u32::MAX
        } else {
            u32::from(u8::MAX)
        }
    }

    /// With the memory of `old` in the hands of `pieces` (domain and span), in the place of the first
    /// of its structures; what else those say (hot-pluggable, non-volatile) each piece says too.
    pub(crate) fn split(&self, old: u32, pieces: &[(u32, Span)]) -> Result<Table, AcpiError> {
        let mut body = self
            .table
            .body()
            .get(..PROLOGUE_BYTES)
            .unwrap_or_default()
            .to_vec();
        let mut left: Vec<(u32, Span)> = pieces.to_vec();
        for (place, entry) in &self.entries {
            let bytes = self.table.body().get(place.clone()).unwrap_or_default();
            let SratEntry::Memory(domain, whole) = entry else {
                body.extend_from_slice(bytes);
                continue;
            };
            if *domain != old {
                body.extend_from_slice(bytes);
                continue;
            }
            // Where structures overlap, a piece may be longer than the first one that it begins in.
            let begins_here = |(_, piece): &mut (u32, Span)| {
                whole.base_bytes <= piece.base_bytes && piece.base_bytes < whole.end_bytes()
            };
            for (domain, piece) in left.extract_if(.., begins_here) {
                let mut copy = bytes.to_vec();
                let written = put(&mut copy, 2, &domain.to_le_bytes())
                    && put(&mut copy, 8, &piece.base_bytes.to_le_bytes())
                    && put(&mut copy, 16, &piece.length_bytes.to_le_bytes());
                if !written {
                    return Err(Kind::Srat.damaged(place.start, "a structure is too short"));
                }
                body.extend_from_slice(&copy);
            }
        }
        self.table.with_body(&body)
    }
}

fn overlap(domain: u32, a: &Span, neighbour: u32, b: &Span) -> String {
    format!(
        "memory of domain {domain} ({:#x}–{:#x}) overlaps that of domain {neighbour} ({:#x}–{:#x})",
        a.base_bytes,
        a.end_bytes() - 1,
        b.base_bytes,
        b.end_bytes() - 1
    )
}

/// One structure; its first two bytes (type and length) are there.
fn interpret(bytes: &[u8], wide: bool) -> Result<SratEntry, String> {
    let kind = bytes.first().copied().unwrap_or(0);
    let least = match kind {
        0 => 16,
        MEMORY => MEMORY_BYTES,
        2 => 24,
        3 => 18,
        4 => 12,
        5 | 6 => 32,
        7 => 20,
        // A later edition's: copied as it is.
        _ => return Ok(SratEntry::Ignored),
    };
    let short = || {
        format!(
            "a structure of type {kind} has {} bytes, not {least}",
            bytes.len()
        )
    };
    if bytes.len() < least {
        return Err(short());
    }
    let number = |at: usize| u32_at(bytes, at).ok_or_else(short);
    let narrow = |domain: u32| if wide { domain } else { domain & 0xff };
    Ok(match kind {
        0 => {
            // Eight bits of the domain at the front, and the rest where there once was nothing.
            let high = if wide { number(8)? & 0xffff_ff00 } else { 0 };
            let low = u32::from(bytes.get(2).copied().unwrap_or(0));
            processor(number(4)?, high | low)
        }
        MEMORY if number(FLAGS)? & ENABLED == 0 => SratEntry::Ignored,
        MEMORY => {
            let long = |at: usize| u64_at(bytes, at).ok_or_else(short);
            let (base_bytes, length_bytes) = (long(8)?, long(16)?);
            if length_bytes == 0 {
                return Ok(SratEntry::Ignored);
            }
            let domain = narrow(number(2)?);
            if base_bytes.checked_add(length_bytes).is_none() {
                return Ok(SratEntry::OutOfRange(domain));
            }
            let span = Span {
                base_bytes,
                length_bytes,
            };
            SratEntry::Memory(domain, span)
        }
        2 => processor(number(12)?, narrow(number(4)?)),
        3 => processor(number(10)?, number(2)?),
        4 => SratEntry::Other(number(2)?),
        7 => processor(number(12)?, number(4)?),
        _ => SratEntry::Other(number(4)?),
    })
}

fn processor(flags: u32, domain: u32) -> SratEntry {
    if flags & ENABLED == 0 {
        SratEntry::Ignored
    } else {
        SratEntry::Processor(domain)
    }
}
