// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checksums: a byte that changed on the disk is found, and what it stood in is not passed off as data.
//!
//! Each thing that is read on its own has a sum of its own (CRC-32 as in IEEE 802.3, zlib and PNG):
//!
//! | thing | its sum stands in |
//! |---|---|
//! | a tick: row and document | its column `crc32` ([`super::tick`]) |
//! | a session | the end of its `config` ([`super::session`]) |
//! | a text | `text_check` |
//! | a span with its figures | `span_check` |
//! | the actions of a tick | `action_check` |
//!
//! A sum covers the numbers of its rows, so that a row in a wrong place is found too. It finds each burst of
//! up to 32 bits, and of all else all but one of 2^32. It is no defence against intent.

use crc32fast::Hasher;
use rusqlite::types::ValueRef;

/// A sum in the making.
pub(crate) struct Sum(Hasher);

impl Sum {
    /// `kind` keeps sums of different things apart.
    pub(crate) fn of(kind: &str) -> Sum {
        let mut hasher = Hasher::new();
        hasher.update(kind.as_bytes());
        Sum(hasher)
    }

    /// A value of a row: a letter for its type, then its bytes; longer ones with their length before them.
    pub(crate) fn value<'a>(&mut self, value: impl Into<ValueRef<'a>>) {
        match value.into() {
            ValueRef::Null => self.0.update(b"n"),
            ValueRef::Integer(number) => self.put(b"i", &number.to_le_bytes()),
            // The database gives -0 back as 0.
            ValueRef::Real(number) => self.put(b"r", &(number + 0.0).to_le_bytes()),
            ValueRef::Text(bytes) => self.long(b"t", bytes),
            ValueRef::Blob(bytes) => self.long(b"b", bytes),
        }
    }

    pub(crate) fn whole(&mut self, number: i64) {
        self.value(ValueRef::Integer(number));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.value(ValueRef::Text(text.as_bytes()));
    }

    pub(crate) fn blob(&mut self, bytes: &[u8]) {
        self.value(ValueRef::Blob(bytes));
    }

    fn put(&mut self, letter: &[u8], bytes: &[u8]) {
        self.0.update(letter);
        self.0.update(bytes);
    }

    fn long(&mut self, letter: &[u8], bytes: &[u8]) {
        self.put(letter, &(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn end(self) -> u32 {
        self.0.finalize()
    }
}

/// The sum of a row of `text`.
pub(crate) fn of_text(id: i64, text: &str) -> u32 {
    let mut sum = Sum::of("text");
    sum.whole(id);
    sum.text(text);
    sum.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: &[ValueRef<'_>]) -> u32 {
        let mut sum = Sum::of("row");
        values.iter().for_each(|value| sum.value(*value));
        sum.end()
    }

    #[test]
    fn values_do_not_run_into_each_other() {
        let (a, b) = (ValueRef::Text(b"a"), ValueRef::Text(b"b"));
        let ab = ValueRef::Text(b"ab");
        let empty = ValueRef::Text(b"");
        assert_ne!(sum(&[a, b]), sum(&[ab, empty]));
        assert_ne!(sum(&[ab]), sum(&[ValueRef::Blob(b"ab")]));
        assert_ne!(sum(&[ValueRef::Null]), sum(&[]));
        assert_ne!(sum(&[ValueRef::Integer(1)]), sum(&[ValueRef::Real(1.0)]));
        assert_eq!(sum(&[ValueRef::Real(-0.0)]), sum(&[ValueRef::Real(0.0)]));
    }

    #[test]
    fn it_is_the_sum_that_other_programs_know() {
        // zlib.crc32(b"text" + b"i" + (7).to_bytes(8, "little") + b"t" + (2).to_bytes(8, "little") + b"/a")
        let mut bytes = b"texti".to_vec();
        bytes.extend(7u64.to_le_bytes());
        bytes.extend(b"t");
        bytes.extend(2u64.to_le_bytes());
        bytes.extend(b"/a");
        assert_eq!(of_text(7, "/a"), crc32fast::hash(&bytes));
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
    }
}
