// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The testbed: a real kernel, no hardware. A VM test:
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use weir_scenario::TestbedMachine;
//! use weir_testbed::{guest_env::Environment, vm::Vm};
//! let env = Environment::ready(&mut |line| eprintln!("{line}"))?;
//! let vm = Vm::boot(&env, &TestbedMachine::default(), &[])?;
//! assert!(vm.run("cat /sys/devices/system/node/online")?.contains("0-1"));
//! # Ok(()) }
//! ```
//!
//! In data order: [`guest_env`] (packages of the guest; [`other_kernels`]: other kernels for it) →
//! a machine (weir-scenario) → [`vm`] (boot it, run in it).

mod agent;
pub mod attribution;
pub mod cosim;
pub mod device_sweep;
pub mod estimate_error;
pub mod files;
pub mod fio;
pub mod firmware;
pub mod guest;
pub mod guest_env;
mod guest_numa;
mod host_process;
mod initrd;
pub mod kernel_modules;
pub mod live_run;
pub mod lock;
pub mod other_kernels;
pub mod progress;
pub mod protocol;
pub mod provenance;
mod qemu;
mod qmp;
pub mod runs;
pub mod sampler;
pub mod scenario_file;
mod scratch;
pub mod shm;
mod snapshot;
pub mod time;
pub mod vm;
