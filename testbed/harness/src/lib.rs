// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The testbed: a real kernel, no hardware. A VM test reads like a note:
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use weir_testbed::{env::Environment, machine::Machine, vm::Vm};
//! let env = Environment::ready(&mut |line| eprintln!("{line}"))?;
//! let vm = Vm::boot(&env, &Machine::default(), &[])?;
//! assert!(vm.run("cat /sys/devices/system/node/online")?.contains("0-1"));
//! # Ok(()) }
//! ```
//!
//! In data order: [`env`] (what the guest is made of; [`kernels`]: with which kernel else) → [`machine`] (what it looks like) → [`vm`]
//! (boot it, run in it).

mod agent;
pub mod attribution;
pub mod cosim;
pub mod driver;
pub mod env;
pub mod estimates;
pub mod files;
pub mod fio;
pub mod firmware;
pub mod guest;
mod host;
mod initrd;
pub mod kernels;
pub mod live;
pub mod lock;
pub mod machine;
mod memory;
pub mod plant;
pub mod progress;
pub mod protocol;
pub mod provenance;
mod qemu;
mod qmp;
pub mod runs;
pub mod sampler;
pub mod scenario;
mod scratch;
pub mod shm;
mod snapshot;
pub mod time;
pub mod vm;
