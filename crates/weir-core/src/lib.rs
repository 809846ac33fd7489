// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pure core of weir. Read the modules in the order the data flows:
//!
//! ```text
//! counters ─► bandwidth ─► attribution ─► policy ─► controller ─► plan
//! ```
//!
//! Nothing here opens a file, reads a clock, starts a thread or depends on hash order: the world
//! comes in as an [`Observation`], goes out as a [`Plan`], and both pass through one trait,
//! [`Platform`]. Same recording, same plan, byte for byte.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

pub mod attribution;
pub mod bandwidth;
pub mod byte_budget;
pub mod class_rank;
pub mod conformance;
pub mod controller;
pub mod count_check;
pub mod counters;
pub mod evaluation;
pub mod ids;
pub mod knee;
pub mod observation;
pub mod overload_poll;
pub mod owner;
pub mod plan;
pub mod platform;
pub mod policy;
pub mod processes;
pub mod sched_settings;
pub mod sched_stats;
pub mod snapshot;
pub mod topology;
pub mod units;

pub use controller::{Config, State, step};
pub use ids::{DeviceId, GroupId, NodeId, WorkloadId};
pub use observation::{Missing, Observation, Reading};
pub use plan::{Action, Outcome, Plan};
pub use platform::{Platform, PlatformError};
pub use topology::Description;
pub use units::{Bytes, BytesPerSec, CpuShare, Nanos};
