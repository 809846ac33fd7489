// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Monitoring groups by firmware tables. Linux makes a NUMA node of each proximity domain; a device
//! with one domain, split into several, becomes several nodes, each with counters of its own
//! (thesis, 5.1.5, done there by hand with `iasl`).
//!
//! ```text
//! bytes ─► table (length, checksum) ─► srat · slit · hmat ─► split (groups) ─► tables ─► cpio
//!                                                sizes ─┘                     (initrd overlay)
//! ```
//!
//! Pure: bytes in, bytes out. Tables come from firmware and from dumps that went through many hands, so
//! every offset is checked and nothing panics; what cannot be understood is refused, because a wrong
//! table is a machine that does not boot.
//!
//! Layouts: ACPI 6.5, 5.2.6 (header), 5.2.16 (SRAT), 5.2.17 (SLIT), 5.2.28 (HMAT). How Linux takes them
//! from an initrd: `Documentation/admin-guide/acpi/initrd_table_override.rst`.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![deny(clippy::indexing_slicing)]
#![warn(clippy::cast_possible_truncation)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

mod bytes;
pub mod cpio;
mod error;
pub mod hmat;
pub mod sizes;
pub mod slit;
pub mod split;
pub mod srat;
pub mod table;
#[cfg(test)]
mod tests;

pub use error::AcpiError;
pub use sizes::{Fraction, Sizes};
pub use split::{Firmware, Group, Split, split};
pub use table::{Kind, Table};

/// Most proximity domains of one machine: what Linux distributions are built for
/// (`CONFIG_NODES_SHIFT=10`).
pub const DOMAIN_COUNT_MAX: usize = 1024;

/// Default alignment of a group's beginning and end: Linux takes memory in and out in
/// sections of this size (x86-64, `SECTION_SIZE_BITS` 27).
pub const GRAIN_BYTES: u64 = 128 << 20;
