// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions that are put to a real kernel, in guests with an emulated device: one program, a module for each
//! part of weir.
//!
//! ```text
//! cargo test --release -p weir-testbed --test vm -- --test-threads=2            all that `make test` runs
//! cargo test --release -p weir-testbed --test vm -- --test-threads=2 leases     one module
//! cargo test --release -p weir-testbed --test vm -- --ignored soak              what `make soak` runs
//! ```
//!
//! Time is the guest's own: no question depends on how busy the host is, and none is repeated. A question
//! that lacks something says so (`SKIP …` on stderr); with `WEIR_VM_TESTS=required` lacking something is a
//! failure.

mod common;

mod adversary;
mod calibrate;
mod core_events;
mod cosim;
mod cosim_cost;
mod counters;
mod cpu_max;
mod drf;
mod driver;
mod equal;
mod events;
mod groups;
mod later;
mod leases;
mod live;
mod locks;
mod lz4_blocks;
mod neighbours;
mod owners;
mod profile_cost;
mod refills;
mod refusals;
mod resize;
mod samples;
mod scx;
mod scx_full;
mod scx_kernels;
mod scx_stress;
mod scx_thesis;
mod shares;
mod speed;
mod tasks;
mod time;
mod topology;
mod verify_hardware;
