// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of what weir saw and decided, and exports of them.
//!
//! ```text
//!  Tick ─► JSON ────► document ─┐                      ┌─► Recording ─► Tick        (replay)
//!   │                           ├─► one database file ─┤
//!   └────► rollup ──► rows ─────┘                      └─► rows ─► CSV, JSON, …     (export)
//! ```
//!
//! * [`Recorder`] writes: each tick is one transaction. The tick itself goes into a document, exact to the
//!   last bit: JSON in a zstd frame ([`format::frame`]). Figures for people and charts go into plain columns,
//!   as means of a second ([`rollup`]).
//! * [`Recording`] reads, and distrusts what it reads. [`recover`] writes what is left of a damaged one into
//!   a new one.
//! * Each thing that is read on its own has a checksum ([`format::checksum`]): data that differs from what
//!   was written is named, and not handed out.
//! * [`export`] writes rows for other programs, and the same rows of a run that goes on; [`metrics`] writes
//!   the newest tick for Prometheus.
//!
//! The format is public: `docs/reference/recording-format.md`.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod error;
pub mod export;
mod format;
pub mod metrics;
mod open;
mod reader;
mod recover;
mod replay;
mod rollup;
mod writer;

pub use error::StoreError;
pub use export::snapshot::snapshot_line;
pub use format::tick::{Start, Tick};
pub use reader::{Damage, Recording, Session, Survey, Ticks};
pub use recover::{Recovered, recover};
pub use replay::Replayed;
pub use rollup::SPAN;
pub use writer::Recorder;

/// The format this weir writes and reads (`user_version` of the database).
pub const FORMAT: u32 = 2;
/// `weir` in ASCII: marks a database as a recording (`application_id`).
pub const APPLICATION_ID: u32 = 0x7765_6972;
