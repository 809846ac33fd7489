// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scenarios of a simulated machine: machine, devices, workloads, faults, bounds. One TOML each, in
//! `scenarios/sim/`.
//! Unknown keys are errors, so that a typing mistake is not a silent default, and what no machine
//! can be or do is refused with line, key and what is allowed.

pub(crate) mod check;
mod dram_node;

pub use dram_node::{DeviceKind, Disk, DramNode, GroupOrder, MemoryOrder};

use crate::wrong::ScenarioError;
use crate::{Expect, testbed};
use serde::{Deserialize, Serialize};
use weir_core::controller::Goal;
use weir_description::DescriptionError;
use weir_hw::memory_device::Profile;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub name: String,
    /// What it shows, for people.
    pub about: String,
    #[serde(default)]
    pub machine: MachineConfig,
    #[serde(rename = "device")]
    pub devices: Vec<Device>,
    #[serde(default, rename = "disk")]
    pub disks: Vec<Disk>,
    /// What is to be held, and how long is measured.
    pub control: Control,
    #[serde(default)]
    pub sensors: Sensors,
    #[serde(rename = "workload")]
    pub workloads: Vec<WorkloadConfig>,
    /// What goes wrong, and when.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Fault>,
    #[serde(default)]
    pub expect: Expect,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineConfig {
    pub cores: u32,
    /// Hardware threads of a core: 1 or 2.
    pub threads_per_core: u32,
    /// Speed of a hardware thread beside a busy one, alone is 1: 0.6 means that two do 1.2 times the
    /// work of one.
    pub smt_speed_ratio: f64,
    /// Scheduler ticks per second: 100, 250, 300 or 1000.
    pub hz: u32,
    /// EEVDF's base slice.
    pub slice_us: u64,
    /// `kernel.sched_cfs_bandwidth_slice_us`: what a CPU takes of a `cpu.max` quota at once.
    pub bandwidth_slice_us: u64,
    /// Last-level cache: a working set that fits causes no traffic.
    pub llc_mib: f64,
    /// The speed of all CPUs together is uniformly distributed within 1 ± this. 0 is a constant speed.
    pub speed_spread_ratio: f64,
    /// Mean time, exponentially distributed, until they have another speed.
    pub speed_hold_ms: f64,
}

impl Default for MachineConfig {
    /// The thesis's (6.1): Xeon Silver 4416+, 20 cores, 40 threads, 37.5 MiB of cache. It does not give its
    /// HZ: at 1000 its loop can hold the 3 GiB/s of figure 12, at 250 its 100 % (1 ms in 1 ms) gives 2.5
    /// (docs/explanation/simulator.md).
    fn default() -> Self {
        MachineConfig {
            cores: 20,
            threads_per_core: 2,
            smt_speed_ratio: 0.6,
            hz: 1000,
            slice_us: 3000,
            bandwidth_slice_us: 5000,
            llc_mib: 37.5,
            speed_spread_ratio: 0.0,
            speed_hold_ms: 2000.0,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// What it is: `cxl` or `dram`.
    #[serde(default)]
    pub kind: DeviceKind,
    /// A profile that is built into weir-hw, by name: one of a CXL device, or one of a DRAM channel.
    pub profile: String,
    #[serde(default)]
    pub dram: DramNode,
    /// The order in which a CXL device serves its groups: `fcfs` or `rates`.
    #[serde(default)]
    pub group_order: GroupOrder,
    /// What shares are counted against, reads and writes together; nothing is the set-point.
    pub capacity_bytes_per_sec: Option<f64>,
    /// Monitoring groups, each with its own counter pair.
    #[serde(default = "one")]
    pub groups: u32,
    /// Figures of its own instead of a profile's: of the testbed's device.
    #[serde(skip)]
    pub own: Option<Box<Profile>>,
}

impl Device {
    /// Its figures.
    ///
    /// # Errors
    /// There is no profile of this name.
    pub fn figures(&self) -> Result<Profile, DescriptionError> {
        match &self.own {
            Some(own) => Ok((**own).clone()),
            None => Profile::named(&self.profile),
        }
    }
}

/// What is to be held, and how long each part of the run takes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// Bandwidth to hold per device, reads and writes together. With another goal only the
    /// thesis's controllers get it; results are compared with it.
    pub set_point_bytes_per_sec: f64,
    /// What weir holds: `"bandwidth"`, `"knee"` or `{ latency_ns = N }`. For the latter two the device
    /// reports its mean latency.
    #[serde(default)]
    pub goal: Goal,
    #[serde(default = "default_interval")]
    pub interval_ms: u64,
    /// Period of weir's limits. Where CPUs are saturated, a limited thread that becomes runnable waits for
    /// the thread before it, and loses what it cannot use up within its period; the longer the period, the
    /// longer its blocks wait for the next (docs/evidence/simulator.md). Nothing is 10 ms, a little
    /// off the round value as weir's own default is ([`weir_core::units::off_beat`]).
    pub period_ms: Option<u64>,
    /// weir's policy: `max-min` or `drf`.
    #[serde(default)]
    pub policy: weir_core::policy::Policy,
    /// From the start of the run to the start of measuring.
    pub settle_sec: f64,
    pub measure_sec: f64,
    /// Control starts this long after the workloads.
    #[serde(default)]
    pub control_from_sec: f64,
}

/// How well the machine can be observed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sensors {
    /// Reading one counter pair (thesis 6.8.1: 4.9 µs).
    pub counter_read_ns: u64,
    /// How the traffic of a shared group is attributed to workloads: `task-counts`, `sampling` or `cpu-time`.
    pub attribution: Attribution,
    /// Counts: standard deviation of the logarithm of each workload's own error, because an event leaves out
    /// what a prefetcher fetches, and programs differ in how much that is.
    pub counts_bias_stddev: f64,
    /// Counts: lines fetched by stores are counted apart, so that writes are shared out by stores.
    pub counts_stores: bool,
    /// Sampled bytes per real byte (thesis 6.2.2: about 200 times too low).
    pub sampled_ratio: f64,
    /// Real bytes behind one sample: the noise of sampling.
    pub bytes_per_sample: f64,
    /// Standard deviation of the logarithm of each task's own calibration error.
    pub bias_stddev: f64,
}

impl Default for Sensors {
    /// What `weir run --attribution auto` takes on a CPU that has events for CXL memory (Granite Rapids:
    /// reads of each task, and what of it was fetched by stores). How far such events are off was never
    /// measured; weir's calibration takes one within 10 %, which is two standard deviations here. The
    /// samples' figures are fitted to the thesis's figures 7 and 8: RMSE of the combined estimate 10 to 15 %.
    fn default() -> Self {
        Sensors {
            counter_read_ns: 4_900,
            attribution: Attribution::TaskCounts,
            counts_bias_stddev: 0.05,
            counts_stores: true,
            sampled_ratio: 0.005,
            bytes_per_sample: 20.0 * 1048576.0,
            bias_stddev: 0.08,
        }
    }
}

/// How the traffic of a shared group is attributed to workloads (`--attribution` of `weir run`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attribution {
    /// Reads of the device that the CPU counts for each task.
    TaskCounts,
    /// A sampler as bad as the thesis's.
    Sampling,
    /// CPU time × the part of a workload's memory that is in the group: the last resort.
    CpuTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Overloads the device and may be limited.
    Heavy,
    /// Uses little and must not be limited.
    Light,
    /// Does not use the device: its throughput is what control gives back.
    Beside,
    /// Part of the machine: not in the results, never limited.
    System,
}

/// One kind of workload, `count` times, each a cgroup of its own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadConfig {
    /// Name; with `count` above 1 a number is added.
    pub name: String,
    #[serde(default = "one")]
    pub count: u32,
    #[serde(default = "one")]
    pub threads: u32,
    pub role: Role,
    /// Weight of each thread: 100 is nice 0; each step of nice is a factor of 1.25.
    #[serde(default = "normal_weight")]
    pub weight: f64,
    /// Its threads are real-time tasks (`SCHED_RR`): before all others, and never limited.
    #[serde(default)]
    pub realtime: bool,
    /// The device its memory is on, by position.
    #[serde(default)]
    pub device: u32,
    #[serde(default)]
    pub group: u32,
    /// Memory it has there; more than nothing makes it bound to the device.
    #[serde(default)]
    pub resident_mib: u64,
    /// CPU time of a core of its own for one line of 64 bytes.
    #[serde(default = "default_busy")]
    pub busy_ns_per_line: f64,
    /// Lines it keeps outstanding; at most the profile's window counts.
    #[serde(default = "endless_window")]
    pub window_lines: f64,
    /// Operations of one CPU-second of computing at full speed.
    #[serde(default = "default_ops")]
    pub ops_per_cpu_sec: f64,
    #[serde(default)]
    pub start_ms: u64,
    /// Its tasks begin within this time after that, at random.
    #[serde(default = "default_spread")]
    pub spread_ms: f64,
    pub stop_ms: Option<u64>,
    /// What it does, again and again.
    #[serde(rename = "phase")]
    pub phases: Vec<PhaseConfig>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Blocks moved from or to the device.
    Access,
    Compute,
    Sleep,
    /// Blocks moved between a disk and the device while the task sleeps.
    Dma,
}

/// One phase; which keys belong to which kind is checked.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseConfig {
    pub kind: Kind,
    /// How long; for ever without.
    pub for_ms: Option<u64>,
    /// access, compute, dma: how many blocks or pieces, instead of `for_ms`.
    pub times: Option<u32>,
    /// access, dma: size of a block.
    pub block_kib: Option<u64>,
    /// access: part of the blocks' bytes that are stores. Each also causes a read (write-allocate). dma: part
    /// of the bytes that the disk writes into memory; nothing is all of them.
    pub write_ratio: Option<f64>,
    /// access, dma: another device than the workload's, by position.
    pub device: Option<u32>,
    /// access: in random order, which a DRAM node feels.
    pub scattered: Option<bool>,
    /// dma: the disk, by position.
    pub disk: Option<u32>,
    /// access: stores that do not read first.
    pub non_temporal: Option<bool>,
    /// access: bytes per second; a task that is late catches up for at most a second.
    pub rate_bytes_per_sec: Option<f64>,
    /// access: CPU time used for something else after each block; dma: before each block.
    pub think_us: Option<f64>,
    /// access: what it goes through; the part that does not fit into the cache causes traffic.
    pub working_set_mib: Option<f64>,
    /// compute: length of a piece of work.
    pub chunk_us: Option<f64>,
    /// sleep: length.
    pub mean_us: Option<f64>,
    /// sleep: exponentially distributed.
    pub random: Option<bool>,
    /// access, compute: number of a mutex that is held during a block or piece.
    pub lock: Option<u32>,
}

/// A device gives only a part of its bandwidth from some time on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub at_ms: u64,
    /// The device, by its position in the list.
    #[serde(default)]
    pub device: u32,
    /// What is left of its bandwidth: 1 is healthy.
    pub capacity_ratio: f64,
}

impl Scenario {
    /// Reads and checks a scenario, a simulated machine's or the testbed's.
    ///
    /// # Errors
    /// Naming `origin`, line, key and what is allowed.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ScenarioError> {
        let scenario = if testbed::is_one(text) {
            testbed::TestbedScenario::parse(text, origin)?.as_simulated()
        } else {
            toml::from_str(text).map_err(|e| ScenarioError::syntax(origin, &e))?
        };
        check::check(&scenario).map_err(|wrong| wrong.at(text, origin))?;
        Ok(scenario)
    }

    pub fn cpu_count(&self) -> u32 {
        self.machine.cores * self.machine.threads_per_core
    }

    pub fn run_sec(&self) -> f64 {
        self.control.settle_sec + self.control.measure_sec
    }
}

pub(crate) fn one() -> u32 {
    1
}

pub(crate) fn normal_weight() -> f64 {
    100.0
}

fn default_interval() -> u64 {
    50
}

/// The thesis's fio needs 0.35 CPU-s per GiB at 4 GiB/s (6.6): 20.9 ns a line, beside a busy sibling.
fn default_busy() -> f64 {
    12.5
}

pub(crate) fn default_spread() -> f64 {
    20.0
}

pub(crate) fn endless_window() -> f64 {
    1e9
}

pub(crate) fn default_ops() -> f64 {
    1000.0
}
