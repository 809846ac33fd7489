// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simulated host: CPUs, schedulers, workloads and CXL devices in virtual time. It implements
//! [`weir_core::Platform`], so the same controller runs on it as on Linux, untouched.
//!
//! ```text
//!  scenario (TOML) ─► machine ─────────────────────────────────────────► RunMetrics
//!                      │  tasks ─► scheduler ─► CPUs ─► fluid ─► devices    (docs/reference/results.md)
//!                      │            ▲ cpu.max                 (weir-hw)
//!                      └─► Platform ─► weir_core::step ─► apply ─┘
//! ```
//!
//! In reading order: `from_scenario` (of a file that weir-scenario reads), `engine` (what tasks do, and the
//! loop over events), `cpu` (which task runs where: the kernel's classes, `cpu.max`), `scx` (weir's
//! scheduler), `drfq` (one share of CPUs, DRAM and CXL), `thesis` (the thesis's controllers),
//! `controller_kind`, [`SimPlatform`], [`run`], [`RunMetrics`]. A scheduler is a `CpuScheduler`
//! (`cpu/mod.rs`).
//!
//! # What it knows less of than reality
//!
//! It may know less than reality, never something impossible. Its shortcuts:
//!
//! - *Fluid devices.* Between two events a device is in its equilibrium at once; the true one needs a
//!   few microseconds. Single lines exist only as a distribution around the equilibrium's mean.
//! - *One speed of all cores.* It is constant, or (`speed_spread_ratio`) it changes for all cores together;
//!   no core has a frequency of its own. No cache misses in DRAM but in scenarios with a DRAM node; two
//!   hardware threads slow each other down by one fixed factor, and a stall gives exactly its time to the
//!   sibling.
//! - *DRAM by mixes.* A DRAM node's equilibrium is the mean of a run of some ten thousand lines at command
//!   level. A CXL device has no ranks, and rates of its groups where the scenario says so.
//! - *Flat groups.* All cgroups lie side by side, and a thread competes with its own weight: weights
//!   of groups with several threads are not shared out per CPU.
//! - *One kernel.* The fair class is that of Linux 6.18, also where the thesis had 6.12: that one lets a
//!   throttled group keep its debt, and replaces a task that was alone at its next deadline only. All
//!   slices have the base length; a task that sleeps with a debt does not count in its queue; no cache
//!   affinity; ticks of all CPUs fall together; one last-level cache; balancing as described in
//!   `cpu/select.rs`.
//! - *Scheduling is free.* Context switches, the decisions and the tick of weir's scheduler, `enqueue` of the
//!   BPF schedulers (its 10.7 µs of thesis 6.8.1 pass, but no task pays for them) and the kernel's part of a
//!   write are not charged.
//! - *The cache is a ratio.* A working set larger than the last-level cache misses for the part above its
//!   size.
//! - *Real-time tasks* have one priority, and nothing is reserved for others; no interrupts, no memory
//!   migration: pages stay where the scenario puts them.
//!
//! # Determinism
//!
//! One seed. Each workload has a random stream of its own, so two controllers meet the same workload.
//! Events at the same time happen in the order in which they were queued.
#![forbid(unsafe_code)]

mod controller_kind;
mod cpu;
mod drfq;
mod engine;
mod from_scenario;
mod metrics;
mod platform;
mod run;
mod scx;
#[cfg(feature = "thesis")]
mod thesis;

pub use controller_kind::{Backend, ControllerKind, WeirOptions};
pub use cpu::cpu_max::{CpuMax, CpuStat};
pub use drfq::fair_shares::UsePerSec;
pub use drfq::variant::SharesVariant;
pub use engine::histogram::Histogram;
pub use metrics::{BlockWindow, RunMetrics, WorkloadSeries};
pub use platform::SimPlatform;
pub use run::{Rewriting, SimError, Witness, run, run_watched, spin, uses_alone};
#[cfg(feature = "thesis")]
pub use thesis::sched_ext::{LimitRule, SchedulerCalls, ScxReading, ScxVariant};
#[cfg(feature = "thesis")]
pub use thesis::user_space::EstimatePoint;
pub use weir_scenario::{Attribution, Scenario, ScenarioError};
