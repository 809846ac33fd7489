// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts of one observation of the world. Counts are cumulative, as the hardware and the kernel
//! give them; rates are made from two observations by the pure core.
//!
//! *Missing is not zero*: a [`Reading`] is a value or a named reason, and the reason travels to the
//! screen.

use crate::ids::{DeviceId, GroupId, WorkloadId};
use crate::units::{Bytes, CpuShare, Nanos};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Why a value is not there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason", content = "detail")]
pub enum Missing {
    /// This machine or kernel cannot say.
    NotSupported(String),
    /// It could, but we may not read it.
    NotPermitted(String),
    NotYetRead,
    /// It was there and is not any more, or could not be parsed.
    Lost(String),
}

impl Missing {
    /// The reason without its class, to be put into another sentence.
    pub fn reason(&self) -> &str {
        match self {
            Missing::NotSupported(why) | Missing::NotPermitted(why) | Missing::Lost(why) => why,
            Missing::NotYetRead => "not yet read",
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::NotSupported(why) => write!(f, "not supported: {why}"),
            Missing::NotPermitted(why) => write!(f, "not permitted: {why}"),
            Missing::NotYetRead => f.write_str("not yet read"),
            Missing::Lost(why) => write!(f, "lost: {why}"),
        }
    }
}

/// A value with the time it was taken at, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading<T> {
    /// When it was taken, on the platform's monotonic clock.
    pub at: Nanos,
    pub value: Result<T, Missing>,
}

impl<T> Reading<T> {
    pub fn new(at: Nanos, value: T) -> Self {
        Reading {
            at,
            value: Ok(value),
        }
    }

    pub fn missing(at: Nanos, why: Missing) -> Self {
        Reading {
            at,
            value: Err(why),
        }
    }

    pub fn ok(&self) -> Option<&T> {
        self.value.as_ref().ok()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Counts up by one each time, from 0.
    pub seq: u64,
    /// When the observation was finished, on the platform's monotonic clock.
    pub at: Nanos,
    /// Counter pairs, ordered by group.
    pub groups: Vec<GroupReading>,
    /// Loaded latency where the platform has a source, ordered by device.
    pub latencies: Vec<LatencyReading>,
    /// How busy devices say they are, of those that do, ordered by device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devload: Vec<DevLoadReading>,
    /// Devices with events that were multiplexed, ordered by device; the others counted all the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<Multiplexing>,
    /// What weir itself reads of groups to measure them, ordered by group. It is in their counts too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probe_traffic: Vec<ProbeReading>,
    /// Pages that the kernel has migrated, where it counts them. They are in the counts of groups too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_migration: Option<PageMigrationReading>,
    /// Memory of groups that no workload is known to have, where it is more than a tolerance, ordered by
    /// group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unowned_memory: Vec<UnownedMemory>,
    /// Workloads, ordered by id.
    pub workloads: Vec<WorkloadReading>,
    /// Counts of the tasks of workloads that use a group, ordered by id, where such events are counted. They
    /// stand apart, since most machines have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_counts: Vec<TaskCountsReading>,
    /// Things that should have been read and were not (a cgroup that went away in mid-read, a
    /// malformed file): counted and named, never fatal.
    pub skipped: Vec<Skipped>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupReading {
    pub id: GroupId,
    /// Bytes read from the device since some start; wraps at the device's counter mask.
    pub read_bytes: Reading<Bytes>,
    pub write_bytes: Reading<Bytes>,
}

/// Events of one device that did not count all the time: their counts are scaled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Multiplexing {
    pub id: DeviceId,
    /// Part of the time since the last observation, of the event that had least: above 0, below 1.
    pub ratio: f64,
}

/// Most events that are counted of each workload. A core has two registers for the kind that tells CXL memory
/// from other memory.
pub const TASK_EVENTS_MAX: usize = 2;

/// What one event has counted while the tasks of a workload ran, as the kernel gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventCount {
    /// Counts since some start.
    pub count: u64,
    /// Time for which the event was to count.
    pub enabled_ns: u64,
    /// Time for which it did. It is less where more events share a counter (multiplexing).
    pub running_ns: u64,
}

/// Counts of one workload, read together: one for each of [`task_events`], in their order.
///
/// [`task_events`]: crate::seam::topology::Description::task_events
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<EventCount>")]
pub struct EventCounts {
    counts: [EventCount; TASK_EVENTS_MAX],
    len: usize,
}

impl EventCounts {
    /// The first [`TASK_EVENTS_MAX`] of these.
    pub fn of(counts: &[EventCount]) -> EventCounts {
        let mut all = EventCounts::default();
        for (kept, count) in all.counts.iter_mut().zip(counts) {
            *kept = *count;
            all.len += 1;
        }
        all
    }

    /// In the order of the events.
    pub fn as_slice(&self) -> &[EventCount] {
        self.counts.get(..self.len).unwrap_or_default()
    }
}

impl TryFrom<Vec<EventCount>> for EventCounts {
    type Error = String;

    fn try_from(counts: Vec<EventCount>) -> Result<Self, String> {
        if counts.len() <= TASK_EVENTS_MAX {
            Ok(EventCounts::of(&counts))
        } else {
            Err(format!(
                "counts of {} events, and at most {TASK_EVENTS_MAX} are known",
                counts.len()
            ))
        }
    }
}

impl Serialize for EventCounts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_slice().serialize(serializer)
    }
}

/// Counts of one workload's accesses to all groups together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskCountsReading {
    pub id: WorkloadId,
    /// Counts of all tasks of the workload together.
    pub counts: Reading<EventCounts>,
}

/// What weir itself has read of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeReading {
    pub id: GroupId,
    /// Bytes requested since some start.
    pub read_bytes: Reading<Bytes>,
}

/// Memory in use that no workload is known to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnownedMemory {
    pub group: GroupId,
    pub bytes: Bytes,
    /// It has come since workloads were looked for, and until the next time it may be any workload's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_new: bool,
}

/// Pages that the kernel has migrated since some start, of the whole machine (`/proc/vmstat`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageMigrationReading {
    /// Bytes that were moved to slower memory (`pgdemote_*`).
    pub demoted_bytes: Reading<Bytes>,
    /// Bytes that were moved to faster memory (`pgpromote_success`).
    pub promoted_bytes: Reading<Bytes>,
    /// Between other nodes, or within one: the rest of `pgmigrate_success`.
    pub other_bytes: Reading<Bytes>,
}

/// How busy a device says it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DevLoadReading {
    pub id: DeviceId,
    /// The class of load, in the device's own word.
    pub load: Reading<DevLoad>,
}

/// What a device says of its load with each response (CXL 3.1, 3.3.4). It is no latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DevLoad {
    /// Requests hardly wait.
    Light,
    /// The device is as busy as it should be.
    Optimal,
    Moderate,
    Severe,
}

impl DevLoad {
    /// The class for the number that the specification gives it (CXL 3.1, 3.3.4).
    pub fn of(number: u64) -> Option<DevLoad> {
        let all = [
            DevLoad::Light,
            DevLoad::Optimal,
            DevLoad::Moderate,
            DevLoad::Severe,
        ];
        usize::try_from(number)
            .ok()
            .and_then(|n| all.get(n))
            .copied()
    }

    pub fn name(self) -> &'static str {
        match self {
            DevLoad::Light => "light",
            DevLoad::Optimal => "optimal",
            DevLoad::Moderate => "moderate",
            DevLoad::Severe => "severe",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyReading {
    pub id: DeviceId,
    /// Mean time of one access, over a time that ended when the reading was taken.
    pub mean_ns: Reading<Nanos>,
    pub source: LatencySource,
}

/// How a latency is known. They are not the same: a load also waits in the core, and is no store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencySource {
    /// Timed loads of weir's own, which wait for one another.
    Probe,
    /// Requests of all workloads, by occupancy over inserts of a socket's caches (Little's law).
    PerfEvents,
    /// Lines of all workloads, in a simulated machine.
    Model,
    #[default]
    Unknown,
}

impl LatencySource {
    /// The name as it is spelled in files and metrics.
    pub fn name(self) -> &'static str {
        match self {
            LatencySource::Probe => "probe",
            LatencySource::PerfEvents => "perf_events",
            LatencySource::Model => "model",
            LatencySource::Unknown => "unknown",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadKind {
    Cgroup,
    Process,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadReading {
    pub id: WorkloadId,
    pub kind: WorkloadKind,
    /// CPU time used since it began (user + system).
    pub cpu_ns: Reading<Nanos>,
    /// Time it was held back by its limit.
    pub throttled_ns: Reading<Nanos>,
    /// How it uses each group, ordered by group; a group it has nothing to do with is left out. Shared with
    /// the observations before, since it mostly stays as it is.
    pub uses: Arc<[Use]>,
    /// All its memory, on whatever node: what the parts in `uses` are parts of. Nothing where only those are
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<Bytes>,
    /// Its own weight when it competes, also while weir has lowered that: 100 is normal (`cpu.weight`).
    pub weight: f64,
    /// The limit that others set on it, before ours.
    pub their_limit_cpus: Option<CpuShare>,
    /// What weir made of its weight while it is limited; nothing where it has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_weight: Option<LimitedWeight>,
    /// Why it may never be limited, if so.
    pub excluded: Option<Excluded>,
}

/// The weight of a workload under a limit of weir's (see [`crate::seam::plan::WeightChange`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedWeight {
    /// It has this part of its own weight.
    Lowered {
        /// 0 to 1.
        ratio: f64,
    },
    /// It keeps its own for as long as the limit lasts.
    LeftAlone {
        /// What keeps weir from changing it, in words for people.
        why: String,
    },
}

/// A sign of how much of a group's traffic a workload causes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Use {
    pub group: GroupId,
    /// Memory it has there, in bytes.
    pub resident_bytes: Reading<Bytes>,
    /// Cumulative sign of accesses, from a source that distinguishes groups (sampling), in bytes of that
    /// source's own scale; only its ratio between workloads counts. Loads where the source distinguishes
    /// stores from them, else all that was fetched, for stores too.
    pub sampled_read_bytes: Option<Reading<Bytes>>,
    /// The same for stores. By the write-allocate rule each costs a read and a write.
    pub sampled_write_bytes: Option<Reading<Bytes>>,
}

/// Why a workload is never limited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason", content = "detail")]
pub enum Excluded {
    Kernel,
    /// It contains PID 1.
    Init,
    /// It is the root cgroup, which has no limit.
    Root,
    /// Its processes, or their cgroups, are not seen.
    Unlisted,
    /// It has cgroups below it, which a limit would hold back too.
    Inner,
    /// Only the whole threaded domain can have a limit (kernel, cgroup-v2.rst, "Threads"). That would hold
    /// back these processes too, by their cgroups: they are not known to have memory on a device.
    Domain(Vec<String>),
    /// `cpu.max` of it cannot be set, for this reason.
    NoCpuMax(String),
    /// It contains weir.
    Weir,
    /// It contains real-time tasks.
    RealTime,
    /// It matches this pattern of the exclude list.
    ByUser(String),
}

impl fmt::Display for Excluded {
    /// A sentence without its full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excluded::Kernel => f.write_str("kernel threads are never limited"),
            Excluded::Init => f.write_str("the init process is never limited"),
            Excluded::Root => f.write_str("processes of the root cgroup, which has no limit"),
            Excluded::Unlisted => {
                f.write_str("weir does not see its processes, or not their cgroups")
            }
            Excluded::Inner => f.write_str("cgroups below it would be limited too"),
            Excluded::Domain(others) => {
                f.write_str("a limit is possible only for its whole threaded domain")?;
                match others[..] {
                    [] => Ok(()),
                    _ => write!(f, ", and would hold back {} too", others.join(", ")),
                }
            }
            Excluded::NoCpuMax(why) => f.write_str(why),
            Excluded::Weir => f.write_str("weir does not limit itself"),
            Excluded::RealTime => f.write_str("it has real-time tasks, which are never limited"),
            Excluded::ByUser(glob) => write!(f, "it matches \"{glob}\" on the exclude list"),
        }
    }
}

/// Something that should have been read and was not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Skipped {
    /// The file or object.
    pub what: String,
    pub why: Missing,
}
