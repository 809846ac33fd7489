// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pure core of weir. Read the modules in the order the data flows:
//!
//! ```text
//! seam::observation ─► rates (counters, bandwidth, attribution) ─► controller (with policy) ─► seam::plan ─► enforcement
//! ```
//!
//! Nothing here opens a file, reads a clock, starts a thread or depends on hash order: the world
//! comes in as an [`Observation`], goes out as a [`Plan`], and both pass through one trait,
//! [`Platform`]. Same recording, same plan, byte for byte.
//!
//! The controller does not use [`window`], what a profile is made of, and [`random`], numbers that a seed
//! decides.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

pub mod controller;
pub mod enforcement;
pub mod ids;
pub mod knee;
pub mod owner;
pub mod policy;
pub mod random;
pub mod rates;
pub mod seam;
pub mod units;
pub mod window;

pub use controller::{Config, State, step};
pub use ids::{DeviceId, GroupId, NodeId, WorkloadId};
pub use seam::observation::{Missing, Observation, Reading};
pub use seam::plan::{Action, Outcome, Plan};
pub use seam::platform::{Platform, PlatformError};
pub use seam::topology::Description;
pub use units::{Bytes, BytesPerSec, CpuShare, Nanos};
pub use window::Window;
pub use window::role::Role;
