// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sum inside a document: a member of its root that is first by name, written in each document,
//! and always as an unsigned integer of six bytes. So it is found without decoding anything, and a
//! reader that knows nothing of sums passes it over as a member that it does not know.

use super::{OBJECT, SMALL_FIELDS, SMALL_FIELDS_MAX, STEP, UINT, varint};

/// The member's name. Others of the root come after it.
pub(crate) const NAME: &str = "checksum";
/// 32 bits, seven a byte.
const BYTES: usize = 5;

/// What is written before the sum is known.
pub(super) fn leave_room(out: &mut Vec<u8>) {
    out.push(UINT);
    out.extend(spread(0));
}

/// Seven bits a byte, all five bytes also where fewer would do.
fn spread(sum: u32) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (place, byte) in bytes.iter_mut().enumerate() {
        let more = if place + 1 < BYTES { 0x80 } else { 0 };
        *byte = u8::try_from(sum >> (7 * place) & 0x7f).unwrap_or(0) | more;
    }
    bytes
}

/// Where the sum stands in a document that has one.
fn place(document: &[u8]) -> Option<usize> {
    let mut rest = document;
    match varint::byte(&mut rest).ok()? {
        OBJECT => {
            varint::take(&mut rest).ok()?;
            varint::take(&mut rest).ok()?;
        }
        tag if (SMALL_FIELDS..STEP).contains(&tag) && tag & 1 == 1 => {}
        _ => return None,
    }
    let is_number = varint::byte(&mut rest).ok()? == UINT;
    is_number.then(|| document.len() - rest.len())
}

/// A document around its sum: what comes before, the sum, and what comes after. Nothing if it has none.
pub(crate) fn split(document: &[u8]) -> Option<(&[u8], u32, &[u8])> {
    let (head, rest) = document.split_at_checked(place(document)?)?;
    let (bytes, tail) = rest.split_first_chunk::<BYTES>()?;
    let parts = bytes.iter().zip([0, 7, 14, 21, 28]);
    let sum = parts.fold(0, |sum, (byte, shift)| {
        sum | u64::from(byte & 0x7f) << shift
    });
    let sum = u32::try_from(sum).ok()?;
    (spread(sum) == *bytes).then_some((head, sum, tail))
}

/// Puts the sum into a document that has room for it; says whether it has.
pub(crate) fn put(document: &mut [u8], sum: u32) -> bool {
    let room = place(document).and_then(|at| document.get_mut(at..at + BYTES));
    room.map(|room| room.copy_from_slice(&spread(sum)))
        .is_some()
}

/// Whether the writer can leave room in an object of so many members, compared with the one before.
pub(super) fn fits(members: usize) -> bool {
    members <= SMALL_FIELDS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_sum_is_read_as_it_was_put(sum: u32, tail in prop::collection::vec(any::<u8>(), 0..20)) {
            for head in [vec![OBJECT, 5, 0x81, 1], vec![SMALL_FIELDS | 0b101]] {
                let mut document = head.clone();
                leave_room(&mut document);
                document.extend(&tail);
                prop_assert!(put(&mut document, sum));
                let (before, found, after) = split(&document).unwrap();
                prop_assert_eq!((before.len(), found, after), (head.len() + 1, sum, tail.as_slice()));
                let number = varint::take(&mut &document[head.len() + 1..]).unwrap();
                prop_assert_eq!(number, u64::from(sum), "others read it as a plain number");
            }
        }

        #[test]
        fn any_bytes_have_a_sum_or_none(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let mut copy = bytes.clone();
            if let Some((head, sum, tail)) = split(&bytes) {
                prop_assert_eq!(head.len() + BYTES + tail.len(), bytes.len());
                prop_assert!(put(&mut copy, sum));
                prop_assert_eq!(copy, bytes);
            }
        }
    }
}
