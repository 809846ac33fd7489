// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of performance monitoring units (PMUs) that count CXL traffic, as data: one table
//! of TOML per family of CPUs in `data/`, and one each for the PMUs that do not depend on the CPU.
//!
//! [`table`] describes the content of a table. The rest uses it:
//!
//! ```text
//! Cpu ─► tables ─► event: terms ─┐
//!                                ├─► encoding ─► config, config1, …   (fields of perf_event_attr)
//! the PMU's format files ────────┘
//!        events of one PMU ─► groups ─► sets that can count at the same time
//! ```
//!
//! Everything here is pure: no file, no system call. Where PMUs are and what their format files say
//! is weir-linux's business. The meaning of a counter comes from its maker's text; nothing in
//! these tables was tried on hardware by weir's authors.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod check;
pub mod counters;
pub mod cpu;
pub mod encoding;
pub mod groups;
pub mod pattern;
pub mod role;
pub mod table;
pub mod terms;

pub use counters::CounterSet;
pub use cpu::{Cpu, Models};
pub use encoding::{Config, EncodingError, Field, encode};
pub use pattern::Pattern;
pub use role::RoleSum;
pub use table::{
    Amount, Counts, Event, Latency, Pmu, Provenance, Sample, Scope, Store, Table, Traffic,
};
pub use terms::Terms;

use std::sync::LazyLock;

/// A fault in a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It is no TOML, or has a key or a value that no table has.
    #[error("{0}")]
    Syntax(String),
    /// Its content contradicts itself or is impossible.
    #[error("{place}: {what}")]
    Wrong {
        /// Where: an event, a PMU, an amount.
        place: String,
        /// The fault.
        what: String,
    },
}

impl Table {
    /// Reads a table and checks that it makes sense.
    ///
    /// # Errors
    /// Unknown keys, values out of range, names that are used and not defined.
    pub fn parse(text: &str) -> Result<Table, TableError> {
        let table: Table =
            toml::from_str(text).map_err(|e| TableError::Syntax(e.message().to_owned()))?;
        check::check(&table)?;
        Ok(table)
    }
}

/// The tables that come with weir, by the name of their file.
pub const SOURCES: &[(&str, &str)] = &[
    (
        "sapphire-rapids",
        include_str!("../data/sapphire-rapids.toml"),
    ),
    (
        "emerald-rapids",
        include_str!("../data/emerald-rapids.toml"),
    ),
    (
        "granite-rapids",
        include_str!("../data/granite-rapids.toml"),
    ),
    ("sierra-forest", include_str!("../data/sierra-forest.toml")),
    (
        "clearwater-forest",
        include_str!("../data/clearwater-forest.toml"),
    ),
    ("zen4", include_str!("../data/zen4.toml")),
    ("zen5", include_str!("../data/zen5.toml")),
    ("zen6", include_str!("../data/zen6.toml")),
    ("cxl_pmu", include_str!("../data/cxl_pmu.toml")),
    ("weir_cxl", include_str!("../data/weir_cxl.toml")),
];

/// The tables that come with weir. One that could not be read would be left out here; a test reads
/// all of them.
pub fn tables() -> &'static [Table] {
    static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
        let parsed = SOURCES.iter().map(|(_, text)| Table::parse(text));
        parsed.filter_map(Result::ok).collect()
    });
    &TABLES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_sound_and_named_like_its_file() {
        for (name, text) in SOURCES {
            match Table::parse(text) {
                Ok(table) => assert_eq!(&table.family, name),
                Err(why) => panic!("{name}: {why}"),
            }
        }
        assert_eq!(tables().len(), SOURCES.len());
    }

    #[test]
    fn a_cpu_has_one_family() {
        for (vendor, family) in [
            ("GenuineIntel", 6),
            ("AuthenticAMD", 25),
            ("AuthenticAMD", 26),
        ] {
            for model in 0..=255 {
                let cpu = Cpu {
                    vendor: vendor.into(),
                    family,
                    model,
                };
                let of = tables()
                    .iter()
                    .filter(|t| !t.cpu.is_empty() && t.is_of(&cpu));
                assert!(of.count() <= 1, "{cpu}");
            }
        }
    }
}
