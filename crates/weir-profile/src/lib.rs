// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of recorded counts: where lines come from, how long requests stay at each stage, what is wrong.
//! In the data's order:
//!
//! ```text
//! perf_stat ─► recipes ─► window_file ─► counts ─► path_map, stages, stalls, culprit ─► findings ─► report
//! (lines of     (events    (windows,  │   (one       (figures, or a                               ▲
//!  perf stat)    to roles)  as JSON   │    per role)  refusal each: quality)                      │
//!                           lines)    └────────────► phases (what changes from window to window) ─┘
//! ```
//!
//! [`paper`] has the algorithms of PathFinder, as printed and mended: yardsticks, not the method.
//!
//! Everything is pure: no file, no clock, no hash order. Figures are made of counts each time. A figure says
//! whether it is counted, apportioned or modelled, and one that cannot be says why ([`quality::Refusal`]).
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod culprit;
pub mod diff;
pub mod figure;
pub mod findings;
pub mod input;
pub mod paper;
pub mod path_map;
pub mod phases;
pub mod report;
pub mod stages;
pub mod stalls;

pub use figure::counts::{self, Counts};
pub use figure::quality::{self, Refusal};
pub use figure::{Answer, Figure, Unit};
pub use input::time_span::{TimeSpan, TimeSpanError};
pub use input::window_file::{self, WindowFile};
pub use input::{perf_stat, recipes};
