// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups that grow and shrink. A device with *virtual copies* shows its memory several times, once for
//! each group (thesis, 4.1.1); the thesis's kernel crashed on them, because it handed out the same page
//! of the device in two copies.
//!
//! Here each block of device memory (as large as the kernel's memory blocks) is online in at most one copy.
//! To move it, it is taken offline there (the kernel moves its pages elsewhere) and brought online here:
//!
//! ```text
//! layout (which addresses are copies of each other) ─► map (each block's owner) ─► plan (next step)
//!                                                        ▲                            │
//!                                                        └──────── resize (act) ◄─────┘
//! ```
//!
//! **Off first, on second.** Between the two the block has no owner, so dying at any place leaves a state
//! that is allowed. Nothing is written down: the kernel's own states are the truth, and the next call begins
//! by reading them.
//!
//! **Caches.** What the old owner wrote must have left the CPUs' caches before the new one writes. The kernel
//! does not flush them when memory goes offline, and no interface of it allows a program to do so. So where
//! caches take the copies for different memory, nothing is moved.
//!
//! **Never twice.** All copies of a block are checked before it goes online, and after. Weir cannot forbid
//! that another program or the kernel brings a block online. So it does not work on a machine where the
//! kernel brings memory online by itself.

mod map;
mod plan;
mod resize;
mod sysfs;
#[cfg(test)]
mod tests;

pub use map::{BlockState, Map, MemoryBlocks, Owner};
pub use resize::{MovedBlocks, Refusal, Report, resize};
pub use sysfs::MemorySysfs;

use crate::error::LinuxError;
use serde::Deserialize;

/// Most copies of one device: a node each.
const COPY_COUNT_MAX: usize = 1024;
/// Most blocks of a device: 8 TiB of 128 MiB.
const BLOCK_COUNT_MAX: u64 = 65_536;

/// The addresses that are copies of each other. Only the device knows; here the operator has written it down.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Layout {
    /// Size of the device's memory, and of each copy.
    pub copy_bytes: u64,
    /// Host-physical address of each copy.
    pub bases_bytes: Vec<u64>,
    /// What the CPUs' caches make of the copies.
    pub cpu_caches: Caches,
}

/// A cache knows memory by its address, so a device's copies are different memory to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Caches {
    /// What is written through one copy is read through the others (copies made by a hypervisor).
    Coherent,
    /// A line written through one copy may still wait in a cache when its block has long been given to
    /// another, and overwrite what that has written. Any device with real copies.
    Separate,
}

impl Layout {
    /// The number of blocks of one copy, once the layout is found to be possible.
    ///
    /// # Errors
    /// Copies are not whole blocks, or overlap, or there are too few or too many.
    pub fn blocks(&self, block_bytes: u64) -> Result<u64, LinuxError> {
        let wrong = |why: String| Err(LinuxError::Copies(format!("the copies: {why}")));
        let count = self.bases_bytes.len();
        if !(2..=COPY_COUNT_MAX).contains(&count) {
            return wrong(format!(
                "{count} are given; there must be 2 to {COPY_COUNT_MAX}"
            ));
        }
        let whole = |bytes: u64| bytes.checked_rem(block_bytes) == Some(0);
        let blocks = self.copy_bytes.checked_div(block_bytes).unwrap_or(0);
        if !whole(self.copy_bytes) || !(1..=BLOCK_COUNT_MAX).contains(&blocks) {
            return wrong(format!(
                "copy-bytes = {} is not 1 to {BLOCK_COUNT_MAX} of this kernel's blocks of {block_bytes} bytes",
                self.copy_bytes
            ));
        }
        let mut sorted = self.bases_bytes.clone();
        sorted.sort_unstable();
        for (place, base) in sorted.iter().enumerate() {
            if !whole(*base) {
                return wrong(format!(
                    "the one at {base:#x} does not begin with one of this kernel's blocks of {block_bytes} bytes"
                ));
            }
            let end = base.checked_add(self.copy_bytes);
            let next = sorted.get(place + 1);
            if end.is_none() || next.is_some_and(|next| end > Some(*next)) {
                return wrong(format!(
                    "the one at {base:#x} overlaps the next, or all addresses"
                ));
            }
        }
        Ok(blocks)
    }
}
