// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real host behind [`weir_core::Platform`]. Modules in the order the data flows:
//!
//! ```text
//!            counters (device, groups)        one read per device and tick
//! topology ─►                          ─► platform ─► Observation
//!            scout (workloads, slow facts)    a thread of its own, about once a second
//!              tree · tasks · members · exclude
//!            shares (whose reads, by task)    counted in the kernel, read at each tick
//!
//! Plan ─► platform ─► actuator (cpu.max; aim, phase, quota) ─┬─► claim (lock, journal) ─► restore
//!                  └► scx (our scheduler in the kernel)      ─┘
//! ```
//!
//! **Two speeds.** A tick reads what changes each time: one `pread` per device, one per cgroup with
//! something on a device (`cpu.stat`), all on descriptors kept open. What changes slowly and costs more (which cgroups
//! there are, who is in them, what memory they have where, their weights) is gathered by the
//! [scout](scout), which never holds up a tick.
//!
//! **Roots.** Every path hangs from one of four [`Roots`], so that tests build small trees.
//!
//! **Distrust.** weir runs as root and reads what others write. Cgroups are opened component by
//! component without following links, sizes and counts are bounded, and what cannot be read becomes
//! a named absence, not a zero.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod actuator;
mod aim;
mod asked;
mod beside;
mod bind;
mod bounds;
mod bpf;
mod cgroup_type;
mod charged;
mod claim;
mod clock;
pub mod copies;
pub mod cores;
mod counters;
pub mod cxl;
mod descriptors;
mod error;
mod exclude;
mod facts;
mod files;
mod guest;
mod haste;
mod hierarchy;
mod hold;
mod hotplug;
mod inner;
mod journal;
mod judge;
mod leases;
mod look;
mod mapped;
mod members;
mod names;
mod node_facts;
mod nodes;
mod one_process;
mod options;
mod order;
mod outside;
mod pace;
pub mod parse;
pub mod perf;
mod phase;
mod placed;
mod platform;
mod policy;
mod privilege;
mod process_set;
mod quiet;
mod quota;
mod refill;
mod restore;
mod rests;
mod sched_ext;
mod scout;
mod scx;
mod shares;
mod signs;
mod spent;
mod take;
mod tasks;
mod topology;
mod traffic;
mod tree;
mod unlisted;
mod usage;
mod waits;
mod walk;
mod wanted;

#[cfg(test)]
mod fake;

pub use bind::{Bound, bind_cgroup_of, bind_self};
pub use error::LinuxError;
pub use facts::describe;
pub use hierarchy::{NAMESPACE, PIDS, V2};
pub use names::{escape, unescape};
pub use nodes::{Node, Nodes, Reach};
pub use options::{
    Backend, By, CounterSource, Options, Reads, Roots, ShareSource, TaskSource, ThesisVariant,
};
pub use platform::LinuxPlatform;
pub use restore::{NotRestored, ResetReport, reset, reset_even_if_running};
pub use topology::nodes_with_memory;
pub use traffic::Traffic;
pub use wanted::NAMES;
