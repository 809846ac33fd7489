// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-lab bench loop`: what one iteration of the loop costs, stage by stage.
//!
//! The loop is the daemon's own ([`weir::lab::Loop`]), over a machine made of files in memory
//! ([`super::fake_host`]). Workloads keep to their limits: together they would move twice the set-point,
//! each wants a tenth more or less from tick to tick, and what the controller writes is what it takes
//! to hold them. CPU time is measured, not wall time, because the loop may sleep and the machine may
//! be busy. Medians over the iterations are printed; publishing, which the loop does not do at each
//! tick, is a mean. Beside the loop a thread looks for workloads and their memory: its CPU time is shown for
//! each second.
//!
//! Where weir limits, it reads no balance of a node: with `--observe` it does, at each iteration.
//!
//! Known to differ from a real host: reading `cpu.stat` of a real cgroup makes the kernel add up
//! its CPUs' figures, writing a real `cpu.max` costs time per CPU, and writes here do not wait for
//! the refill of a quota.

use super::BenchLoopArgs;
use super::fake_host::FakeHost;
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use weir::lab::{ChangeLog, Exit, Loop, Publisher, Sinks, Stages, make_run_dir, print, print_json};
use weir_core::seam::plan::{ActionKind, OutcomeKind};
use weir_core::seam::snapshot::Snapshot;
use weir_core::{BytesPerSec, Config, Nanos};
use weir_figures::{Cell, Setting, Table, decimals, terminal_table};
use weir_linux::{LinuxPlatform, Options, Roots};

const SET_POINT: f64 = 1_073_741_824.0;
/// CPUs of the machine: so many that even ten thousand workloads can each use more than the floor of limits.
const CPUS: usize = 4096;
const INTERVAL: Duration = Duration::from_millis(50);
/// Iterations before measuring: files are found, rates become known, limits settle.
const WARM_UP: u32 = 40;
/// How much a workload's want differs from its mean, up and down.
const WOBBLE: f64 = 0.1;
/// Name of the thread of discovery, as `weir-linux` gives it.
const LOOK_THREAD: &str = "weir-discovery";
/// Time that discovery in weir-linux gets to find all cgroups before the first iteration that counts.
const SETTLE: Duration = Duration::from_secs(30);

/// Figures for one number of workloads: medians of the stages, the mean of publishing, and the sum of
/// these.
#[derive(Serialize)]
struct Figures {
    workloads: u32,
    users: u32,
    workloads_seen: u32,
    iterations: u32,
    observe_cpu_ns: Nanos,
    step_cpu_ns: Nanos,
    apply_cpu_ns: Nanos,
    publish_cpu_ns: Nanos,
    total_cpu_ns: Nanos,
    total_cpu_ns_mean: Nanos,
    total_cpu_ns_max: Nanos,
    /// CPU time that the thread of discovery takes.
    look_cpu_ns_per_sec: Nanos,
    writes_per_iteration: f64,
}

/// Measures.
///
/// # Errors
/// The files cannot be made, or the loop fails over them.
pub fn bench(args: &BenchLoopArgs) -> Result<Exit> {
    let default = [10, 100, 1000, 10_000];
    let sizes: &[u32] = if args.workloads.is_empty() {
        &default
    } else {
        &args.workloads
    };
    let mut all = Vec::new();
    for size in sizes {
        eprintln!("{size} workloads, {} iterations", args.iterations);
        all.push(one_size(*size, args).with_context(|| {
            format!("with {size} workloads, each of which takes some open files (see ulimit -n)")
        })?);
    }
    if args.json {
        print_json(&all)?;
    } else {
        print(&(table(&all) + &ratios(&all)))?;
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
    let fake = FakeHost::new(dir.path(), CPUS)?;
    let names: Vec<String> = (0..size)
        .map(|n| format!("/bench.slice/{}.slice/w{n}.service", n / 100))
        .collect();
    let mut users = 0;
    for (number, name) in names.iter().enumerate() {
        let uses = is_user(number, args.users_percent);
        fake.add(number, name, if uses { 256 } else { 0 })?;
        users += u32::from(uses);
    }
    let mut ticks = open(&Roots::beneath(dir.path()), args.observe)?;
    let mut load = Load::new(&fake, &names, args.users_percent);
    let start = Instant::now();
    let mut warm = 0;
    while warm < WARM_UP {
        load.advance()?;
        ticks.tick()?;
        load.obey(ticks.snapshot());
        let found = seen(&ticks) >= users;
        warm += u32::from(found || start.elapsed() > SETTLE);
    }
    let mut measured: Vec<Stages> = Vec::new();
    let mut writes = 0;
    let (looks_before, measured_from) = (look_cpu()?, Instant::now());
    for _ in 0..args.iterations {
        load.advance()?;
        measured.push(ticks.tick()?.stages);
        writes += load.obey(ticks.snapshot());
    }
    let looks = look_cpu()?.saturating_sub(looks_before) as f64;
    let figures = Figures {
        look_cpu_ns_per_sec: Nanos(whole(looks / measured_from.elapsed().as_secs_f64())),
        ..figures(size, users, seen(&ticks), &measured, writes)
    };
    ticks.release();
    Ok(figures)
}

/// Whether the workload of this number has memory on the device: evenly spread ones.
fn is_user(number: usize, users_percent: u32) -> bool {
    let part = |n: usize| n * users_percent as usize / 100;
    part(number + 1) > part(number)
}

fn seen(ticks: &Loop) -> u32 {
    u32::try_from(ticks.snapshot().plan.workloads.len()).unwrap_or(u32::MAX)
}

/// CPU time of the thread that looks for workloads so far, in nanoseconds.
fn look_cpu() -> Result<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let of_look = |task: std::fs::DirEntry| {
        let file = |name| std::fs::read_to_string(task.path().join(name)).ok();
        (file("comm")?.trim_end() == LOOK_THREAD).then_some(())?;
        // Time on a CPU comes first (kernel, sched-stats.rst).
        file("schedstat")?.split(' ').next()?.parse::<u64>().ok()
    };
    let found = tasks.flatten().filter_map(of_look).reduce(|a, b| a + b);
    found.with_context(|| format!("there is no thread {LOOK_THREAD} in /proc/self/task"))
}

fn open(roots: &Roots, is_observing: bool) -> Result<Loop> {
    make_run_dir(&roots.run)?;
    let options = Options {
        roots: roots.clone(),
        interval: Duration::ZERO,
        read_only: is_observing,
        ..Options::default()
    };
    let platform = LinuxPlatform::open(options)?;
    let config = Config {
        limit: !is_observing,
        set_point_bytes_per_sec: Some(BytesPerSec::new(SET_POINT)),
        ..Config::default()
    };
    let mut sinks = Sinks::default();
    sinks.add(ChangeLog::open(&roots.run)?);
    sinks.add(Publisher::new(&roots.run));
    Ok(Loop::new(
        Box::new(platform),
        config,
        "max-min",
        INTERVAL,
        sinks,
    ))
}

/// The workloads: moves the machine's counters on between two iterations, outside the measurement.
struct Load<'a> {
    fake: &'a FakeHost,
    names: &'a [String],
    last: Instant,
    bytes: f64,
    bytes_per_cpu_sec: f64,
    each: Vec<One>,
    number: HashMap<&'a str, usize>,
    tick: u64,
}

struct One {
    uses: bool,
    wants_cpus: f64,
    limit_cpus: f64,
    cpu_usec: f64,
}

impl<'a> Load<'a> {
    fn new(fake: &'a FakeHost, names: &'a [String], users_percent: u32) -> Self {
        let even = (CPUS as f64 / 2.0 / names.len() as f64).min(0.5);
        let one = |number: usize| One {
            uses: is_user(number, users_percent),
            // Unequal ones: from half to one and a half times the mean.
            wants_cpus: even * (0.5 + (number % 11) as f64 / 10.0),
            limit_cpus: f64::INFINITY,
            cpu_usec: 0.0,
        };
        let each: Vec<One> = (0..names.len()).map(one).collect();
        let wanted: f64 = each.iter().filter(|o| o.uses).map(|o| o.wants_cpus).sum();
        Load {
            fake,
            names,
            last: Instant::now(),
            bytes: 0.0,
            bytes_per_cpu_sec: 2.0 * SET_POINT / wanted.max(f64::MIN_POSITIVE),
            each,
            number: (0..)
                .zip(names)
                .map(|(i, name)| (name.as_str(), i))
                .collect(),
            tick: 0,
        }
    }

    fn advance(&mut self) -> Result<()> {
        // Iterations are as far apart as the daemon's ticks: the controller spaces its writes in time.
        std::thread::sleep(INTERVAL.saturating_sub(self.last.elapsed()));
        let span = self.last.elapsed().as_secs_f64();
        self.last = Instant::now();
        self.tick += 1;
        for (number, (name, one)) in (0..).zip(self.names.iter().zip(&mut self.each)) {
            let wants = one.wants_cpus * (1.0 + WOBBLE * noise(number, self.tick));
            let used = wants.min(one.limit_cpus) * span;
            one.cpu_usec += used * 1e6;
            self.fake.set_cpu(name, whole(one.cpu_usec), 0)?;
            if one.uses {
                self.bytes += used * self.bytes_per_cpu_sec;
            }
        }
        self.fake.set_counters(whole(self.bytes), 0)?;
        Ok(())
    }

    /// Takes in the limits that were written, and counts them.
    fn obey(&mut self, tick: &Snapshot) -> usize {
        let mut writes = 0;
        for (action, outcome) in tick.plan.actions.iter().zip(&tick.outcomes) {
            if outcome.result != OutcomeKind::Applied {
                continue;
            }
            writes += 1;
            let one = self.number.get(action.workload.as_str());
            if let Some(one) = one.and_then(|i| self.each.get_mut(*i)) {
                one.limit_cpus = match action.kind {
                    ActionKind::Limit(limit) => limit.cpus().get(),
                    ActionKind::Release => f64::INFINITY,
                };
            }
        }
        writes
    }
}

/// A number from -1 to 1, the same in each run: a multiplicative hash of workload and tick.
fn noise(number: u64, tick: u64) -> f64 {
    let mixed = (number << 32 | tick).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed >> 32) as f64 / f64::from(u32::MAX) * 2.0 - 1.0
}

/// Positive and far below 2^64 here.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(value: f64) -> u64 {
    value as u64
}

fn figures(
    workloads: u32,
    users: u32,
    workloads_seen: u32,
    measured: &[Stages],
    writes: usize,
) -> Figures {
    let of = |stage: fn(&Stages) -> Nanos| median(measured.iter().map(stage).collect());
    let mean = |stage: fn(&Stages) -> Nanos| {
        let sum: u64 = measured.iter().map(|stages| stage(stages).0).sum();
        Nanos(sum / (measured.len() as u64).max(1))
    };
    let stages = Stages {
        observe: of(|stages| stages.observe),
        step: of(|stages| stages.step),
        apply: of(|stages| stages.apply),
        // This is not done at each tick.
        publish: mean(|stages| stages.publish),
    };
    Figures {
        workloads,
        users,
        workloads_seen,
        iterations: u32::try_from(measured.len()).unwrap_or(u32::MAX),
        observe_cpu_ns: stages.observe,
        step_cpu_ns: stages.step,
        apply_cpu_ns: stages.apply,
        publish_cpu_ns: stages.publish,
        total_cpu_ns: stages.total(),
        total_cpu_ns_mean: mean(Stages::total),
        total_cpu_ns_max: measured.iter().map(Stages::total).max().unwrap_or_default(),
        look_cpu_ns_per_sec: Nanos::default(),
        writes_per_iteration: writes as f64 / measured.len().max(1) as f64,
    }
}

fn median(mut values: Vec<Nanos>) -> Nanos {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn table(all: &[Figures]) -> String {
    let row = |figures: &Figures| {
        let times = [
            figures.observe_cpu_ns,
            figures.step_cpu_ns,
            figures.apply_cpu_ns,
            figures.publish_cpu_ns,
            figures.total_cpu_ns,
            figures.total_cpu_ns_mean,
            figures.total_cpu_ns_max,
            figures.look_cpu_ns_per_sec,
        ];
        let unseen = match figures.workloads_seen {
            seen if seen == figures.users => String::new(),
            seen => format!("only {seen} were seen"),
        };
        let mut cells = vec![Cell::number(figures.workloads.to_string())];
        cells.extend(times.map(|time| Cell::number(time.to_string())));
        cells.push(decimals(figures.writes_per_iteration, 1));
        cells.push(Cell::words(unseen));
        cells
    };
    let heads = [
        "workloads",
        "observe",
        "step",
        "apply",
        "publish",
        "total",
        "mean",
        "largest",
        "looks/s",
        "writes",
        "",
    ];
    let table = Table::new("", &heads, all.iter().map(row));
    terminal_table(&table, Setting::WIDE)
}

fn ratios(all: &[Figures]) -> String {
    let mut out = String::from(
        "CPU time of one iteration: medians of the stages, the mean of publishing, which is not done each \
         time, and their sum;\nmean and largest of all; looks/s: in the thread that looks for workloads, each second; \
         writes: limits\nwritten per iteration.\n",
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
        for observe in [false, true] {
            let args = BenchLoopArgs {
                workloads: vec![],
                users_percent: 100,
                observe,
                iterations: 5,
                json: false,
            };
            let figures = one_size(12, &args).unwrap();
            assert_eq!(figures.workloads_seen, 12);
            assert!(figures.observe_cpu_ns.0 > 0 && figures.publish_cpu_ns.0 > 0);
            assert!(figures.total_cpu_ns_mean <= figures.total_cpu_ns_max);
            assert!(!observe || figures.writes_per_iteration == 0.0);
        }
    }

    #[test]
    fn users_are_as_many_as_asked_for() {
        for (percent, want) in [(0, 0), (1, 2), (10, 20), (33, 66), (100, 200)] {
            let users = (0..200).filter(|n| is_user(*n, percent)).count();
            assert_eq!(users, want, "{percent} %");
        }
        let mean = (0..1000).map(|n| noise(n, 7)).sum::<f64>() / 1000.0;
        assert!(mean.abs() < 0.1, "{mean}");
    }
}
