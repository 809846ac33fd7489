// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pure models of CXL hardware. They own no clock: time comes in with every call, in nanoseconds.
//!
//! In the order an access meets them:
//!
//! ```text
//! core window ─► cache filter ─► device (service calendar + idle latency)
//! (lines a core   (what the last-   (when the device is free,
//!  may have out)   level cache has)  how long an access takes)
//! ```
//!
//! A device in steady state, calibrated against measurements, is [`loaded`] (figures: [`profile`]).
//!
//! The QEMU plugin drives these from many vCPU threads at once, so the shared ones (calendar, cache)
//! are lock-free and take calls whose times are out of order; the simulator drives the same code in
//! order.

pub mod cache;
pub mod counters;
pub mod device;
mod devload;
pub mod fills;
pub mod ledger;
pub mod loaded;
mod mix;
mod power;
pub mod profile;
pub mod reference;
pub mod regmap;
pub mod stream;
pub mod sweep;
mod tail;
mod terms;
pub mod window;

pub use cache::{CacheFilter, Lookup};
pub use device::{Device, DeviceProfile};
pub use loaded::{DevLoad, Equilibrium, LoadedDevice, Requester};
pub use profile::{Profile, ProfileError};
pub use weir_core::Bytes;
pub use window::CoreWindow;
