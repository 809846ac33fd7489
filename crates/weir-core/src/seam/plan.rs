// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The decision as a value: printable, comparable, replayable. Another function carries it out.

use crate::ids::{DeviceId, WorkloadId};
use crate::rates::attribution::{Estimate, Provenance};
use crate::seam::observation::{Excluded, LimitedWeight, Missing, Skipped};
use crate::units::{BytesPerSec, CpuShare, Nanos};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub seq: u64,
    pub at: Nanos,
    pub devices: Vec<DeviceState>,
    /// Every workload that uses a device, by id: what it was found to do and what it may do.
    pub workloads: Vec<Decision>,
    /// What is to change in the world, by workload id. Empty when nothing is to change.
    pub actions: Vec<Action>,
    /// Where limits are in device bytes: what each limited workload may move from now on, by workload id. It
    /// follows each step, also where no action changes the limit. A workload of which too little is known
    /// keeps what it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<ByteBudget>,
    /// Weights of limited workloads that are to change, by workload id, after the actions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<WeightChange>,
    /// Part of the time since the observation before that the events of tasks counted, of the workload with
    /// the least: figures are scaled by it. Nothing where they counted all the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_events_running_ratio: Option<f64>,
}

impl Plan {
    /// That events of tasks were multiplexed, in words, if they were. It stands beside what the observation
    /// has skipped.
    pub fn multiplexed(&self) -> Option<Skipped> {
        let percent = self.task_events_running_ratio? * 100.0;
        Some(Skipped {
            what: "counts of tasks".into(),
            why: Missing::NotSupported(format!(
                "all the time: the events are multiplexed with others and ran {percent:.0} % of it; figures are scaled"
            )),
        })
    }

    /// What a workload may move from now on, where limits are in device bytes.
    pub fn budget_of(&self, workload: &WorkloadId) -> Option<&ByteBudget> {
        let found = self.budgets.binary_search_by(|b| b.workload.cmp(workload));
        self.budgets.get(found.ok()?)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceState {
    pub id: DeviceId,
    /// Bytes read per second over the last interval; nothing on the first observation or when lost.
    pub read_bytes_per_sec: Option<BytesPerSec>,
    pub write_bytes_per_sec: Option<BytesPerSec>,
    /// Part of the traffic that no known workload explains; nothing when the total is not known.
    pub unattributed_bytes_per_sec: Option<BytesPerSec>,
    /// The part of that which the kernel moved by migrating pages; nothing where it migrated none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrated_bytes_per_sec: Option<BytesPerSec>,
    /// What the controller holds; nothing when it only observes without a set-point.
    pub set_point_bytes_per_sec: Option<BytesPerSec>,
    /// Correction of the feed-forward split by the PI term: 1 is none.
    pub correction_ratio: f64,
    /// What its users are to move together, where that is less than the set-point because CPUs are full
    /// (policy drf), or more because the set-point cannot be held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_bytes_per_sec: Option<BytesPerSec>,
    /// The set-point cannot be held, because of traffic that is not limited. Nothing is limited to less than
    /// half of its fair share of the set-point meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unenforceable: Option<Unenforceable>,
    /// Limits have no effect left, and the device stays beside its set-point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturation: Option<Saturation>,
}

/// How far limits are from what they are to bring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saturation {
    /// What the device moves beside its set-point, relative to it, in the mean of some seconds; negative
    /// below.
    pub bias_ratio: f64,
    /// Workloads that are limited for this device.
    pub limited: u32,
    /// Those of them that reach their limits. The others wait for CPUs, or want no more.
    pub reaching: u32,
}

/// Traffic that is not limited, of a device whose set-point cannot be held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unenforceable {
    pub unlimited_bytes_per_sec: BytesPerSec,
    /// The largest part of it.
    pub largest: UnlimitedTraffic,
}

/// A part of a device's traffic that is not limited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnlimitedTraffic {
    /// The workload; nothing for traffic of no workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadId>,
    /// Why it is not limited; nothing for traffic of no workload, and for what is too small to matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<Excluded>,
    pub bytes_per_sec: BytesPerSec,
}

impl DeviceState {
    /// What a back end that counts the device's bytes holds it at.
    pub fn target(&self) -> Option<BytesPerSec> {
        self.planned_bytes_per_sec.or(self.set_point_bytes_per_sec)
    }
}

/// A bandwidth by direction, and how old it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrafficBreakdown {
    pub read: DirectionTraffic,
    pub write: DirectionTraffic,
    /// Age of the oldest reading behind it, when it was made: of counters, or of what they were shared out
    /// by.
    pub age_ns: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionTraffic {
    /// What was moved over the last interval.
    pub bytes_per_sec: BytesPerSec,
    pub provenance: Provenance,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    pub id: WorkloadId,
    /// Device bandwidth (reads + writes, all devices) and how we know it.
    pub bandwidth: Estimate,
    /// What it is made of; nothing where a part is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficBreakdown>,
    pub cpu_cpus: Option<CpuShare>,
    /// κ, device bytes per CPU-second, smoothed.
    pub intensity_bytes_per_cpu_sec: Option<f64>,
    pub allowed_bytes_per_sec: Option<BytesPerSec>,
    /// The limit now in force by our will, if any.
    pub limit_cpus: Option<CpuShare>,
    /// What weir made of its weight, while it has a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_weight: Option<LimitedWeight>,
    /// Cumulative time it was held back, where known.
    pub throttled_ns: Option<Nanos>,
    /// Its dominant share; with policy drf only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair: Option<FairShare>,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedResource {
    Cpu,
    Device(DeviceId),
}

/// A workload's dominant share at this step. A share is a part of what there is to divide: of the CPUs, or of
/// a device's budget, each without what weir may not limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FairShare {
    /// The resource of which it needs the largest share.
    pub dominant: SharedResource,
    /// The share of it that it used over the last interval.
    pub used_ratio: f64,
    /// The share of it that it may have.
    pub target_ratio: f64,
    /// The resource that is full, so that it gets no more; nothing where it gets what it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back_by: Option<SharedResource>,
    /// Its traffic is not known: it counts by its CPU time alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_by_cpu_alone: bool,
}

/// Why a workload has the limit it has, or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Why {
    /// weir is not configured to limit.
    ObserveOnly,
    /// It is on the list of those never limited.
    Excluded {
        by: crate::seam::observation::Excluded,
    },
    /// Not enough is known yet to limit it.
    Learning,
    /// It is below its fair share of the set-point.
    BelowFairShare,
    /// The device has headroom: all of its users together fit below the set-point.
    Headroom,
    /// It is limited to its part of the set-point.
    Limited {
        /// The name of the policy that made the split.
        policy: Cow<'static, str>,
        /// What it moved when no limit held it back last; where it was never seen so, what it moves. How much
        /// it would move without a limit now is not known.
        demand_bytes_per_sec: BytesPerSec,
        /// How long ago no limit held it back; nothing where it was never seen so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seen_free_ago_ns: Option<Nanos>,
        /// What the device moved in the interval before. It may be less than is shared out: demands decide,
        /// not traffic.
        device_bytes_per_sec: BytesPerSec,
        /// What all users of the device moved so, or move now where that is more, together; nothing
        /// where that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_bytes_per_sec: Option<BytesPerSec>,
    },
    /// Held at the floor that every workload keeps.
    AtFloor,
    /// Its traffic is not known at the moment. A limit it has is kept for a short while, then
    /// raised step by step and let go.
    NoData {
        /// The reading that is missing, and why, in words for people.
        detail: String,
    },
    /// It should be limited, and the platform did not do it.
    NotEnforced {
        /// What keeps the limit from being in force, in words for people.
        detail: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    pub workload: WorkloadId,
    pub kind: ActionKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// Let it have at most this much of a resource.
    Limit(Limit),
    Release,
}

/// A limit, in the unit of the resource that the back end limits ([`crate::seam::topology::Lever`]). A back
/// end refuses one of another resource.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Limit {
    /// Bytes that a device moves for it: reads and writes.
    DeviceBytes {
        /// When the limit begins or is changed by an action; after that [`Plan::budgets`] has it.
        bytes_per_sec: BytesPerSec,
        /// κ, bytes that it moves in a second of CPU time. Before the device has counted, it is charged by
        /// this.
        intensity_bytes_per_cpu_sec: f64,
        /// The CPU time that this comes to in a second, for screens and statistics; nothing is limited to it.
        cpus: CpuShare,
    },
    CpuTime {
        /// CPU-seconds in a second.
        cpus: CpuShare,
    },
}

impl Limit {
    /// The CPU time that it allows or comes to, in CPUs.
    pub fn cpus(self) -> CpuShare {
        match self {
            Limit::DeviceBytes { cpus, .. } | Limit::CpuTime { cpus } => cpus,
        }
    }
}

/// What one limited workload may move of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ByteBudget {
    pub workload: WorkloadId,
    /// Reads and writes together, in bytes per second.
    pub bytes_per_sec: BytesPerSec,
    /// κ, bytes that it moves in a second of CPU time.
    pub intensity_bytes_per_cpu_sec: f64,
}

/// A change of the weight that a limited workload has when it competes for a CPU (`cpu.weight`). With the
/// limit the weight ends, too. What became of it shows in the next observation ([`LimitedWeight`]): a weight
/// that cannot be changed is no reason to refuse a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WeightChange {
    pub workload: WorkloadId,
    /// Part of its own weight that it is to have: 1 is all of it.
    pub ratio: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub workload: WorkloadId,
    pub result: OutcomeKind,
}

/// Kinds of outcome. Tried and done are different kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "detail")]
pub enum OutcomeKind {
    /// Done, and the world was changed.
    Applied,
    /// Already so, or too small a change for this back end: nothing written.
    Unchanged,
    /// The workload is gone; nothing left to do.
    Vanished,
    /// Not done: observe-only, no permission, another scheduler in charge.
    Refused(String),
    /// It was tried and failed, for this reason.
    Failed(String),
}
