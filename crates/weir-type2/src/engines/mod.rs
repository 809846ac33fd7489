// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Twins of the accelerator's engines (`rtl/src/main/scala/weir/accelerator`): each is the clocked machine
//! that the RTL is, equal to it in bytes and in clocks.

pub mod accelerator_regs;
pub mod lz4;
pub mod page_compare;
pub mod stalls;
pub mod xxh64;

/// The most bytes that an engine takes at a time: a page.
pub const PAGE_BYTES: usize = 4096;

/// The bytes that cross an engine's port in a clock.
pub const BEAT_BYTES: usize = 64;

/// What an engine gave, and after how many clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineRun {
    pub bytes: Vec<u8>,
    /// From the clock in which the first beat was offered to that of the last result, both included.
    pub clocks: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes: an engine takes 1 to 4096")]
pub struct PageLengthError {
    pub bytes: usize,
}

/// Checks a length.
///
/// # Errors
/// It is 0 or more than a page.
pub fn check_length(bytes: usize) -> Result<(), PageLengthError> {
    if (1..=PAGE_BYTES).contains(&bytes) {
        Ok(())
    } else {
        Err(PageLengthError { bytes })
    }
}
