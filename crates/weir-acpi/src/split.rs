// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One memory domain becomes several: the addresses of each, and the tables that describe them.
//!
//! The first group keeps the old domain's number; the others get numbers that no table mentions, right
//! behind the highest, because the distance table has a row for every number below its size.

use crate::error::AcpiError;
use crate::hmat::Hmat;
use crate::sizes::{Fraction, Sizes};
use crate::slit::Slit;
use crate::srat::{Span, Srat};
use crate::table::{Kind, Table};

/// The firmware's tables that describe memory.
#[derive(Clone, Debug)]
pub struct Firmware {
    /// Which memory and processors belong to which domain.
    pub srat: Srat,
    /// Distances, if it has any.
    pub slit: Option<Slit>,
    /// Latencies and bandwidths, if it has any.
    pub hmat: Option<Hmat>,
    /// Tables that are there and that Linux cannot use either, with what is wrong. They stay as they are.
    pub left_out: Vec<(Kind, AcpiError)>,
}

impl Firmware {
    /// Reads the tables; only the first must be there, and sound. Linux runs without a SLIT or HMAT that
    /// makes no sense.
    ///
    /// # Errors
    /// The SRAT is not sound.
    pub fn read(srat: Table, slit: Option<Table>, hmat: Option<Table>) -> Result<Self, AcpiError> {
        let srat = Srat::read(srat)?;
        let mut left_out = Vec::new();
        Ok(Firmware {
            srat,
            slit: sound(slit, Slit::read, &mut left_out),
            hmat: sound(hmat, Hmat::read, &mut left_out),
            left_out,
        })
    }

    /// The domain to split: the one that was named, or the only one it can be.
    ///
    /// # Errors
    /// There is no such domain, it has processors, or there is a choice and nothing was named.
    pub fn device_domain(&self, named: Option<u32>) -> Result<u32, AcpiError> {
        let candidates = self.srat.memory_only();
        let list = || {
            let all: Vec<String> = candidates.iter().map(u32::to_string).collect();
            all.join(", ")
        };
        let said = match (named, &candidates[..]) {
            (Some(domain), _) if candidates.contains(&domain) => return Ok(domain),
            (None, [only]) => return Ok(*only),
            (Some(domain), _) if self.srat.has_memory(domain) => {
                format!("domain {domain} has processors: it is no memory device")
            }
            (Some(domain), _) => format!("the SRAT has no memory of domain {domain}"),
            (None, []) => "the SRAT has no domain with memory and without processors".to_owned(),
            (None, _) => "several domains have memory and no processors; name one".to_owned(),
        };
        Err(AcpiError::Domain(match &candidates[..] {
            [] => format!(
                "{said}. Memory that the firmware does not list (see `cxl list -R`) gets its node from \
                 the CEDT, which is not changed here"
            ),
            _ => format!("{said} (--domain; it can be: {})", list()),
        }))
    }
}

fn sound<T>(
    table: Option<Table>,
    read: impl Fn(Table) -> Result<T, AcpiError>,
    left_out: &mut Vec<(Kind, AcpiError)>,
) -> Option<T> {
    let table = table?;
    let kind = table.kind();
    match read(table) {
        Ok(sound) => Some(sound),
        Err(why) => {
            left_out.push((kind, why));
            None
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number in the tables. Linux numbers its nodes itself.
    pub domain: u32,
    /// The requested part of the device.
    pub share: Fraction,
    /// Its memory, in the order of addresses.
    pub spans: Vec<Span>,
}

impl Group {
    pub fn bytes(&self) -> u64 {
        self.spans.iter().map(|s| s.length_bytes).sum()
    }
}

#[derive(Clone, Debug)]
pub struct Split {
    /// The groups, in the order of addresses; the first has the number of the old domain.
    pub groups: Vec<Group>,
    /// The tables to give to the kernel.
    pub tables: Vec<Table>,
    /// Tables that the firmware has, and that say nothing of the device.
    pub untouched: Vec<Kind>,
    /// Oddities of the tables, and what becomes of each.
    pub notes: Vec<String>,
}

/// Splits `domain` (or the only one that can be meant) into groups that begin and end at multiples of
/// `grain_bytes`.
///
/// # Errors
/// The domain is none to split, a group would be empty, or a table cannot hold so many.
pub fn split(
    firmware: &Firmware,
    domain: Option<u32>,
    sizes: &Sizes,
    grain_bytes: u64,
) -> Result<Split, AcpiError> {
    let old = firmware.device_domain(domain)?;
    let whole = firmware.srat.memory_to_split(old)?;
    let groups = divide(firmware, old, &whole, sizes, grain_bytes)?;
    let domains: Vec<u32> = groups.iter().map(|g| g.domain).collect();
    let mut pieces: Vec<(u32, Span)> = Vec::new();
    for group in &groups {
        pieces.extend(group.spans.iter().map(|span| (group.domain, *span)));
    }
    let mut tables = vec![firmware.srat.split(old, &pieces)?];
    let mut untouched = Vec::new();
    match &firmware.slit {
        Some(slit) if (old as usize) < slit.count() => tables.push(slit.split(old, &domains)?),
        Some(_) => untouched.push(Kind::Slit),
        None => {}
    }
    if let Some(hmat) = &firmware.hmat {
        tables.push(hmat.split(old, &domains, &pieces)?);
    }
    Ok(Split {
        groups,
        tables,
        untouched,
        notes: notes(firmware, old),
    })
}

fn notes(firmware: &Firmware, split: u32) -> Vec<String> {
    let left_out = firmware.left_out.iter().map(|(kind, why)| {
        let name = kind.signature();
        format!("Linux does not use the {name}, and it is left as it is: {why}")
    });
    let notes = firmware.srat.notes(split);
    left_out.chain(notes).collect()
}

fn divide(
    firmware: &Firmware,
    old: u32,
    whole: &[Span],
    sizes: &Sizes,
    grain_bytes: u64,
) -> Result<Vec<Group>, AcpiError> {
    let numbers = new_numbers(firmware, sizes.parts().len() - 1)?;
    let total = whole
        .iter()
        .try_fold(0_u64, |sum, s| sum.checked_add(s.length_bytes));
    let total = total.ok_or_else(|| AcpiError::Domain("the domain has over 2^64 bytes".into()))?;
    let mut start = 0;
    let mut groups = Vec::new();
    let domains = std::iter::once(old).chain(numbers);
    for ((share, end), domain) in sizes.parts().iter().zip(sizes.ends(total)).zip(domains) {
        let end = if end == total {
            end
        } else {
            aligned(whole, end, grain_bytes)
        };
        if end <= start {
            return Err(AcpiError::Sizes(format!(
                "{share} of {total} bytes leaves no multiple of {grain_bytes} bytes for that group; \
                 use fewer or larger groups"
            )));
        }
        groups.push(Group {
            domain,
            share: *share,
            spans: between(whole, start, end),
        });
        start = end;
    }
    Ok(groups)
}

/// Numbers for the domains that are not there yet.
fn new_numbers(
    firmware: &Firmware,
    count: usize,
) -> Result<std::ops::RangeInclusive<u32>, AcpiError> {
    let in_slit = firmware
        .slit
        .as_ref()
        .map_or(0, |s| s.count().saturating_sub(1));
    let highest = firmware
        .srat
        .highest()
        .max(firmware.hmat.as_ref().map_or(0, Hmat::highest))
        .max(u32::try_from(in_slit).unwrap_or(u32::MAX));
    let most = u32::try_from(crate::DOMAIN_COUNT_MAX - 1).unwrap_or(u32::MAX);
    let most = most.min(firmware.srat.highest_possible());
    let last = u32::try_from(count)
        .ok()
        .and_then(|count| highest.checked_add(count));
    match last {
        Some(last) if last <= most => Ok(highest + 1..=last),
        _ => Err(Kind::Srat.refused(format!(
            "{count} more domains behind domain {highest} do not fit: the highest can be {most}"
        ))),
    }
}

/// The multiple of the grain, as an address, next to `offset` of all the device's memory; as an offset.
/// Never outside the piece that the offset lies in.
fn aligned(whole: &[Span], offset: u64, grain_bytes: u64) -> u64 {
    let mut before = 0_u64;
    for span in whole {
        if offset - before <= span.length_bytes {
            let address = span.base_bytes + (offset - before);
            let down = address - address % grain_bytes.max(1);
            let up = down.saturating_add(grain_bytes);
            let near = if address - down <= up - address {
                down
            } else {
                up
            };
            let near = near.clamp(span.base_bytes, span.end_bytes());
            return before + (near - span.base_bytes);
        }
        before += span.length_bytes;
    }
    before
}

/// The part of all the device's memory between two offsets.
fn between(whole: &[Span], start: u64, end: u64) -> Vec<Span> {
    let mut before = 0_u64;
    let mut parts = Vec::new();
    for span in whole {
        let from = start.max(before);
        let to = end.min(before + span.length_bytes);
        if from < to {
            parts.push(Span {
                base_bytes: span.base_bytes + (from - before),
                length_bytes: to - from,
            });
        }
        before += span.length_bytes;
    }
    parts
}
