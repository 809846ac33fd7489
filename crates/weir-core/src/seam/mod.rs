// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the controller and a machine say to each other ([`platform`]): what was observed, what is planned,
//! what became of it, and what screens get.

pub mod conformance;
pub mod next_move;
pub mod observation;
pub mod plan;
pub mod platform;
pub mod processes;
pub mod sched_stats;
pub mod snapshot;
pub mod topology;
