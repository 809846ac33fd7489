// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CXL memory device under load: two models of its queue, from fast and coarse to slow and exact.
//!
//! ```text
//! queue_model      one server, a calendar of service slots; a vCPU's accesses, in any order of time
//! closed_network   steady state of a calibrated device (solver_terms, rw_mix, pow_approx, tail)
//!   └─ mlc_sweep   its loaded-latency curve, as Intel MLC measures one
//! event_sim        the calibrated device line by line; checks closed_network
//! ```
//!
//! `outstanding` bounds the lines that a core has in flight, `profile` holds a device's figures and
//! `devload` its load class.

mod closed_network;
mod devload;
pub mod event_sim;
pub mod mlc_sweep;
mod outstanding;
mod pow_approx;
mod profile;
mod queue_model;
mod rw_mix;
mod solver_terms;
mod tail;

pub use closed_network::{Equilibrium, LoadedDevice, OFFERED_AT_IDLES, OfferedLoad, Requester};
pub use devload::DevLoad;
pub use outstanding::CoreWindow;
pub use profile::{DeviceFigures, Host, MixFigures, Profile, Tail};
pub use queue_model::{QueueModel, QueueTimes};
