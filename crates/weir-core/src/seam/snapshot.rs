// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One tick as screens see it: table, JSON and page get this same versioned value and compute
//! nothing but layout.

use crate::ids::WorkloadId;
use crate::owner::PodNames;
use crate::seam::observation::{DevLoadReading, LatencyReading, Skipped};
use crate::seam::plan::{Outcome, Plan};
use crate::seam::processes::Processes;
use crate::seam::sched_stats::SchedStats;
use crate::seam::topology::Description;
use crate::units::{CpuShare, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the snapshot's schema; raised with each change of its shape, which a test compares.
pub const SCHEMA_VERSION: u32 = 7;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Wall-clock time of the tick, milliseconds since the Unix epoch, for people.
    pub wall_unix_ms: u64,
    /// Process id of the writer, 0 if it is not a live process.
    pub writer_pid: u32,
    /// Whether the writer acts or only observes.
    pub limiting: bool,
    pub interval_ms: u64,
    pub policy: String,
    pub description: Description,
    pub plan: Plan,
    pub outcomes: Vec<Outcome>,
    pub latencies: Vec<LatencyReading>,
    /// How busy devices say they are, of those that do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devload: Vec<DevLoadReading>,
    /// Workloads that were throttled since the tick before, and by how much: throttled time per wall
    /// time, in CPUs (two threads throttled for the whole interval are 2).
    pub throttled_cpus: BTreeMap<WorkloadId, CpuShare>,
    /// Workloads under a limit of ours, with the wall-clock time it began, in milliseconds since the
    /// Unix epoch.
    pub limited_since_unix_ms: BTreeMap<WorkloadId, u64>,
    /// What weir's own scheduler did, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<SchedStats>,
    /// Processes of workloads with memory on a device. Recordings do not keep it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub processes: BTreeMap<WorkloadId, Processes>,
    /// What Kubernetes calls pods and containers, where that can be read. Recordings do not keep it.
    #[serde(default, skip_serializing_if = "PodNames::is_empty")]
    pub pod_names: PodNames,
    /// What the writer itself costs; nothing if it did not measure.
    pub self_cost: Option<SelfCost>,
    /// What became of figures that are pushed to a server, where that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<Delivery>,
    pub skipped: Vec<Skipped>,
    /// How many such skips began since the start; one that lasts counts once.
    pub skipped_total: u64,
    /// How often another program has written a limit that weir holds, since the start, where that can be
    /// seen. Recordings do not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_rewrites_total: Option<u64>,
}

impl Snapshot {
    /// Nothing seen yet: the start of a writer, and of tests.
    pub fn empty() -> Snapshot {
        Snapshot {
            schema_version: SCHEMA_VERSION,
            wall_unix_ms: 0,
            writer_pid: 0,
            limiting: false,
            interval_ms: 0,
            policy: String::new(),
            description: Description::default(),
            plan: Plan::default(),
            outcomes: Vec::new(),
            latencies: Vec::new(),
            devload: Vec::new(),
            throttled_cpus: BTreeMap::new(),
            limited_since_unix_ms: BTreeMap::new(),
            scheduler: None,
            processes: BTreeMap::new(),
            pod_names: PodNames::default(),
            self_cost: None,
            push: None,
            skipped: Vec::new(),
            skipped_total: 0,
            limit_rewrites_total: None,
        }
    }
}

/// What became of figures that are pushed, in batches, to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Batches that the server has taken.
    pub sent_batches_total: u64,
    /// Batches that it refused, or that did not fit into the queue while it was away.
    pub dropped_batches_total: u64,
    /// Ticks that did not even get into a batch.
    pub missed_ticks_total: u64,
    pub waiting_batches: u64,
    /// Why nothing arrives; nothing while all is well.
    pub trouble: Option<String>,
}

/// What weir itself costs. Sleeping until the next tick is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfCost {
    /// CPU time of one iteration of the loop, the one before this snapshot (this one is not over).
    pub loop_cpu_ns: Nanos,
    /// The largest CPU time of a tick so far.
    pub loop_cpu_ns_max: Nanos,
    /// CPU use of the whole process over about the last second.
    pub process_cpus: CpuShare,
    /// Ticks so far that came more than half an interval late.
    pub late_ticks_total: u64,
}
