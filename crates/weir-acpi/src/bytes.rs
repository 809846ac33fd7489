// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Little-endian numbers at an offset, or nothing.

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// Writes `value` where it fits; elsewhere it does nothing, and says so.
#[must_use]
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) -> bool {
    let target = at
        .checked_add(value.len())
        .and_then(|end| bytes.get_mut(at..end));
    match target {
        Some(target) => {
            target.copy_from_slice(value);
            true
        }
        None => false,
    }
}
