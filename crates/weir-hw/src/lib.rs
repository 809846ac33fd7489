// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pure models of CXL hardware. They own no clock: time comes in with every call, in nanoseconds.
//!
//! In the order an access meets them:
//!
//! ```text
//! core window ─► cache filter ─► device (service calendar + idle latency)
//! (lines a core   (lines that the  (when the device is free,
//!  may have out)   last-level       how long an access takes)
//!                  cache holds)
//! ```
//!
//! A device in steady state, calibrated against measurements, is [`memory_device::LoadedDevice`]
//! (its figures: [`memory_device::Profile`]). [`access_counters`] are the registers that a host reads.
//! [`host_path`] is what streams of memory and storage traffic do to each other on the way to memory.
//!
//! The testbed's device model drives these from many vCPU threads at once, so the shared ones (calendar,
//! cache) are lock-free and take calls with times out of order; the simulator drives the same code
//! in order.

pub mod access_counters;
pub mod cache;
pub mod host_path;
pub mod memory_device;

pub use cache::{CacheFilter, Lookup};
pub use memory_device::{
    CoreWindow, DevLoad, Equilibrium, LoadedDevice, Profile, QueueModel, QueueTimes, Requester,
};
pub use weir_core::Bytes;
