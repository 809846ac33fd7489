// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of what weir saw and decided, and exports of them.
//!
//! ```text
//!  Tick ─► code ──────► document ─┐                      ┌─► Recording ─► Tick        (replay)
//!   │                             ├─► one database file ─┤
//!   └────► figures ───► rows ─────┘                      └─► rows ─► CSV, JSON, …     (export)
//! ```
//!
//! * [`Recorder`] writes: each tick is one transaction. The tick itself goes into a compact document
//!   ([`code`]), exact to the last bit; figures that people ask for go into plain columns, as means of
//!   a second ([`figures`]).
//! * [`Recording`] reads, and distrusts what it reads. [`salvage`] reads what is left of a damaged one.
//! * Each thing that is read on its own has a checksum ([`checksum`]): what is not what was written is named, and not
//!   handed out.
//! * [`export`] writes rows for other programs, and the same rows of a run that goes on; [`metrics`] writes
//!   the newest tick for Prometheus.
//!
//! The format is public: `docs/recording-format.md`.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod checksum;
mod code;
mod error;
pub mod export;
mod figures;
mod file;
pub mod metrics;
mod reader;
mod replay;
mod salvage;
mod session;
mod tick;
mod writer;

pub use error::StoreError;
pub use figures::SPAN;
pub use reader::{Damage, Recording, Session, Survey, Ticks};
pub use replay::Replayed;
pub use salvage::{Saved, salvage};
pub use tick::{Start, Tick};
pub use writer::Recorder;

/// The newest format this weir writes and reads (`user_version` of the database).
pub const FORMAT: u32 = 1;
/// `weir` in ASCII: marks a database as a recording (`application_id`).
pub const APPLICATION_ID: u32 = 0x7765_6972;
