// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thesis's three schedulers (5.4.1), on a real kernel: does each have all ordinary tasks, slow the
//! workloads that the policy limits, do what distinguishes it from the others, and leave nothing behind? How
//! far from the set-point they end is measured by `weir-testbed live … --backend
//! thesis-scx,thesis-scx-vtime,thesis-scx-throttle`.

use crate::common::{
    self, Bench, LINES, MODULE, Questions, SET_POINT, SLICE, attempt, bytes_per_sec, empty_cgroup,
    ends_with, has_processes, load_weir, make_cgroup, mount_group, signal_weir, start_in,
    start_readers, state, until,
};
use anyhow::{Context, Result, ensure};
use weir_testbed::vm::Vm;
use weir_testbed::vm::condition::Condition;

const VARIANTS: [&str; 3] = ["thesis-scx", "thesis-scx-vtime", "thesis-scx-throttle"];
const READERS: [&str; 2] = ["a", "b"];
const SET_POINT_BYTES: f64 = 8.0 * 1_048_576.0;

/// A condition: the kernel says of each thread of a cgroup whether a sched_ext scheduler has it.
fn has_all(name: &str, yes: bool) -> Condition {
    Condition::EachThread {
        cgroup: format!("{SLICE}/{name}.service"),
        file: "sched".to_owned(),
        pattern: format!("ext.enabled * : * {}", u8::from(yes)),
    }
}

/// Starts one, and waits until the kernel says that it has all tasks, and weir that it limits the readers.
fn start(vm: &Vm, backend: &str, others: &[&str]) -> Result<u32> {
    let arguments = format!("--limit --set-point {SET_POINT} --backend {backend}");
    let pid = load_weir(vm, &arguments)?;
    until(vm, state("enabled"))?;
    let ops = vm.run("cat /sys/kernel/sched_ext/root/ops; cat /sys/kernel/sched_ext/switch_all")?;
    ensure!(ops == "weir_thesis\n1\n", "not the thesis's: {ops}");
    for name in READERS {
        until(vm, common::said(&format!("{name}.service: limited")))?;
    }
    for name in READERS.iter().chain(others) {
        until(vm, has_all(name, true))?;
    }
    Ok(pid)
}

/// The kernel's own scheduler has all tasks, and the readers have all they can get.
fn is_over(vm: &Vm, free: f64) -> Result<()> {
    until(vm, state("disabled"))?;
    for name in READERS {
        until(vm, has_all(name, false))?;
    }
    let again = bytes_per_sec(vm, 2)?;
    ensure!(again > 0.6 * free, "still held: {again} instead of {free}");
    Ok(())
}

/// Tasks that compute and have nothing on the device are not limited.
fn others_are_free(vm: &Vm) -> Result<()> {
    let limited = format!("grep -E '(usual|nice).service: limited' {LINES}.err");
    let said = attempt(vm, &limited)?.stdout;
    let maps = format!(
        "for p in $(cat {SLICE}/usual.service/cgroup.procs); do cat /proc/$p/numa_maps; done; tail -n 1 {LINES}"
    );
    ensure!(said.is_empty(), "{said}{}", vm.run(&maps)?);
    Ok(())
}

/// Ends the daemon, with leave to tidy up or without: it is over, and it was not the kernel's doing.
fn end(vm: &Vm, pid: u32, signal: &str, free: f64) -> Result<()> {
    let status = signal_weir(vm, pid, signal)?;
    let said = vm.run(&format!("cat {LINES}.err"))?;
    let wanted = if signal == "KILL" { 137 } else { 0 };
    ensure!(status == wanted, "weir ended with {status}: {said}");
    ensure!(!said.contains("took weir's scheduler out"), "{said}");
    is_over(vm, free)?;
    ends_with(vm, 0, "weir reset")?;
    let bad = "dmesg | grep -E 'sched_ext: .*(stall|error)|BUG:|WARNING:|blocked for more'";
    let bad = attempt(vm, bad)?.stdout;
    ensure!(bad.is_empty(), "the kernel complains: {bad}");
    Ok(())
}

/// Tasks that use all CPUs, of this niceness.
fn start_hogs(vm: &Vm, name: &str, count: usize, nice: u32) -> Result<String> {
    let path = make_cgroup(vm, name)?;
    for _ in 0..count {
        start_in(
            vm,
            &path,
            &format!("sh -c \"renice -n {nice} -p $$; while :; do :; done\""),
        )?;
    }
    until(vm, has_processes(&path, count))?;
    Ok(path)
}

/// CPU time of one cgroup for each second of another's, over so many seconds.
fn cpu_ratio(vm: &Vm, one: &str, other: &str, sec: u32) -> Result<f64> {
    let read =
        format!("for f in {one} {other}; do sed -n 's/usage_usec //p' $f/cpu.stat; done; sleep");
    let text = vm.run(&format!("{read} {sec}; {read} 0"))?;
    let numbers: Vec<f64> = text.lines().filter_map(|l| l.parse().ok()).collect();
    let [a, b, c, d] = numbers[..] else {
        anyhow::bail!("no four numbers: {text}");
    };
    Ok((c - a) / (d - b).max(1.0))
}

/// What distinguishes the first two: to the queue in order of arrival niceness is nothing, to virtual time
/// all (nine to one for ten steps).
fn a_queue_slows_by_slices(vm: &Vm, backend: &str, signal: &str, alone: f64) -> Result<()> {
    let usual = start_hogs(vm, "usual", 2, 0)?;
    let nice = start_hogs(vm, "nice", 2, 10)?;
    let free = bytes_per_sec(vm, 2)?;
    let pid = start(vm, backend, &["usual", "nice"])?;
    vm.run("sleep 1")?;
    let held = bytes_per_sec(vm, 3)?;
    let ratio = cpu_ratio(vm, &usual, &nice, 3)?;
    println!(
        "{backend}: {free:.0} bytes a second without, {held:.0} with, {SET_POINT_BYTES:.0} wanted; \
         niceness 0 has {ratio:.2} times the CPU time of niceness 10"
    );
    others_are_free(vm)?;
    ensure!(held < 0.75 * free, "not slowed: {held} instead of {free}");
    ensure!(
        held > 0.02 * free,
        "hardly anything runs: {held} of {free} bytes"
    );
    match backend {
        "thesis-scx" => ensure!((0.7..1.5).contains(&ratio), "not round-robin: {ratio}"),
        _ => ensure!(ratio > 3.0, "not by weight: {ratio}"),
    }
    empty_cgroup(vm, &usual)?;
    empty_cgroup(vm, &nice)?;
    end(vm, pid, signal, alone)
}

/// What distinguishes the third: it holds where a CPU is to spare. Where none is, a task in the throttle
/// queue has nothing at all: the thesis does not run it. Those tasks run again when the daemon is killed.
fn the_throttle_queue_parks(vm: &Vm, alone: f64) -> Result<()> {
    let one = start_hogs(vm, "usual", 1, 0)?;
    let pid = start(vm, "thesis-scx-throttle", &["usual"])?;
    vm.run("sleep 1")?;
    let held = bytes_per_sec(vm, 5)?;
    let more = start_hogs(vm, "nice", 3, 0)?;
    vm.run("sleep 1")?;
    let parked = bytes_per_sec(vm, 3)?;
    println!(
        "throttle queue: {alone:.0} bytes a second without, {held:.0} beside one busy task, {parked:.0} beside four, \
         {SET_POINT_BYTES:.0} wanted"
    );
    others_are_free(vm)?;
    ensure!(
        held < 0.5 * alone,
        "not slowed: {held} instead of {alone} bytes"
    );
    ensure!(
        held > 0.2 * SET_POINT_BYTES,
        "hardly anything runs: {held} bytes"
    );
    ensure!(parked < 0.2 * held, "let in: {parked} of {held} bytes");
    signal_weir(vm, pid, "KILL")?;
    until(vm, state("disabled"))?;
    empty_cgroup(vm, &one)?;
    empty_cgroup(vm, &more)?;
    is_over(vm, alone)?;
    ends_with(vm, 0, "weir reset").map(drop)
}

/// What the readers have once they are under way, in bytes a second.
fn all_they_can_get(vm: &Vm) -> Result<f64> {
    let mut alone = 0.0;
    for _ in 0..60 {
        alone = bytes_per_sec(vm, 2)?;
        if alone > 4.0 * SET_POINT_BYTES {
            return Ok(alone);
        }
    }
    anyhow::bail!("the readers do not overload the device: {alone} bytes a second")
}

/// They are documented as what they are, and `--help` offers them to no operator.
fn they_are_documented(vm: &Vm) -> Result<()> {
    let page = "/../../docs/explanation/scheduler-design.md";
    let page = format!("{}{page}", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&page).context(page)?;
    ensure!(page.contains("for comparison"), "what they are for");
    let help = vm.run("weir run --help")?;
    for name in VARIANTS {
        ensure!(page.contains(&format!("`{name}`")), "{name}: not in docs");
        ensure!(!help.contains(name), "{name}: in --help");
    }
    Ok(())
}

#[test]
fn the_thesis_schedules() -> Result<()> {
    let Some(bench) = Bench::ready("scx_thesis")? else {
        return Ok(());
    };
    let vm = &bench.guest()?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    mount_group(vm)?;
    start_readers(vm, &READERS)?;
    vm.switch_model_on()?;
    let alone = all_they_can_get(vm)?;
    let mut q = Questions::default();
    let mut ask = |name: &str, question: &dyn Fn(&Vm) -> Result<()>| {
        let tidy = format!("for g in usual nice; do echo 1 > {SLICE}/$g.service/cgroup.kill; done");
        common::ask_about_scheduler(&mut q, vm, &tidy, name, question);
    };
    ask("they are documented", &they_are_documented);
    ask("round robin, ended", &|vm| {
        a_queue_slows_by_slices(vm, VARIANTS[0], "TERM", alone)
    });
    ask("virtual time, killed", &|vm| {
        a_queue_slows_by_slices(vm, VARIANTS[1], "KILL", alone)
    });
    ask("the throttle queue, killed", &|vm| {
        the_throttle_queue_parks(vm, alone)
    });
    ask("the throttle queue, ended", &|vm| {
        let pid = start(vm, VARIANTS[2], &[])?;
        end(vm, pid, "TERM", alone)
    });
    q.done()
}
