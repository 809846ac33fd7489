// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings with a fixed list of values: flags and keys of the file have the same names.

use clap::ValueEnum;
use serde::Deserialize;
use weir_core::policy::Policy;

/// How a set-point is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Those below their fair share keep all that they use (default)
    MaxMin,
    /// Each gets the same part, by weight, of what it needs most, of all devices and CPU time together
    Drf,
}

impl PolicyName {
    /// The core's name for it.
    pub fn policy(self) -> Policy {
        match self {
            PolicyName::MaxMin => Policy::MaxMin,
            PolicyName::Drf => Policy::Drf,
        }
    }
}

/// What counts as one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadsName {
    /// A leaf cgroup: a service, a pod, a scope (default)
    Cgroup,
    /// A process
    Process,
}

/// What limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendName {
    /// `cpu.max` of the leaf cgroup (default)
    CpuMax,
    /// weir's own scheduler (sched_ext, for limited workloads only)
    SchedExt,
    /// weir's own scheduler for all ordinary tasks: limits hold also where all CPUs are busy; cpu.max of
    /// others is not enforced meanwhile
    SchedExtFull,
    /// For comparison: the thesis's scheduler (5.4.1.3) for all ordinary tasks, round robin with scaled
    /// slices
    #[cfg(feature = "thesis")]
    #[value(hide = true)]
    ThesisScx,
    /// For comparison: the same by virtual time (5.4.1.4)
    #[cfg(feature = "thesis")]
    #[value(hide = true)]
    ThesisScxVtime,
    /// For comparison: the same with a throttle queue (5.4.1.5)
    #[cfg(feature = "thesis")]
    #[value(hide = true)]
    ThesisScxThrottle,
    /// The scheduler where it can be used (for limited workloads), else `cpu.max`; with policy drf always
    /// `cpu.max`
    Auto,
}

/// Where device traffic is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountersName {
    /// The driver's files, else performance counters (default)
    Auto,
    /// Files of a driver of access counters
    Driver,
    /// Performance counters of CPUs and devices (see `weir events`)
    Perf,
}

/// How the traffic of a group that several workloads share is attributed to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttributionName {
    /// Counts, where the CPU has an event for them that agrees with the device; else resctrl or CPU time
    /// (default)
    Auto,
    /// Reads of CXL memory, counted for each task with events of the CPU (see `weir events`)
    TaskCounts,
    /// Traffic by resctrl, of monitoring groups that weir makes while it runs
    Resctrl,
    /// Samples of what tasks access, by physical address
    Sampling,
    /// CPU time × the part of a workload's memory that is on the device
    CpuTime,
}
