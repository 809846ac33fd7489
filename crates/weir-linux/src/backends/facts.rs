// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What back ends can do on this host, as facts for `weir doctor`.

use super::cpu_max::period_phase::{SAMPLES_PER_PERIOD, patience_us};
use super::cpu_max::quota::{MIN_CPUS, QUOTA_MIN_US, period_us};
use super::sched_ext::{REPORT, refusal};
use crate::inventory::numa::missing;
use crate::inventory::sched_ext_state::{Mode, SchedExt};
use crate::kernel::clock;
use crate::kernel::files::read_path;
use crate::options::{Options, Roots};
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::topology::{Actuator, Fact, Lever};
use weir_core::{Description, Missing, Nanos};

pub(crate) fn facts(options: &Options) -> Vec<Fact> {
    let roots = &options.roots;
    vec![
        sched_ext(options),
        scheduler(roots),
        tick(),
        bandwidth_slice(roots),
    ]
}

/// The back end's limits; see [`super::cpu_max`] for where they come from.
pub(crate) fn actuator(options: &Options) -> Actuator {
    Actuator {
        name: "cpu-max".into(),
        levers: vec![Lever::CpuTime, Lever::Weight],
        min_cpus: MIN_CPUS,
        grain_ns: clock::scheduler_tick(),
        refill_on_write_ratio: refill_on_write_ratio(options),
        period_ns: Nanos(period_us(options.period) * 1000),
        min_quota_ns: Nanos(QUOTA_MIN_US * 1000),
        is_exact: false,
    }
}

/// What one rewrite gives away, in quotas: all of one at a random moment. Where rewrites wait for the refill,
/// it is what is used between two samples of the phase (see [`super::cpu_max::period_phase`]).
fn refill_on_write_ratio(options: &Options) -> f64 {
    let waits = period_us(options.period) <= patience_us(options.interval);
    if waits {
        1.0 / SAMPLES_PER_PERIOD as f64
    } else {
        1.0
    }
}

fn fact(name: &str, value: Result<String, Missing>, next_move: Option<NextMove>) -> Fact {
    Fact {
        name: name.into(),
        value,
        next_move,
    }
}

const SCHEDULER: &str = "backend.sched_ext";
const STATE: &str = "sched_ext.state";

fn sched_ext(options: &Options) -> Fact {
    let mut sched_ext = SchedExt::new(&options.roots).trusting(options.trust_cpu_max);
    if let Some(why) = sched_ext.refusal() {
        let deed = "unload the scheduler, or run it in partial mode; if it enforces cpu.max itself: weir run --trust-cpu-max";
        let next_move = NextMove {
            act: Act::Deed(deed.into()),
            why: "a scheduler that runs all tasks need not enforce cpu.max".into(),
            needs: Precondition::Seen("/sys/kernel/sched_ext/state is not disabled".into()),
        };
        return fact(STATE, Err(Missing::NotPermitted(why)), Some(next_move));
    }
    let value = match sched_ext.mode() {
        Mode::Absent => Err(Missing::NotSupported(
            "this kernel has no sched_ext: cpu.max holds".into(),
        )),
        Mode::Off => Ok("no scheduler loaded: cpu.max holds".into()),
        Mode::Full(name) => Ok(format!(
            "{name:?} runs all tasks, and is trusted to enforce cpu.max (--trust-cpu-max)"
        )),
        Mode::Partial(name) => Ok(format!(
            "{name:?} in partial mode: cpu.max holds for all other tasks"
        )),
    };
    fact(STATE, value, None)
}

/// It is our own scheduler that stands in the way of another one, and of `cpu.max` if it has all tasks.
pub(crate) fn scheduler_in_use(description: &mut Description, takes_all: bool) {
    for fact in &mut description.facts {
        if fact.name == SCHEDULER {
            fact.value = Ok("in use: limits are budgets in device bytes".into());
        }
        if fact.name == STATE && takes_all {
            let text = "weir's own has all ordinary tasks: cpu.max is not enforced on any cgroup meanwhile";
            fact.value = Ok(text.into());
            fact.next_move = None;
        }
    }
}

/// Whether weir's own scheduler could limit here. Nothing is lacking where it cannot: `cpu.max` is there.
fn scheduler(roots: &Roots) -> Fact {
    let report = roots.run.join(REPORT);
    let before = if report.exists() {
        format!(
            "; the kernel has taken it out before, see {}",
            report.display()
        )
    } else {
        String::new()
    };
    let value = match refusal(roots) {
        None => Ok(format!(
            "can be used: limits in device bytes, by a scheduler of weir's own for limited tasks (--backend sched-ext) or, \
             where the CPUs are all busy, for all ordinary ones (--backend sched-ext-full){before}"
        )),
        Some(why) => Err(Missing::NotSupported(format!("{why}{before}"))),
    };
    fact(SCHEDULER, value, None)
}

fn tick() -> Fact {
    let tick = clock::scheduler_tick();
    let text = format!("{tick} (resolution of CLOCK_MONOTONIC_COARSE): the grain of cpu.max");
    fact("kernel.tick", Ok(text), None)
}

/// What a CPU takes from a quota at once. What one CPU has taken and does not use while its thread sleeps or
/// after it moved is lost to the others until it is returned. The fact is reported without advice: whether a
/// smaller one makes limits more even was measured without a clear answer.
fn bandwidth_slice(roots: &Roots) -> Fact {
    const NAME: &str = "kernel.sched_cfs_bandwidth_slice_us";
    let path = roots.proc.join("sys/kernel/sched_cfs_bandwidth_slice_us");
    let value = read_path(&path)
        .map_err(|e| missing(&path, &e))
        .and_then(|text| {
            let text = String::from_utf8_lossy(text.trim_ascii());
            text.parse::<u64>()
                .map_err(|_| Missing::Lost(format!("{}: {text:?}", path.display())))
        });
    fact(NAME, value.map(|us| us.to_string()), None)
}
