// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parsers of kernel text: pure functions over bytes. They never panic, do work linear in the
//! input, and keep nothing they do not return. weir runs as root and some of these bytes are chosen
//! by unprivileged users (process names, cgroup names, mapped file names), so every one of them is
//! tried on arbitrary input in its tests.
//!
//! Unknown keys and lines are passed over, since kernels add them; a known key with a value that is
//! not what the kernel documents is [`Malformed`], and the caller adds the path.

pub mod cgroup;
pub mod cpu;
pub(crate) mod iomem;
pub mod process;
pub mod sysfs;

/// What was expected and not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct Malformed(pub &'static str);

/// So many decimal digits fit 64 bits, whichever they are.
const FITTING: usize = 19;

/// A decimal number, with white space around it allowed: no sign, no prefix.
///
/// # Errors
/// Anything else, and what does not fit 64 bits.
pub fn decimal(text: &[u8]) -> Result<u64, Malformed> {
    const WANT: Malformed = Malformed("a decimal number below 2^64");
    let digits = text.trim_ascii();
    let (fitting, rest) = digits.split_at(digits.len().min(FITTING));
    if fitting.is_empty() {
        return Err(WANT);
    }
    let digit = |byte: &u8| match byte.wrapping_sub(b'0') {
        digit @ 0..10 => Ok(u64::from(digit)),
        _ => Err(WANT),
    };
    // Whether each is a digit is asked once, of all.
    let (mut sum, mut is_decimal) = (0u64, true);
    for byte in fitting {
        let digit = byte.wrapping_sub(b'0');
        is_decimal &= digit < 10;
        sum = sum.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    if !is_decimal {
        return Err(WANT);
    }
    for byte in rest {
        let tenfold = u64::checked_mul(sum, 10).ok_or(WANT)?;
        sum = tenfold.checked_add(digit(byte)?).ok_or(WANT)?;
    }
    Ok(sum)
}

/// A decimal number that may have a minus sign.
///
/// # Errors
/// Anything else, and what does not fit 64 bits.
pub fn signed(text: &[u8]) -> Result<i64, Malformed> {
    const WANT: Malformed = Malformed("a whole number of 64 bits");
    match text.trim_ascii().strip_prefix(b"-") {
        Some(digits) if digits.first().is_some_and(u8::is_ascii_digit) => 0i64
            .checked_sub_unsigned(decimal(digits).map_err(|_| WANT)?)
            .ok_or(WANT),
        Some(_) => Err(WANT),
        None => decimal(text)
            .ok()
            .and_then(|n| i64::try_from(n).ok())
            .ok_or(WANT),
    }
}

/// The lines of a text, without their ends; no empty line after the last end.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    let next = move || {
        if rest.is_empty() {
            return None;
        }
        let (line, after) = match memchr::memchr(b'\n', rest) {
            Some(end) => rest.split_at(end),
            None => (rest, &b""[..]),
        };
        rest = after.get(1..).unwrap_or_default();
        Some(line)
    };
    std::iter::from_fn(next).filter(|line| !line.is_empty())
}

pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| *b == b' ' || *b == b'\t')
        .filter(|word| !word.is_empty())
}

/// `N<node>=<count>`, as in `numa_maps` and `memory.numa_stat`.
pub(crate) fn node_count(word: &[u8]) -> Option<(u32, Result<u64, Malformed>)> {
    let rest = word.strip_prefix(b"N")?;
    let equals = rest.iter().position(|b| *b == b'=')?;
    let node = decimal(rest.get(..equals)?)
        .ok()
        .and_then(|n| u32::try_from(n).ok())?;
    Some((node, decimal(rest.get(equals + 1..)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_stop_at_the_edge_of_64_bits() {
        assert_eq!(decimal(b"18446744073709551615\n"), Ok(u64::MAX));
        assert!(decimal(b"18446744073709551616").is_err());
        assert_eq!(signed(b"-9223372036854775808"), Ok(i64::MIN));
        assert!(signed(b"-9223372036854775809").is_err());
        assert!(signed(b"9223372036854775808").is_err());
        for bad in [
            &b""[..],
            b" ",
            b"+1",
            b"0x1",
            b"1 2",
            b"1.0",
            b"-",
            b"--1",
            b"- 1",
            b"\xff",
        ] {
            assert!(decimal(bad).is_err() && signed(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn decimals_read_back_what_was_printed(value: u64, small: i64) {
            prop_assert_eq!(decimal(format!(" {value}\n").as_bytes()), Ok(value));
            prop_assert_eq!(signed(small.to_string().as_bytes()), Ok(small));
        }

        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _ = (decimal(&bytes), signed(&bytes), node_count(&bytes));
            prop_assert!(lines(&bytes).all(|line| !line.contains(&b'\n')));
        }
    }
}
