// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `weir profile record` costs a machine with 100 workloads, beside `weir run`: CPU time and memory of
//! weir, bytes of its file, and how much longer two pieces of work take. The guest's time is that of
//! instructions, 40 ns each, so figures repeat, and say nothing of caches. Prints figures and checks none but
//! that something was counted. Run by hand:
//!
//! ```text
//! cargo test --release -p weir-testbed --test vm -- --ignored --nocapture soak_profile_cost
//! ```

use crate::common::evidence::Evidence;
use crate::common::{
    Bench, MODULE, SLICE, filled, make_cgroup, mount_group, start_in, start_readers, until,
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::Duration;
use weir_scenario::testbed::{CoreEvents, TestbedMachine};
use weir_testbed::guest_env::kernel_modules;
use weir_testbed::live::guest::load_core;
use weir_testbed::vm::condition::Condition;
use weir_testbed::vm::{BootOptions, GuestFile, Vm};

const WORKLOADS: usize = 100;
const MEASURED_SEC: u64 = 30;
/// How often each piece of work is done with a profile, and as often without, by turns.
const TURNS: usize = 3;
/// Work of a cgroup of its own: one computes, one gives up its CPU all the time.
const WORK: [(&str, &str); 2] = [
    (
        "computing",
        "stress-ng --cpu 1 --cpu-method int64 --cpu-ops 2000",
    ),
    ("switching", "stress-ng --switch 1 --switch-ops 400000"),
];
const RUN: &str = "weir run --interval 1s > /dev/null 2> /run/run.err < /dev/null";

fn boot(bench: &Bench) -> Result<Vm> {
    let core = kernel_modules::build_guest_pmu(&bench.env, &mut |line| println!("{line}"))?;
    let files = vec![GuestFile::new(core, "lib/weir_guest_pmu.ko")];
    let machine = TestbedMachine {
        cpu_count: 4,
        dram_mib: 1024,
        core_events: Some(CoreEvents::GraniteRapids),
        ..crate::common::machine_with_a_device()
    };
    let vm = bench.boot(&machine, files, &BootOptions::default())?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    load_core(&vm)?;
    mount_group(&vm)?;
    Ok(vm)
}

fn name(number: usize) -> String {
    format!("w{number:02}")
}

/// A process each, which wakes up once a second; the first reads the device all the time.
fn start_workloads(vm: &Vm) -> Result<()> {
    start_readers(vm, &[&name(0)])?;
    for number in 1..WORKLOADS {
        let path = make_cgroup(vm, &name(number))?;
        start_in(vm, &path, "sh -c \"while :; do sleep 1; done\"")?;
    }
    Ok(())
}

/// Starts a program of weir's and hands back its process.
fn start(vm: &Vm, command: &str) -> Result<u32> {
    let pid = vm.run(&format!("{command} & echo $!"))?;
    pid.trim()
        .parse()
        .with_context(|| format!("{command}: {pid}"))
}

fn record(file: &str, workloads: usize) -> String {
    let cgroups: String = (0..workloads)
        .map(|number| format!(" --cgroup work.slice/{}.service", name(number)))
        .collect();
    format!(
        "rm -f {file}; exec weir profile record {file} --interval 1s{cgroups} > /dev/null 2> {file}.err < /dev/null"
    )
}

/// CPU time of a process so far, all threads, in nanoseconds.
fn cpu_ns(vm: &Vm, pid: u32) -> Result<f64> {
    let sum = format!(
        "cat /proc/{pid}/task/*/schedstat | awk '{{ s += $1 }} END {{ printf \"%.0f\", s }}'"
    );
    Ok(vm.run(&sum)?.trim().parse()?)
}

/// Memory of a process: all of it, and what is no page of its program's file.
fn memory(vm: &Vm, pid: u32) -> Result<String> {
    let status = vm.run(&format!("cat /proc/{pid}/status"))?;
    let mib = |field: &str| -> Result<f64> {
        let line = status.lines().find(|line| line.starts_with(field));
        let kib = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(kib.with_context(|| field.to_owned())?.parse::<f64>()? / 1024.0)
    };
    Ok(format!(
        "{:.1} MiB, {:.1} of them no file",
        mib("VmRSS")?,
        mib("RssAnon")?
    ))
}

/// Percent of one CPU that a process takes.
fn cpu_percent(vm: &Vm, pid: u32) -> Result<f64> {
    let (before, begun) = (cpu_ns(vm, pid)?, vm.now());
    vm.sleep(Duration::from_secs(MEASURED_SEC))?;
    Ok((cpu_ns(vm, pid)? - before) / (vm.now() - begun).as_secs_f64() / 1e7)
}

fn begin(vm: &Vm, file: &str, workloads: usize) -> Result<u32> {
    let pid = start(vm, &format!("sh -c '{}'", record(file, workloads)))?;
    until(vm, filled(file))
        .inspect_err(|_| println!("{:?}", vm.run(&format!("cat {file}.err"))))?;
    Ok(pid)
}

fn end(vm: &Vm, pid: u32) -> Result<()> {
    vm.run(&format!("kill -TERM {pid}"))?;
    until(vm, !Condition::Exists(format!("/proc/{pid}")))
}

/// Time of a piece of work in a cgroup of its own, in seconds of the guest, as the guest has it: the harness
/// notices the end of a command some tenths of a second later.
fn work_sec(vm: &Vm, work: &str) -> Result<f64> {
    let path = make_cgroup(vm, "work")?;
    let took = vm.run(&format!(
        "sh -c 'echo $$ > {path}/cgroup.procs; read a x < /proc/uptime; {work} > /run/work.txt 2>&1 || exit; \
         read b x < /proc/uptime; echo $a $b'"
    ))?;
    let (begun, ended) = took.trim().split_once(' ').with_context(|| took.clone())?;
    Ok(ended.parse::<f64>()? - begun.parse::<f64>()?)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn weirs_own(vm: &Vm, evidence: &mut Evidence) -> Result<()> {
    let run = start(vm, RUN)?;
    vm.sleep(Duration::from_secs(10))?;
    evidence.say(format!(
        "`weir run` alone: {:.2} % of a CPU, {}",
        cpu_percent(vm, run)?,
        memory(vm, run)?
    ));
    let file = "/run/hundred.windows";
    let profile = begin(vm, file, WORKLOADS)?;
    vm.sleep(Duration::from_secs(10))?;
    let percent = cpu_percent(vm, profile)?;
    let size: f64 = vm.run(&format!("stat -c %s {file}"))?.trim().parse()?;
    evidence.say(format!(
        "`weir profile record` of {WORKLOADS} cgroups every second beside it: {percent:.2} % of a CPU, {}, \
         {:.0} kB so far",
        memory(vm, profile)?,
        size / 1e3
    ));
    end(vm, profile)?;
    evidence.say(format!(
        "counts in a window of it: {} of a cgroup, as many as the guest's events allow",
        counts_of_a_cgroup(vm, file)?
    ));
    end(vm, run)
}

/// Counts that the first window with cgroups has of the first of them.
fn counts_of_a_cgroup(vm: &Vm, file: &str) -> Result<usize> {
    let text = vm.run(&format!("weir profile export {file} | head -n 3"))?;
    let windows = text.lines().skip(1).map(serde_json::from_str::<Value>);
    let windows: Vec<Value> = windows.collect::<Result<_, _>>()?;
    let counts = windows
        .iter()
        .find_map(|window| window["workloads"][0]["counts"].as_array());
    let counted = |count: &&Value| !count["value"]["Ok"].is_null();
    let count = counts
        .context("no cgroup is in the windows")?
        .iter()
        .filter(counted)
        .count();
    ensure!(count > 0, "nothing was counted: {text}");
    Ok(count)
}

fn a_file_of_eight(vm: &Vm, evidence: &mut Evidence) -> Result<()> {
    let file = "/run/eight.windows";
    let profile = begin(vm, file, 8)?;
    let size = || -> Result<f64> { Ok(vm.run(&format!("stat -c %s {file}"))?.trim().parse()?) };
    let (before, begun) = (size()?, vm.now());
    vm.sleep(Duration::from_secs(2 * MEASURED_SEC))?;
    let grown = size()? - before;
    let hours = (vm.now() - begun).as_secs_f64() / 3600.0;
    ensure!(grown > 0.0, "the file does not grow");
    evidence.say(format!(
        "a recording of 8 cgroups, a window a second: {:.2} MB an hour",
        grown / hours / 1e6
    ));
    end(vm, profile)
}

/// Each piece of work by turns: beside `weir run` alone, and beside a profile of all cgroups, its own too.
fn what_work_loses(vm: &Vm, evidence: &mut Evidence) -> Result<()> {
    let run = start(vm, RUN)?;
    make_cgroup(vm, "work")?;
    for (what, work) in WORK {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            without.push(work_sec(vm, work)?);
            let command = record("/run/work.windows", WORKLOADS);
            let command = command.replace(
                "record /run/work.windows",
                "record /run/work.windows --cgroup work.slice/work.service",
            );
            let profile = start(vm, &format!("sh -c '{command}'"))?;
            until(vm, filled("/run/work.windows"))?;
            with.push(work_sec(vm, work)?);
            end(vm, profile)?;
        }
        let (before, after) = (median(without.clone()), median(with.clone()));
        evidence.say(format!(
            "a {what} job ({work}) takes {:+.2} % longer with the profile: {before:.3} and {after:.3} s \
             (all: {without:.3?}, {with:.3?})",
            100.0 * (after / before - 1.0)
        ));
    }
    end(vm, run)
}

#[test]
#[ignore = "soak: what a profile costs a machine with 100 workloads"]
fn soak_profile_cost() -> Result<()> {
    let Some(bench) = Bench::ready("profile_cost")? else {
        return Ok(());
    };
    let vm = boot(&bench)?;
    start_workloads(&vm)?;
    let mut evidence = Evidence::of("profile_cost");
    let verdict = weirs_own(&vm, &mut evidence)
        .and_then(|()| a_file_of_eight(&vm, &mut evidence))
        .and_then(|()| what_work_loses(&vm, &mut evidence));
    vm.run(&format!("echo 1 > {SLICE}/cgroup.kill"))?;
    evidence.write(verdict)
}
