// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernels of other CPUs than x86-64: loads, stores and copies of eight bytes, and on aarch64 flushes. The
//! others are named absences.

use super::{ChunkCode, Operation};
use crate::LINE_BYTES;

const WORD_BYTES: usize = 8;

/// Widths in bytes that this CPU can do; none if it cannot do this at all.
pub(super) fn widths(operation: Operation) -> Vec<u32> {
    let is_there = match operation {
        Operation::Ld | Operation::LdChase | Operation::St | Operation::Copy => true,
        Operation::LdFlush => crate::chase::can_flush_lines().is_ok(),
        _ => false,
    };
    if is_there { vec![8] } else { Vec::new() }
}

/// The code; none for the chase, and for what [`widths`] does not list.
pub(super) fn code(operation: Operation, _: u32) -> Option<ChunkCode> {
    match operation {
        Operation::Ld => Some(ld),
        Operation::St => Some(st),
        Operation::Copy => Some(copy),
        Operation::LdFlush => Some(ld_flush),
        _ => None,
    }
}

/// Places of the words of so many lines.
fn words(at: *mut u8, lines: usize) -> impl Iterator<Item = *mut u64> {
    let all = 0..lines * LINE_BYTES / WORD_BYTES;
    all.map(move |word| at.wrapping_add(word * WORD_BYTES).cast())
}

/// # Safety
/// There are so many lines that are ours.
unsafe fn ld(at: *mut u8, _: *mut u8, lines: usize) {
    for word in words(at, lines) {
        // SAFETY: as promised by the caller.
        let _ = unsafe { word.read_volatile() };
    }
}

/// # Safety
/// There are so many lines that are ours.
unsafe fn st(at: *mut u8, _: *mut u8, lines: usize) {
    for word in words(at, lines) {
        // SAFETY: as promised by the caller.
        unsafe { word.write_volatile(u64::MAX) };
    }
}

/// # Safety
/// Both places have so many lines that are ours.
unsafe fn copy(at: *mut u8, other: *mut u8, lines: usize) {
    for (to, from) in words(at, lines).zip(words(other, lines)) {
        // SAFETY: as promised by the caller.
        unsafe { to.write_volatile(from.read_volatile()) };
    }
}

/// # Safety
/// There are so many lines that are ours.
unsafe fn ld_flush(at: *mut u8, other: *mut u8, lines: usize) {
    for line in 0..lines {
        let place = at.wrapping_add(line * LINE_BYTES);
        // SAFETY: as promised by the caller.
        unsafe {
            ld(place, other, 1);
            crate::chase::flush(place);
        }
    }
}
