// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is in a recording of format 2: tables, their rows, the checksums of rows, and documents as JSON in
//! zstd frames.
//!
//! ```text
//!  Tick ─► JSON ─► frame ─► document ┐
//!                                    ├─► a row of `tick` with its checksum ─► one transaction
//!  Tick ─► rollup ─► rows of `span`, `workload_figures`, … with theirs ───┘
//! ```

pub(crate) mod checksum;
pub(crate) mod frame;
pub(crate) mod session;
pub(crate) mod tick;

/// The tables and views of format 2.
pub(crate) const SCHEMA: &str = include_str!("2.sql");
