// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the machine is and can do: facts probed once, each absence with its reason. `weir doctor`
//! is nothing more than this value, printed.

use crate::ids::{DeviceId, GroupId, NodeId};
use crate::seam::next_move::NextMove;
use crate::seam::observation::Missing;
use crate::units::{Bytes, BytesPerSec, Nanos};
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Kernel release, or the simulator's name.
    pub kernel: String,
    /// CPUs that are online: no workload can use more.
    pub cpu_count: u32,
    pub devices: Vec<Device>,
    pub groups: Vec<Group>,
    pub actuator: Option<Actuator>,
    /// What is counted of the tasks of each workload, in the order of an observation's counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_events: Vec<TaskEvent>,
    /// Nodes of which only a part of the traffic is counted. No set-point is held for their devices: it would
    /// be compared with a part of the traffic, and workloads be charged for memory of the other part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partly_counted: Vec<NodeCoverage>,
    pub facts: Vec<Fact>,
}

impl Description {
    /// Whether the other is the same to the controller: all but the facts, which are for people.
    pub fn is_same_machine(&self, other: &Description) -> bool {
        self.cpu_count == other.cpu_count
            && self.devices == other.devices
            && self.groups == other.groups
            && self.actuator == other.actuator
            && self.task_events == other.task_events
            && self.partly_counted == other.partly_counted
    }

    /// A node with memory of this device of which only a part is counted.
    pub fn partly_counted_on(&self, device: DeviceId) -> Option<&NodeCoverage> {
        let is_on = |node: NodeId| {
            let mut groups = self.groups.iter().filter(|g| g.id.device == device);
            groups.any(|group| group.node == Some(node))
        };
        self.partly_counted.iter().find(|partly| is_on(partly.node))
    }

    /// Whether no set-point can be held for any device, because each of them lies on a node of which only a
    /// part is counted.
    pub fn is_nothing_held(&self) -> bool {
        let mut ids = self.devices.iter().map(|device| device.id);
        !self.partly_counted.is_empty() && ids.all(|id| self.partly_counted_on(id).is_some())
    }

    /// The resources that can be set here; none where nothing can limit.
    pub fn levers(&self) -> &[Lever] {
        self.actuator.as_ref().map_or(&[], |a| &a.levers)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    pub id: DeviceId,
    pub name: String,
    /// Bandwidth it can sustain, where the platform says so.
    pub capacity_bytes_per_sec: Option<BytesPerSec>,
    /// Counters wrap after this many bytes (2^64 lines of 64 bytes do not fit a byte count, so the
    /// driver's byte counters wrap at 2^64): the modulus minus one.
    pub counter_mask_bytes: u64,
    pub counted_by: CountedBy,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedBy {
    /// The device's own access counters, through their driver.
    AccessCounters,
    /// Performance counters of CPUs or of the device, through perf.
    PerfEvents,
    Model,
    /// Nothing, or it is not known.
    #[default]
    Unknown,
}

impl CountedBy {
    /// The name as it is spelled in files and metrics.
    pub fn name(self) -> &'static str {
        match self {
            CountedBy::AccessCounters => "access_counters",
            CountedBy::PerfEvents => "perf_events",
            CountedBy::Model => "model",
            CountedBy::Unknown => "unknown",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub id: GroupId,
    /// The memory-only NUMA node it appears as, if it is online.
    pub node: Option<NodeId>,
    pub size_bytes: Bytes,
}

/// The memory devices of a node, as the kernel calls them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCoverage {
    pub node: NodeId,
    /// Those with counters.
    pub counted: Vec<String>,
    /// Those without: what they move is in no figure of the node.
    pub uncounted: Vec<String>,
}

impl NodeCoverage {
    /// Whether a part of the node's traffic is not counted.
    pub fn is_partial(&self) -> bool {
        !self.uncounted.is_empty()
    }
}

impl fmt::Display for NodeCoverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (counted, uncounted) = (self.counted.join(", "), self.uncounted.join(", "));
        if !self.is_partial() {
            return write!(f, "counted: {counted}");
        }
        let node = self.node;
        write!(
            f,
            "counted: {counted}; not counted: {uncounted}. The traffic of {uncounted} is in no figure of {node}, \
             and a set-point for {counted} is refused"
        )
    }
}

/// An event that is counted of the tasks of each workload, wherever their memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEvent {
    /// Bytes read from devices that one count stands for, on the source's own scale.
    pub bytes_per_count: u64,
    /// It counts that part of what the other events count that was fetched to be stored to.
    pub counts_stores: bool,
}

/// A resource of workloads that a back end can set. A plan has limits and weights of these only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lever {
    /// CPU time, in CPUs (`cpu.max`).
    CpuTime,
    /// Bytes that a device moves, in bytes per second (weir's scheduler).
    DeviceBytes,
    /// The weight of a limited workload, as a part of its own (`cpu.weight`).
    Weight,
}

/// Limits of the back end that carries out plans. The controller never requests less or more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Actuator {
    /// Its name: `cpu-max`, `sched-ext`, `sim`.
    pub name: String,
    /// What it can set. Where it can limit CPU time and device bytes, limits are in device bytes.
    pub levers: Vec<Lever>,
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
    pub min_quota_ns: Nanos,
    /// It counts what the device moves by itself and charges all of it to those it limits, so that the mean
    /// is held without a correction by the controller.
    pub is_exact: bool,
}

impl Actuator {
    pub fn has(&self, lever: Lever) -> bool {
        self.levers.contains(&lever)
    }

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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// What was probed, in dotted form: `cgroup.v2`, `sched_ext.state`.
    pub name: String,
    /// The answer, or why there is none.
    pub value: Result<String, Missing>,
    /// What to do about it, where something can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_move: Option<NextMove>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levers(json: &str) -> Vec<Lever> {
        let text = format!(
            r#"{{"name":"x","min_cpus":0.1,"grain_ns":1,"refill_on_write_ratio":0.0,"period_ns":1,"min_quota_ns":1,"is_exact":false{json}}}"#
        );
        let read: Actuator = serde_json::from_str(&text).expect("an actuator");
        let again = serde_json::to_string(&read).expect("plain data");
        assert_eq!(
            serde_json::from_str::<Actuator>(&again).expect("what was written"),
            read
        );
        read.levers
    }

    #[test]
    fn levers_are_read_as_they_are_listed() {
        let all = levers(r#","levers":["cpu_time","device_bytes","weight"]"#);
        assert_eq!(all, [Lever::CpuTime, Lever::DeviceBytes, Lever::Weight]);
        assert_eq!(levers(r#","levers":[]"#), []);
    }

    #[test]
    fn a_lever_that_is_not_known_is_an_error() {
        let text = r#"{"name":"x","levers":["steam"],"min_cpus":0.1,"grain_ns":1,
            "refill_on_write_ratio":0.0,"period_ns":1}"#;
        let why = serde_json::from_str::<Actuator>(text).expect_err("no such lever");
        assert!(why.to_string().contains("steam"), "{why}");
    }

    #[test]
    fn without_a_back_end_there_is_no_lever() {
        assert_eq!(Description::default().levers(), []);
    }
}
