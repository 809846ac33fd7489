// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One live run: start the workloads, control them or not, measure, collect the results.
//!
//! ```text
//! 0            settle_sec                       settle + measure
//! ├ workloads ─┼───────────────────────────────┤
//! ├ control ───┼───────────────────────────────┤
//! │            ├ measured ─────────────────────┤
//! ```
//! Bandwidth, access latency and the truth per workload come from the ground truth; block latencies from
//! fio's own log; CPU time from the guest kernel's `cpu.stat`; throughput from stress-ng.

use crate::live::estimate_error::{self, Estimate};
use crate::live::guest::{self, ClockOffsets, Instance};
use crate::vm::Vm;
use crate::vm::sampler::{Sample, Series, lines};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_ipc::ground_truth::quantile_ns;
use weir_report::results::{Bandwidth, Latency, LimitedLatency, Point, Run, settling};
use weir_scenario::{Role, TestbedScenario};

/// Windows in which the bandwidth is evaluated.
pub const WINDOW: Duration = Duration::from_millis(100);
/// How long before the measured time the guest's usage so far is read.
const USAGE_READ_BEFORE: Duration = Duration::from_secs(1);
/// Where weir's lines go in the guest.
const WEIR_LOG: &str = "/run/weir.jsonl";

#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// No controller.
    Free,
    /// A fixed `cpu.max` on each, by hand.
    Quota { quota_us: u64, period_us: u64 },
    /// weir, limiting or (without a policy) only observing.
    Weir {
        /// `--policy`, or nothing to observe.
        policy: Option<String>,
        /// `--backend`.
        backend: String,
        extra: String,
    },
}

impl Mode {
    /// weir begins before the work beside does. A scheduler takes its time to load in a guest this slow, and
    /// is not to do so in the measured time.
    pub(crate) fn begins_early(&self) -> bool {
        matches!(self, Mode::Weir { backend, .. } if backend != "cpu-max")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Booting,
    /// Workloads begin, and a scheduler.
    Starting,
    /// The run itself, of the scenario's own length.
    Controlled,
    Ending,
    /// Nothing is measured any more: logs are read.
    Reading,
}

/// What was read at the two ends of the measured time.
struct Mark {
    at: Duration,
    cpu_at: Duration,
    cpu_ns: BTreeMap<String, f64>,
    buckets: Vec<u64>,
}

/// What weir said of each workload, against the ground truth, by name. Empty where it does not run.
pub type Estimates = BTreeMap<String, Estimate>;

/// Make one run. The model must be on and [`guest::prepare`] done.
///
/// # Errors
/// The guest fails. A figure that cannot be had is not an error: it is `None` with its reason.
pub fn run(vm: &Vm, scenario: &TestbedScenario, all: &[Instance], mode: &Mode) -> Result<Run> {
    Ok(run_and_compare(vm, scenario, all, mode, &|_| ())?.0)
}

/// [`run`], with what weir said of each workload. `at_stage` is called when a stage after the first one
/// begins.
///
/// # Errors
/// As [`run`].
pub fn run_and_compare(
    vm: &Vm,
    scenario: &TestbedScenario,
    all: &[Instance],
    mode: &Mode,
    at_stage: &dyn Fn(Stage),
) -> Result<(Run, Estimates)> {
    let owners = all.iter().map(|i| i.owner).max().unwrap_or(0);
    vm.start_sampling(owners);
    at_stage(Stage::Starting);
    let driven = drive(vm, scenario, all, mode, at_stage);
    let series = vm.stop_sampling()?;
    at_stage(Stage::Reading);
    let (start, marks, offsets) = driven?;
    let measured = Measured {
        series,
        start,
        marks,
        offsets,
    };
    evaluate(vm, scenario, all, mode, &measured)
}

struct Measured {
    series: Series,
    start: Duration,
    marks: [Mark; 2],
    offsets: ClockOffsets,
}

fn drive(
    vm: &Vm,
    scenario: &TestbedScenario,
    all: &[Instance],
    mode: &Mode,
    at_stage: &dyn Fn(Stage),
) -> Result<(Duration, [Mark; 2], ClockOffsets)> {
    let control = &scenario.control;
    let offsets = guest::clock_offsets(vm)?;
    guest::start_readers(vm, all, scenario.seed)?;
    let run_sec = control.settle_sec + control.measure_sec;
    let is_early = mode.begins_early();
    if is_early {
        begin_control(vm, scenario, all, mode)?;
        let ready = format!(
            "for i in $(seq 1200); do [ -s {WEIR_LOG} ] && exit 0; sleep 0.1; done; cat {WEIR_LOG}.err >&2; exit 1"
        );
        vm.run(&ready).context("weir does not start")?;
    }
    guest::start_beside(vm, all, scenario.seed, run_sec)?;
    let start = vm.now();
    at_stage(Stage::Controlled);
    if !is_early {
        begin_control(vm, scenario, all, mode)?;
    }
    let from = start + Duration::from_secs(control.settle_sec);
    // Reading it takes the guest's CPUs for a moment, so it is done outside of the measured time.
    vm.sleep_until(from.saturating_sub(USAGE_READ_BEFORE))?;
    let cpu = cpu_times(vm, all)?;
    vm.sleep_until(from)?;
    let first = mark(vm);
    vm.sleep_until(from + Duration::from_secs(control.measure_sec))?;
    let last = mark(vm);
    let (first, last) = (first.with(cpu), last.with(cpu_times(vm, all)?));
    at_stage(Stage::Ending);
    // The work beside ends by itself; its last lines must be complete.
    vm.sleep(Duration::from_secs(2))?;
    end_control(vm, all, mode)?;
    guest::stop(vm)?;
    Ok((start, [first, last], offsets))
}

/// CPU time of all, and when that was.
type CpuTimes = (Duration, BTreeMap<String, f64>);

fn cpu_times(vm: &Vm, all: &[Instance]) -> Result<CpuTimes> {
    let before = vm.now();
    let cpu_ns = guest::cpu_times(vm, all)?;
    Ok(((before + vm.now()) / 2, cpu_ns))
}

fn mark(vm: &Vm) -> Mark {
    Mark {
        at: vm.now(),
        buckets: vm.ground_truth().latency_buckets(),
        cpu_at: Duration::ZERO,
        cpu_ns: BTreeMap::new(),
    }
}

impl Mark {
    fn with(self, (cpu_at, cpu_ns): CpuTimes) -> Mark {
        Mark {
            cpu_at,
            cpu_ns,
            ..self
        }
    }
}

fn begin_control(vm: &Vm, scenario: &TestbedScenario, all: &[Instance], mode: &Mode) -> Result<()> {
    match mode {
        Mode::Free => Ok(()),
        Mode::Quota {
            quota_us,
            period_us,
        } => set_quotas(vm, all, &format!("{quota_us} {period_us}")),
        Mode::Weir {
            policy,
            backend,
            extra,
        } => {
            let limit = match policy {
                Some(policy) => format!("--limit --policy {policy} --backend {backend}"),
                None => String::new(),
            };
            let control = &scenario.control;
            vm.run(&format!(
                "mkdir -p /sys/fs/cgroup/weir.service; rm -f {WEIR_LOG}; \
                 sh -c 'echo $$ > /sys/fs/cgroup/weir.service/cgroup.procs; exec weir run {limit} \
                 --set-point {:.0} --interval {}ms --period {}ms --json {extra}' \
                 > {WEIR_LOG} 2> {WEIR_LOG}.err < /dev/null &",
                scenario.set_point_bytes_per_sec(),
                control.interval_ms,
                control.period_ms,
            ))
            .map(drop)
        }
    }
}

fn end_control(vm: &Vm, all: &[Instance], mode: &Mode) -> Result<()> {
    match mode {
        Mode::Free => Ok(()),
        Mode::Quota { .. } => set_quotas(vm, all, "max 100000"),
        Mode::Weir { .. } => {
            let script = "kill -TERM $(pidof weir) || { cat /run/weir.jsonl.err >&2; exit 1; }; \
                          for i in $(seq 600); do pidof weir > /dev/null || exit 0; sleep 0.1; done; exit 1";
            vm.run(script)
                .context("weir did not end on SIGTERM")
                .map(drop)
        }
    }
}

fn set_quotas(vm: &Vm, all: &[Instance], value: &str) -> Result<()> {
    for instance in all.iter().filter(|i| i.role == Role::Heavy) {
        vm.run(&format!(
            "echo {value} > /sys/fs/cgroup{}/cpu.max",
            instance.cgroup()
        ))?;
    }
    Ok(())
}

fn evaluate(
    vm: &Vm,
    scenario: &TestbedScenario,
    all: &[Instance],
    mode: &Mode,
    m: &Measured,
) -> Result<(Run, Estimates)> {
    let set_point = scenario.set_point_bytes_per_sec();
    let (from, to) = (m.marks[0].at, m.marks[1].at);
    let device = |s: &Sample| lines(&s.device);
    let windows = m.series.windows(from, to, WINDOW, device);
    let end = m.series.samples.last().map_or(to, |s| s.at);
    let points = m
        .series
        .windows(m.start, end, WINDOW, device)
        .into_iter()
        .enumerate();
    let series: Vec<Point> = points
        .map(|(i, rate)| Point {
            at_ms: i as f64 * 100.0,
            bytes_per_sec: rate,
        })
        .collect();
    let mut run = Run {
        world: "vm".into(),
        policy: "none".into(),
        backend: "none".into(),
        set_point_bytes_per_sec: set_point,
        seed: scenario.seed,
        bandwidth: Bandwidth::of(&windows, set_point),
        device_latency: device_latency(m),
        fingerprint: Some(format!("{:016x}", m.series.fingerprint)),
        ..Run::default()
    };
    let estimates = note_mode(vm, all, mode, m, &mut run)?;
    if windows.is_empty() {
        run.missing.insert(
            "bandwidth".into(),
            "the measured time has no whole window".into(),
        );
    }
    if run.device_latency.mean_ns.is_none() {
        run.missing
            .insert("device_latency".into(), "no line was read".into());
    }
    evaluate_settling(mode, m, &series, &mut run);
    run.series = series;
    readers(vm, all, m, &mut run)?;
    beside(vm, all, &mut run);
    Ok((run, estimates))
}

/// Notes what was in control; if it was weir, what it knew.
fn note_mode(
    vm: &Vm,
    all: &[Instance],
    mode: &Mode,
    m: &Measured,
    run: &mut Run,
) -> Result<Estimates> {
    match mode {
        Mode::Free => Ok(Estimates::new()),
        Mode::Quota {
            quota_us,
            period_us,
        } => {
            run.backend = format!("cpu.max {quota_us} {period_us} by hand");
            Ok(Estimates::new())
        }
        Mode::Weir {
            policy, backend, ..
        } => {
            run.policy = policy.clone().unwrap_or("none".into());
            run.backend = policy.as_ref().map_or("none", |_| backend).into();
            let text = vm.run(&format!("cat {WEIR_LOG}"))?;
            let span = estimate_error::Span {
                from: m.marks[0].at,
                to: m.marks[1].at,
                offsets: m.offsets,
            };
            let found = estimate_error::compare(&text, all, &m.series, &span);
            run.start_ms =
                first_tick(&text, m).map(|at| (at - m.start.as_secs_f64()).max(0.0) * 1e3);
            let errors = found.iter().map(|(name, e)| (name.clone(), e.rmse_ratio));
            run.estimate_error_ratio = errors.collect();
            Ok(found)
        }
    }
}

/// When weir's first tick was, in seconds since power-on.
fn first_tick(text: &str, m: &Measured) -> Option<f64> {
    let tick: serde_json::Value = serde_json::from_str(text.lines().next()?).ok()?;
    Some(tick["plan"]["at"].as_f64()? / 1e9 - m.offsets.boot_ms / 1e3)
}

/// When control settled, and how far it overshot. It begins with weir's first tick: until then weir loads its
/// programs and finds devices, which takes seconds on a CPU this slow.
fn evaluate_settling(mode: &Mode, m: &Measured, series: &[Point], run: &mut Run) {
    let until_ms = (m.marks[1].at - m.start).as_secs_f64() * 1000.0;
    let why = if matches!(mode, Mode::Free) {
        "nothing is controlled in this run"
    } else {
        let set_point = run.set_point_bytes_per_sec;
        let begin_ms = run.start_ms.unwrap_or(0.0);
        let controlled: Vec<Point> = series
            .iter()
            .filter(|p| p.at_ms >= begin_ms)
            .copied()
            .collect();
        (run.settle_ms, run.overshoot_ratio) = settling(&controlled, set_point, until_ms);
        run.settle_ms = run.settle_ms.map(|ms| ms - begin_ms);
        "it never stayed within 5 %"
    };
    if run.settle_ms.is_none() {
        for name in ["settle_ms", "overshoot_ratio"] {
            run.missing.insert(name.into(), why.into());
        }
    }
}

fn device_latency(m: &Measured) -> Latency {
    let pairs = m.marks[1].buckets.iter().zip(&m.marks[0].buckets);
    let buckets: Vec<u64> = pairs.map(|(b, a)| b - a).collect();
    let sum = |s: &Sample| s.device.read_latency_sum_ns;
    let reads = |s: &Sample| s.device.read_lines;
    let delta = |what: &dyn Fn(&Sample) -> u64| {
        let (from, to) = (m.marks[0].at, m.marks[1].at);
        Some(m.series.at(to, &what)? - m.series.at(from, &what)?)
    };
    let mean_ns = match (delta(&sum), delta(&reads)) {
        (Some(sum), Some(reads)) if reads > 0.0 => Some(sum / reads),
        _ => None,
    };
    Latency {
        mean_ns,
        stddev_ns: None,
        p50_ns: quantile_ns(&buckets, 0.5),
        p99_ns: quantile_ns(&buckets, 0.99),
    }
}

/// Block latencies of the readers, and what the limited ones pay per GiB. What they moved is taken from the
/// ground truth, and not from their logs: it has each line when it is moved, a log each block when it has
/// ended. CPU time and bytes are measured over spans of their own, so both are rates before they are divided.
fn readers(vm: &Vm, all: &[Instance], m: &Measured, run: &mut Run) -> Result<()> {
    let of = |role: Role| all.iter().filter(move |i| i.role == role);
    let mut light = Vec::new();
    for instance in of(Role::Light) {
        light.extend(latencies(vm, instance, m)?);
    }
    if light.is_empty() {
        run.missing.insert(
            "light_reader".into(),
            "no light reader finished a block".into(),
        );
    }
    run.light_reader = Latency::of(light);
    let mut heavy = Vec::new();
    let (mut cpu_per_sec, mut bytes_per_sec) = (0.0, 0.0);
    let cpu_span = (m.marks[1].cpu_at - m.marks[0].cpu_at).as_secs_f64();
    let span = m.marks[1].at - m.marks[0].at;
    for instance in of(Role::Heavy) {
        heavy.extend(latencies(vm, instance, m)?);
        let used = m.marks[1].cpu_ns[&instance.name] - m.marks[0].cpu_ns[&instance.name];
        cpu_per_sec += used / 1e9 / cpu_span;
        let owner = usize::from(instance.owner);
        let read = |s: &Sample| s.owners[owner].read_lines;
        let rates = m.series.windows(m.marks[0].at, m.marks[1].at, span, read);
        bytes_per_sec += rates.first().copied().unwrap_or(0.0);
        let gap = m.series.longest_gap(m.marks[0].at, m.marks[1].at, read);
        let gap_ms = gap.as_secs_f64() * 1e3;
        run.limited_gap_ms = Some(
            run.limited_gap_ms
                .map_or(gap_ms, |longest| longest.max(gap_ms)),
        );
    }
    let count = of(Role::Heavy).count() as f64;
    if !heavy.is_empty() {
        let blocks_per_sec = heavy.len() as f64 / span.as_secs_f64();
        run.limited_readers.little_bound_ns = Some(count / blocks_per_sec * 1e9);
    } else {
        run.missing.insert(
            "limited_readers".into(),
            "no heavy reader finished a block".into(),
        );
    }
    run.limited_readers = LimitedLatency {
        latency: Latency::of(heavy),
        ..run.limited_readers
    };
    if bytes_per_sec > 0.0 {
        run.cpu_sec_per_gib = Some(cpu_per_sec / bytes_per_sec * (1u64 << 30) as f64);
    } else {
        run.missing
            .insert("cpu_sec_per_gib".into(), "nothing was read".into());
    }
    Ok(())
}

/// Latencies of the blocks that ended in the measured time.
fn latencies(vm: &Vm, instance: &Instance, m: &Measured) -> Result<Vec<f64>> {
    let guest_ms = |at: Duration| at.as_secs_f64() * 1000.0 + m.offsets.unix_ms;
    let measured = guest_ms(m.marks[0].at)..guest_ms(m.marks[1].at);
    let blocks = guest::blocks(vm, instance)?;
    let inside = blocks.iter().filter(|b| measured.contains(&b.done_unix_ms));
    Ok(inside.map(|b| b.latency_ns).collect())
}

fn beside(vm: &Vm, all: &[Instance], run: &mut Run) {
    let mut sum = None;
    for instance in all.iter().filter(|i| i.role == Role::Beside) {
        match guest::stress_ops_per_sec(vm, instance) {
            Ok(ops) => sum = Some(sum.unwrap_or(0.0) + ops),
            Err(why) => {
                run.missing
                    .insert("throughput_ops_per_sec".into(), format!("{why:#}"));
                return;
            }
        }
    }
    run.throughput_ops_per_sec = sum;
    if sum.is_none() {
        run.missing.insert(
            "throughput_ops_per_sec".into(),
            "nothing runs beside".into(),
        );
    }
}
