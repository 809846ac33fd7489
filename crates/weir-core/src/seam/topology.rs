// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the machine is and can do: facts probed once, each absence with its reason. `weir doctor`
//! is nothing more than this value, printed.

use crate::ids::{DeviceId, GroupId, NodeId};
use crate::seam::observation::Missing;
use crate::units::{Bytes, BytesPerSec, Nanos};
use serde::{Deserialize, Serialize};

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Kernel release, or the simulator's name.
    pub kernel: String,
    /// CPUs that are online: no workload can use more.
    pub cpu_count: u32,
    /// CXL devices, by id.
    pub devices: Vec<Device>,
    /// Monitoring groups, by id.
    pub groups: Vec<Group>,
    /// What can limit a workload here.
    pub actuator: Option<Actuator>,
    /// Everything probed, in reading order.
    pub facts: Vec<Fact>,
}

impl Description {
    /// Whether the other is the same to the controller: all but the facts, which are for people.
    pub fn is_same_machine(&self, other: &Description) -> bool {
        self.cpu_count == other.cpu_count
            && self.devices == other.devices
            && self.groups == other.groups
            && self.actuator == other.actuator
    }
}

/// A CXL memory device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its number.
    pub id: DeviceId,
    /// What the operating system calls it.
    pub name: String,
    /// Bandwidth it can sustain, where the platform says so.
    pub capacity_bytes_per_sec: Option<BytesPerSec>,
    /// Counters wrap after this many bytes (2^64 lines of 64 bytes do not fit a byte count, so the
    /// driver's byte counters wrap at 2^64): the modulus minus one.
    pub counter_mask_bytes: u64,
    /// What counts its traffic.
    #[serde(default)]
    pub counted_by: CountedBy,
}

/// What counts a device's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedBy {
    /// The device's own access counters, through their driver.
    AccessCounters,
    /// Performance counters of CPUs or of the device, through perf.
    PerfEvents,
    /// A simulated machine.
    Model,
    /// Nothing, or it is not known: a recording of an earlier version.
    #[default]
    Unknown,
}

impl CountedBy {
    /// As it is spelled in files and metrics.
    pub fn name(self) -> &'static str {
        match self {
            CountedBy::AccessCounters => "access_counters",
            CountedBy::PerfEvents => "perf_events",
            CountedBy::Model => "model",
            CountedBy::Unknown => "unknown",
        }
    }
}

/// A monitoring group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Its number.
    pub id: GroupId,
    /// The memory-only NUMA node it appears as, if it is online.
    pub node: Option<NodeId>,
    /// Its size.
    pub size_bytes: Bytes,
}

/// Limits of the back end that carries out plans. The controller never requests less or more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Actuator {
    /// Its name: `cpu-max`, `sched-ext`, `sim`.
    pub name: String,
    /// Smallest limit it can hold, in CPUs.
    pub min_cpus: f64,
    /// The grain of its enforcement (a scheduler tick for `cpu.max`).
    pub grain_ns: Nanos,
    /// CPU time a workload gains for free by one rewrite of its limit, as a fraction of one
    /// period's quota (`cpu.max`: 1, every write refills the quota; 0 where a write is harmless).
    pub refill_on_write_ratio: f64,
    /// Period over which a limit is enforced.
    pub period_ns: Nanos,
    /// Shortest quota that a period can have; a smaller limit makes the period longer (`cpu.max`: 1 ms,
    /// so 0.004 CPUs are 1 ms in 250 ms). 0 where there is no such bound.
    #[serde(default)]
    pub min_quota_ns: Nanos,
    /// It counts what the device moves by itself and charges all of it to those it limits, so that the mean
    /// is held without a correction by the controller.
    #[serde(default)]
    pub is_exact: bool,
    /// It can lower the weight of a workload while that is limited.
    #[serde(default)]
    pub lowers_weights: bool,
}

impl Actuator {
    /// The longer period of a limit so small that its quota would be too short, in seconds; nothing
    /// where the normal period does.
    pub fn stretched_secs_at(&self, cpus: f64) -> Option<f64> {
        let quota = self.min_quota_ns.secs_f64();
        let stretched = (quota / cpus).min(quota / self.min_cpus);
        (stretched > self.period_ns.secs_f64()).then_some(stretched)
    }

    /// CPU-seconds that a workload gains by one rewrite of a limit of so many CPUs. A stretched period
    /// changes with each rewrite, so the back end cannot wait for its refill: all of the quota is
    /// gained, and what was used above it until a tick noticed is forgiven.
    pub fn leak_secs_at(&self, cpus: f64) -> f64 {
        let leak = match self.stretched_secs_at(cpus) {
            Some(_) => self.grain_ns.max(self.min_quota_ns).secs_f64(),
            None => self.refill_on_write_ratio * self.period_ns.secs_f64() * cpus,
        };
        if leak.is_finite() { leak.max(0.0) } else { 0.0 }
    }
}

/// One thing that was probed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// What was probed, in dotted form: `cgroup.v2`, `sched_ext.state`.
    pub name: String,
    /// The answer, or why there is none.
    pub value: Result<String, Missing>,
    /// What to do about it, where something can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_move: Option<String>,
}
