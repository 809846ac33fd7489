// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weir's scheduler in full mode, on a real kernel: all ordinary tasks are its own. Does it hold the device
//! where other tasks need all CPUs, is it fair by the weights of tasks and cgroups, does every task come to
//! run under stress, and is the kernel's own scheduler back afterwards? How *well* is measured by
//! `weir-testbed live … --backend sched-ext-full`.

use crate::common::{
    self, Bench, LINES, MODULE, Questions, READ, SET_POINT, attempt, bytes_per_sec, empty_cgroup,
    ends_with, filled, has_processes, last_line_says, load_weir, make_cgroup, mount_group,
    next_line, signal_named, signal_weir, start_in, start_readers, state, until,
};
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use weir_testbed::vm::Vm;
use weir_testbed::vm::condition::Condition;
use weir_testbed::vm::sampler::{Sample, lines};

fn limit() -> String {
    format!("--limit --set-point {SET_POINT} --backend sched-ext-full")
}

fn start(vm: &Vm) -> Result<u32> {
    start_with(vm, &limit())
}

fn start_with(vm: &Vm, arguments: &str) -> Result<u32> {
    let pid = load_weir(vm, arguments)?;
    until(vm, state("enabled"))?;
    let ops = vm.run("cat /sys/kernel/sched_ext/root/ops; cat /sys/kernel/sched_ext/switch_all")?;
    ensure!(ops == "weir\n1\n", "not in full mode: {ops}");
    Ok(pid)
}

fn stop_weir(vm: &Vm, pid: u32) -> Result<()> {
    let status = signal_weir(vm, pid, "TERM")?;
    let said = || vm.run(&format!("cat {LINES}.err"));
    ensure!(status == 0, "weir ended with {status}: {}", said()?);
    until(vm, state("disabled"))?;
    let bad = "dmesg | grep -E 'sched_ext: .*(stall|error)|BUG:|WARNING:|blocked for more'";
    let bad = attempt(vm, bad)?.stdout;
    ensure!(bad.is_empty(), "the kernel complains: {bad}");
    Ok(())
}

/// Tasks that use all CPUs, in a cgroup of this weight.
fn start_hogs(vm: &Vm, name: &str, count: usize, weight: u32) -> Result<String> {
    let path = make_cgroup(vm, name)?;
    vm.run(&format!("echo {weight} > {path}/cpu.weight"))?;
    for _ in 0..count {
        start_in(vm, &path, "sh -c \"while :; do :; done\"")?;
    }
    until(vm, has_processes(&path, count))?;
    Ok(path)
}

/// CPU time of some cgroups over so many seconds, in microseconds.
fn used_us(vm: &Vm, paths: &[&str], sec: u32) -> Result<Vec<u64>> {
    let files = paths.iter().map(|p| format!("{p}/cpu.stat"));
    let files: Vec<String> = files.collect();
    let read = format!(
        "for f in {}; do sed -n 's/usage_usec //p' $f; done",
        files.join(" ")
    );
    let text = vm.run(&format!("{read}; sleep {sec}; {read}"))?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .filter_map(|w| w.parse().ok())
        .collect();
    ensure!(numbers.len() == 2 * paths.len(), "not all there: {text}");
    let (before, after) = numbers.split_at(paths.len());
    Ok(after.iter().zip(before).map(|(a, b)| a - b).collect())
}

/// Where partial mode has nothing to give: ordinary tasks need more than all CPUs.
fn it_holds_where_all_cpus_are_wanted(vm: &Vm) -> Result<()> {
    let hogs = start_hogs(vm, "hogs", 4, 100)?;
    let pid = start(vm)?;
    common::both_are_limited(vm)?;
    vm.run("sleep 3")?;
    common::is_held_closely(vm)?;
    stop_weir(vm, pid)?;
    empty_cgroup(vm, &hogs)
}

/// Tries a machine without our driver: weir reads events of perf, and gives the scheduler what it read.
fn it_holds_by_what_weir_sees(vm: &Vm) -> Result<()> {
    let hogs = start_hogs(vm, "hogs", 4, 100)?;
    let pid = start_with(vm, &format!("{} --counters perf", limit()))?;
    common::both_are_limited(vm)?;
    vm.run("sleep 3")?;
    common::is_held_closely(vm)?;
    let stats = common::newest(vm)?["scheduler"]["devices"][0].clone();
    let updates = stats["ext_updates"].as_u64().context("no updates")?;
    println!("{updates} updates: {stats}");
    // A hundred a second where the guest has time; the loop alone makes twenty.
    ensure!(updates > 300, "{stats}");
    let explained = ends_with(vm, 0, "weir explain")?;
    ensure!(explained.contains("counted by weir for it"), "{explained}");
    stop_weir(vm, pid)?;
    empty_cgroup(vm, &hogs)
}

/// From idle to ten times the set-point at once, between two ticks of the daemon: the scheduler itself holds
/// the device.
fn a_step_is_met_at_once(vm: &Vm) -> Result<()> {
    // A reader that has read nothing yet has no memory on the device, as far as weir can see.
    until(vm, Condition::AtLeast(READ.to_owned(), 64 << 20))?;
    common::freeze(vm, true)?;
    let pid = load_weir(vm, &format!("{} --interval 2s --period 20ms", limit()))?;
    until(vm, state("enabled"))?;
    for name in ["a", "b"] {
        let capped = format!("{name}.service\":{{\"is_limited\":false");
        until(vm, last_line_says(&capped))?;
    }
    vm.start_sampling(0);
    common::freeze(vm, false)?;
    vm.sleep(Duration::from_secs(4))?;
    let series = vm.stop_sampling()?;
    let count = |s: &Sample| lines(&s.device);
    let idle = series.samples.first().map_or(0, count);
    let step = series.samples.iter().rfind(|s| count(s) < idle + 200);
    let step = step.map(|s| s.at).context("no sample before the step")?;
    let wanted = 8.0 * 1_048_576.0;
    let mean = |from: u64, to: u64| -> Result<f64> {
        let at = |ms: u64| series.at(step + Duration::from_millis(ms), &count);
        let moved = at(to).zip(at(from)).map(|(b, a)| (b - a) * 64.0);
        Ok(moved.context("too few samples")? / (to - from) as f64 * 1e3 / wanted)
    };
    for ms in [10, 20, 30, 50, 100, 200, 500, 1000, 2000] {
        println!(
            "{ms} ms after the step: {:.2} of the set-point so far",
            mean(0, ms)?
        );
    }
    let windows: Vec<f64> = (0..20)
        .map(|i| mean(i * 100, i * 100 + 100))
        .collect::<Result<_>>()?;
    println!("in windows of 100 ms: {windows:.2?}");
    // Without the overload cap it is ten times that, until the daemon's next tick.
    ensure!((0.5..1.5).contains(&mean(0, 1000)?), "the first second");
    common::is_held_closely(vm)?;
    stop_weir(vm, pid)
}

/// A cgroup of three times the weight with one task, beside one with three: three times the CPU time.
/// Within a cgroup, niceness decides.
fn it_is_fair_by_weight(vm: &Vm) -> Result<()> {
    let light = start_hogs(vm, "light", 6, 100)?;
    let heavy = start_hogs(vm, "heavy", 2, 300)?;
    let pid = start(vm)?;
    for _ in 0..3 {
        next_line(vm)?;
    }
    let used = used_us(vm, &[&light, &heavy], 8)?;
    let ratio = used[1] as f64 / used[0].max(1) as f64;
    println!(
        "two tasks in a cgroup of weight 300 beside six in one of 100: {ratio:.2} times the CPU time"
    );
    ensure!((2.0..4.5).contains(&ratio), "{used:?}");
    stop_weir(vm, pid)?;
    empty_cgroup(vm, &light)?;
    empty_cgroup(vm, &heavy)
}

/// Forks, pinned tasks, changes of policy and niceness, stopped tasks, cgroups that come and go: nothing
/// stalls, and all of it ends.
fn it_survives_stress(vm: &Vm) -> Result<()> {
    let pid = start(vm)?;
    let stress = "stress-ng --fork 2 --affinity 2 --switch 2 --schedpolicy 2 --pthread 1 --cpu 2 --yield 2 --timeout 20 \
                  --metrics-brief > /run/stress.txt 2>&1; echo $? > /run/stress.status";
    vm.run(&format!(
        "rm -f /run/stress.status; ({stress}) > /dev/null 2>&1 < /dev/null &"
    ))?;
    vm.run(&format!(
        "for i in $(seq 20); do d={}/churn$i.service; mkdir -p $d; (echo $$ > $d/cgroup.procs; sleep 0.1; echo $$ > /sys/fs/cgroup/cgroup.procs); rmdir $d; done",
        common::SLICE
    ))?;
    let (stop, go_on) = (
        signal_named("STOP", "stress-ng-switc"),
        signal_named("CONT", "stress-ng-switc"),
    );
    vm.run(&format!(
        "for i in $(seq 10); do {stop}; sleep 0.1; {go_on}; done"
    ))?;
    until(vm, filled("/run/stress.status"))?;
    ensure!(
        vm.run("cat /run/stress.status")?.trim() == "0",
        "stress-ng: {}",
        vm.run("cat /run/stress.txt")?
    );
    let said = vm.run(&format!("cat {LINES}.err"))?;
    ensure!(!said.contains("took weir's scheduler out"), "{said}");
    stop_weir(vm, pid)
}

fn killed_it_leaves_nothing(vm: &Vm) -> Result<()> {
    let pid = start(vm)?;
    common::both_are_limited(vm)?;
    signal_weir(vm, pid, "KILL")?;
    until(vm, state("disabled"))?;
    let free = bytes_per_sec(vm, 2)?;
    ensure!(free > 2.0 * 8.0 * 1_048_576.0, "still held: {free}");
    ends_with(vm, 0, "weir reset").map(drop)
}

#[test]
fn weir_schedules_all() -> Result<()> {
    let Some(bench) = Bench::ready("scx_full")? else {
        return Ok(());
    };
    let vm = &bench.guest()?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    mount_group(vm)?;
    start_readers(vm, &["a", "b"])?;
    vm.switch_model_on()?;
    let mut q = Questions::default();
    let mut ask = |name: &str, question: &dyn Fn(&Vm) -> Result<()>| {
        let tidy = "for g in hogs light heavy; do echo 1 > /sys/fs/cgroup/work.slice/$g.service/cgroup.kill; done";
        common::ask_about_scheduler(&mut q, vm, tidy, name, question);
    };
    ask(
        "it holds where all CPUs are wanted",
        &it_holds_where_all_cpus_are_wanted,
    );
    ask("it holds by what weir sees", &it_holds_by_what_weir_sees);
    ask("a step is met at once", &a_step_is_met_at_once);
    ask("it is fair by weight", &it_is_fair_by_weight);
    ask("it survives stress", &it_survives_stress);
    ask("a daemon that is killed", &killed_it_leaves_nothing);
    q.done()
}
