// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What does a limit do on this kernel? The facts of `cpu.max` that weir's back end rests on, shown
//! on the kernel itself: a quota holds on average, **every write refills it**, what the kernel
//! refuses, and that a limit of the leaf binds under a looser one above.
//!
//! Usage is taken per wall time of the guest and per period of `cpu.stat`; bounds are wide, since
//! this tests what happens and not how exactly. Source: kernel, `Documentation/scheduler/sched-bwc.rst`
//! and `tg_set_cfs_bandwidth()`.

use crate::common::{
    Bench, Questions, SLICE, attempt, empty_cgroup, machine_with_a_device, make_cgroup, start_in,
    until,
};
use anyhow::{Context, Result, ensure};
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::{BootOptions, Vm};

const TENTH: &str = "10000 100000";
const PERIODS: u64 = 30;
/// A limit with a period that is long beside what a shell takes to see a refill.
const SLOW_TENTH: &str = "50000 500000";
const REWRITES: u64 = 8;

struct Usage {
    cpu_usec: f64,
    periods: f64,
    wall_usec: f64,
}

impl Usage {
    fn now(vm: &Vm, path: &str) -> Result<Usage> {
        let text = vm.run(&format!(
            "cat {path}/cpu.stat; echo uptime $(cat /proc/uptime)"
        ))?;
        let value = |name: &str| {
            let mut words = text.lines().filter_map(|line| line.strip_prefix(name));
            let word = words.next().and_then(|rest| rest.split_whitespace().next());
            word.and_then(|w| w.parse::<f64>().ok())
                .with_context(|| format!("no {name} in {text}"))
        };
        Ok(Usage {
            cpu_usec: value("usage_usec ")?,
            periods: value("nr_periods ")?,
            wall_usec: value("uptime ")? * 1e6,
        })
    }

    fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            cpu_usec: self.cpu_usec - earlier.cpu_usec,
            periods: self.periods - earlier.periods,
            wall_usec: self.wall_usec - earlier.wall_usec,
        }
    }

    fn cpus(&self) -> f64 {
        self.cpu_usec / self.wall_usec
    }
}

fn start_spinner(vm: &Vm, name: &str) -> Result<String> {
    let path = make_cgroup(vm, name)?;
    start_in(vm, &path, "sh -c \"while :; do :; done\"")?;
    // A program takes a while to begin.
    until(
        vm,
        &format!("[ $(sed -n 's/usage_usec //p' {path}/cpu.stat) -gt 200000 ]"),
    )?;
    Ok(path)
}

/// What is used over some thirty periods of 100 ms, while `meanwhile` is done every `step`.
fn used(vm: &Vm, path: &str, meanwhile: &str, step_ms: u64) -> Result<Usage> {
    let before = Usage::now(vm, path)?;
    let steps = PERIODS * 100 / step_ms;
    vm.run(&format!(
        "for i in $(seq {steps}); do {meanwhile}; usleep {}; done",
        step_ms * 1000
    ))?;
    Ok(Usage::now(vm, path)?.since(&before))
}

fn a_quota_holds_on_average(vm: &Vm) -> Result<()> {
    let path = start_spinner(vm, "average")?;
    let free = used(vm, &path, ":", 100)?;
    vm.run(&format!("echo {TENTH} > {path}/cpu.max"))?;
    let held = used(vm, &path, ":", 100)?;
    let per_period = held.cpu_usec / held.periods;
    println!(
        "free {:.3} CPU; {TENTH}: {:.3} CPU, {per_period:.0} us a period",
        free.cpus(),
        held.cpus()
    );
    ensure!(
        free.cpus() > 0.5,
        "the spinner does not spin: {:.3} CPU",
        free.cpus()
    );
    ensure!(
        (0.05..0.15).contains(&held.cpus()),
        "{:.3} CPU",
        held.cpus()
    );
    ensure!(
        (5_000.0..15_000.0).contains(&per_period),
        "{per_period:.0} us a period"
    );
    empty_cgroup(vm, &path)
}

fn every_write_refills_the_quota(vm: &Vm) -> Result<()> {
    let path = start_spinner(vm, "refill")?;
    let mut last = 0.0;
    for step_ms in [200, 50] {
        vm.run(&format!("echo {TENTH} > {path}/cpu.max"))?;
        let used = used(
            vm,
            &path,
            &format!("echo {TENTH} > {path}/cpu.max"),
            step_ms,
        )?;
        println!(
            "{TENTH} rewritten every {step_ms} ms: {:.3} CPU",
            used.cpus()
        );
        ensure!(
            used.cpus() > last + 0.02,
            "rewriting more often gave no more"
        );
        last = used.cpus();
    }
    // The quota allows 0.10.
    ensure!(last > 0.17, "rewriting every 50 ms gave only {last:.3} CPU");
    empty_cgroup(vm, &path)
}

/// weir's remedy: a small quota loses little by a write.
fn short_periods_leak_less(vm: &Vm) -> Result<()> {
    let path = start_spinner(vm, "short")?;
    let mut cpus = Vec::new();
    for value in [TENTH, "2000 20000"] {
        vm.run(&format!("echo {value} > {path}/cpu.max"))?;
        let used = used(vm, &path, &format!("echo {value} > {path}/cpu.max"), 100)?;
        println!("{value} rewritten every 100 ms: {:.3} CPU", used.cpus());
        cpus.push(used.cpus());
    }
    ensure!(cpus[1] < cpus[0] - 0.02, "{cpus:?}");
    empty_cgroup(vm, &path)
}

/// Usage under a tenth that is rewritten at every second refill: `delay` is what passes between the
/// refill, as `nr_periods` shows it, and the write.
fn rewritten_after_the_refill(vm: &Vm, path: &str, delay: &str) -> Result<Usage> {
    vm.run(&format!("echo {SLOW_TENTH} > {path}/cpu.max"))?;
    let before = Usage::now(vm, path)?;
    vm.run(&format!(
        "last=0; writes=0
         while [ $writes -lt {} ]; do
             while read name value; do [ $name = nr_periods ] && count=$value; done < {path}/cpu.stat
             [ $count -lt $((last + 2)) ] && continue
             {delay}; echo {SLOW_TENTH} > {path}/cpu.max; writes=$((writes + 1)); last=$count
         done",
        REWRITES
    ))?;
    Ok(Usage::now(vm, path)?.since(&before))
}

/// weir's other remedy, and what it rests on: `nr_periods` goes up when the quota is refilled, and a
/// write just then gives next to nothing away.
fn a_write_just_after_the_refill_costs_little(vm: &Vm) -> Result<()> {
    let path = start_spinner(vm, "aligned")?;
    let later = rewritten_after_the_refill(vm, &path, "usleep 250000")?.cpus();
    let at_once = rewritten_after_the_refill(vm, &path, ":")?.cpus();
    println!(
        "{SLOW_TENTH} rewritten every second: {later:.3} CPU in mid-period, {at_once:.3} CPU just after the refill"
    );
    ensure!(at_once < later - 0.015, "{at_once:.3} and {later:.3} CPU");
    empty_cgroup(vm, &path)
}

fn what_the_kernel_refuses(vm: &Vm) -> Result<()> {
    let path = make_cgroup(vm, "refused")?;
    for (value, taken) in [
        ("1000 100000", true),
        ("999 100000", false),
        ("1000 1000", true),
        ("1000 999", false),
        ("1000 1000000", true),
        ("1000 1000001", false),
    ] {
        let reply = attempt(vm, &format!("echo {value} > {path}/cpu.max"))?;
        ensure!((reply.status == Some(0)) == taken, "{value}: {reply:?}");
    }
    // A quota below the burst: weir lowers the burst first and puts it back last.
    vm.run(&format!(
        "echo 50000 100000 > {path}/cpu.max; echo 20000 > {path}/cpu.max.burst"
    ))?;
    let below = attempt(vm, &format!("echo 10000 100000 > {path}/cpu.max"))?;
    ensure!(below.status != Some(0), "a quota below its burst was taken");
    let order = format!(
        "echo 0 > {path}/cpu.max.burst && echo 10000 100000 > {path}/cpu.max && \
         echo 50000 100000 > {path}/cpu.max && echo 20000 > {path}/cpu.max.burst"
    );
    vm.run(&order).map(drop)
}

/// Another's limit on the slice and weir's on the leaf: both hold, the tighter binds.
fn the_tighter_binds(vm: &Vm) -> Result<()> {
    let path = start_spinner(vm, "nested")?;
    vm.run(&format!(
        "echo 50000 100000 > {SLICE}/cpu.max; echo {TENTH} > {path}/cpu.max"
    ))?;
    let leaf = used(vm, &path, ":", 100)?.cpus();
    vm.run(&format!(
        "echo {TENTH} > {SLICE}/cpu.max; echo 50000 100000 > {path}/cpu.max"
    ))?;
    let slice = used(vm, &path, ":", 100)?.cpus();
    vm.run(&format!("echo max 100000 > {SLICE}/cpu.max"))?;
    println!(
        "a tenth at the leaf below a half: {leaf:.3} CPU; the other way round: {slice:.3} CPU"
    );
    ensure!(
        (0.05..0.15).contains(&leaf) && (0.05..0.15).contains(&slice),
        "{leaf:.3}, {slice:.3}"
    );
    empty_cgroup(vm, &path)
}

#[test]
fn cpu_max_is_what_weir_takes_it_for() -> Result<()> {
    let Some(bench) = Bench::ready("cpu_max")? else {
        return Ok(());
    };
    // Fast enough to see a refill when it happens.
    let machine = TestbedMachine {
        instruction_ps: 10_000,
        ..machine_with_a_device()
    };
    let vm = &bench.boot(&machine, vec![], &BootOptions::default())?;
    vm.switch_model_on()?;
    let mut q = Questions::default();
    q.ask("a quota holds on average", || a_quota_holds_on_average(vm));
    q.ask("every write refills the quota", || {
        every_write_refills_the_quota(vm)
    });
    q.ask("short periods leak less", || short_periods_leak_less(vm));
    q.ask("a write just after the refill costs little", || {
        a_write_just_after_the_refill_costs_little(vm)
    });
    q.ask("what the kernel refuses", || what_the_kernel_refuses(vm));
    q.ask("the tighter limit binds", || the_tighter_binds(vm));
    q.done()
}
