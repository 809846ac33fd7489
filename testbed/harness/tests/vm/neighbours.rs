// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What unlimited tasks notice of limits in force: how late an interactive one wakes up, and how much busy
//! ones get done, alternating without weir, with a `cpu.max` set by hand, and with weir's scheduler in
//! partial mode. The soak prints figures and checks none; run by hand:
//!
//! ```text
//! cargo test --release -p weir-testbed --test vm -- --ignored --nocapture soak_neighbours
//! ```

use crate::common::evidence::Evidence;
use crate::common::{
    Bench, LINES, MODULE, SET_POINT, SLICE, load_weir, mount_group, signal_weir, start_reader,
    state, until,
};
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weir_testbed::vm::Vm;

const ROUNDS: usize = 5;
const SEC: u32 = 8;
/// In the short question.
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
    Weir,
}

/// Figures of one run.
struct Seen {
    wake_up_p50_us: f64,
    wake_up_p99_us: f64,
    /// Of two tasks that use all CPU time they get.
    ops_per_sec: f64,
    /// Of the readers, by the ground truth.
    mib_per_sec: f64,
    /// CPU time for each second of: the readers, weir, the neighbours.
    readers_cpus: f64,
    weir_cpus: f64,
    neighbours_cpus: f64,
}

/// The cgroup of the tasks that are looked at.
const NEIGHBOURS: &str = "/sys/fs/cgroup/neighbours.service";

/// CPU time of the cgroups at `paths` so far, in seconds; of those that are there.
fn used_sec(vm: &Vm, paths: &str) -> Result<f64> {
    let text = vm.run(&format!(
        "cat {paths} 2> /dev/null | sed -n 's/^usage_usec //p'; true"
    ))?;
    let used: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
    Ok(used?.iter().sum::<f64>() / 1e6)
}

fn set_quotas(vm: &Vm, value: &str) -> Result<()> {
    for name in READERS {
        vm.run(&format!("echo {value} > {SLICE}/{name}.service/cpu.max"))?;
    }
    Ok(())
}

/// A task that sleeps 10 ms and measures how late it wakes, beside two that compute, for some seconds.
fn work(vm: &Vm, sec: u32) -> Result<Seen> {
    let lines = || vm.ground_truth().group(0).read_lines as f64;
    let used = || -> Result<[f64; 3]> {
        Ok([
            used_sec(vm, &format!("{SLICE}/[ab].service/cpu.stat"))?,
            used_sec(vm, "/sys/fs/cgroup/weir.service/cpu.stat")?,
            used_sec(vm, &format!("{NEIGHBOURS}/cpu.stat"))?,
        ])
    };
    vm.run(&format!("mkdir -p {NEIGHBOURS}"))?;
    let (before, used_before, begun) = (lines(), used()?, vm.now());
    let text = vm.try_run(
        &format!(
            "echo $$ > {NEIGHBOURS}/cgroup.procs
             stress-ng --cpu 2 --cpu-method int64 --metrics-brief --timeout {sec} > /run/cpu.txt 2>&1 &
             stress-ng --cyclic 1 --cyclic-policy other --cyclic-sleep 10000000 --timeout {sec} 2>&1; wait
             echo $$ > /sys/fs/cgroup/cgroup.procs; cat /run/cpu.txt"
        ),
        Duration::from_secs(120),
    )?;
    let read = lines() - before;
    let elapsed = (vm.now() - begun).as_secs_f64();
    let used_after = used()?;
    let cpus = |i: usize| (used_after[i] - used_before[i]) / elapsed;
    let word = |key: &str, after: usize| {
        let line = text.stdout.lines().find(|l| {
            let mut words = l.split_whitespace();
            words.any(|w| w == key)
        });
        let mut words = line?.split_whitespace().skip_while(|w| *w != key);
        words.nth(after)?.parse::<f64>().ok()
    };
    let lacking = || format!("not in what stress-ng says: {}", text.stdout);
    let metrics = text.stdout.lines().filter(|l| l.contains("metrc:"));
    let cpu = metrics
        .map(|l| l.split_whitespace().skip(3))
        .find_map(|mut w| (w.next() == Some("cpu")).then(|| w.nth(4)?.parse::<f64>().ok()))
        .flatten();
    Ok(Seen {
        wake_up_p50_us: word("50.00%:", 1).with_context(lacking)? / 1000.0,
        wake_up_p99_us: word("99.00%:", 1).with_context(lacking)? / 1000.0,
        ops_per_sec: cpu.with_context(lacking)?,
        mib_per_sec: read * 64.0 / 1_048_576.0 / elapsed,
        readers_cpus: cpus(0),
        weir_cpus: cpus(1),
        neighbours_cpus: cpus(2),
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
        Control::Weir => {
            let pid = load_weir(
                vm,
                &format!(
                    "--limit --set-point {SET_POINT} --backend sched-ext --interval {INTERVAL}"
                ),
            )?;
            until(vm, &state("enabled"))?;
            for name in READERS {
                until(
                    vm,
                    &format!("grep -q '{name}.service: limited' {LINES}.err"),
                )?;
            }
            vm.run("sleep 2")?;
            let seen = work(vm, sec);
            ensure!(signal_weir(vm, pid, "TERM")? == 0, "weir failed");
            until(vm, &state("disabled"))?;
            seen
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Ratios of weir's figure to that of another, one for each round: the middle, and between which they lie.
fn compare(evidence: &mut Evidence, name: &str, rounds: &[[Seen; 3]], figure: fn(&Seen) -> f64) {
    for other in [Control::Free, Control::ByHand] {
        let ratio = |r: &[Seen; 3]| figure(&r[Control::Weir as usize]) / figure(&r[other as usize]);
        let ratios: Vec<f64> = rounds.iter().map(ratio).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        evidence.say(format!(
            "{name}, weir by {other:?}: {:.2} ({least:.2} to {most:.2})",
            median(ratios)
        ));
    }
}

/// One run, its figures printed.
fn seen(vm: &Vm, control: Control, sec: u32) -> Result<Seen> {
    let one = run_once(vm, control, sec)?;
    println!(
        "{control:?}: wake-up p50 {:.0} us, p99 {:.0} us, {:.1} ops/s with {:.2} CPUs; readers {:.1} MiB/s with {:.2} CPUs, weir {:.2} CPUs",
        one.wake_up_p50_us,
        one.wake_up_p99_us,
        one.ops_per_sec,
        one.neighbours_cpus,
        one.mib_per_sec,
        one.readers_cpus,
        one.weir_cpus
    );
    Ok(one)
}

/// A guest with the readers in it.
fn with_readers(bench: &Bench) -> Result<Vm> {
    let vm = bench.guest()?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    mount_group(&vm)?;
    for name in READERS {
        start_reader(&vm, name)?;
    }
    vm.switch_model_on()?;
    Ok(vm)
}

/// What limits take from the readers, their neighbours get, but for what weir itself needs on CPUs as slow as
/// these.
#[test]
fn neighbours_get_what_limits_leave() -> Result<()> {
    let Some(bench) = Bench::ready("neighbours, short")? else {
        return Ok(());
    };
    let vm = &with_readers(&bench)?;
    let free = seen(vm, Control::Free, SHORT_SEC)?;
    let held = seen(vm, Control::Weir, SHORT_SEC)?;
    ensure!(
        held.readers_cpus < 0.5 * free.readers_cpus,
        "the readers used {:.2} CPUs, {:.2} without limits",
        held.readers_cpus,
        free.readers_cpus
    );
    let all = free.neighbours_cpus + free.readers_cpus;
    let mine = held.neighbours_cpus + held.readers_cpus + held.weir_cpus;
    ensure!(
        mine > 0.8 * all,
        "{mine:.2} CPUs were used, {all:.2} without limits"
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
        let mut order = [Control::Free, Control::ByHand, Control::Weir];
        order.rotate_left(round % 3);
        let mut all = [None, None, None];
        for control in order {
            all[control as usize] = Some(seen(vm, control, SEC)?);
        }
        if let [Some(a), Some(b), Some(c)] = all {
            rounds.push([a, b, c]);
        }
    }
    let mut evidence = Evidence::of("neighbours");
    compare(&mut evidence, "wake-up p50", &rounds, |s| s.wake_up_p50_us);
    compare(&mut evidence, "wake-up p99", &rounds, |s| s.wake_up_p99_us);
    compare(&mut evidence, "throughput", &rounds, |s| s.ops_per_sec);
    compare(&mut evidence, "bytes of the readers", &rounds, |s| {
        s.mib_per_sec
    });
    let of_readers = |s: &Seen| s.readers_cpus;
    compare(
        &mut evidence,
        "CPU time of the readers",
        &rounds,
        of_readers,
    );
    let of_neighbours = |s: &Seen| s.neighbours_cpus;
    compare(
        &mut evidence,
        "CPU time of the neighbours",
        &rounds,
        of_neighbours,
    );
    let weir = rounds
        .iter()
        .map(|round| round[Control::Weir as usize].weir_cpus);
    evidence.say(format!(
        "weir itself: {:.2} CPUs of this guest's two",
        median(weir.collect())
    ));
    evidence.write(Ok(()))
}
