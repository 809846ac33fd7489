// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does weir say no clearly, and does it survive what it cannot prevent? Everything that can be
//! lacking on a host is taken away on a real kernel (the driver, CXL memory, root, the scheduler that
//! enforces `cpu.max`), first before weir starts and then under its feet. Each time it must name the
//! next move or go on, and no limit may be left behind.

use crate::common::{
    Bench, LINES, MODULE, Questions, SET_POINT, SLICE, ask_one, attempt, empty_cgroup, ends_with,
    is, last_line_says, load_weir, max_is, mount_group, next_line, said, says, signal_weir,
    snapshots, start_readers, state, until,
};
use anyhow::{Context, Result, ensure};
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::condition::Condition;
use weir_testbed::vm::{BootOptions, Vm};

const FREE: &str = "max 100000\n";
const DRIVER: &str = "/sys/bus/pci/drivers/weir_cxl";

fn limit() -> String {
    format!("--limit --set-point {SET_POINT}")
}

fn max(vm: &Vm, name: &str) -> Result<String> {
    vm.run(&format!("cat {SLICE}/{name}.service/cpu.max"))
}

/// A condition: the workload is under a limit.
fn limited(name: &str) -> Condition {
    !free(name)
}

fn free(name: &str) -> Condition {
    max_is(name, FREE.trim())
}

/// Sends weir SIGTERM: it must end well and leave nothing.
fn end(vm: &Vm, pid: u32) -> Result<()> {
    let status = signal_weir(vm, pid, "TERM")?;
    ensure!(
        status == 0,
        "weir ended with {status}: {}",
        vm.run(&format!("cat {LINES}.err"))?
    );
    let left = vm.run(&format!(
        "grep -L '^max' {SLICE}/*.service/cpu.max; ls /run/weir"
    ))?;
    ensure!(
        !left.contains("cpu.max") && !left.contains("journal"),
        "left behind: {left}"
    );
    Ok(())
}

/// After a question that failed, so that it does not spoil the next.
fn tidy(vm: &Vm) {
    let _ = vm.run(
        "killall -TERM weir; rm -rf /sys/fs/bpf/scx; sleep 2; killall -KILL weir; weir reset; true",
    );
}

fn without_the_driver(vm: &Vm) -> Result<()> {
    let text = ends_with(vm, 1, "weir doctor")?;
    ensure!(
        text.contains("weir's driver") && !text.contains("modprobe"),
        "the doctor has no next move that works here: {text}"
    );
    let report: serde_json::Value =
        serde_json::from_str(&attempt(vm, "weir doctor --json")?.stdout)?;
    ensure!(
        report["can_observe"] == false && report["can_limit"] == false,
        "{report}"
    );
    let text = ends_with(vm, 69, &format!("weir run {} --duration 1s", limit()))?;
    ensure!(text.contains("weir's driver"), "no next move: {text}");
    Ok(())
}

fn without_root(vm: &Vm) -> Result<()> {
    vm.run("echo nobody:x:65534:65534::/:/bin/sh >> /etc/passwd")?;
    let unprivileged = |command: &str| format!("su nobody -c '{command}'");
    ensure!(
        vm.run(&unprivileged("id -u"))?.trim() == "65534",
        "still root"
    );
    let text = ends_with(vm, 1, &unprivileged("weir doctor"))?;
    ensure!(
        text.contains("run weir as root"),
        "the doctor has no next move: {text}"
    );
    let text = ends_with(
        vm,
        77,
        &unprivileged(&format!("weir run {} --duration 1s", limit())),
    )?;
    ensure!(
        text.contains("ermission") && text.contains("root"),
        "no next move: {text}"
    );
    // Observing is allowed, but the counters are root's: missing, with the reason.
    let text = ends_with(vm, 0, &unprivileged("weir run --duration 1s"))?;
    ensure!(
        text.contains("cannot be read") && text.contains("ermission denied"),
        "{text}"
    );
    Ok(())
}

fn with_all_there(vm: &Vm) -> Result<()> {
    let text = ends_with(vm, 0, "weir doctor")?;
    ensure!(text.contains("weir can limit here"), "{text}");
    Ok(())
}

fn load(vm: &Vm, scheduler: &str) -> Result<()> {
    vm.run(&format!(
        "bpftool struct_ops register /tests/{scheduler}.bpf.o /sys/fs/bpf/scx"
    ))?;
    until(
        vm,
        is(
            "/sys/kernel/sched_ext/root/ops",
            &format!("{scheduler}_test"),
        ),
    )
}

fn unload(vm: &Vm) -> Result<()> {
    vm.run("rm -r /sys/fs/bpf/scx")?;
    until(vm, state("disabled"))
}

/// While a scheduler runs all tasks, `cpu.max` is not enforced: a limit would be a lie.
fn a_scheduler_that_runs_all(vm: &Vm) -> Result<()> {
    load(vm, "full")?;
    let text = ends_with(vm, 1, "weir doctor")?;
    ensure!(
        text.contains("full_test") && text.contains("partial mode"),
        "no next move: {text}"
    );
    let pid = load_weir(vm, &limit())?;
    until(vm, said("a.service: not limited *full_test"))?;
    // In a tick in which it gets no CPU nothing is known of it.
    until(vm, "weir explain --json a.service | grep -q not_enforced")?;
    ensure!(
        max(vm, "a")? == FREE && max(vm, "b")? == FREE,
        "limited all the same"
    );

    unload(vm)?;
    until(vm, limited("a"))?;
    until(vm, limited("b"))?;

    // Loaded over limits that are there: they do nothing any more, and weir does not pretend.
    load(vm, "full")?;
    next_line(vm)?;
    until(vm, last_line_says("full_test*cpu.max is not enforced"))?;
    unload(vm)?;
    until(vm, limited("a"))?;
    end(vm, pid)
}

fn a_scheduler_that_runs_some(vm: &Vm) -> Result<()> {
    load(vm, "partial")?;
    let text = ends_with(vm, 0, "weir doctor")?;
    ensure!(text.contains("partial_test"), "{text}");
    let pid = load_weir(vm, &limit())?;
    until(vm, limited("a"))?;
    end(vm, pid)?;
    unload(vm)
}

/// The last snapshot of a weir process that must be alive.
fn last(vm: &Vm, pid: u32) -> Result<serde_json::Value> {
    next_line(vm)?;
    vm.run(&format!("kill -0 {pid}"))?;
    snapshots(vm)?.pop().context("no snapshot")
}

fn a_cgroup_goes_away(vm: &Vm) -> Result<()> {
    let pid = load_weir(vm, &limit())?;
    until(vm, limited("a"))?;
    until(vm, limited("b"))?;
    let b = format!("{SLICE}/b.service");
    empty_cgroup(vm, &b)?;
    vm.run(&format!("rmdir {b}"))?;
    let seen = last(vm, pid)?;
    ensure!(
        seen["skipped_total"].as_u64() > Some(0),
        "not counted: {seen}"
    );
    let named = says(LINES, "\"skipped\":[*/work.slice/b.service");
    until(vm, named).context("not named")?;
    let ids = |s: &serde_json::Value| s["plan"]["workloads"].to_string();
    ensure!(
        !ids(&seen).contains("b.service") && ids(&seen).contains("a.service"),
        "{seen}"
    );
    end(vm, pid)?;
    start_readers(vm, &["b"])
}

fn a_process_goes_away(vm: &Vm) -> Result<()> {
    let pid = load_weir(vm, &format!("--workloads process {}", limit()))?;
    until(vm, limited("a"))?;
    let b = format!("{SLICE}/b.service");
    until(vm, limited("b"))?;
    empty_cgroup(vm, &b)?;
    let seen = last(vm, pid)?;
    ensure!(
        seen["skipped_total"].as_u64() > Some(0),
        "not counted: {seen}"
    );
    // The cgroup stays, and what others had set in it must come back.
    until(vm, free("b"))?;
    end(vm, pid)?;
    start_readers(vm, &["b"])
}

fn the_counters_go_away(vm: &Vm) -> Result<()> {
    let pid = load_weir(vm, &limit())?;
    until(vm, limited("a"))?;
    until(vm, limited("b"))?;
    let address = vm.run(&format!("cd {DRIVER} && ls -d 0000:*"))?;
    vm.run(&format!("echo {} > {DRIVER}/unbind", address.trim()))?;
    until(vm, said("counters cannot be read"))?;
    // Held for a second or so, then raised and let go: weir fails open.
    until(vm, free("a"))?;
    until(vm, free("b"))?;
    let seen = last(vm, pid)?;
    let device = &seen["plan"]["devices"][0];
    ensure!(
        device["read_bytes_per_sec"].is_null(),
        "a figure without counters: {device}"
    );
    vm.run(&format!("echo {} > {DRIVER}/bind", address.trim()))?;
    until(vm, said("counters are read again"))?;
    until(vm, limited("a"))?;
    end(vm, pid)
}

#[test]
fn weir_refuses_clearly_and_survives() -> Result<()> {
    let Some(bench) = Bench::ready("refusals")? else {
        return Ok(());
    };
    let vm = &bench.guest()?;
    let mut q = Questions::default();
    let mut ask = |name: &str, question: &dyn Fn() -> Result<()>| {
        q.ask(name, || question().inspect_err(|_| tidy(vm)));
    };
    ask("no driver", &|| without_the_driver(vm));
    vm.run(&format!("insmod {MODULE}"))?;
    ask("all is there", &|| with_all_there(vm));
    ask("not root", &|| without_root(vm));
    mount_group(vm)?;
    start_readers(vm, &["a", "b"])?;
    vm.switch_model_on()?;
    ask("sched_ext in full mode", &|| a_scheduler_that_runs_all(vm));
    ask("sched_ext in partial mode", &|| {
        a_scheduler_that_runs_some(vm)
    });
    ask("a cgroup goes away", &|| a_cgroup_goes_away(vm));
    ask("a process goes away", &|| a_process_goes_away(vm));
    ask("the counters go away", &|| the_counters_go_away(vm));
    q.done()
}

/// A kernel that does not know the node from ordinary memory.
#[test]
fn without_cxl_memory_there_is_nothing_to_do() -> Result<()> {
    let Some(bench) = Bench::ready("refusals, no CXL memory")? else {
        return Ok(());
    };
    let machine = TestbedMachine {
        cpu_count: 1,
        dram_mib: 512,
        groups_mib: vec![32],
        ..TestbedMachine::default()
    };
    let options = BootOptions {
        kernel_args: "numa=off".into(),
        ..BootOptions::default()
    };
    let vm = bench.boot(&machine, vec![], &options)?;
    ask_one("no CXL memory", || without_cxl_memory(&vm))
}

fn without_cxl_memory(vm: &Vm) -> Result<()> {
    let text = ends_with(vm, 1, "weir doctor")?;
    ensure!(text.contains("a CXL memory device is needed"), "{text}");
    for (command, status) in [
        ("weir run --duration 1s", 69),
        ("weir run --limit --set-point 8MiB/s", 69),
        ("weir top --once", 2),
    ] {
        let text = ends_with(vm, status, command)?;
        ensure!(text.contains("no CXL memory found"), "{command}: {text}");
        ensure!(
            text.contains("weir doctor") && text.contains("weir_cxl"),
            "{command}: {text}"
        );
    }
    Ok(())
}
