// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way that counts by task take on AMD's Zen 5, from the table of events to a workload's figure: a CPU with that name and
//! that event (`testbed/core`), which counts what each vCPU really fills from the emulated device. weir must find the event,
//! hold it against the device's own counters, take it unasked, and share out by it what nobody could know by CPU time.

mod common;

use anyhow::{Context, Result, ensure};
use common::{
    Bench, LINES, MODULE, Questions, ends_with, json, machine_with_a_device, make_cgroup,
    mount_group, next_line, signal_weir, snapshots, start_in, start_reader, start_weir, until,
};
use serde_json::Value;
use weir_testbed::driver;
use weir_testbed::guest::{load_core, own_pages};
use weir_testbed::machine::Machine;
use weir_testbed::vm::{BootOptions, GuestFile, Vm};

const EVENT: &str = "l2_fill_rsp_src.alternate_memories";

fn fact(snapshot: &Value, name: &str) -> Result<String> {
    let facts = snapshot["description"]["facts"].as_array();
    let fact = facts
        .context("no facts")?
        .iter()
        .find(|f| f["name"] == name);
    let said = fact.and_then(|fact| fact["value"]["Ok"].as_str());
    Ok(said.with_context(|| format!("no fact {name}"))?.to_owned())
}

fn the_event_is_found(vm: &Vm) -> Result<()> {
    let all = json(vm, "weir events --json")?;
    let text = all.to_string();
    ensure!(text.contains(EVENT), "{text}");
    let said = ends_with(vm, 0, "weir doctor")?;
    let line = said.lines().find(|line| line.contains(EVENT));
    println!(
        "{}",
        line.with_context(|| format!("not in doctor: {said}"))?
    );
    Ok(())
}

/// Nobody uses the device but weir's own reads: event and device count the same.
fn unasked_it_is_taken_because_it_agrees(vm: &Vm) -> Result<()> {
    let text = ends_with(vm, 0, "weir run --json --duration 1s 2> /run/said")?;
    let line: Value = serde_json::from_str(text.lines().next().context("no line")?)?;
    let said = fact(&line, "shares.source")?;
    println!("{said}");
    ensure!(
        said.contains(EVENT) && said.contains("documented"),
        "{said}"
    );
    let ratio = said
        .split("; calibrated: ")
        .nth(1)
        .context("not calibrated")?;
    let ratio: f64 = ratio.split(' ').next().unwrap_or_default().parse()?;
    ensure!((0.98..=1.02).contains(&ratio), "{said}");
    Ok(())
}

/// A reader that only reads, and one that computes for most of its time: as busy, and far less traffic.
fn start_two(vm: &Vm) -> Result<()> {
    start_reader(vm, "a")?;
    let path = make_cgroup(vm, "b")?;
    vm.run("dd if=/dev/zero of=/cxl0/b bs=1M count=16 2> /dev/null")?;
    let fio = "fio --name=b --filename=/cxl0/b --thread --ioengine=mmap --rw=randread --bs=64k --size=16m \
               --time_based --runtime=3600 --norandommap --disk_util=0 --thinktime=30000 --thinktime_spin=30000";
    start_in(vm, &path, fio)?;
    own_pages(vm, "/cxl0/a", 1)?;
    own_pages(vm, "/cxl0/b", 2)
}

/// The first's part of what both moved: by weir, and by the ledger.
fn parts(vm: &Vm, arguments: &str, provenance: &str) -> Result<(f64, f64)> {
    let pid = start_weir(vm, arguments)?;
    until(
        vm,
        &format!("tail -n 1 {LINES} | grep -q '\"provenance\":\"{provenance}\"'"),
    )?;
    next_line(vm)?;
    let lines = || [1, 2].map(|owner| vm.ledger().owner(owner).read_lines);
    let (from, before) = (snapshots(vm)?.len(), lines());
    vm.run("sleep 10")?;
    let after = lines();
    let mut bytes = [0.0, 0.0];
    for snapshot in &snapshots(vm)?[from..] {
        for verdict in snapshot["plan"]["workloads"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let id = verdict["id"].as_str().unwrap_or_default();
            let place = ["a.service", "b.service"]
                .iter()
                .position(|name| id.ends_with(name));
            if let Some(place) = place {
                bytes[place] += verdict["bandwidth"]["bytes_per_sec"]
                    .as_f64()
                    .unwrap_or(0.0);
            }
        }
    }
    ensure!(signal_weir(vm, pid, "TERM")? == 0, "weir ended badly");
    let moved = [0, 1].map(|i| (after[i] - before[i]) as f64);
    println!("{arguments}: {bytes:.0?} bytes a second in all, {moved:?} lines by the ledger");
    ensure!(
        moved.iter().all(|lines| *lines > 0.0),
        "who does not read? {moved:?}"
    );
    let part = |of: [f64; 2]| of[0] / (of[0] + of[1]);
    Ok((part(bytes), part(moved)))
}

fn counts_know_what_time_does_not(vm: &Vm) -> Result<()> {
    let (by_counts, truth) = parts(vm, "--shares counts", "sampled")?;
    println!("by counts: the first has {by_counts:.3}, by the ledger {truth:.3}");
    let (by_time, truth_then) = parts(vm, "--shares cpu-time", "apportioned")?;
    println!("by CPU time: the first has {by_time:.3}, by the ledger {truth_then:.3}");
    ensure!((by_counts - truth).abs() < 0.03, "{by_counts} for {truth}");
    // Else this shows nothing.
    ensure!(
        (by_time - truth_then).abs() > 0.1,
        "{by_time} for {truth_then}"
    );
    Ok(())
}

#[test]
fn counts_by_task_as_on_zen_5() -> Result<()> {
    let Some(bench) = Bench::ready("core_events")? else {
        return Ok(());
    };
    let core = driver::build_core(&bench.env, &mut |line| println!("{line}"))?;
    let files = vec![GuestFile::new(core, "lib/weir_core.ko")];
    let machine = Machine {
        core_events: true,
        ..machine_with_a_device()
    };
    let vm = &bench.boot(&machine, files, &BootOptions::default())?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    load_core(vm)?;
    mount_group(vm)?;
    vm.switch_model_on()?;
    let mut q = Questions::default();
    q.ask("the event is found", || the_event_is_found(vm));
    q.ask("unasked it is taken because it agrees", || {
        unasked_it_is_taken_because_it_agrees(vm)
    });
    start_two(vm)?;
    q.ask("counts know what time does not", || {
        counts_know_what_time_does_not(vm).inspect_err(|_| common::say_why(vm))
    });
    q.done()
}
