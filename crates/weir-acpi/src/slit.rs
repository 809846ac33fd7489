// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Distances between domains: an n × n matrix of bytes (ACPI 6.5, 5.2.17).
//!
//! Firmware may leave padding behind the matrix (seen: one locality, 64 bytes). Linux leaves out a table with
//! impossible distances, and so does this crate ([`crate::Firmware::left_out`]).

use crate::bytes::u64_at;
use crate::error::AcpiError;
use crate::table::{HEADER_BYTES, Kind, Table};

/// From a domain to itself. No other pair may have it: Linux drops a table in which one does.
pub const LOCAL: u8 = 10;
/// Between two groups of one device: neither is further from anywhere than the other, and this is the
/// least that is allowed.
pub const BESIDE: u8 = 11;

const COUNT_BYTES: usize = 8;

#[derive(Clone, Debug)]
pub struct Slit {
    table: Table,
    count: usize,
}

impl Slit {
    /// Reads the matrix. As Linux does, it reads the localities that the table says; bytes behind
    /// them are padding (`slit_valid` and `acpi_parse_slit` in `drivers/acpi/numa/srat.c`).
    ///
    /// # Errors
    /// It is too short for its number of domains, or Linux would not take its distances.
    pub fn read(table: Table) -> Result<Self, AcpiError> {
        let kind = Kind::Slit;
        let body = table.body();
        let said = u64_at(body, 0).ok_or_else(|| kind.damaged(HEADER_BYTES, "it is truncated"))?;
        let available = body.len().saturating_sub(COUNT_BYTES);
        let count = usize::try_from(said).ok().filter(|count| {
            let cells = count.checked_mul(*count);
            cells.is_some_and(|cells| cells <= available)
        });
        let count = count.ok_or_else(|| {
            let cells = u128::from(said) * u128::from(said);
            let what = format!("{said} localities need {cells} bytes, and there are {available}");
            kind.damaged(HEADER_BYTES, what)
        })?;
        let slit = Slit { table, count };
        for from in 0..count {
            for to in 0..count {
                let distance = slit.at(from, to);
                if (from == to) != (distance == Some(LOCAL)) || distance < Some(LOCAL) {
                    let at = HEADER_BYTES + COUNT_BYTES + from * count + to;
                    let what = format!(
                        "the distance from {from} to {to} is {}: {LOCAL} is for the same domain, and \
                         less is for none",
                        distance.unwrap_or(0)
                    );
                    return Err(kind.damaged(at, what));
                }
            }
        }
        Ok(slit)
    }

    fn at(&self, from: usize, to: usize) -> Option<u8> {
        let inside = from < self.count && to < self.count;
        let cell = COUNT_BYTES + from * self.count + to;
        inside.then(|| self.table.body().get(cell).copied())?
    }

    /// How many domains it knows: 0 to this less one.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The distance between two domains, if it knows both.
    pub fn distance(&self, from: u32, to: u32) -> Option<u8> {
        self.at(usize::try_from(from).ok()?, usize::try_from(to).ok()?)
    }

    /// With the domains `groups` at the place of `old`, which is one of them.
    pub(crate) fn split(&self, old: u32, groups: &[u32]) -> Result<Table, AcpiError> {
        let highest = groups.iter().copied().max().unwrap_or(old);
        let count = self.count.max(highest as usize + 1);
        let of = |domain: usize| {
            let is_group = u32::try_from(domain).is_ok_and(|d| groups.contains(&d));
            if is_group { old as usize } else { domain }
        };
        let mut body = Vec::with_capacity(COUNT_BYTES + count * count);
        body.extend_from_slice(&(count as u64).to_le_bytes());
        for from in 0..count {
            for to in 0..count {
                let known = self.at(of(from), of(to));
                // Domains between the old highest and the first new one have no memory and no CPU.
                body.push(match known {
                    _ if from == to => LOCAL,
                    Some(LOCAL) => BESIDE,
                    Some(distance) => distance,
                    None => u8::MAX,
                });
            }
        }
        self.table.with_body(&body)
    }
}
