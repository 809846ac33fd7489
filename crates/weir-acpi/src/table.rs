// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A table as a whole: its header, its length, its checksum (ACPI 6.5, 5.2.6).

use crate::bytes::{put, u32_at};
use crate::error::AcpiError;
use std::ops::Range;

/// Bytes of the header that every table has.
pub const HEADER_BYTES: usize = 36;
/// No table of a machine with [`crate::DOMAIN_COUNT_MAX`] domains is longer.
pub const TABLE_BYTES_MAX: usize = 4 << 20;

/// Offsets in the header that every table has (ACPI 6.5, 5.2.6).
const LENGTH: usize = 4;
const REVISION: usize = 8;
const CHECKSUM: usize = 9;
const OEM_ID: std::ops::Range<usize> = 10..16;
const OEM_TABLE_ID: std::ops::Range<usize> = 16..24;
const OEM_REVISION: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The System Resource Affinity Table: it says which memory and which CPUs belong to one domain.
    Srat,
    Slit,
    /// Latencies and bandwidths between domains.
    Hmat,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Srat, Kind::Slit, Kind::Hmat];

    pub fn signature(self) -> &'static str {
        match self {
            Kind::Srat => "SRAT",
            Kind::Slit => "SLIT",
            Kind::Hmat => "HMAT",
        }
    }

    pub(crate) fn damaged(self, at: usize, what: impl Into<String>) -> AcpiError {
        AcpiError::Damaged {
            table: self.signature(),
            at,
            what: what.into(),
        }
    }

    pub(crate) fn refused(self, why: impl Into<String>) -> AcpiError {
        AcpiError::Refused {
            table: self.signature(),
            why: why.into(),
        }
    }
}

/// A table with a right header, length and checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    kind: Kind,
    bytes: Vec<u8>,
}

impl Table {
    /// Takes the bytes of one table.
    ///
    /// # Errors
    /// Too short or too long, another signature, another length than it says, a wrong checksum.
    pub fn read(kind: Kind, bytes: Vec<u8>) -> Result<Self, AcpiError> {
        if !(HEADER_BYTES..=TABLE_BYTES_MAX).contains(&bytes.len()) {
            let what = format!(
                "{} bytes, and a table has {HEADER_BYTES} to {TABLE_BYTES_MAX}",
                bytes.len()
            );
            return Err(kind.damaged(0, what));
        }
        let signature = bytes.get(..4).unwrap_or_default();
        if signature != kind.signature().as_bytes() {
            let found = signature.escape_ascii();
            return Err(kind.damaged(0, format!("its signature is \"{found}\"")));
        }
        let says = u32_at(&bytes, LENGTH).unwrap_or(0) as usize;
        if says != bytes.len() {
            let what = format!("it says {says} bytes, and there are {}", bytes.len());
            return Err(kind.damaged(LENGTH, what));
        }
        match sum(&bytes) {
            0 => Ok(Table { kind, bytes }),
            sum => Err(AcpiError::Checksum {
                table: kind.signature(),
                sum,
            }),
        }
    }

    /// Results of `interpret` for each structure behind the first `prologue` bytes of the body, with its
    /// place there. `length` reads a structure's length from the bytes that begin with it.
    ///
    /// # Errors
    /// One is truncated, shorter than `least`, runs past the end, or `interpret` refuses it.
    pub(crate) fn structures<T, W: Into<String>>(
        &self,
        prologue: usize,
        least: usize,
        length: impl Fn(&[u8]) -> Option<usize>,
        interpret: impl Fn(&[u8]) -> Result<T, W>,
    ) -> Result<Vec<(Range<usize>, T)>, AcpiError> {
        let (kind, body) = (self.kind, self.body());
        if body.len() < prologue {
            return Err(kind.damaged(HEADER_BYTES, "it is truncated"));
        }
        let mut entries = Vec::new();
        let mut at = prologue;
        // Less than the head of a structure is padding (kernel, `acpi_parse_entries_array`).
        while let Some(rest) = body.get(at..).filter(|rest| rest.len() >= least) {
            let here = HEADER_BYTES + at;
            let length = length(rest).unwrap_or(0);
            if length < least {
                return Err(kind.damaged(here, format!("a structure of {length} bytes")));
            }
            let bytes = rest.get(..length).ok_or_else(|| {
                let what = format!("a structure of {length} bytes runs past the end");
                kind.damaged(here, what)
            })?;
            let says = interpret(bytes).map_err(|what| kind.damaged(here, what))?;
            entries.push((at..at + length, says));
            at += length;
        }
        Ok(entries)
    }

    /// The same header with another body: length and checksum are made right, and the OEM revision is
    /// raised by one, because Linux replaces a table only by one of a higher OEM revision.
    ///
    /// # Errors
    /// The OEM revision is the highest there is, or the body is too long.
    pub fn with_body(&self, body: &[u8]) -> Result<Self, AcpiError> {
        let next = self.oem_revision().checked_add(1);
        let next = next.ok_or_else(|| {
            let why = "its OEM revision is the highest there is, so Linux would not take another table for it";
            self.kind.refused(why)
        })?;
        let mut bytes = self.bytes.get(..HEADER_BYTES).unwrap_or_default().to_vec();
        bytes.extend_from_slice(body);
        if bytes.len() > TABLE_BYTES_MAX {
            let why = format!(
                "it would have {} bytes, above {TABLE_BYTES_MAX}",
                bytes.len()
            );
            return Err(self.kind.refused(why));
        }
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let whole = put(&mut bytes, LENGTH, &length.to_le_bytes())
            && put(&mut bytes, OEM_REVISION, &next.to_le_bytes())
            && put(&mut bytes, CHECKSUM, &[0]);
        let checksum = sum(&bytes).wrapping_neg();
        if !(whole && put(&mut bytes, CHECKSUM, &[checksum])) {
            return Err(self.kind.damaged(0, "it has no header"));
        }
        Table::read(self.kind, bytes)
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn body(&self) -> &[u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// Which edition of its layout this is.
    pub fn revision(&self) -> u8 {
        self.bytes.get(REVISION).copied().unwrap_or(0)
    }

    /// The maker's own count of editions.
    pub fn oem_revision(&self) -> u32 {
        u32_at(&self.bytes, OEM_REVISION).unwrap_or(0)
    }

    /// OEM ID and OEM table ID: Linux replaces a table only by one with the same. Not escaped for terminals.
    pub fn oem(&self) -> (&[u8], &[u8]) {
        let part = |range| self.bytes.get(range).unwrap_or_default();
        (part(OEM_ID), part(OEM_TABLE_ID))
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}
