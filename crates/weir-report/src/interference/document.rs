// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of a measured, emulated or modelled matrix of interference;
//! `docs/reference/interference-results.md` documents it.
//!
//! A value that is not known is `null`, and its reason stands in the cell's `missing` under its dotted name.
//! What a whole machine lacks (a second node, an SSD) stands in the document's `missing`.

use crate::interference::class::InfluenceClass;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What `kind` says in such a document.
pub const KIND: &str = "weir-interference";
/// The version that this build writes, and the latest that it reads.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterferenceDocument {
    pub kind: String,
    pub version: u32,
    pub weir_version: String,
    /// Where the figures come from.
    pub world: World,
    /// When the measurement began: RFC 3339 in UTC, to the second. A model has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date_utc: Option<String>,
    /// The machine that was measured or modelled.
    pub machine: InterferenceMachine,
    /// What was asked for.
    pub plan: InterferencePlan,
    /// One for each victim under each background, in the order of the plan.
    pub cells: Vec<InterferenceCell>,
    /// What stood in the way of a clean measurement: frequency, other load, steal time, moved pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<crate::results::Caveat>,
    /// Targets and options that this machine does not have, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

/// Where figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// Measured on a machine.
    Machine,
    /// Measured in the testbed, on a real kernel with emulated memories.
    Vm,
    /// Computed by the model.
    Sim,
}

/// A machine, as far as it decides about interference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InterferenceMachine {
    /// Model name of its CPU, or name of the machine file.
    pub name: String,
    /// CPUs that may be used.
    pub cpus: u32,
    /// Which node or device plays which target: `mmem` → `node0`, `cxl` → `node2`, `ssd` → `/dev/nvme0n1`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub targets: BTreeMap<String, String>,
    /// Facts that two results are compared by: kernel, microcode, governor, SMT, NUMA balancing, prefetchers
    /// …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InterferencePlan {
    pub command: String,
    /// Seed of the order of the measurements, or of the event model.
    pub seed: u64,
    /// Seconds that one measurement lasts; null for the solver.
    pub seconds: Option<f64>,
    /// Repetitions of one placement of the CPUs at most. Placements that turn out to be one keep all of
    /// theirs.
    pub repeats_max: u32,
    /// Half-width of the interval, relative, at which repetitions end.
    pub half_width_ratio: f64,
    /// Levers that were set, by name: `quota` → 0.0625. Only the model has them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub levers: BTreeMap<String, f64>,
}

/// One stream of accesses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InterferenceStream {
    /// `mmem`, `cxl`, `ssd`, or `program` for a command of the user.
    pub target: String,
    /// `ld`, `ld-chase`, `st`, `st-clwb`, `ntst`, `movdir64b`, `movdir64b-from`, `copy`, `rep-movsb`,
    /// `ld-flush`; of an SSD `randread`, `randwrite`, `read`, `write`; of a program its command line.
    pub op: String,
    /// Threads, one a CPU.
    pub threads: u32,
    /// Bytes of one access of a memory stream.
    pub width_bytes: Option<u32>,
    /// Bytes of one I/O of an SSD stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u64>,
    /// I/Os in flight for each thread of an SSD stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Whether an SSD stream passes by the page cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamFigures {
    /// Bytes that the memory or the SSD moved for it, fetches and write-backs included.
    pub bytes_per_sec: Option<f64>,
    /// Latency of a dependent load beside a memory stream; median of an I/O of an SSD stream.
    pub latency_ns: Option<f64>,
    /// I/Os per second, or the figure of a program.
    pub ops_per_sec: Option<f64>,
    /// CPU time of one I/O.
    pub cpu_ns_per_op: Option<f64>,
    /// 99th percentile of an I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_p99_ns: Option<f64>,
}

/// One victim under one background.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterferenceCell {
    /// The stream that is judged. With a sweep, the thread counts are those of the greatest effect.
    pub victim: InterferenceStream,
    pub background: InterferenceStream,
    /// The victim without the background.
    pub alone: StreamFigures,
    /// The victim beside the background.
    pub together: StreamFigures,
    /// Together ÷ alone of the victim's bandwidth (of `ops_per_sec`, where there is no bandwidth).
    pub ratio: Option<f64>,
    /// Lower end of its 95 % interval: simultaneous over the sweep, where there is one.
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    pub repeats: u32,
    /// True: the interval excludes 1 after Holm's correction over all cells. False: all of it lies within 5 %
    /// of 1. Null: not known.
    pub interferes: Option<bool>,
    /// The classes that the interval touches, worst first: one where it is decided.
    pub class: Vec<InfluenceClass>,
    /// Where requests waited, from performance counters or from the model.
    pub counters: WaitCounters,
    /// All thread counts of the background that were tried, by rising count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<SweepPoint>,
    /// The same by where the host ran the CPUs of a virtual machine, nearest first. The cell itself uses one
    /// of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<PlacementPoint>,
    /// A sentence that names the place of the wait, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Why a value is null, by its dotted name: `counters.admission_wait_ns` → `no uncore_cha PMU`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

/// Where requests of the victim waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitCounters {
    /// Time before the coherence agent had a tracker for them.
    pub admission_wait_ns: Option<f64>,
    /// How long a request to DRAM kept its tracker.
    pub tracker_residence_ddr_ns: Option<f64>,
    /// How long a request to CXL memory kept its tracker.
    pub tracker_residence_cxl_ns: Option<f64>,
    /// Time from a miss of L2 to the data.
    #[serde(default)]
    pub l2_miss_latency_ns: Option<f64>,
    /// Time from a miss of the last-level cache to the data.
    #[serde(default)]
    pub l3_miss_latency_ns: Option<f64>,
}

/// The same cell of the repetitions in which the CPUs of a virtual machine were as far from each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacementPoint {
    /// Time of a line between CPUs and back.
    pub round_trip_ns: f64,
    /// The rate beside the background ÷ the rate alone.
    pub ratio: Option<f64>,
    /// Lower end of its own 95 % interval.
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    pub repeats: u32,
}

/// The same pair at one number of background threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    pub victim_threads: u32,
    pub background_threads: u32,
    /// The rate beside the background ÷ the rate alone.
    pub ratio: Option<f64>,
    /// Lower end of its own 95 % interval.
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    pub repeats: u32,
    /// The victim without the background.
    pub alone: StreamFigures,
    /// The victim beside the background.
    pub together: StreamFigures,
}
