// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which memory and which processors belong to one domain (ACPI 6.5, 5.2.16).

use crate::bytes::{put, u32_at, u64_at};
use crate::error::AcpiError;
use crate::table::{HEADER_BYTES, Kind, Table};
use std::collections::BTreeSet;
use std::ops::Range;

/// Table revision (always 1) and reserved bytes before the first structure.
const PROLOGUE_BYTES: usize = 12;
/// What each structure begins with: type, length.
const STRUCTURE_BYTES_MIN: usize = 2;
const MEMORY: u8 = 1;
const MEMORY_BYTES: usize = 40;
const ENABLED: u32 = 1;
/// The domain of a table of revision 1 has one byte.
const WIDE_DOMAINS_REVISION: u8 = 2;

/// A piece of host-physical address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Where it begins.
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

/// What one structure of the table says.
#[derive(Clone, Debug)]
enum Says {
    /// Memory of a domain, in use.
    Memory(u32, Span),
    /// A processor of a domain.
    Processor(u32),
    /// Something else of a domain: an initiator, a port, an interrupt translator.
    Other(u32),
    /// Memory that is switched off or has no length, or a structure of a later edition.
    Nothing,
}

/// A sound affinity table.
#[derive(Clone, Debug)]
pub struct Srat {
    table: Table,
    /// In the table's order, with their places in its body.
    entries: Vec<(Range<usize>, Says)>,
}

impl Srat {
    /// Reads all structures.
    ///
    /// # Errors
    /// One is cut short, shorter than its kind, or runs past the end; memory ranges overlap or wrap.
    pub fn read(table: Table) -> Result<Self, AcpiError> {
        let length = |rest: &[u8]| rest.get(1).copied().map(usize::from);
        let wide = table.revision() >= WIDE_DOMAINS_REVISION;
        let entries = table.structures(PROLOGUE_BYTES, STRUCTURE_BYTES_MIN, length, |bytes| {
            interpret(bytes, wide)
        })?;
        let srat = Srat { table, entries };
        srat.no_overlap()?;
        Ok(srat)
    }

    fn no_overlap(&self) -> Result<(), AcpiError> {
        let mut all: Vec<(Span, usize, u32)> = Vec::new();
        for (place, says) in &self.entries {
            if let Says::Memory(domain, span) = says {
                all.push((*span, HEADER_BYTES + place.start, *domain));
            }
        }
        all.sort_unstable();
        let pairs = all.iter().zip(all.iter().skip(1));
        for ((a, at, domain), (b, other, neighbour)) in pairs {
            if a.end_bytes() > b.base_bytes {
                let what = format!(
                    "memory of domain {domain} ({:#x}–{:#x}) overlaps that of domain {neighbour} \
                     ({:#x}–{:#x}, at byte {other})",
                    a.base_bytes,
                    a.end_bytes() - 1,
                    b.base_bytes,
                    b.end_bytes() - 1
                );
                return Err(Kind::Srat.damaged(*at, what));
            }
        }
        Ok(())
    }

    /// Memory of a domain, in the order of addresses.
    pub fn memory(&self, domain: u32) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for (_, says) in &self.entries {
            if let Says::Memory(of, span) = says
                && *of == domain
            {
                spans.push(*span);
            }
        }
        spans.sort_unstable();
        spans
    }

    /// Domains with memory and without processors, ascending: CXL memory is one of these.
    pub fn memory_only(&self) -> Vec<u32> {
        let mut memory = BTreeSet::new();
        let mut processors = BTreeSet::new();
        for (_, says) in &self.entries {
            match says {
                Says::Memory(domain, _) => memory.insert(*domain),
                Says::Processor(domain) => processors.insert(*domain),
                Says::Other(_) | Says::Nothing => false,
            };
        }
        memory.difference(&processors).copied().collect()
    }

    /// Whether the domain has memory at all.
    pub fn has_memory(&self, domain: u32) -> bool {
        !self.memory(domain).is_empty()
    }

    /// Domains with processors.
    pub fn processors(&self) -> BTreeSet<u32> {
        let of = |says: &Says| match says {
            Says::Processor(domain) => Some(*domain),
            _ => None,
        };
        self.entries
            .iter()
            .filter_map(|(_, says)| of(says))
            .collect()
    }

    /// The highest domain that is mentioned anywhere.
    pub(crate) fn highest(&self) -> u32 {
        let of = |says: &Says| match says {
            Says::Memory(domain, _) | Says::Processor(domain) | Says::Other(domain) => *domain,
            Says::Nothing => 0,
        };
        self.entries
            .iter()
            .map(|(_, says)| of(says))
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
        for (place, says) in &self.entries {
            let bytes = self.table.body().get(place.clone()).unwrap_or_default();
            let Says::Memory(domain, whole) = says else {
                body.extend_from_slice(bytes);
                continue;
            };
            if *domain != old {
                body.extend_from_slice(bytes);
                continue;
            }
            let inside = pieces.iter().filter(|(_, piece)| {
                piece.base_bytes >= whole.base_bytes && piece.end_bytes() <= whole.end_bytes()
            });
            for (domain, piece) in inside {
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

/// One structure, whose first two bytes (type and length) are there.
fn interpret(bytes: &[u8], wide: bool) -> Result<Says, String> {
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
        _ => return Ok(Says::Nothing),
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
        MEMORY if number(28)? & ENABLED == 0 => Says::Nothing,
        MEMORY => {
            let long = |at: usize| u64_at(bytes, at).ok_or_else(short);
            let (base_bytes, length_bytes) = (long(8)?, long(16)?);
            if length_bytes == 0 {
                return Ok(Says::Nothing);
            }
            if base_bytes.checked_add(length_bytes).is_none() {
                return Err(format!(
                    "memory at {base_bytes:#x} with {length_bytes:#x} bytes ends beyond all addresses"
                ));
            }
            let span = Span {
                base_bytes,
                length_bytes,
            };
            Says::Memory(narrow(number(2)?), span)
        }
        2 => processor(number(12)?, narrow(number(4)?)),
        3 => processor(number(10)?, number(2)?),
        4 => Says::Other(number(2)?),
        7 => processor(number(12)?, number(4)?),
        _ => Says::Other(number(4)?),
    })
}

fn processor(flags: u32, domain: u32) -> Says {
    if flags & ENABLED == 0 {
        Says::Nothing
    } else {
        Says::Processor(domain)
    }
}
