// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest of QEMU, and what stands beside it on the host.
//!
//! ```text
//! image ─► qemu ─► virtual_machine ─► agent (commands, by protocol)
//! (initrd,  (its      (Vm: boot,        sampler (the ground truth, step by step)
//!  files,    command   run, wait)       time (the guest's, not the host's)
//!  snapshot) line)                      cost (what it costs the host)
//!                                       cosim (RTL beside the device model)
//! ```

mod agent;
pub mod condition;
pub mod cosim;
pub mod cost;
pub mod image;
pub mod protocol;
mod qemu;
pub mod sampler;
pub mod time;
mod virtual_machine;

pub use image::files::GuestFile;
pub(crate) use virtual_machine::BAR_WORDS;
pub use virtual_machine::{BootOptions, OWN_FILE, Pending, Vm, beside};
