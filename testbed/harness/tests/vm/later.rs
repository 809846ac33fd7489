// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are counters found that come after weir, with their driver, on a real kernel? And does no workload stay
//! limited for a device without its driver?

use crate::common::{
    Bench, LINES, MODULE, Questions, SET_POINT, aside, last_line_says, lines_more, load_weir,
    max_is, mount_group, newest, signal_weir, start_readers, until,
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_testbed::vm::Vm;
use weir_testbed::vm::condition::Condition;

const DRIVER: &str = "/sys/bus/pci/drivers/weir_cxl";
const FREE: &str = "max 100000";

/// Waits until weir has a device of this name.
fn has_device(vm: &Vm, name: &str) -> Result<()> {
    until(vm, last_line_says(&format!("\"name\":\"{name}\"")))
}

/// Takes the driver from its device, and keeps the device's name in `/run/device`.
fn unbind(vm: &Vm) -> Result<()> {
    vm.run(&format!(
        "cd {DRIVER} && ls -d 0000:* > /run/device && cat /run/device > unbind"
    ))
    .map(drop)
}

fn bind(vm: &Vm, device: &str) -> Result<()> {
    vm.run(&format!("echo {device} > {DRIVER}/bind")).map(drop)
}

fn limited(name: &str, is_limited: bool) -> Condition {
    if is_limited {
        !max_is(name, FREE)
    } else {
        max_is(name, FREE)
    }
}

fn said(vm: &Vm, what: &str) -> Result<u32> {
    let count = vm.run(&format!("grep -c '{what}' {LINES}.err || true"))?;
    count.trim().parse().context("a count")
}

fn both_have_bytes(seen: &Value) -> bool {
    let workloads = seen["plan"]["workloads"].as_array();
    ["a", "b"].iter().all(|name| {
        let id = format!("/work.slice/{name}.service");
        let mut all = workloads.into_iter().flatten();
        let found = all.find(|workload| workload["id"] == id.as_str());
        let rate = found.and_then(|w| w["bandwidth"]["bytes_per_sec"].as_f64());
        rate.is_some_and(|rate| rate > 0.0)
    })
}

fn counters_that_come_with_their_driver_are_taken_up(vm: &Vm) -> Result<()> {
    let pid = load_weir(vm, "--interval 100ms --record /run/a.weir")?;
    has_device(vm, "memory-only nodes")?;
    aside(vm, || vm.run(&format!("insmod {MODULE}")).map(drop))?;
    has_device(vm, "weir_cxl0")?;
    // weir has the part of a slow CPU that two readers leave it, and its discovery runs seldom.
    let mut seen = newest(vm)?;
    for _ in 0..40 {
        if both_have_bytes(&seen) {
            break;
        }
        lines_more(vm, 10)?;
        seen = newest(vm)?;
    }
    ensure!(both_have_bytes(&seen), "{seen}");
    unbind(vm)?;
    has_device(vm, "memory-only nodes")?;
    let status = signal_weir(vm, pid, "TERM")?;
    ensure!(status == 0, "weir ended with {status}");
    for what in ["(weir_cxl0) came", "(weir_cxl0) went"] {
        let times = said(vm, what)?;
        ensure!(times == 1, "{what}: {times} times");
    }
    let checked = aside(vm, || vm.run("weir replay --check /run/a.weir"))?;
    ensure!(
        checked.matches("each plan is the recorded one").count() == 3,
        "{checked}"
    );
    Ok(())
}

/// After the question before, the driver is loaded and has no device.
fn limits_end_with_the_driver_and_come_back_with_it(vm: &Vm) -> Result<()> {
    let device = vm.run("cat /run/device")?;
    let device = device.trim();
    bind(vm, device)?;
    let pid = load_weir(vm, &format!("--limit --set-point {SET_POINT}"))?;
    for name in ["a", "b"] {
        until(vm, limited(name, true))?;
    }
    unbind(vm)?;
    for name in ["a", "b"] {
        until(vm, limited(name, false))?;
    }
    has_device(vm, "memory-only nodes")?;
    bind(vm, device)?;
    for name in ["a", "b"] {
        until(vm, limited(name, true))?;
    }
    let status = signal_weir(vm, pid, "TERM")?;
    ensure!(status == 0, "weir ended with {status}");
    for name in ["a", "b"] {
        until(vm, limited(name, false))?;
    }
    Ok(())
}

#[test]
fn what_comes_later_is_found() -> Result<()> {
    let Some(bench) = Bench::ready("later")? else {
        return Ok(());
    };
    let vm = &bench.guest()?;
    mount_group(vm)?;
    start_readers(vm, &["a", "b"])?;
    vm.switch_model_on()?;
    let mut q = Questions::default();
    q.ask("counters after weir", || {
        counters_that_come_with_their_driver_are_taken_up(vm)
    });
    q.ask("limits and their driver", || {
        limits_end_with_the_driver_and_come_back_with_it(vm)
    });
    q.done()
}
