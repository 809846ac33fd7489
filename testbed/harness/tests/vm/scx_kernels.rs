// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weir's scheduler on other kernels than the environment's: a newer one, the first that will do, the last
//! that is too old, and one without sched_ext. Does the verifier take each rule, and what does it cost it;
//! does it hold; where it cannot be used, does weir say so and change nothing? Its details are tested in
//! `scx.rs` and `scx_full.rs`.

use crate::common::evidence::Evidence;
use crate::common::{
    self, Bench, LINES, MODULE, Questions, SET_POINT, SLICE, STATE, aside, ask_one, attempt,
    bytes_per_sec, ends_with, holds, json, load_weir, mount_group, signal_weir, start_readers,
    state, until,
};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use weir_testbed::guest_env::other_kernels::{FIRST, KernelSeries, NEWER, TOO_OLD, WITHOUT};
use weir_testbed::vm::Vm;
use weir_testbed::vm::condition::Condition;

const RULES: [&str; 5] = [
    "sched-ext",
    "sched-ext-full",
    "thesis-scx",
    "thesis-scx-vtime",
    "thesis-scx-throttle",
];
/// The verifier gives up at a million; another kernel may check each program longer.
const INSTRUCTIONS_MAX: u64 = 250_000;
const SET_POINT_BYTES: f64 = 8.0 * 1_048_576.0;

fn arguments(rule: &str) -> String {
    format!("--limit --set-point {SET_POINT} --backend {rule}")
}

/// Instructions that the verifier went through, by program, as the kernel shows to a process that holds the
/// program open.
fn verified(vm: &Vm, pid: u32) -> Result<BTreeMap<String, u64>> {
    let read = format!(
        "for f in /proc/{pid}/fdinfo/*; do sed -n 's/^prog_id:\\t/id /p; s/^verified_insns:\\t/of /p' $f; done"
    );
    let read = vm.run(&read)?;
    // After it: weir loads some beside, and one that it has just loaded must have a name.
    let all = json(vm, "bpftool -j prog show")?;
    let names: BTreeMap<u64, &str> = all
        .as_array()
        .context("no array")?
        .iter()
        .filter_map(|p| p["id"].as_u64().zip(p["name"].as_str()))
        .collect();
    let mut found = BTreeMap::new();
    let mut program = None;
    for line in read.lines() {
        match line.split_once(' ') {
            Some(("id", id)) => program = names.get(&id.parse()?),
            Some(("of", count)) => {
                let name = program
                    .take()
                    .with_context(|| format!("which program is {line}?"))?;
                found.insert((*name).to_owned(), count.parse()?);
            }
            _ => {}
        }
    }
    Ok(found)
}

/// It loads, costs the verifier little, holds the device, of which unlimited readers take seven times the
/// set-point, and goes.
fn it_is_taken(vm: &Vm, rule: &str, report: &mut dyn FnMut(String)) -> Result<()> {
    let pid = load_weir(vm, &arguments(rule))?;
    until(vm, state("enabled"))?;
    common::both_are_limited(vm)?;
    let counts = verified(vm, pid)?;
    report(format!("{rule}: instructions verified: {counts:?}"));
    ensure!(counts.len() > 8, "not all programs: {counts:?}");
    for (name, count) in &counts {
        ensure!(
            (1..INSTRUCTIONS_MAX).contains(count),
            "{name}: {count} instructions"
        );
    }
    if !rule.starts_with("thesis") {
        vm.run("sleep 3")?;
        let held = bytes_per_sec(vm, 6)?;
        report(format!(
            "{rule}: {held:.0} bytes a second, {SET_POINT_BYTES:.0} wanted"
        ));
        println!("{rule}: {}", common::newest(vm)?["scheduler"]["devices"]);
        ensure!(
            (0.5..1.5).contains(&(held / SET_POINT_BYTES)),
            "{held} instead of {SET_POINT_BYTES}"
        );
    }
    let status = signal_weir(vm, pid, "TERM")?;
    let said = vm.run(&format!("cat {LINES}.err"))?;
    ensure!(status == 0, "weir ended with {status}: {said}");
    ensure!(!said.contains("took weir's scheduler out"), "{said}");
    until(vm, state("disabled"))?;
    let bad = "dmesg | grep -E 'sched_ext: .*(stall|error)|BUG:|WARNING:'";
    let bad = attempt(vm, bad)?.stdout;
    ensure!(bad.is_empty(), "the kernel complains: {bad}");
    Ok(())
}

/// Where no driver is to be had: the device's counters as the thesis's module shows them
/// (`tests/guest/dump.c`). The scheduler goes by intensity and run time alone, as the kernel counts nothing
/// for it.
const COUNTER_DUMP: &str = r#"set -e
mount -t tmpfs dump /sys/kernel/debug
mkdir /sys/kernel/debug/cxl-counter-driver
file=/sys/kernel/debug/cxl-counter-driver/counter-dump
bars=$(grep -l 0x1110 /sys/bus/pci/devices/*/device | sed 's/device$/resource2/')
/tests/dump $file $bars > /run/copy.txt 2>&1 < /dev/null &
until [ -e $file ]; do kill -0 $!; sleep 0.05; done
"#;

/// A guest with two readers that would take many times the set-point.
fn with_readers(bench: &Bench) -> Result<Vm> {
    let vm = bench.guest()?;
    match bench.driver() {
        Ok(_) => vm.run(&format!("insmod {MODULE}")).context("no driver")?,
        Err(_) => vm.run(COUNTER_DUMP).context("no counters")?,
    };
    mount_group(&vm)?;
    start_readers(&vm, &["a", "b"])?;
    vm.switch_model_on()?;
    println!("{}", vm.run("uname -r")?.trim());
    Ok(vm)
}

/// These rules are taken by the kernel of `series`.
fn are_taken(
    test: &str,
    series: KernelSeries,
    rules: &[&str],
    report: &mut dyn FnMut(String),
) -> Result<()> {
    let Some(bench) = on(test, series)? else {
        return Ok(());
    };
    let vm = &with_readers(&bench)?;
    let mut q = Questions::default();
    for rule in rules {
        common::ask_about_scheduler(&mut q, vm, "true", rule, |vm| it_is_taken(vm, rule, report));
    }
    q.done()
}

#[test]
fn a_newer_one() -> Result<()> {
    let report = &mut |said| println!("{said}");
    are_taken("scx_kernels: newer", NEWER, &RULES[1..2], report)
}

#[test]
fn the_first_that_will_do() -> Result<()> {
    let report = &mut |said| println!("{said}");
    are_taken("scx_kernels: first", FIRST, &RULES[1..2], report)
}

#[test]
#[ignore = "soak: every rule on two more kernels"]
fn soak_scx_kernels() -> Result<()> {
    let mut evidence = Evidence::of("scx_kernels");
    let mut verdict = Ok(());
    for series in [NEWER, FIRST] {
        let report = &mut |said| evidence.say(format!("{}: {said}", series.version));
        let one = are_taken("scx_kernels, soak", series, &RULES, report);
        verdict = verdict.and(one);
    }
    evidence.write(verdict)
}

/// Every rule is refused with `why`, and nothing is changed; `auto` limits by `cpu.max`.
fn all_rules_are_refused(bench: &Bench, why: &str) -> Result<()> {
    let vm = &with_readers(bench)?;
    ask_one("all rules", || they_are_refused(vm, why))
}

fn they_are_refused(vm: &Vm, why: &str) -> Result<()> {
    aside(vm, || {
        for rule in RULES {
            let run = format!("weir run {} --duration 1s", arguments(rule));
            let said = ends_with(vm, 69, &run)?;
            ensure!(
                said.contains(why) && said.contains("--backend cpu-max"),
                "{rule}: {said}"
            );
        }
        let said = ends_with(vm, 0, "weir doctor")?;
        ensure!(said.contains(why), "{said}");
        Ok(())
    })?;
    let limits = format!("cat {SLICE}/[ab].service/cpu.max");
    let unlimited = "max 100000\nmax 100000\n";
    ensure!(vm.run(&limits)? == unlimited, "a workload is limited");
    let pid = load_weir(vm, &arguments("auto"))?;
    until(vm, &format!("! {limits} | grep -q max"))?;
    let is_there = Condition::Exists(STATE.to_owned());
    let off = Condition::Any(vec![!is_there, state("disabled")]);
    ensure!(holds(vm, &off)?, "weir's scheduler is in the kernel");
    let status = signal_weir(vm, pid, "TERM")?;
    ensure!(status == 0, "weir ended with {status}");
    let left = vm.run(&limits)?;
    ensure!(left == unlimited, "left behind: {left}");
    Ok(())
}

fn on(test: &str, series: KernelSeries) -> Result<Option<Bench>> {
    match Bench::ready(test)? {
        Some(bench) => bench.with_kernel(test, series),
        None => Ok(None),
    }
}

#[test]
fn one_that_is_too_old() -> Result<()> {
    let bench = on("scx_kernels: too old", TOO_OLD)?;
    bench.map_or(Ok(()), |bench| all_rules_are_refused(&bench, "needs 7.0"))
}

#[test]
fn one_without_sched_ext() -> Result<()> {
    let bench = on("scx_kernels: without sched_ext", WITHOUT)?;
    bench.map_or(Ok(()), |bench| {
        all_rules_are_refused(&bench, "CONFIG_SCHED_CLASS_EXT")
    })
}
