// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Windows of counts for a profile (`weir profile record`).
//!
//! ```text
//! machine ─► wanted ─► plan (weir-events) ─► lanes: sets of events on each PMU
//!                                              │
//! subjects: cgroups, process, command ─────────┴─► places: sets that are open ─► sums ─► Window
//! ```
//!
//! Sets of a PMU take turns of 100 ms; the kernel multiplexes nothing inside of one. Boxes of a socket,
//! over which lines are hashed, count different sets at a time. For cgroups the events are opened once on
//! each CPU, and a program of the kernel adds what they count to the cgroup that ran (`by_cgroup`); where
//! the kernel takes no such program, for each cgroup on each CPU. For a process they are opened for it and
//! all that it starts. Those of sockets, ports and devices count for all.
//!
//! **No such event was ever opened on hardware by weir's authors.**

mod by_cgroup;
mod error;
mod hot_line;
mod lanes;
mod opened;
mod outcome;
mod perf;
mod places;
mod recorder;
mod subjects;
mod sums;
mod wanted;

pub use error::{CommandError, RecordError};
pub use outcome::NotCounted;
pub use recorder::WindowRecorder;
pub use subjects::{Asked, HeldCommand};
pub use wanted::by_importance;

#[cfg(test)]
mod tests;
