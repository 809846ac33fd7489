// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of performance monitoring units (PMUs) that count CXL traffic, as data: one table
//! of TOML per family of CPUs in `data/`, and one each for the PMUs that do not depend on the CPU. What only
//! profiles need of a family stands in `data/roles/`.
//!
//! [`table`] describes the content of a table. The rest uses it:
//!
//! ```text
//! Cpu ─► tables ─► event: terms ─┐
//!                                ├─► encoding ─► config, config1, …   (fields of perf_event_attr)
//! the PMU's format files ────────┘
//!        events of one PMU ─► groups ─► sets that can count at the same time
//!        roles ─► plan ─► sets of all PMUs, which take turns, and what no set has
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
pub mod plan;
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
use table::RoleTable;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It is no TOML, or has a key or a value that no table has.
    #[error("{0}")]
    Syntax(String),
    #[error("{place}: {what}")]
    Wrong {
        /// Where: an event, a PMU, an amount.
        place: String,
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

    /// This table with more events and roles.
    ///
    /// # Errors
    /// As [`Table::parse`].
    fn with_roles(mut self, text: &str) -> Result<Table, TableError> {
        let more: RoleTable =
            toml::from_str(text).map_err(|e| TableError::Syntax(e.message().to_owned()))?;
        self.event.extend(more.event);
        self.role.extend(more.role);
        check::check(&self)?;
        Ok(self)
    }
}

/// The tables that come with weir, by the name of their file. One that could not be read would be left out
/// here; a test reads all of them. Events that only roles use, and the roles, are not in them: weir reads
/// these tables whenever it starts, and the others are nine tenths of the text.
pub fn tables() -> &'static [Table] {
    static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
        let parsed = SOURCES.iter().map(|source| Table::parse(source.table));
        parsed.filter_map(Result::ok).collect()
    });
    &TABLES
}

/// The same tables with all their events and roles: what a profile needs.
pub fn tables_with_roles() -> &'static [Table] {
    static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
        let parsed = SOURCES.iter().map(Source::parse_all);
        parsed.filter_map(Result::ok).collect()
    });
    &TABLES
}

struct Source {
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "a test compares it with the family")
    )]
    name: &'static str,
    table: &'static str,
    /// What [`table::RoleTable`] holds.
    roles: Option<&'static str>,
}

impl Source {
    fn parse_all(&self) -> Result<Table, TableError> {
        let table = Table::parse(self.table)?;
        match self.roles {
            Some(text) => table.with_roles(text),
            None => Ok(table),
        }
    }
}

/// The source of a table without roles, or with them.
macro_rules! source {
    ($name:literal) => {
        Source {
            name: $name,
            table: include_str!(concat!("../data/", $name, ".toml")),
            roles: None,
        }
    };
    ($name:literal, roles) => {
        Source {
            name: $name,
            table: include_str!(concat!("../data/", $name, ".toml")),
            roles: Some(include_str!(concat!("../data/roles/", $name, ".toml"))),
        }
    };
}

const SOURCES: &[Source] = &[
    source!("sapphire-rapids", roles),
    source!("emerald-rapids", roles),
    source!("granite-rapids", roles),
    source!("sierra-forest"),
    source!("clearwater-forest"),
    source!("zen4", roles),
    source!("zen5", roles),
    source!("zen6"),
    source!("cxl_pmu", roles),
    source!("weir_cxl"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_sound_and_named_like_its_file() {
        for source in SOURCES {
            let parsed = Table::parse(source.table).and_then(|_| source.parse_all());
            match parsed {
                Ok(table) => assert_eq!(table.family, source.name),
                Err(why) => panic!("{}: {why}", source.name),
            }
        }
        assert_eq!(tables().len(), SOURCES.len());
        assert_eq!(tables_with_roles().len(), SOURCES.len());
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
