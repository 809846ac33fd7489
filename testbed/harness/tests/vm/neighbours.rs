// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What unlimited tasks notice of limits in force: how late an interactive one wakes up, and how much busy
//! ones get done, alternating without weir, with a `cpu.max` set by hand, and with weir's scheduler in
//! each of its modes. The soak prints figures and checks none; run by hand:
//!
//! ```text
//! cargo test --release -p weir-testbed --test vm -- --ignored --nocapture soak_neighbours
//! ```

use crate::common::evidence::Evidence;
use crate::common::{
    Bench, MODULE, SET_POINT, SLICE, ask_one, has_processes, load_weir, mount_group, said,
    signal_named, signal_weir, start_readers, state, until,
};
use anyhow::{Context, Result, bail, ensure};
use weir_testbed::vm::Vm;

const ROUNDS: usize = 5;
const SEC: u32 = 8;
/// Seconds of each control in the short question.
const SHORT_SEC: u32 = 4;
const READERS: [&str; 2] = ["a", "b"];
/// What leaves the readers about as much of the device as weir does.
const BY_HAND: &str = "3000 20000";
/// The guest's CPUs are a hundred times slower than a server's, and weir with them: at its usual twenty ticks
/// a second the figures would be about that.
const INTERVAL: &str = "1s";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Control {
    Free,
    ByHand,
    Partial,
    Full,
}

/// All, in their order.
const CONTROLS: [Control; 4] = [
    Control::Free,
    Control::ByHand,
    Control::Partial,
    Control::Full,
];

struct Seen {
    wake_up_p50_us: f64,
    wake_up_p99_us: f64,
    /// Operations of two tasks that use all CPU time they get.
    ops_per_sec: f64,
    /// What the readers moved, by the ground truth.
    mib_per_sec: f64,
    /// CPU time for each second of: the readers, weir, the neighbours.
    readers_cpus: f64,
    weir_cpus: f64,
    neighbours_cpus: f64,
    idle_cpus: f64,
}

/// The cgroup of the tasks that are looked at.
const NEIGHBOURS: &str = "/sys/fs/cgroup/neighbours.service";

/// CPU time used so far and the time, in seconds.
#[derive(Debug, Default)]
struct Used {
    readers_sec: f64,
    weir_sec: f64,
    neighbours_sec: f64,
    idle_sec: f64,
    uptime_sec: f64,
}

impl Used {
    /// What [`SHOW_USED`] prints, a name and a number a line; a cgroup that is not there used nothing.
    fn parse(text: &str) -> Result<Used> {
        let mut used = Used::default();
        for line in text.lines() {
            let (name, number) = line.split_once(' ').with_context(|| line.to_owned())?;
            let number: f64 = number.parse().with_context(|| line.to_owned())?;
            match name {
                "reader" => used.readers_sec += number / 1e6,
                "weir" => used.weir_sec = number / 1e6,
                "neighbours" => used.neighbours_sec = number / 1e6,
                "idle" => used.idle_sec = number / 100.0,
                "uptime" => used.uptime_sec = number,
                _ => bail!("{line}"),
            }
        }
        ensure!(used.uptime_sec > 0.0, "no time in {text:?}");
        Ok(used)
    }
}

/// Prints CPU time used so far.
const SHOW_USED: &str = r#"show() {
    cd /sys/fs/cgroup
    sed -n 's/^usage_usec /reader /p' work.slice/[ab].service/cpu.stat
    sed -n 's/^usage_usec /weir /p' weir.service/cpu.stat 2> /dev/null
    sed -n 's/^usage_usec /neighbours /p' neighbours.service/cpu.stat
    awk '/^cpu /{print "idle", $5 + $6}' /proc/stat
    sed -n 's/^\([0-9.]*\) .*/uptime \1/p' /proc/uptime
}"#;

fn set_quotas(vm: &Vm, value: &str) -> Result<()> {
    for name in READERS {
        vm.run(&format!("echo {value} > {SLICE}/{name}.service/cpu.max"))?;
    }
    Ok(())
}

/// Two tasks that compute and one that sleeps 10 ms and measures how late it wakes, until they are signalled.
fn start_neighbours(vm: &Vm) -> Result<()> {
    vm.run(&format!(
        "mkdir -p {NEIGHBOURS}; echo $$ > {NEIGHBOURS}/cgroup.procs
         stress-ng --cpu 2 --cpu-method int64 --metrics-brief --timeout 600 > /run/cpu.txt 2>&1 < /dev/null &
         stress-ng --cyclic 1 --cyclic-policy other --cyclic-sleep 10000000 --timeout 600 > /run/cyclic.txt 2>&1 < /dev/null &
         echo $$ > /sys/fs/cgroup/cgroup.procs"
    ))?;
    // Two commands and their three tasks.
    until(vm, has_processes(NEIGHBOURS, 5))
}

fn end_neighbours(vm: &Vm) -> Result<String> {
    vm.run(&signal_named("INT", "stress-ng"))?;
    until(vm, !has_processes(NEIGHBOURS, 1))?;
    vm.run("cat /run/cpu.txt /run/cyclic.txt")
}

/// What neighbours get in so many seconds. CPUs are looked at while all of them are there: without the
/// readers a CPU would be idle as long as the tasks of one are made on the other.
fn work(vm: &Vm, sec: u32) -> Result<Seen> {
    let lines = || vm.ground_truth().group(0).read_lines as f64;
    start_neighbours(vm)?;
    let (before, begun) = (lines(), vm.now());
    let shown = vm.run(&format!("{SHOW_USED}; show; echo; sleep {sec}; show"))?;
    let (read, elapsed) = (lines() - before, (vm.now() - begun).as_secs_f64());
    let text = end_neighbours(vm)?;
    let (first, last) = shown.split_once("\n\n").with_context(|| shown.clone())?;
    let (first, last) = (Used::parse(first)?, Used::parse(last.trim())?);
    let cpus =
        |of: fn(&Used) -> f64| (of(&last) - of(&first)) / (last.uptime_sec - first.uptime_sec);
    let word = |key: &str, after: usize| {
        let line = text.lines().find(|l| {
            let mut words = l.split_whitespace();
            words.any(|w| w == key)
        });
        let mut words = line?.split_whitespace().skip_while(|w| *w != key);
        words.nth(after)?.parse::<f64>().ok()
    };
    let lacking = || format!("not in what stress-ng says: {text}");
    let metrics = text.lines().filter(|l| l.contains("metrc:"));
    let cpu = metrics
        .map(|l| l.split_whitespace().skip(3))
        .find_map(|mut w| (w.next() == Some("cpu")).then(|| w.nth(4)?.parse::<f64>().ok()))
        .flatten();
    Ok(Seen {
        wake_up_p50_us: word("50.00%:", 1).with_context(lacking)? / 1000.0,
        wake_up_p99_us: word("99.00%:", 1).with_context(lacking)? / 1000.0,
        ops_per_sec: cpu.with_context(lacking)?,
        mib_per_sec: read * 64.0 / 1_048_576.0 / elapsed,
        readers_cpus: cpus(|u| u.readers_sec),
        weir_cpus: cpus(|u| u.weir_sec),
        neighbours_cpus: cpus(|u| u.neighbours_sec),
        idle_cpus: cpus(|u| u.idle_sec),
    })
}

fn run_once(vm: &Vm, control: Control, sec: u32) -> Result<Seen> {
    match control {
        Control::Free => work(vm, sec),
        Control::ByHand => {
            set_quotas(vm, BY_HAND)?;
            vm.run("sleep 1")?;
            let seen = work(vm, sec);
            set_quotas(vm, "max")?;
            seen
        }
        Control::Partial => beside_weir(vm, "sched-ext", sec),
        Control::Full => beside_weir(vm, "sched-ext-full", sec),
    }
}

/// What neighbours get while weir's scheduler limits both readers.
fn beside_weir(vm: &Vm, backend: &str, sec: u32) -> Result<Seen> {
    let pid = load_weir(
        vm,
        &format!("--limit --set-point {SET_POINT} --backend {backend} --interval {INTERVAL}"),
    )?;
    until(vm, state("enabled"))?;
    for name in READERS {
        until(vm, said(&format!("{name}.service: limited")))?;
    }
    vm.run("sleep 2")?;
    let seen = work(vm, sec);
    ensure!(signal_weir(vm, pid, "TERM")? == 0, "weir failed");
    until(vm, state("disabled"))?;
    seen
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Ratios of a mode's figure to that of another control, one for each round: the middle, and between which
/// they lie.
fn compare(evidence: &mut Evidence, name: &str, rounds: &[[Seen; 4]], figure: fn(&Seen) -> f64) {
    for mode in [Control::Partial, Control::Full] {
        for other in [Control::Free, Control::ByHand] {
            let ratio = |r: &[Seen; 4]| figure(&r[mode as usize]) / figure(&r[other as usize]);
            let ratios: Vec<f64> = rounds.iter().map(ratio).collect();
            let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            let most = ratios.iter().copied().fold(0.0, f64::max);
            evidence.say(format!(
                "{name}, {mode:?} by {other:?}: {:.2} ({least:.2} to {most:.2})",
                median(ratios)
            ));
        }
    }
}

/// CPUs that were idle, and those that weir used, by control.
fn say_cpus(evidence: &mut Evidence, rounds: &[[Seen; 4]]) {
    for control in CONTROLS {
        let middle = |figure: fn(&Seen) -> f64| {
            median(
                rounds
                    .iter()
                    .map(|r| figure(&r[control as usize]))
                    .collect(),
            )
        };
        evidence.say(format!(
            "{control:?}: {:.2} of the guest's two CPUs idle, {:.2} used by weir",
            middle(|s| s.idle_cpus),
            middle(|s| s.weir_cpus)
        ));
    }
}

fn seen(vm: &Vm, control: Control, sec: u32) -> Result<Seen> {
    let one = run_once(vm, control, sec)?;
    println!(
        "{control:?}: wake-up p50 {:.0} us, p99 {:.0} us, {:.1} ops/s with {:.2} CPUs; readers {:.1} MiB/s with {:.2} CPUs, weir {:.2} CPUs, idle {:.2}",
        one.wake_up_p50_us,
        one.wake_up_p99_us,
        one.ops_per_sec,
        one.neighbours_cpus,
        one.mib_per_sec,
        one.readers_cpus,
        one.weir_cpus,
        one.idle_cpus
    );
    Ok(one)
}

fn with_readers(bench: &Bench) -> Result<Vm> {
    let vm = bench.guest()?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    mount_group(&vm)?;
    start_readers(&vm, &READERS)?;
    vm.switch_model_on()?;
    Ok(vm)
}

/// What limits take from the readers, their neighbours get, but for what weir itself needs on CPUs as slow as
/// these. In partial mode they and weir only use no less: a parked task counts as running on its CPU, so the
/// kernel balances ordinary tasks as if that CPU were not idle (`idle_cpu`, `kernel/sched/syscalls.c`).
#[test]
fn neighbours_get_what_limits_leave() -> Result<()> {
    let Some(bench) = Bench::ready("neighbours, short")? else {
        return Ok(());
    };
    let vm = &with_readers(&bench)?;
    ask_one("in partial and in full mode", || {
        they_get_what_limits_leave(vm)
    })
}

fn they_get_what_limits_leave(vm: &Vm) -> Result<()> {
    let free = seen(vm, Control::Free, SHORT_SEC)?;
    let partial = seen(vm, Control::Partial, SHORT_SEC)?;
    let full = seen(vm, Control::Full, SHORT_SEC)?;
    for held in [&partial, &full] {
        ensure!(
            held.readers_cpus < 0.5 * free.readers_cpus,
            "the readers used {:.2} CPUs, {:.2} without limits",
            held.readers_cpus,
            free.readers_cpus
        );
    }
    let kept = partial.neighbours_cpus + partial.weir_cpus;
    ensure!(
        kept > 0.9 * free.neighbours_cpus,
        "partial mode: the neighbours and weir used {kept:.2} CPUs, the neighbours {:.2} without limits",
        free.neighbours_cpus
    );
    ensure!(
        full.mib_per_sec < 9.0,
        "full mode: the readers moved {:.1} MiB/s, {SET_POINT} is the set-point",
        full.mib_per_sec
    );
    ensure!(
        full.idle_cpus < 0.1,
        "full mode: {:.2} CPUs were idle",
        full.idle_cpus
    );
    let left = free.readers_cpus - full.readers_cpus - full.weir_cpus;
    let more = full.neighbours_cpus - free.neighbours_cpus;
    ensure!(
        more > 0.5 * left,
        "full mode: the neighbours got {more:.2} CPUs more, limits and weir left {left:.2}"
    );
    Ok(())
}

#[test]
#[ignore = "soak: figures of neighbours"]
fn soak_neighbours() -> Result<()> {
    let Some(bench) = Bench::ready("neighbours")? else {
        return Ok(());
    };
    let vm = &with_readers(&bench)?;
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let mut order = CONTROLS;
        order.rotate_left(round % CONTROLS.len());
        let mut all = [None, None, None, None];
        for control in order {
            all[control as usize] = Some(seen(vm, control, SEC)?);
        }
        if let [Some(a), Some(b), Some(c), Some(d)] = all {
            rounds.push([a, b, c, d]);
        }
    }
    let mut evidence = Evidence::of("neighbours");
    compare(&mut evidence, "wake-up p50", &rounds, |s| s.wake_up_p50_us);
    compare(&mut evidence, "wake-up p99", &rounds, |s| s.wake_up_p99_us);
    compare(&mut evidence, "throughput", &rounds, |s| s.ops_per_sec);
    compare(&mut evidence, "bytes of the readers", &rounds, |s| {
        s.mib_per_sec
    });
    compare(&mut evidence, "CPU time of the readers", &rounds, |s| {
        s.readers_cpus
    });
    compare(&mut evidence, "CPU time of the neighbours", &rounds, |s| {
        s.neighbours_cpus
    });
    say_cpus(&mut evidence, &rounds);
    evidence.write(Ok(()))
}
