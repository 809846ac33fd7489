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
//! In data order: [`guest_env`] (packages, kernels and modules of the guest) → a machine (weir-scenario) →
//! [`vm`] (boot it, run in it) → [`live`] (workloads with and without weir), [`attribution`] and
//! [`device_sweep`] (weir's figures, and the device alone, against the ground truth).

pub mod attribution;
pub mod device_sweep;
pub mod guest_env;
pub mod live;
pub mod vm;
