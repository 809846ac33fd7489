// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weir does with the kernel: limits, leases, its scheduler, and what a tick costs.

use super::check::{HardwareCheck, HardwareFigure, HardwarePromise, Harm};
use super::site::HardwareSite;
use crate::run::platform;
use crate::run::sink::Sinks;
use crate::run::tick::Loop;
use serde_json::json;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_core::{Config, Missing};
use weir_figures::Bound;
use weir_linux::{TrialCgroup, try_scheduler};

/// The quota of the trials: a quarter of a CPU.
const QUOTA_US: u64 = 25_000;
const PERIOD_US: u64 = 100_000;
const SPIN: Duration = Duration::from_secs(3);
/// Ticks of the loop that are measured, after some that open files.
const TICKS: usize = 40;
const WARM_TICKS: usize = 10;
const INTERVAL: Duration = Duration::from_millis(50);

/// A limit that a killed weir left is restored.
pub struct LeaseRestored;

impl HardwareCheck for LeaseRestored {
    fn name(&self) -> &'static str {
        "lease-restored"
    }

    fn promise(&self) -> HardwarePromise {
        HardwarePromise {
            feature: "leases: limits, weights; SIGKILL",
            words: "a limit whose owner was killed is restored from its journal, on an empty cgroup of weir's own",
            unit: "of one lease",
            bound: Bound::AtLeast(1.0),
            page: "docs/explanation/limits-and-leases.md",
            quote: "stay until the next `weir run --limit`, or `weir reset`",
        }
    }

    fn harm(&self) -> Harm {
        Harm::Changes
    }

    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing> {
        let trial = TrialCgroup::make(&site.options.roots)?;
        let lease = trial.limit(QUOTA_US, PERIOD_US)?;
        let limited = trial.limit_now()?;
        let theirs = lease.theirs();
        let report = lease.reset_after_kill()?;
        let now = trial.limit_now()?;
        let is_restored = limited != theirs && now == theirs && report.is_clean();
        Ok(HardwareFigure::new(
            f64::from(u8::from(is_restored)),
            format!("cpu.max was {theirs}, then {limited}, is {now}"),
        ))
    }
}

/// `cpu.max` holds a busy process.
pub struct CpuMaxHolds;

impl HardwareCheck for CpuMaxHolds {
    fn name(&self) -> &'static str {
        "cpu-max-holds"
    }

    fn promise(&self) -> HardwarePromise {
        HardwarePromise {
            feature: "limits by `cpu.max`, at the refill",
            words: "a busy process with a quota of 25 of 100 ms gets at most that and a tick of the kernel (4 ms)",
            unit: "CPUs",
            bound: Bound::AtMost(0.29),
            page: "docs/explanation/limits-and-leases.md",
            quote: "The kernel enforces it in scheduler ticks (4 ms at HZ=250)",
        }
    }

    fn harm(&self) -> Harm {
        Harm::Loads
    }

    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing> {
        let trial = TrialCgroup::make(&site.options.roots)?;
        let lease = trial.limit(QUOTA_US, PERIOD_US)?;
        let mut busy = BusyProcess::start()?;
        let taken = trial.take_in(busy.0.id());
        let used = taken.and_then(|()| {
            // The quota of its first period counts from anywhere in it.
            std::thread::sleep(Duration::from_micros(2 * PERIOD_US));
            let (before, begun) = (trial.cpu_time()?, Instant::now());
            std::thread::sleep(SPIN);
            let used = trial.cpu_time()?.0.saturating_sub(before.0);
            Ok(used as f64 / begun.elapsed().as_nanos().max(1) as f64)
        });
        busy.end();
        lease.reset_after_kill()?;
        let cpus = used?;
        // The other side of the promise would be a figure of how busy the machine is.
        Ok(HardwareFigure::new(
            cpus,
            format!("in {} s", SPIN.as_secs()),
        ))
    }
}

/// A process that only computes. It ends with us.
struct BusyProcess(Child);

impl BusyProcess {
    fn start() -> Result<BusyProcess, Missing> {
        let child = Command::new("/bin/sh")
            .args([
                "-c",
                "while kill -0 $PPID; do i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done; done",
            ])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child
            .map(BusyProcess)
            .map_err(|e| Missing::Lost(format!("/bin/sh: {e}")))
    }

    fn end(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for BusyProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// weir's scheduler can be loaded, and leaves.
pub struct SchedulerLoads;

impl HardwareCheck for SchedulerLoads {
    fn name(&self) -> &'static str {
        "scheduler-loads"
    }

    fn promise(&self) -> HardwarePromise {
        HardwarePromise {
            feature: "scheduler, partial mode",
            words: "the kernel takes weir's scheduler with no task in it, and has none after it",
            unit: "of one load",
            bound: Bound::AtLeast(1.0),
            page: "docs/maturity.md",
            quote: "The scheduler was tested on Linux 7.2; loading and holding also on 7.3 and 7.0",
        }
    }

    fn harm(&self) -> Harm {
        Harm::Changes
    }

    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing> {
        let loaded = try_scheduler(&site.options)?;
        let kernel = &site.description.kernel;
        Ok(HardwareFigure::new(
            f64::from(u8::from(loaded)),
            format!("on Linux {kernel}"),
        ))
    }
}

pub struct TickCost;

impl HardwareCheck for TickCost {
    fn name(&self) -> &'static str {
        "tick-cost"
    }

    fn promise(&self) -> HardwarePromise {
        HardwarePromise {
            feature: "write budget; idle workloads read seldom",
            words: "one tick costs at most 3 µs of CPU time for each workload, or 0.3 ms up to 100",
            unit: "of the bound",
            bound: Bound::AtMost(1.0),
            page: "docs/evidence/loop.md",
            quote: "**Reached:** 0.3 ms at 100 workloads",
        }
    }

    fn harm(&self) -> Harm {
        Harm::Reads
    }

    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing> {
        if let Some(guest) = &site.machine.guest {
            let why =
                format!("this is a virtual machine ({guest}), whose CPU time is not a server's");
            return Err(Missing::NotSupported(why));
        }
        let lost = |why: &dyn ToString| Missing::Lost(why.to_string());
        let options = &site.options;
        let name = crate::cli::WorkloadsName::Cgroup;
        let nodes = options.nodes.clone();
        let platform = platform::open_read_only(&options.roots, name, nodes, INTERVAL);
        let platform = platform.map_err(|why| Missing::NotSupported(format!("{why:#}")))?;
        let config = Config::default();
        let mut ticks = Loop::new(platform, config, "max-min", INTERVAL, Sinks::default());
        let mut costs = Vec::new();
        for number in 0..WARM_TICKS + TICKS {
            let ticked = ticks.tick().map_err(|e| lost(&e))?;
            if number >= WARM_TICKS {
                costs.push(ticked.stages.total().0);
            }
            if site.end().is_some() {
                break;
            }
        }
        costs.sort_unstable();
        let median = *costs
            .get(costs.len() / 2)
            .ok_or_else(|| lost(&"no tick was measured"))?;
        let workloads = ticks.snapshot().plan.workloads.len();
        Ok(HardwareFigure {
            value: median as f64 / (3000.0 * workloads.max(100) as f64),
            detail: format!("{:.3} ms with {workloads} workloads", median as f64 / 1e6),
            data: Some(json!({"ticks": costs.len(), "median_ns": median, "workloads": workloads})),
        })
    }
}
