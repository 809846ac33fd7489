// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does weir's own scheduler do what it says, on a real kernel: it loads, it holds, no task starves,
//! and whatever ends it, every task runs under the kernel's own scheduler again? How *well* it holds a
//! set-point is measured by `weir-testbed live … --backend sched-ext`; here only what no noise can explain.

use crate::common::{
    self, Bench, LINES, MODULE, Questions, READ, SET_POINT, SLICE, attempt, bytes_per_sec,
    ends_with, load_weir, mount_group, signal_weir, start_readers, state, until,
};
use anyhow::{Context, Result, bail, ensure};
use std::time::Duration;
use weir_testbed::vm::Vm;
use weir_testbed::vm::condition::Condition;

fn limit() -> String {
    format!("--limit --set-point {SET_POINT} --backend sched-ext")
}

/// One reader is a threaded domain with threads in a cgroup below it, as those of virtual machines are.
fn make_threaded(vm: &Vm, name: &str) -> Result<()> {
    let domain = format!("{SLICE}/{name}.service");
    vm.run(&format!(
        "mkdir {domain}/vcpu0; echo threaded > {domain}/vcpu0/cgroup.type; \
         for i in $(cat {domain}/cgroup.threads); do echo $i > {domain}/vcpu0/cgroup.threads; done; \
         [ -z \"$(cat {domain}/cgroup.threads)\" ]"
    ))
    .map(drop)
}

/// A condition: all threads of a cgroup have the policy of this number (0: ordinary, 7: SCHED_EXT).
fn all_have(name: &str, policy: u32) -> Condition {
    Condition::EachThread {
        cgroup: format!("{SLICE}/{name}.service"),
        file: "sched".to_owned(),
        pattern: format!("policy * : * {policy}"),
    }
}

fn is_limited(vm: &Vm) -> Result<()> {
    until(vm, state("enabled"))?;
    for name in ["a", "b"] {
        until(vm, all_have(name, 7))?;
    }
    Ok(())
}

fn is_free(vm: &Vm) -> Result<()> {
    until(vm, state("disabled"))?;
    for name in ["a", "b"] {
        until(vm, all_have(name, 0))?;
    }
    Ok(())
}

fn it_comes_and_goes(vm: &Vm) -> Result<()> {
    let pid = load_weir(vm, &limit())?;
    is_limited(vm)?;
    let ops = vm.run("cat /sys/kernel/sched_ext/root/ops; cat /sys/kernel/sched_ext/switch_all")?;
    ensure!(ops == "weir\n0\n", "not in partial mode: {ops}");
    let status = signal_weir(vm, pid, "TERM")?;
    ensure!(
        status == 0,
        "weir ended with {status}: {}",
        vm.run(&format!("cat {LINES}.err"))?
    );
    is_free(vm)?;
    let left = vm.run("ls /run/weir")?;
    ensure!(!left.contains("journal"), "left behind: {left}");
    let bad = attempt(
        vm,
        "dmesg | grep -E 'sched_ext: .*(stall|error)|BUG:|WARNING:'",
    )?
    .stdout;
    ensure!(bad.is_empty(), "the kernel complains: {bad}");
    Ok(())
}

/// The machine is otherwise idle, which is where the thesis's schedulers did nothing.
fn it_holds_an_idle_machine(vm: &Vm) -> Result<()> {
    let free = bytes_per_sec(vm, 2)?;
    common::nice_boost::watch(vm)?;
    let pid = load_weir(vm, &limit())?;
    is_limited(vm)?;
    vm.run("sleep 3")?;
    ensure!(
        free > 2.0 * 8.0 * 1_048_576.0,
        "the readers do not overload the device: {free}"
    );
    common::is_held(vm)?;
    let hurried = common::nice_boost::changes(vm)?;
    ensure!(
        hurried == 0,
        "discovery raised its priority {hurried} times"
    );
    signal_weir(vm, pid, "TERM")?;
    is_free(vm)
}

/// Run time of all limited workloads in seconds: by the scheduler's statistics, and by the kernel's.
fn run_sec(vm: &Vm) -> Result<(f64, f64)> {
    let text = vm.run(&format!(
        "cat {SLICE}/*.service/cpu.stat | sed -n 's/usage_usec //p'; bpftool -j map dump name workload_ctxs"
    ))?;
    let (usec, stats) = text.split_once('[').context("no statistics")?;
    let usec: f64 = usec.lines().filter_map(|l| l.parse::<f64>().ok()).sum();
    let slots: serde_json::Value = serde_json::from_str(&format!("[{stats}"))?;
    let slots = slots.as_array().context("no array")?;
    let ran = slots.iter().skip(1);
    let ns: f64 = ran
        .filter_map(|s| s["formatted"]["value"]["run_ns"].as_f64())
        .sum();
    Ok((ns / 1e9, usec / 1e6))
}

/// A workload is released in a third of the spans, and once it was in four of them.
const SPANS: u32 = 12;

/// Run time by the scheduler's statistics and by the kernel's, of a time in which no workload was released:
/// the statistics begin anew with each limit. Beside ordinary tasks a limited one waits, and is released; it
/// must be limited again, and keeps its limit longer each time. To read takes five seconds here, which count.
fn run_sec_while_limited(vm: &Vm) -> Result<(f64, f64)> {
    let released = || vm.run(&format!("grep -c released {LINES}.err || true"));
    for _ in 0..SPANS {
        is_limited(vm)?;
        let (count, before) = (released()?, run_sec(vm)?);
        vm.sleep(Duration::from_secs(2))?;
        let (after, later) = (run_sec(vm)?, released()?);
        if count == later {
            return Ok((after.0 - before.0, after.1 - before.1));
        }
        println!(
            "a workload was released meanwhile: {} releases",
            later.trim()
        );
    }
    bail!("a workload was released in each of {SPANS} spans")
}

/// Ordinary tasks interrupt limited ones all the time. A change of a running task (here its niceness) makes
/// it stop and run anew, from the CPU of the caller. The statistics are right all the same: which task ran,
/// where and for how long.
fn the_statistics_agree_with_the_kernel(vm: &Vm) -> Result<()> {
    let pid = load_weir(vm, &limit())?;
    is_limited(vm)?;
    // Ordinary tasks that interrupt limited ones all the time, and leave them CPU time: they come first in
    // partial mode, and to start a program takes a tenth of a second here.
    vm.run(&format!(
        "for cpu in 1 2; do taskset $cpu /tests/threads 2 20 > /dev/null 2>&1 < /dev/null & done
         touch /run/renice
         sh -c 'n=0; while [ -e /run/renice ]; do n=$((1 - n))
                renice -n $n -p $(cat $(find {SLICE} -name cgroup.threads)); sleep 0.5
                done' > /dev/null 2>&1 < /dev/null &
         sleep 2"
    ))?;
    let held = common::is_held_beside_ordinary_tasks(vm);
    let ran = run_sec_while_limited(vm);
    let events = vm.run("cat /sys/kernel/sched_ext/root/events")?;
    vm.run("killall threads; rm -f /run/renice; sleep 0.5")?;
    held?;
    let (stats, kernel) = ran?;
    // The statistics count interrupts in, which the kernel does not: 4 to 8 % at 25 million instructions a
    // second.
    println!("{stats:.3} s of run time by the scheduler, {kernel:.3} s by the kernel's");
    ensure!(
        (stats / kernel - 1.0).abs() < 0.2,
        "{stats} s by the scheduler, {kernel} s by the kernel's"
    );
    ensure!(
        events.contains("SCX_EV_ENQ_SKIP_MIGRATION_DISABLED 0\n"),
        "an interrupted task came back without an enqueue: {events}"
    );
    signal_weir(vm, pid, "TERM")?;
    is_free(vm)
}

fn killed_it_leaves_nothing(vm: &Vm) -> Result<()> {
    let pid = load_weir(vm, &limit())?;
    is_limited(vm)?;
    signal_weir(vm, pid, "KILL")?;
    // The kernel takes the scheduler out; the tasks run on, with a policy that now means nothing.
    until(vm, state("disabled"))?;
    let free = bytes_per_sec(vm, 2)?;
    ensure!(free > 2.0 * 8.0 * 1_048_576.0, "still held: {free}");
    ends_with(vm, 0, "weir reset")?;
    is_free(vm)
}

/// A daemon that hangs must not hold any workload for long.
fn silent_it_lets_go(vm: &Vm) -> Result<()> {
    let pid = load_weir(vm, &limit())?;
    is_limited(vm)?;
    vm.run("sleep 2")?;
    let held = bytes_per_sec(vm, 2)?;
    vm.run(&format!("kill -STOP {pid}; sleep 3"))?;
    let open = bytes_per_sec(vm, 2)?;
    vm.run(&format!("kill -CONT {pid}"))?;
    ensure!(
        open > 1.5 * held,
        "{held} before, {open} while the daemon hangs"
    );
    signal_weir(vm, pid, "TERM")?;
    is_free(vm)
}

/// The scheduler alone, with a daemon that stands still, and a device that is taken from the driver: its
/// counters are tried ever less often, and not at each tick.
fn what_does_not_answer_is_tried_seldom(vm: &Vm) -> Result<()> {
    let pid = load_weir(vm, &limit())?;
    is_limited(vm)?;
    vm.run("sleep 1")?;
    let counts = || -> Result<(u64, u64)> {
        let all = common::json(vm, "bpftool -j map dump name device_ctxs")?;
        let word = |name: &str| all[0]["formatted"]["value"][name].as_u64();
        word("lost").zip(word("failed_reads")).context("no counts")
    };
    let before = counts()?;
    let driver = "/sys/bus/pci/drivers/weir_cxl";
    let device = vm.run(&format!("cd {driver}; echo 0000:*"))?;
    let device = device.trim();
    vm.run(&format!(
        "kill -STOP {pid}; echo {device} > {driver}/unbind; sleep 0.5"
    ))?;
    let after = counts()?;
    vm.run(&format!("echo {device} > {driver}/bind; kill -CONT {pid}"))?;
    let (lost, tries) = (after.0 - before.0, after.1 - before.1);
    println!("not read at {lost} ticks, {tries} tries");
    ensure!(
        tries > 3 && lost > 10 * tries,
        "{lost} ticks, {tries} tries"
    );
    signal_weir(vm, pid, "TERM")?;
    is_free(vm)
}

/// Thrown out by the kernel (here by hand, SysRq-S), weir says so, and nothing is lost.
fn thrown_out_it_says_so(vm: &Vm) -> Result<()> {
    let pid = load_weir(vm, &limit())?;
    is_limited(vm)?;
    vm.run("echo 1 > /proc/sys/kernel/sysrq; echo S > /proc/sysrq-trigger")?;
    until(vm, common::said("took * scheduler out"))?;
    is_free(vm)?;
    let status = signal_weir(vm, pid, "TERM")?;
    ensure!(status == 0, "weir ended with {status}");
    is_free(vm)
}

fn another_scheduler_is_left_alone(vm: &Vm) -> Result<()> {
    vm.run("bpftool struct_ops register /tests/partial.bpf.o /sys/fs/bpf/scx")?;
    until(vm, state("enabled"))?;
    let text = ends_with(vm, 69, &format!("weir run {} --duration 1s", limit()))?;
    ensure!(
        text.contains("partial_test") && text.contains("--backend cpu-max"),
        "{text}"
    );
    let text = ends_with(vm, 0, "weir doctor")?;
    ensure!(text.contains("partial_test"), "{text}");
    vm.run("rm -r /sys/fs/bpf/scx")?;
    until(vm, state("disabled"))
}

/// One word of the scheduler's own statistics, largest over all workloads.
fn most(vm: &Vm, word: &str) -> Result<u64> {
    let slots = common::json(vm, "bpftool -j map dump name workload_ctxs")?;
    let slots = slots.as_array().context("no array")?;
    let words = slots
        .iter()
        .filter_map(|s| s["formatted"]["value"][word].as_u64());
    words
        .max()
        .with_context(|| format!("no {word} in workload_ctxs"))
}

/// A workload of many tasks far above its budget: each of them runs.
fn no_task_waits_for_long(vm: &Vm) -> Result<()> {
    let many = format!("{SLICE}/many.service");
    let fio = "fio --name=many --filename=/cxl0/many --thread --numjobs=16 --ioengine=mmap --rw=randread \
               --bs=64k --size=16m --time_based --runtime=3600 --norandommap --disk_util=0";
    common::start_on_device(vm, &[("many", fio.to_owned())], common::ALL)?;
    let pid = load_weir(vm, &limit())?;
    is_limited(vm)?;
    until(vm, all_have("many", 7))?;
    vm.run("sleep 10")?;
    let (worst, parks, starvation_runs) = (
        most(vm, "worst_ns")?,
        most(vm, "parks")?,
        most(vm, "starvation_runs")?,
    );
    println!(
        "16 tasks of one workload: longest wait {worst} ns, {parks} times parked, {starvation_runs} runs in debt"
    );
    ensure!(parks > 100, "no task was parked");
    ensure!(
        worst < 5_000_000_000,
        "a task waited for {worst} ns; the watchdog waits for 10 s"
    );
    common::empty_cgroup(vm, &many)?;
    signal_weir(vm, pid, "TERM")?;
    is_free(vm)
}

/// Mean time of one call, by callback, since statistics were switched on.
fn call_ns(vm: &Vm, scheduler: &str) -> Result<Vec<(String, f64, u64)>> {
    let all = common::json(vm, "bpftool -j prog show")?;
    let mut found = Vec::new();
    for prog in all.as_array().context("no array")? {
        let name = prog["name"].as_str().unwrap_or_default();
        let (Some(ns), Some(count)) = (prog["run_time_ns"].as_u64(), prog["run_cnt"].as_u64())
        else {
            continue;
        };
        if let Some(callback) = name.strip_prefix(scheduler)
            && count > 0
        {
            found.push((callback.to_owned(), ns as f64 / count as f64, count));
        }
    }
    Ok(found)
}

/// Time in all callbacks for each time a task began to run.
fn switch_ns(found: &[(String, f64, u64)]) -> f64 {
    let per_switch = found.iter().filter(|(name, ..)| name != "init");
    let all: f64 = per_switch.map(|(_, ns, count)| ns * *count as f64).sum();
    let runs = found.iter().find(|(name, ..)| name == "running");
    all / runs.map_or(1.0, |(_, _, count)| *count as f64)
}

/// Added cost of a decision, against the least a scheduler can do, with the same work: the readers stand
/// still, or they would compete with it in one case and not in the other.
fn what_a_decision_costs(vm: &Vm) -> Result<()> {
    let work = "chrt --ext 0 stress-ng --switch 2 --timeout 4 > /dev/null 2>&1";
    common::freeze(vm, true)?;
    vm.run("echo 1 > /proc/sys/kernel/bpf_stats_enabled")?;
    vm.run("bpftool struct_ops register /tests/fifo.bpf.o /sys/fs/bpf/scx")?;
    until(vm, state("enabled"))?;
    vm.run(work)?;
    let least = call_ns(vm, "fifo_")?;
    vm.run("rm -r /sys/fs/bpf/scx")?;
    until(vm, state("disabled"))?;
    common::freeze(vm, false)?;
    vm.run("echo 0 > /proc/sys/kernel/bpf_stats_enabled")?;
    let pid = load_weir(vm, &limit())?;
    is_limited(vm)?;
    common::freeze(vm, true)?;
    vm.run("echo 1 > /proc/sys/kernel/bpf_stats_enabled")?;
    vm.run(work)?;
    let ours = call_ns(vm, "weir_")?;
    vm.run("echo 0 > /proc/sys/kernel/bpf_stats_enabled")?;
    common::freeze(vm, false)?;
    signal_weir(vm, pid, "TERM")?;
    is_free(vm)?;
    for (callback, ns, count) in &ours {
        let of = least.iter().find(|(name, _, _)| name == callback);
        let ratio = of.map_or(String::new(), |(_, least, _)| {
            format!(", {:.2} times the least ({least:.0} ns)", ns / least)
        });
        println!("{callback}: {ns:.0} ns in {count} calls{ratio}");
    }
    println!(
        "a switch: {:.0} ns in all callbacks, {:.0} ns at least: {least:?}",
        switch_ns(&ours),
        switch_ns(&least)
    );
    for callback in ["enqueue", "dispatch", "running", "stopping"] {
        let there = |found: &[(String, f64, u64)]| {
            found
                .iter()
                .any(|(name, _, count)| name == callback && *count > 100)
        };
        ensure!(
            there(&least) && there(&ours),
            "{callback} was not called: {least:?} {ours:?}"
        );
    }
    Ok(())
}

#[test]
fn weir_schedules_those_it_limits() -> Result<()> {
    let Some(bench) = Bench::ready("scx")? else {
        return Ok(());
    };
    let vm = &bench.guest()?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    mount_group(vm)?;
    start_readers(vm, &["a", "b"])?;
    make_threaded(vm, "b")?;
    vm.switch_model_on()?;
    until(
        vm,
        &format!("a=$(cat {READ}); sleep 1; [ $(($(cat {READ}) - a)) -gt 20000000 ]"),
    )?;
    let mut q = Questions::default();
    let mut ask = |name: &str, question: &dyn Fn(&Vm) -> Result<()>| {
        common::ask_about_scheduler(&mut q, vm, "rm -rf /sys/fs/bpf/scx", name, question);
    };
    ask("it comes and goes", &it_comes_and_goes);
    ask("it holds an idle machine", &it_holds_an_idle_machine);
    ask(
        "the statistics agree with the kernel's",
        &the_statistics_agree_with_the_kernel,
    );
    ask("no task waits for long", &no_task_waits_for_long);
    ask("what a decision costs", &what_a_decision_costs);
    ask("a daemon that is killed", &killed_it_leaves_nothing);
    ask("a daemon that hangs", &silent_it_lets_go);
    ask(
        "a device that is silent",
        &what_does_not_answer_is_tried_seldom,
    );
    ask("thrown out by the kernel", &thrown_out_it_says_so);
    ask(
        "another scheduler is there",
        &another_scheduler_is_left_alone,
    );
    q.done()
}
