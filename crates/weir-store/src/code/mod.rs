// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A JSON document as few bytes: what changed since the document before it.
//!
//! What weir sees at one tick is nearly what it saw at the tick before: the same workloads, counters
//! that went on a little. Any serde type passes through here by way of its JSON form, so that a new
//! field of an observation needs no new code and old files stay readable by the rules of serde
//! (`docs/recording-format.md` has the bytes; [`write`] and [`read`] are the two directions).
//!
//! * a value that did not change costs nothing or a bit; a counter costs its step, and not itself;
//! * a number called `at` is told as the step from the `at` before it in the same document: readings
//!   of one look are microseconds apart;
//! * members of a list that have an `id` are compared with the member of that id, so that one
//!   workload more does not change all that come after it;
//! * texts are numbers of a table that the whole file shares;
//! * a member of the root called `checksum` has a fixed place and size ([`seal`]).
//!
//! The reading side takes hostile bytes: depth, number of nodes and lengths are bounded, and nothing
//! panics.

mod build;
mod document;
mod read;
pub(crate) mod seal;
pub(crate) mod varint;
mod write;

pub(crate) use read::Reader;
pub(crate) use write::Writer;

/// Where texts are kept.
pub(crate) trait Texts {
    /// What can go wrong with the table.
    type Error;
    /// The number of a text, which may be a new one.
    fn number(&mut self, text: &str) -> Result<u64, Self::Error>;
}

/// Where texts are looked up.
pub(crate) trait Lookup {
    /// The text of a number, if there is one.
    fn text(&mut self, number: u64) -> Option<String>;
}

/// Why bytes are no document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Bad(pub(crate) &'static str);

/// Nesting deeper than any observation's.
const DEPTH_MAX: u32 = 32;
/// Values in one document: ten thousand workloads have about 300 000.
const NODES_MAX: usize = 8_000_000;
/// The member whose numbers are steps from the one before in the document.
const CLOCK: &str = "at";
/// The member by which elements of lists are compared.
const KEY: &str = "id";

// First byte of a value. Above `SMALL_FIELDS` the byte has room for a part of the value.
const SAME: u8 = 0;
const NULL: u8 = 1;
const FALSE: u8 = 2;
const TRUE: u8 = 3;
const UINT: u8 = 4;
const NEGATIVE: u8 = 5;
const FLOAT: u8 = 6;
const TEXT: u8 = 7;
const LIST: u8 = 8;
const OBJECT: u8 = 9;
const FIELDS: u8 = 10;
const ITEMS: u8 = 11;
/// `01bbbbbb`: an object of at most six fields, and which of them changed.
const SMALL_FIELDS: u8 = 0x40;
const SMALL_FIELDS_MAX: usize = 6;
/// `1cbbbbbb`: six bits of a step, and whether more follow.
const STEP: u8 = 0x80;
const STEP_MORE: u8 = 0x40;

// What comes next in a list that is compared with the one before.
const ITEM_NEW: u8 = 0;
const ITEM_CHANGED: u8 = 1;
const ITEMS_SAME: u8 = 2;
const ITEMS_GONE: u8 = 3;

#[cfg(test)]
mod tests;
