// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir run` as a service, under systemd or by hand.
//!
//! ```text
//! log           the log's lines leave in that format; its filter can change
//! signals       which signal ends weir, and which has the settings read again
//! liveness      whether the loop still makes steps, for `weir health`
//! manager       what the service manager is told: ready, reloading, stopping, that the loop turns
//! announce      what weir does here, said once it begins
//! opening       the platform, waited for where the operator chose that
//! reload        settings read again, and which of them count at once
//! capabilities  what weir cannot do without a capability that it lacks
//! ```
//!
//! How a line looks, and with which code a failure ends weir, stand in [`crate::cli`]: other commands have
//! them too.

pub(in crate::run) mod announce;
pub mod capabilities;
pub mod liveness;
pub mod log;
pub mod manager;
pub mod opening;
pub mod reload;
pub mod signals;
