// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why nothing was made. Each names the table and the place, and what to do where there is something.

/// A fault in a table or in the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcpiError {
    /// The bytes are not the table they should be.
    #[error(
        "{table} is damaged at byte {at}: {what}; nothing is made from it. If it is a dump, read it \
         again from /sys/firmware/acpi/tables"
    )]
    Damaged {
        table: &'static str,
        /// Offset in the table.
        at: usize,
        /// The value there, and the expected one.
        what: String,
    },
    /// All bytes of a table add up to 0; these do not.
    #[error(
        "{table} has a wrong checksum (its bytes add up to {sum:#04x}, not 0): nothing is made from \
         it. If it is a dump, read it again from /sys/firmware/acpi/tables"
    )]
    Checksum {
        table: &'static str,
        /// Sum of all bytes of the table, modulo 256; it should be 0 (ACPI 6.5, 5.2.6).
        sum: u8,
    },
    #[error("sizes: {0}")]
    Sizes(String),
    #[error("{0}")]
    Domain(String),
    /// The tables are sound and cannot be changed as requested.
    #[error("{table}: {why}")]
    Refused { table: &'static str, why: String },
}
