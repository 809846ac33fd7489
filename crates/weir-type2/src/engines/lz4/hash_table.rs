// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where four bytes were seen last, and the four bytes that followed them.
//!
//! The four bytes are hashed one to one: their upper 21 bits are the tag, and folded onto the lower 11
//! they are the index. So an entry with the same tag is the same four bytes, and no byte of the page need
//! be read to know it; with what followed, matches of 4 to 7 bytes are known at once.
//!
//! The table has four banks for each position that is looked up in a clock. A bank serves one position a
//! clock, the first; the others are neither looked up nor entered.

use super::MATCH_BYTES_MIN;

/// Bits of the hash that are the index; the other 21 are kept as a tag. The hash of four bytes is one to one,
/// so equal tags in one row are equal bytes.
const INDEX_BITS: u32 = 11;

/// Banks for each position of a clock. Of two positions that need one bank the first gets it, and the other
/// one is neither looked up nor entered.
const BANKS_A_POSITION: usize = 4;

/// Eight bytes at a position of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct HashKey {
    index: u32,
    tag: u32,
    following: u32,
}

impl HashKey {
    pub(super) fn new(bytes: [u8; 2 * MATCH_BYTES_MIN]) -> HashKey {
        let bytes = u64::from_le_bytes(bytes);
        let word = bytes as u32;
        let tag = word >> INDEX_BITS;
        let mask = (1 << INDEX_BITS) - 1;
        HashKey {
            index: (word ^ tag ^ tag >> INDEX_BITS) & mask,
            tag,
            following: (bytes >> u32::BITS) as u32,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct HashEntry {
    tag: u32,
    following: u32,
    position: u16,
}

/// Where the same four bytes were.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenBytes {
    pub(super) position: usize,
    /// Bytes after the four that are the same there, 0 to 4.
    pub(super) more: usize,
}

#[derive(Clone, Debug)]
pub(super) struct HashTable {
    entries: Vec<Option<HashEntry>>,
    bank_count: u32,
}

impl HashTable {
    pub(super) fn new(positions: usize) -> HashTable {
        HashTable {
            entries: vec![None; 1 << INDEX_BITS],
            bank_count: (positions * BANKS_A_POSITION) as u32,
        }
    }

    pub(super) fn bank(&self, key: HashKey) -> u32 {
        key.index % self.bank_count
    }

    pub(super) fn find(&self, key: HashKey) -> Option<SeenBytes> {
        let entry = self.entries[key.index as usize]?;
        (entry.tag == key.tag).then(|| SeenBytes {
            position: entry.position as usize,
            more: ((entry.following ^ key.following).trailing_zeros() / u8::BITS) as usize,
        })
    }

    pub(super) fn enter(&mut self, key: HashKey, position: usize) {
        self.entries[key.index as usize] = Some(HashEntry {
            tag: key.tag,
            following: key.following,
            position: position as u16,
        });
    }
}
