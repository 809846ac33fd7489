// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real host behind [`weir_core::Platform`]. Modules in the order the data flows:
//!
//! ```text
//!            counters (device, groups)          one read for each device and tick
//! inventory ─►                              ─► platform ─► Observation
//!            workloads (discovery)              a thread of its own, about once a second
//!            workloads (cpu_time)               one read for each workload and tick
//!            task_traffic (accesses by task)    counted in the kernel, read at each tick
//!
//! Plan ─► platform ─► backends (cpu_max, sched_ext) ─► leases (lock, journal, undo)
//!
//! counters::windows (counts of a profile): sets of events that take turns, without ticks or a platform
//! kernel: bounded reads, clocks, descriptors, parsers, what the process may do, for all of them
//! ```
//!
//! **Two speeds.** A tick reads what changes each time: one `pread` per device, one per cgroup with memory on
//! a device (`cpu.stat`), all on descriptors kept open. What changes slowly and costs more (which cgroups
//! there are, their processes, what memory these have where, their weights) is gathered by
//! `workloads::discovery`, which never holds up a tick.
//!
//! **Roots.** Every path hangs from one of four [`Roots`], so that tests build small trees.
//!
//! **Distrust.** weir runs as root and reads what others write. Cgroups are opened component by
//! component without following links, sizes and counts are bounded, and what cannot be read becomes
//! a named absence, not a zero.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod backends;
mod counters;
mod error;
mod inventory;
mod kernel;
mod leases;
mod options;
mod platform;
mod task_traffic;
mod workloads;

#[cfg(test)]
mod fake;

pub use counters::CountedFabric;
pub use counters::pmu;
pub use counters::totals::Traffic;
pub use counters::windows;
pub use error::{LinuxError, hint};
pub use inventory::memory_nodes::{Node, Nodes, Reach};
pub use inventory::migration_settings::MigrationSettings;
pub use inventory::numa::nodes_with_memory;
pub use inventory::{cpu_topology, cxl, virtual_copies};
pub use kernel::confinement::{
    ServerNeeds, close_inherited, confine_server, confine_writer, drop_writers_capabilities,
};
pub use kernel::escape::{escape, unescape};
pub use kernel::parse;
pub use leases::restore::{NotRestored, ResetReport};
#[cfg(feature = "thesis")]
pub use options::ThesisVariant;
pub use options::{
    AttributionSource, Backend, By, CounterSource, Options, Reads, Roots, TaskSource,
};
pub use platform::LinuxPlatform;
pub use platform::description::describe;
pub use platform::lease_books::{reset, reset_even_if_running};
pub use platform::trial::{TrialCgroup, TrialLease, try_scheduler};
pub use workloads::cgroups::bind::{Bound, bind_cgroup_of, bind_self};
pub use workloads::cgroups::hierarchy::{LIMITING, NAMESPACE, PIDS, V2};
pub use workloads::operator_names::{NAMES, process_workload};
