// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench loop`: what one iteration of the loop costs, stage by stage.
//!
//! The loop is the daemon's own ([`crate::run::tick`]), over a machine made of files in memory
//! ([`crate::fake`]): all workloads use the device, which is kept at twice its set-point, so that
//! the controller has something to do at each step. CPU time is measured, not wall time, because
//! the loop may sleep and the machine may be busy; medians over the iterations are printed.
//!
//! Known to differ from a real host: reading `cpu.stat` of a real cgroup makes the kernel add up
//! its CPUs' figures, and writing a real `cpu.max` costs time per CPU.

use crate::cli::{Bench, BenchArgs, BenchLoopArgs};
use crate::exit::{Exit, print, print_json};
use crate::fake::Fake;
use crate::run::cost::Stages;
use crate::run::publish::Publisher;
use crate::run::tick::{Loop, Sinks};
use crate::run::{changes::ChangeLog, make_run_dir};
use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_core::{BytesPerSec, Config, Nanos};
use weir_linux::{LinuxPlatform, Options, Roots};

const SET_POINT: f64 = 1_073_741_824.0;
/// So many that even ten thousand workloads can each use more than the floor that nobody is cut below.
const CPUS: usize = 4096;
const INTERVAL: Duration = Duration::from_millis(50);
/// Iterations before measuring: files are found, rates become known, limits settle.
const WARM_UP: u32 = 8;
/// Time the scout of weir-linux gets to find all cgroups before the first iteration that counts.
const SETTLE: Duration = Duration::from_secs(30);

/// Medians for one number of workloads.
#[derive(Serialize)]
struct Figures {
    workloads: u32,
    workloads_seen: usize,
    iterations: u32,
    observe_cpu_ns: Nanos,
    step_cpu_ns: Nanos,
    apply_cpu_ns: Nanos,
    publish_cpu_ns: Nanos,
    total_cpu_ns: Nanos,
    total_cpu_ns_mean: Nanos,
    total_cpu_ns_max: Nanos,
    actions_per_iteration: f64,
}

/// Measures.
///
/// # Errors
/// The files cannot be made, or the loop fails over them.
pub fn bench(args: &BenchArgs) -> Result<Exit> {
    let Bench::Loop(args) = &args.what;
    let default = [10, 100, 1000, 10_000];
    let sizes: &[u32] = if args.workloads.is_empty() {
        &default
    } else {
        &args.workloads
    };
    let mut all = Vec::new();
    if !args.json {
        print(&format!("{}\n", title()))?;
    }
    for size in sizes {
        let figures = one_size(*size, args).with_context(|| {
            format!("with {size} workloads, each of which takes some open files (see ulimit -n)")
        })?;
        if !args.json {
            print(&format!("{}\n", line(&figures)))?;
        }
        all.push(figures);
    }
    if args.json {
        print_json(&all)?;
    } else {
        print(&ratios(&all))?;
    }
    Ok(Exit::Done)
}

fn one_size(size: u32, args: &BenchLoopArgs) -> Result<Figures> {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    let dir = tempfile::Builder::new()
        .prefix("weir-bench-")
        .tempdir_in(base)?;
    let fake = Fake::new(dir.path(), CPUS)?;
    let names: Vec<String> = (0..size)
        .map(|n| format!("/bench.slice/{}.slice/w{n}.service", n / 100))
        .collect();
    for (number, name) in names.iter().enumerate() {
        fake.add(number, name, 256)?;
    }
    let mut ticks = open(&Roots::beneath(dir.path()))?;
    let mut load = Load::new(&fake, &names);
    let start = Instant::now();
    let mut warm = 0;
    while warm < WARM_UP {
        load.advance()?;
        ticks.tick()?;
        let found = ticks.snapshot().plan.workloads.len() >= names.len();
        warm += u32::from(found || start.elapsed() > SETTLE);
    }
    let mut measured: Vec<Stages> = Vec::new();
    let mut actions = 0;
    for _ in 0..args.iterations {
        load.advance()?;
        measured.push(ticks.tick()?.stages);
        actions += ticks.snapshot().plan.actions.len();
    }
    let seen = ticks.snapshot().plan.workloads.len();
    ticks.release();
    Ok(figures(size, seen, &measured, actions))
}

fn open(roots: &Roots) -> Result<Loop> {
    make_run_dir(&roots.run)?;
    let options = Options {
        roots: roots.clone(),
        interval: Duration::ZERO,
        ..Options::default()
    };
    let platform = LinuxPlatform::open(options)?;
    let config = Config {
        limit: true,
        set_point_bytes_per_sec: Some(BytesPerSec::new(SET_POINT)),
        ..Config::default()
    };
    let sinks = Sinks {
        publisher: Some(Publisher::new(&roots.run)),
        change_log: Some(ChangeLog::open(&roots.run)?),
        lines: None,
        each_tick: true,
    };
    Ok(Loop::new(
        Box::new(platform),
        config,
        "max-min",
        INTERVAL,
        sinks,
    ))
}

/// Moves the machine's counters on between two iterations, outside the measurement.
struct Load<'a> {
    fake: &'a Fake,
    names: &'a [String],
    last: Instant,
    bytes: f64,
    cpu_usec: Vec<f64>,
}

impl<'a> Load<'a> {
    fn new(fake: &'a Fake, names: &'a [String]) -> Self {
        let cpu_usec = vec![0.0; names.len()];
        Load {
            fake,
            names,
            last: Instant::now(),
            bytes: 0.0,
            cpu_usec,
        }
    }

    fn advance(&mut self) -> Result<()> {
        // As far apart as the daemon's ticks: the controller spaces its writes in time.
        std::thread::sleep(INTERVAL.saturating_sub(self.last.elapsed()));
        let span = self.last.elapsed().as_secs_f64();
        self.last = Instant::now();
        let even = (CPUS as f64 / 2.0 / self.names.len() as f64).min(0.5);
        for (number, (name, used)) in self.names.iter().zip(&mut self.cpu_usec).enumerate() {
            // Unequal users: from half to one and a half times the mean.
            let part = 0.5 + (number % 11) as f64 / 10.0;
            *used += even * part * span * 1e6;
            self.fake.set_cpu(name, whole(*used), 0)?;
        }
        self.bytes += 2.0 * SET_POINT * span;
        self.fake.set_counters(whole(self.bytes), 0)?;
        Ok(())
    }
}

/// Positive and far below 2^64 here.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(value: f64) -> u64 {
    value as u64
}

fn figures(workloads: u32, seen: usize, measured: &[Stages], actions: usize) -> Figures {
    let of = |stage: fn(&Stages) -> Nanos| median(measured.iter().map(stage).collect());
    let totals = measured.iter().map(Stages::total);
    let sum: u64 = totals.clone().map(|total| total.0).sum();
    let count = (measured.len() as u64).max(1);
    Figures {
        workloads,
        workloads_seen: seen,
        iterations: u32::try_from(measured.len()).unwrap_or(u32::MAX),
        observe_cpu_ns: of(|stages| stages.observe),
        step_cpu_ns: of(|stages| stages.step),
        apply_cpu_ns: of(|stages| stages.apply),
        publish_cpu_ns: of(|stages| stages.publish),
        total_cpu_ns: of(Stages::total),
        total_cpu_ns_mean: Nanos(sum / count),
        total_cpu_ns_max: totals.max().unwrap_or_default(),
        actions_per_iteration: actions as f64 / measured.len().max(1) as f64,
    }
}

fn median(mut values: Vec<Nanos>) -> Nanos {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn title() -> String {
    format!(
        "{:>9} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}",
        "workloads", "observe", "step", "apply", "publish", "total", "mean", "largest", "writes"
    )
}

fn line(figures: &Figures) -> String {
    format!(
        "{:>9} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8.1}{}",
        figures.workloads,
        figures.observe_cpu_ns.to_string(),
        figures.step_cpu_ns.to_string(),
        figures.apply_cpu_ns.to_string(),
        figures.publish_cpu_ns.to_string(),
        figures.total_cpu_ns.to_string(),
        figures.total_cpu_ns_mean.to_string(),
        figures.total_cpu_ns_max.to_string(),
        figures.actions_per_iteration,
        match figures.workloads_seen {
            seen if u32::try_from(seen) == Ok(figures.workloads) => String::new(),
            seen => format!("  only {seen} were seen"),
        }
    )
}

fn ratios(all: &[Figures]) -> String {
    let mut out = String::from(
        "CPU time of one iteration: medians, and mean and largest of the totals; writes: actions per \
         iteration.\nPublishing is done in each iteration here; the daemon spaces it to stay below 5 % of a CPU.\n",
    );
    for pair in all.windows(2) {
        if let [small, large] = pair {
            let times = f64::from(large.workloads) / f64::from(small.workloads.max(1));
            let cost = large.total_cpu_ns.0 as f64 / small.total_cpu_ns.0.max(1) as f64;
            // Writing into a String cannot fail.
            let _ = writeln!(
                out,
                "{} → {} workloads: {times:.1} × the workloads, {cost:.1} × the time",
                small.workloads, large.workloads
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_is_measured_over_all_workloads() {
        let args = BenchLoopArgs {
            workloads: vec![],
            iterations: 5,
            json: false,
        };
        let figures = one_size(12, &args).unwrap();
        assert_eq!(figures.workloads_seen, 12);
        assert!(figures.observe_cpu_ns.0 > 0 && figures.publish_cpu_ns.0 > 0);
        assert!(figures.total_cpu_ns <= figures.total_cpu_ns_max);
    }
}
