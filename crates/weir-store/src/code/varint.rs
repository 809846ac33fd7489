// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole numbers in as few bytes as they need: seven bits a byte, lowest first, the high bit says
//! that more follow (LEB128). Signed ones in zigzag order: 0, −1, 1, −2, …

use super::Bad;

pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    out.push(low_byte(value));
}

fn low_byte(value: u64) -> u8 {
    u8::try_from(value & 0x7f).unwrap_or(0x7f)
}

/// Takes a number off the front.
pub(crate) fn take(bytes: &mut &[u8]) -> Result<u64, Bad> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = byte(bytes)?;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return Err(Bad("a number has more than 64 bits"));
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Bad("a number has more than 64 bits"))
}

pub(crate) fn byte(bytes: &mut &[u8]) -> Result<u8, Bad> {
    let (first, rest) = bytes.split_first().ok_or(Bad("it ends too early"))?;
    *bytes = rest;
    Ok(*first)
}

/// From `from` to `to` around the ring of 2^64: small steps either way are small numbers.
pub(crate) fn step(from: u64, to: u64) -> u64 {
    let way = to.wrapping_sub(from).cast_signed();
    ((way << 1) ^ (way >> 63)).cast_unsigned()
}

/// The way back.
pub(crate) fn walk(from: u64, zigzag: u64) -> u64 {
    let way = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
    from.wrapping_add(way)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_numbers_are_short() {
        for (value, length) in [(0, 1), (127, 1), (128, 2), (1 << 28, 5), (u64::MAX, 10)] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out.len(), length, "{value}");
        }
        assert!(take(&mut [0xff; 10].as_slice()).is_err());
        assert!(take(&mut [].as_slice()).is_err());
    }

    proptest! {
        #[test]
        fn there_and_back(from: u64, to: u64) {
            prop_assert_eq!(walk(from, step(from, to)), to);
            let mut out = Vec::new();
            put(&mut out, from);
            let mut rest = out.as_slice();
            prop_assert_eq!(take(&mut rest), Ok(from));
            prop_assert!(rest.is_empty());
        }
    }
}
