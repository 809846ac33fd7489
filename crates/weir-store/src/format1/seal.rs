// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checksum inside a document: a member of its root that is first by name, written in each document, and
//! always as an unsigned integer of five bytes. So it is found without decoding anything.

use super::documents::{OBJECT, SMALL_FIELDS, STEP, UINT, byte, number};
use crate::format::tick::{RawTick, Seal};

/// 32 bits, seven a byte.
const BYTES: usize = 5;

/// What the sum in its document says of a row.
pub(crate) fn of(row: &RawTick) -> Seal {
    match split(&row.document) {
        None => Seal::Missing,
        Some((head, sum, tail)) if row.sum(&[head, tail]) == sum => Seal::Holds,
        Some(_) => Seal::Broken,
    }
}

/// Where the sum is in a document that has one.
fn place(document: &[u8]) -> Option<usize> {
    let mut rest = document;
    match byte(&mut rest).ok()? {
        OBJECT => {
            number(&mut rest).ok()?;
            number(&mut rest).ok()?;
        }
        tag if (SMALL_FIELDS..STEP).contains(&tag) && tag & 1 == 1 => {}
        _ => return None,
    }
    let is_number = byte(&mut rest).ok()? == UINT;
    is_number.then(|| document.len() - rest.len())
}

/// A document around its sum: what comes before, the sum, and what comes after. Nothing if it has none.
fn split(document: &[u8]) -> Option<(&[u8], u32, &[u8])> {
    let (head, rest) = document.split_at_checked(place(document)?)?;
    let (bytes, tail) = rest.split_first_chunk::<BYTES>()?;
    // All five bytes are there, also where fewer would do.
    let (last, more) = bytes.split_last()?;
    if *last >= 0x80 || more.iter().any(|byte| *byte < 0x80) {
        return None;
    }
    let parts = bytes.iter().zip([0, 7, 14, 21, 28]);
    let sum = parts.fold(0, |sum, (byte, shift)| {
        sum | u64::from(byte & 0x7f) << shift
    });
    Some((head, u32::try_from(sum).ok()?, tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sum_is_found_behind_both_kinds_of_heads() {
        let sum = [0x81, 0x80, 0x80, 0x80, 0x0f];
        for head in [
            vec![OBJECT, 5, 0x81, 1, UINT],
            vec![SMALL_FIELDS | 0b101, UINT],
        ] {
            let document = [&head[..], &sum, &[7]].concat();
            let wanted = (head.as_slice(), 0xf000_0001, &[7][..]);
            assert_eq!(split(&document), Some(wanted));
        }
        assert_eq!(
            split(&[SMALL_FIELDS | 1, UINT, 5, 0, 0, 0, 0]),
            None,
            "shorter"
        );
        assert_eq!(
            split(&[SMALL_FIELDS | 1, UINT, 0x80, 0x80, 0x80, 0x80, 0x10]),
            None,
            "33 bits"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_sum_or_none(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some((head, _, tail)) = split(&bytes) {
                prop_assert_eq!(head.len() + BYTES + tail.len(), bytes.len());
            }
        }
    }
}
