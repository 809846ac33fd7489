// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the caller chooses.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_core::{BytesPerSec, Missing};

/// Where the kernel's file systems and weir's own files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// sysfs: `/sys`.
    pub sys: PathBuf,
    /// procfs: `/proc`.
    pub proc: PathBuf,
    /// The cgroup v2 tree: `/sys/fs/cgroup`.
    pub cgroup: PathBuf,
    /// weir's lock and journal: `/run/weir`. On a file system that a reboot empties, as cgroups are.
    pub run: PathBuf,
    /// What weir keeps from one boot to the next: `/var/lib/weir`.
    pub state: PathBuf,
    /// Where the kubelet names pods: `/var/log`.
    pub log: PathBuf,
}

impl Roots {
    /// The same layout below `dir`, for tests: `dir/sys`, `dir/proc`, `dir/sys/fs/cgroup`,
    /// `dir/run/weir`, `dir/var/lib/weir`, `dir/var/log`.
    pub fn beneath(dir: &Path) -> Self {
        Roots {
            sys: dir.join("sys"),
            proc: dir.join("proc"),
            cgroup: dir.join("sys/fs/cgroup"),
            run: dir.join("run/weir"),
            state: dir.join("var/lib/weir"),
            log: dir.join("var/log"),
        }
    }
}

impl Default for Roots {
    fn default() -> Self {
        Roots::beneath(Path::new("/"))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// A leaf cgroup: service, pod, scope.
    #[default]
    Cgroup,
    Process,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// `cpu.max` of the leaf a workload is in.
    #[default]
    CpuMax,
    /// weir's own scheduler, for limited workloads only (sched_ext, partial mode).
    SchedExt,
    /// weir's own scheduler, for all ordinary tasks (sched_ext, full mode).
    SchedExtFull,
    /// One of the thesis's schedulers, for comparison.
    #[cfg(feature = "thesis")]
    Thesis(ThesisVariant),
    /// The scheduler where it can be used, else `cpu.max`.
    Auto,
}

/// The thesis's sched_ext schedulers (5.4.1).
#[cfg(feature = "thesis")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThesisVariant {
    /// Round robin with scaled slices.
    RoundRobin,
    Vtime,
    /// A queue of its own for limited tasks.
    ThrottleQueue,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CounterSource {
    /// The driver's files, else events of perf, else nowhere.
    #[default]
    Auto,
    /// The files of a driver of access counters.
    Driver,
    /// Events of perf: of CPUs, of CXL devices, or of the driver.
    Perf,
}

/// How the traffic of a group that several workloads share is attributed to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttributionSource {
    /// Counts, where the CPU has an event for them that agrees with the device. Else resctrl, where it is
    /// mounted, counts slow memory, has no groups of other programs, and weir may act. Else CPU time.
    #[default]
    Auto,
    /// Reads of CXL memory by task, counted with events of the CPU.
    TaskCounts,
    /// Bandwidth of resctrl's monitoring groups, made for the purpose.
    Resctrl,
    /// Samples of accesses, with the address of what was accessed.
    Sampling,
    /// CPU time × the part of a workload's memory that is on the device.
    CpuTime,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskSource {
    /// A BPF iterator over all tasks, where it can be had; else files.
    #[default]
    Auto,
    /// Files of `/proc` and of cgroups: for comparisons.
    Walk,
}

/// Makes reads of a node's memory ready, for the thread that calls it: pins it, takes memory. What it gives
/// reads lines that no cache has, and says how many. An error is why it cannot.
pub type Reads = fn(&Roots, node: u32) -> Result<Box<dyn FnMut() -> u64>, Missing>;

/// How to observe and how to act.
#[derive(Clone, Debug)]
pub struct Options {
    pub roots: Roots,
    pub by: By,
    /// Time between two ticks; zero does not wait (benchmarks).
    pub interval: Duration,
    /// How long it is observed, where that is known: the last tick comes then.
    pub duration: Option<Duration>,
    /// Workloads never to be limited: patterns with `*` and `?` on the id, and for processes also
    /// on the process name.
    pub exclude: Vec<String>,
    /// Nodes that are CXL memory, whatever the machine says; where its counters do not name nodes, in the
    /// order of their groups. Empty leaves it to the evidence ([`crate::inventory::cxl::NodeVerdict`]).
    pub nodes: Vec<u32>,
    /// Ids of workloads that were given a weight: one that is not there is reported.
    pub weighted: Vec<String>,
    /// The sched_ext scheduler that runs all tasks enforces `cpu.max`: the operator says so, the kernel does
    /// not.
    pub trust_cpu_max: bool,
    /// A threaded domain is limited as one workload where only the domain can be, also if that holds back
    /// processes that do not use a device.
    pub limit_domains: bool,
    /// Delegated cgroups are split into their leaves, each a workload, where their ids match one of these
    /// patterns: their owner may then move what he runs out of a limit.
    pub split_delegated: Vec<String>,
    /// What one device can sustain, if the operator knows.
    pub capacity_bytes_per_sec: Option<BytesPerSec>,
    /// Period of the limits that are set (`cpu.max`), 1 ms to 1 s; outside of this the nearer end is taken. A
    /// short period makes short gaps, and little CPU time is gained by a rewrite, which refills the quota.
    pub period: Duration,
    pub backend: Backend,
    pub counters: CounterSource,
    pub attribution: AttributionSource,
    /// The event that counts for tasks, where it is not to be the best of the tables.
    pub attribution_event: Option<String>,
    /// What an event is calibrated with before it counts for tasks; without it none is.
    pub reads: Option<Reads>,
    pub tasks: TaskSource,
    /// Only observe: take no lock, restore nothing, refuse every action.
    pub read_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            roots: Roots::default(),
            by: By::default(),
            interval: Duration::from_millis(50),
            duration: None,
            exclude: Vec::new(),
            nodes: Vec::new(),
            weighted: Vec::new(),
            trust_cpu_max: false,
            limit_domains: false,
            split_delegated: Vec::new(),
            capacity_bytes_per_sec: None,
            period: Duration::from_millis(20),
            backend: Backend::default(),
            counters: CounterSource::default(),
            attribution: AttributionSource::default(),
            attribution_event: None,
            reads: None,
            tasks: TaskSource::default(),
            read_only: false,
        }
    }
}
