// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of format 1, read and never written, for one more version: `weir export` exports them, and
//! `weir export --upgrade` makes recordings of today's format of them. This folder then goes.
//!
//! Format 1 had the tables of format 2, but wrote documents as what changed since the one before, in a code
//! of its own ([`documents`]), and put a tick's checksum into its document ([`seal`]). Its first writers had
//! no checksums. What a document says passes through one table of names that have changed since
//! ([`renamed`]).

pub(crate) mod documents;
pub(crate) mod renamed;
pub(crate) mod seal;

/// The number of the format.
pub(crate) const FORMAT: u32 = 1;
/// The tables and views of format 1.
pub(crate) const SCHEMA: &str = include_str!("1.sql");
/// Tables of checksums, beside those of the format: later writers have them.
pub(crate) const CHECKS: &str = include_str!("checks.sql");
