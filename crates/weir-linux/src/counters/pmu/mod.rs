// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Performance monitoring units of this host, and the events of weir-events' tables on them.
//!
//! ```text
//! /proc/cpuinfo ─► Machine ─► which tables and events are here ─► (`weir events`)
//! /sys/bus/event_source ─┘              │
//!                                       ├─► source: targets ─► set (opened) ─► meter ─► bytes
//!                                       └─► latency: occupancy and inserts ─► set (opened) ─► mean wait
//! ```
//!
//! An event of a device or a socket counts what all tasks do, so the kernel requires root, `CAP_PERFMON`, or
//! `kernel.perf_event_paranoid` below 1.

mod bytes;
pub(crate) mod latency;
mod machine;
mod multiplexing;
mod pmus;
mod sampled_event;
mod set;
mod source;

use crate::inventory::numa::Topology;
use crate::options::Roots;
use weir_events::Scope;

pub use machine::{EventStatus, Machine};
pub use pmus::Pmu;
pub(crate) use sampled_event::{Tap, Tapped};
pub(crate) use set::{Counted, PerfScope, Set, denied};
pub use source::{Bytes, Counting, Origin, Target, targets, targets_by_scope};

/// What perf can count of CXL traffic on this machine. `named` are nodes of CXL memory by `--device`;
/// empty leaves it to the evidence.
pub fn here(roots: &Roots, named: &[u32]) -> Vec<Target> {
    crate::counters::perf_targets(roots, &cxl_nodes(roots, named))
}

/// The same for each kind of PMU that can count, nearest to the devices first.
pub fn here_by_scope(roots: &Roots, named: &[u32]) -> Vec<(Scope, Vec<Target>)> {
    crate::counters::perf_targets_by_scope(roots, &cxl_nodes(roots, named))
}

fn cxl_nodes(roots: &Roots, named: &[u32]) -> Vec<u32> {
    let nodes = Topology::probe(roots, named).memory_nodes;
    let nodes = nodes.unwrap_or_default();
    nodes.iter().map(|node| node.id.0).collect()
}
