// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Latency and bandwidth between domains (ACPI 6.5, 5.2.28).
//!
//! Groups of one device share its link, so each has the latency and the bandwidth of the whole: what one
//! of them reaches while the others are silent.

use crate::bytes::{put, u16_at, u32_at, u64_at};
use crate::error::AcpiError;
use crate::table::{Kind, Table};
use std::ops::Range;

const PROLOGUE_BYTES: usize = 4;
/// Bytes that each structure begins with: type, reserved, length.
const STRUCTURE_BYTES_MIN: usize = 8;
/// Types and lengths of the structures: proximity domain attributes (ACPI 6.5, 5.2.28.3), system locality
/// (5.2.28.4) and memory side caches (5.2.28.5). A locality structure is followed by its domains and cells,
/// so that its length is the least one.
const PROXIMITY: u16 = 0;
const PROXIMITY_BYTES: usize = 40;
const LOCALITY: u16 = 1;
const LOCALITY_BYTES: usize = 32;
const CACHE: u16 = 2;
const CACHE_BYTES: usize = 32;
/// The first revision in which latencies are picoseconds and structures name no addresses.
const PICOSECONDS_REVISION: u8 = 2;
const INITIATOR_VALID: u16 = 1;

/// Kind of the values in a locality structure (ACPI 6.5, 5.2.28.4: data type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    /// Nanoseconds.
    ReadLatency,
    /// Nanoseconds.
    WriteLatency,
    /// MB/s.
    ReadBandwidth,
    /// MB/s.
    WriteBandwidth,
}

impl DataType {
    /// Data types of ACPI that give it: its own, and the one for reads and writes together.
    fn is_given_by(self, data_type: u8) -> bool {
        let (both, own) = match self {
            DataType::ReadLatency => (0, 1),
            DataType::WriteLatency => (0, 2),
            DataType::ReadBandwidth => (3, 4),
            DataType::WriteBandwidth => (3, 5),
        };
        data_type == both || data_type == own
    }

    fn is_latency(self) -> bool {
        matches!(self, DataType::ReadLatency | DataType::WriteLatency)
    }
}

/// A matrix from initiators to targets.
#[derive(Clone, Debug)]
struct Locality {
    initiators: Vec<u32>,
    targets: Vec<u32>,
    /// Offset of the first cell in the structure.
    cells: usize,
    /// Offset of the first byte behind the last cell.
    end: usize,
}

#[derive(Clone, Debug)]
enum HmatEntry {
    /// A memory domain, and the domain of the processors next to it.
    Proximity {
        memory: u32,
        initiator: Option<u32>,
    },
    Locality(Locality),
    Cache {
        memory: u32,
    },
    Ignored,
}

#[derive(Clone, Debug)]
pub struct Hmat {
    table: Table,
    entries: Vec<(Range<usize>, HmatEntry)>,
}

impl Hmat {
    /// Reads all structures.
    ///
    /// # Errors
    /// One is truncated, runs past the end, or holds less than it says.
    pub fn read(table: Table) -> Result<Self, AcpiError> {
        let length = |rest: &[u8]| u32_at(rest, 4).map(|length| length as usize);
        let entries = table.structures(PROLOGUE_BYTES, STRUCTURE_BYTES_MIN, length, interpret)?;
        Ok(Hmat { table, entries })
    }

    pub(crate) fn highest(&self) -> u32 {
        let of = |entry: &HmatEntry| match entry {
            HmatEntry::Proximity { memory, initiator } => initiator.unwrap_or(0).max(*memory),
            HmatEntry::Locality(l) => l
                .initiators
                .iter()
                .chain(&l.targets)
                .copied()
                .max()
                .unwrap_or(0),
            HmatEntry::Cache { memory } => *memory,
            HmatEntry::Ignored => 0,
        };
        self.entries
            .iter()
            .map(|(_, entry)| of(entry))
            .max()
            .unwrap_or(0)
    }

    /// The value that Linux shows for a memory domain (`access0/initiators/`): the best from any initiator,
    /// or from the one that the table puts next to it.
    pub fn best(&self, figure: DataType, target: u32) -> Option<u64> {
        let next_to = self.entries.iter().find_map(|(_, entry)| match entry {
            HmatEntry::Proximity { memory, initiator } if *memory == target => *initiator,
            _ => None,
        });
        let mut best: Option<u64> = None;
        for (place, entry) in &self.entries {
            let HmatEntry::Locality(locality) = entry else {
                continue;
            };
            let bytes = self.table.body().get(place.clone()).unwrap_or_default();
            for initiator in &locality.initiators {
                if next_to.is_some_and(|only| only != *initiator) {
                    continue;
                }
                let Some(value) = self.cell(bytes, locality, figure, *initiator, target) else {
                    continue;
                };
                best = Some(match best {
                    Some(other) if figure.is_latency() => value.min(other),
                    Some(other) => value.max(other),
                    None => value,
                });
            }
        }
        best
    }

    fn cell(
        &self,
        bytes: &[u8],
        of: &Locality,
        figure: DataType,
        from: u32,
        to: u32,
    ) -> Option<u64> {
        // The low half of the flags distinguishes memory (0) from the caches in front of it.
        let is_memory = bytes.get(8).is_some_and(|flags| flags & 0xf == 0);
        if !is_memory || !bytes.get(9).is_some_and(|kind| figure.is_given_by(*kind)) {
            return None;
        }
        let row = of.initiators.iter().position(|d| *d == from)?;
        let column = of.targets.iter().position(|d| *d == to)?;
        let entry = u16_at(bytes, of.cells + 2 * (row * of.targets.len() + column))?;
        let unit = u64_at(bytes, 24)?;
        if entry == 0 || entry == u16::MAX {
            return None;
        }
        let value = u64::from(entry).checked_mul(unit)?;
        let picoseconds = figure.is_latency() && self.table.revision() >= PICOSECONDS_REVISION;
        Some(if picoseconds {
            value.div_ceil(1000)
        } else {
            value
        })
    }

    /// With the domains `groups` at the place of `old`, which is one of them; `spans` are their memory,
    /// for tables of the first revision, which names addresses too.
    pub(crate) fn split(
        &self,
        old: u32,
        groups: &[u32],
        spans: &[(u32, crate::srat::Span)],
    ) -> Result<Table, AcpiError> {
        let damaged =
            |place: &Range<usize>| Kind::Hmat.damaged(place.start, "a structure is too short");
        let mut body = self
            .table
            .body()
            .get(..PROLOGUE_BYTES)
            .unwrap_or_default()
            .to_vec();
        for (place, entry) in &self.entries {
            let bytes = self.table.body().get(place.clone()).unwrap_or_default();
            match entry {
                HmatEntry::Proximity { memory, .. } if *memory == old => {
                    let named = self.table.revision() < PICOSECONDS_REVISION;
                    let copies = if named {
                        spans.to_vec()
                    } else {
                        let whole = crate::srat::Span {
                            base_bytes: u64_at(bytes, 24).unwrap_or(0),
                            length_bytes: u64_at(bytes, 32).unwrap_or(0),
                        };
                        groups.iter().map(|d| (*d, whole)).collect()
                    };
                    for (domain, span) in copies {
                        let mut copy = bytes.to_vec();
                        let written = put(&mut copy, 16, &domain.to_le_bytes())
                            && put(&mut copy, 24, &span.base_bytes.to_le_bytes())
                            && put(&mut copy, 32, &span.length_bytes.to_le_bytes());
                        if !written {
                            return Err(damaged(place));
                        }
                        body.extend_from_slice(&copy);
                    }
                }
                HmatEntry::Cache { memory } if *memory == old => {
                    // The cache in front of the device serves all of them.
                    for domain in groups {
                        let mut copy = bytes.to_vec();
                        if !put(&mut copy, 8, &domain.to_le_bytes()) {
                            return Err(damaged(place));
                        }
                        body.extend_from_slice(&copy);
                    }
                }
                HmatEntry::Locality(locality) if locality.targets.contains(&old) => {
                    let wider =
                        widen(bytes, locality, old, groups).ok_or_else(|| damaged(place))?;
                    body.extend_from_slice(&wider);
                }
                _ => body.extend_from_slice(bytes),
            }
        }
        self.table.with_body(&body)
    }
}

/// A column for each new domain, with the old one's figures.
fn widen(bytes: &[u8], of: &Locality, old: u32, groups: &[u32]) -> Option<Vec<u8>> {
    let new: Vec<u32> = groups
        .iter()
        .copied()
        .filter(|d| !of.targets.contains(d))
        .collect();
    let column = of.targets.iter().position(|d| *d == old)?;
    let targets = of.targets.len() + new.len();
    let mut out = bytes.get(..of.cells)?.to_vec();
    for domain in &new {
        out.extend_from_slice(&domain.to_le_bytes());
    }
    for row in 0..of.initiators.len() {
        let at = |column: usize| of.cells + 2 * (row * of.targets.len() + column);
        out.extend_from_slice(bytes.get(at(0)..at(of.targets.len()))?);
        for _ in &new {
            out.extend_from_slice(bytes.get(at(column)..at(column) + 2)?);
        }
    }
    // Bytes that the firmware put behind the cells, such as padding.
    out.extend_from_slice(bytes.get(of.end..)?);
    let (length, targets) = (u32::try_from(out.len()).ok()?, u32::try_from(targets).ok()?);
    (put(&mut out, 4, &length.to_le_bytes()) && put(&mut out, 16, &targets.to_le_bytes()))
        .then_some(out)
}

/// One structure; its first eight bytes (type and length) are there.
fn interpret(bytes: &[u8]) -> Result<HmatEntry, String> {
    let kind = u16_at(bytes, 0).unwrap_or(u16::MAX);
    let least = match kind {
        PROXIMITY => PROXIMITY_BYTES,
        LOCALITY => LOCALITY_BYTES,
        CACHE => CACHE_BYTES,
        _ => return Ok(HmatEntry::Ignored),
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
    Ok(match kind {
        PROXIMITY => {
            let flags = u16_at(bytes, 8).ok_or_else(short)?;
            let initiator = number(12)?;
            HmatEntry::Proximity {
                memory: number(16)?,
                initiator: (flags & INITIATOR_VALID != 0).then_some(initiator),
            }
        }
        CACHE => HmatEntry::Cache { memory: number(8)? },
        _ => HmatEntry::Locality(locality(bytes)?),
    })
}

fn locality(bytes: &[u8]) -> Result<Locality, String> {
    let count = |at: usize| u32_at(bytes, at).map_or(usize::MAX, |n| n as usize);
    let (initiators, targets) = (count(12), count(16));
    let most = crate::DOMAIN_COUNT_MAX;
    if initiators > most || targets > most {
        return Err(format!(
            "{initiators} initiators and {targets} targets, above {most}"
        ));
    }
    let cells = LOCALITY_BYTES + 4 * (initiators + targets);
    let end = cells + 2 * initiators * targets;
    if end > bytes.len() {
        let has = bytes.len();
        return Err(format!(
            "{initiators} initiators and {targets} targets need {end} bytes, and it has {has}"
        ));
    }
    let list = |from: usize, count: usize| -> Vec<u32> {
        (0..count)
            .filter_map(|i| u32_at(bytes, from + 4 * i))
            .collect()
    };
    Ok(Locality {
        initiators: list(LOCALITY_BYTES, initiators),
        targets: list(LOCALITY_BYTES + 4 * initiators, targets),
        cells,
        end,
    })
}
