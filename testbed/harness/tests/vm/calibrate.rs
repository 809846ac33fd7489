// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `weir calibrate` find what the device is? The device model was given an idle latency and a service
//! time; where bandwidth ÷ latency is largest follows from running the same model here, with threads like
//! weir's and every delay. weir knows nothing of this: it has a kernel, a node and counters.

use crate::common::{
    self, Bench, MODULE, Questions, attempt, ends_with, json, last_line_says, lines_more,
    mount_group, signal_weir, snapshots, start_readers, start_weir, until,
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::ops::Range;
use weir_hw::{CoreWindow, QueueModel, QueueTimes};
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::{BootOptions, Vm};

/// Lines between two rests of a loading thread (`weir_bench::load`).
const CHUNK_LINES: u64 = 8;
const PROFILE: &str = "/var/lib/weir/devices/weir_cxl0.toml";

/// One CPU measures and three load: one of them alone takes 45 % of the device, as in the live scenarios.
/// The test measures single latencies of some microseconds. In a window of the usual 50 µs a CPU that comes
/// first finds the device idle, so latency under load would come out too low.
fn machine() -> TestbedMachine {
    TestbedMachine {
        cpu_count: 4,
        dram_mib: 512,
        groups_mib: vec![128],
        cache_lines: 4096,
        window_ns: 4000,
        ..TestbedMachine::default()
    }
}

/// Bandwidth and latency of the model with so many loading CPUs that rest `rest_ns` after each chunk, and one
/// that follows pointers: each goes on at its own time, the earliest first.
fn modelled(machine: &TestbedMachine, loaders: usize, rest_ns: u64) -> (f64, f64) {
    const SPAN_NS: u64 = 200_000_000;
    let profile = QueueTimes {
        service_ns: machine.service_ns,
        idle_ns: machine.idle_ns,
    };
    let device = QueueModel::new(profile, 100_000_000);
    // Three instructions a line, or about so.
    let line_ns = 3 * machine.instruction_ps / 1000;
    let mut windows = vec![CoreWindow::new(machine.window_lines); loaders];
    // Not all at once.
    let mut clocks: Vec<u64> = (0..=loaders as u64).map(|n| n * 1733).collect();
    let (mut lines, mut waits) = (vec![0_u64; loaders], Vec::new());
    let mut moved = 0_u64;
    loop {
        let next = |i: &usize| {
            windows
                .get(*i)
                .map_or(clocks[*i], |w| w.issue_at_ns(clocks[*i]))
        };
        let thread = (0..=loaders).min_by_key(next).unwrap_or(0);
        let at = next(&thread);
        if at > SPAN_NS {
            break;
        }
        let done = device.access(at);
        moved += 1;
        if thread == loaders {
            waits.push((done - at) as f64);
            clocks[thread] = done + line_ns;
            continue;
        }
        windows[thread].issued(done);
        lines[thread] += 1;
        // Threads are not in step with each other: a rest varies by an eighth.
        let jitter = (lines[thread] * 7919 + thread as u64 * 104_729) % 256;
        let rest = rest_ns * (240 + jitter / 8) / 256;
        clocks[thread] = at
            + line_ns
            + if lines[thread] % CHUNK_LINES == 0 {
                rest
            } else {
                0
            };
    }
    let latency = waits.iter().sum::<f64>() / waits.len() as f64;
    (moved as f64 * 64e9 / SPAN_NS as f64, latency)
}

fn curve(machine: &TestbedMachine, loaders: usize) -> Vec<(f64, f64)> {
    let rests = (0..160).map(|n| {
        if n == 0 {
            0
        } else {
            (100.0 * 1.06_f64.powi(n)) as u64
        }
    });
    let mut points: Vec<(f64, f64)> = rests.map(|rest| modelled(machine, loaders, rest)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Bandwidth ÷ latency at a bandwidth, between the points.
fn power_at(curve: &[(f64, f64)], bandwidth: f64) -> f64 {
    let above = curve
        .partition_point(|p| p.0 < bandwidth)
        .clamp(1, curve.len() - 1);
    let ((b0, l0), (b1, l1)) = (curve[above - 1], curve[above]);
    let part = ((bandwidth - b0) / (b1 - b0).max(1.0)).clamp(0.0, 1.0);
    bandwidth / (l0 + (l1 - l0) * part)
}

fn number(value: &Value, key: &str) -> Result<f64> {
    value[key]
        .as_f64()
        .with_context(|| format!("{key} in {value}"))
}

fn it_finds_idle_latency_and_knee(vm: &Vm) -> Result<()> {
    vm.switch_model_on()?;
    let before = vm.ground_truth().group(0).read_lines;
    let reply = attempt(
        vm,
        "weir calibrate --json --memory 32MiB --max-duration 25s",
    );
    let moved = vm.ground_truth().group(0).read_lines - before;
    vm.switch_model_off();
    let reply = reply?;
    println!("{}\n{moved} lines", reply.stderr);
    ensure!(reply.status == Some(0), "it ended with {:?}", reply.status);
    let found: Value = serde_json::from_str(&reply.stdout)?;
    let machine = &vm.machine;
    let idle = number(&found, "idle_latency_ns")?;
    println!("idle: {idle:.0} ns found, {} given", machine.idle_ns);
    // A load costs its instruction too, and a timer tick now and then.
    let ratio = idle / machine.idle_ns as f64;
    ensure!(
        (0.95..1.10).contains(&ratio),
        "idle latency {ratio:.3} of the model's"
    );

    let curve = curve(machine, 3);
    let power = |p: &(f64, f64)| p.0 / p.1;
    let best = curve.iter().max_by(|a, b| power(a).total_cmp(&power(b)));
    let best = *best.context("no curve")?;
    let knee = number(&found["knee"], "bandwidth_bytes_per_sec")?;
    let capacity = machine.capacity_bytes_per_sec();
    let part = power_at(&curve, knee) / power(&best);
    println!(
        "knee: {:.3} of capacity at {:.0} ns found; the model's {:.3} at {:.0} ns; {part:.3} of the largest power there",
        knee / capacity,
        number(&found["knee"], "latency_ns")?,
        best.0 / capacity,
        best.1
    );
    ensure!(
        (0.85..1.15).contains(&(knee / best.0)),
        "knee {knee}, the model's {}",
        best.0
    );
    // Threads of the guest are less even than the model's: the curve bends earlier, at which step is by
    // chance of the build (0.878 in one, 0.986 in the next). A knee at half of the capacity has 0.54.
    ensure!(part > 0.85, "{part:.3} of the largest power");
    ensure!(knee < 1.02 * capacity, "more than the device can move");
    ensure!(
        found["bandwidth_from"] == "counters" && found["complete"] == true,
        "{found}"
    );
    ensure!(
        found["dram_latency_ns"]
            .as_f64()
            .is_some_and(|d| d < idle / 10.0),
        "{found}"
    );
    Ok(())
}

fn what_is_kept_is_found_again(vm: &Vm) -> Result<()> {
    let facts = json(vm, "weir doctor --json")?;
    let fact = facts["description"]["facts"]
        .as_array()
        .and_then(|facts| facts.iter().find(|f| f["name"] == "calibration.cxl0"));
    let said = fact.context("no fact")?["value"]["Ok"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    ensure!(said.contains("knee") && said.contains("today"), "{fact:?}");
    let knee = vm.run(&format!("grep -A1 '^.knee' {PROFILE} | tail -n 1"))?;
    let knee: f64 = knee
        .trim()
        .rsplit(' ')
        .next()
        .context("a number")?
        .parse()?;
    let run = "weir run --set-point 'knee*0.5' --duration 1s --json 2> /dev/null | tail -n 1";
    let line = json(vm, run)?;
    let target = number(&line["plan"]["devices"][0], "set_point_bytes_per_sec")?;
    ensure!(
        (target / (0.5 * knee) - 1.0).abs() < 1e-6,
        "{target} of {knee}"
    );
    Ok(())
}

fn without_a_profile_it_is_named(vm: &Vm) -> Result<()> {
    let said = ends_with(vm, 78, "weir run --limit --set-point knee --duration 1s")?;
    ensure!(said.contains("weir calibrate --device cxl0"), "{said}");
    Ok(())
}

fn it_takes_no_more_memory_than_it_may(vm: &Vm) -> Result<()> {
    let said = ends_with(vm, 2, "weir calibrate --memory 100MiB")?;
    ensure!(said.contains("half"), "{said}");
    let said = ends_with(vm, 2, "weir calibrate --node 0")?;
    ensure!(said.contains("not on node 0"), "{said}");
    let said = ends_with(
        vm,
        2,
        "taskset 1 weir calibrate 2>&1 || weir calibrate --threads 9",
    )?;
    ensure!(said.contains("too many"), "{said}");
    Ok(())
}

/// One CPU loads and one measures. The device is slow, so that a batch of the probe takes 3 ms or more, of
/// which how far a CPU may run ahead is a small part. It is preempted now and then: weir's own ticks take
/// most of such a CPU. The loading CPU may have so many lines on their way that it fills the device.
fn machine_for_the_probe() -> TestbedMachine {
    TestbedMachine {
        cpu_count: 2,
        service_ns: 1350,
        idle_ns: 12_000,
        window_lines: 16,
        instruction_ps: 10_000,
        ..machine()
    }
}

/// weir's snapshots from now on, until there are so many.
fn next_snapshots(vm: &Vm, count: usize) -> Result<Vec<Value>> {
    let before = snapshots(vm)?.len();
    lines_more(vm, count as u32 + 1)?;
    Ok(snapshots(vm)?.split_off(before))
}

/// Mean of what the probe said, and how many different readings that were.
fn probed(snapshots: &[Value]) -> Result<(f64, usize)> {
    let mut readings: Vec<(u64, f64)> = Vec::new();
    for latency in snapshots.iter().map(|s| &s["latencies"][0]) {
        ensure!(latency["source"] == "probe", "{latency}");
        let at = latency["mean_ns"]["at"].as_u64().context("no time")?;
        let mean = latency["mean_ns"]["value"]["Ok"].as_f64();
        let mean = mean.with_context(|| format!("no latency: {latency}"))?;
        if readings.last().is_none_or(|last| last.0 != at) {
            readings.push((at, mean));
        }
    }
    let sum: f64 = readings.iter().map(|r| r.1).sum();
    Ok((sum / readings.len().max(1) as f64, readings.len()))
}

fn free_bytes(vm: &Vm) -> Result<f64> {
    let text = vm.run("awk '/MemFree/ {print $4}' /sys/devices/system/node/node1/meminfo")?;
    Ok(text.trim().parse::<f64>()? * 1024.0)
}

/// Idle it is the model's idle latency, under load it rises; its own reads are unattributed, and its memory
/// goes back.
fn the_probe_distinguishes_idle_from_loaded(vm: &Vm, idle_is: Range<f64>, rise: f64) -> Result<()> {
    let free = free_bytes(vm)?;
    let weir = start_weir(vm, "--probe --interval 100ms")?;
    until(vm, last_line_says("\"mean_ns\":{\"at\":*,\"value\":{\"Ok"))?;
    let taken = free - free_bytes(vm)?;
    let idle = next_snapshots(vm, 60)?;
    let (idle_ns, readings) = probed(&idle)?;
    let given = (vm.machine.idle_ns + vm.machine.instruction_ps / 1000) as f64;
    println!(
        "idle: {idle_ns:.0} ns by {readings} readings, {given:.0} given; {taken:.0} bytes taken"
    );
    ensure!(idle_is.contains(&(idle_ns / given)), "{idle_ns} of {given}");
    // The probe does not read in each interval.
    let read = |s: &&Value| s["plan"]["devices"][0]["read_bytes_per_sec"].as_f64() > Some(0.0);
    it_is_no_workloads_traffic(
        idle.iter()
            .rev()
            .find(read)
            .context("the probe read nothing")?,
    )?;

    start_readers(vm, &["a"])?;
    let reader = format!("{}/a.service", common::SLICE);
    // Not on the probe's CPU, where it would stand still while the probe measures.
    vm.run(&format!(
        "for p in $(cat {reader}/cgroup.procs); do taskset -a -p 1 $p > /dev/null; done"
    ))?;
    next_snapshots(vm, 40)?;
    // A reading is the mean of some hundred accesses at one place of the reader's course. Means of eight or
    // nine readings were 1.60 to 1.82 times the idle latency (eight seeds).
    let loaded = next_snapshots(vm, 150)?;
    let (loaded_ns, readings) = probed(&loaded)?;
    let moved = loaded
        .last()
        .map(|s| s["plan"]["devices"][0]["read_bytes_per_sec"].clone());
    println!("loaded: {loaded_ns:.0} ns by {readings} readings, {moved:?} bytes a second");
    ensure!(
        loaded_ns > rise * idle_ns,
        "{loaded_ns} under load, {idle_ns} without"
    );
    common::empty_cgroup(vm, &reader)?;
    ensure!(signal_weir(vm, weir, "TERM")? == 0, "weir ended badly");
    vm.run("rm /cxl0/a")?;
    let left = free - free_bytes(vm)?;
    ensure!(
        taken > 15e6 && left < 4e6,
        "{taken} bytes taken, {left} left"
    );
    Ok(())
}

/// Traffic of the probe is in the device's total, and no workload's.
fn it_is_no_workloads_traffic(snapshot: &Value) -> Result<()> {
    let facts = snapshot["description"]["facts"]
        .as_array()
        .context("no facts")?;
    let fact = facts.iter().find(|f| f["name"] == "latency.probe.cxl0");
    println!("{}", fact.context("no fact")?["value"]["Ok"]);
    let device = &snapshot["plan"]["devices"][0];
    let workloads = snapshot["plan"]["workloads"]
        .as_array()
        .context("no workloads")?;
    let given: f64 = workloads
        .iter()
        .filter_map(|w| w["bandwidth"]["bytes_per_sec"].as_f64())
        .sum();
    println!("{given} bytes a second given to workloads, of {device}");
    let weir = workloads.iter().find(|w| w["id"] == "/weir.service");
    ensure!(
        weir.is_none_or(|w| w["bandwidth"]["bytes_per_sec"].as_f64().unwrap_or(0.0) == 0.0),
        "{weir:?}"
    );
    ensure!(
        number(device, "read_bytes_per_sec")? > 0.0,
        "the probe read nothing: {device}"
    );
    Ok(())
}

/// Runs the probe on a machine of its own: idle within these bounds of the model's figure, and so many times
/// that under load.
fn run_the_probe(idle_is: Range<f64>, rise: f64) -> Result<()> {
    let Some(bench) = Bench::ready("probe")? else {
        return Ok(());
    };
    let vm = &bench.boot(&machine_for_the_probe(), vec![], &BootOptions::default())?;
    vm.run(&format!("insmod {MODULE}"))?;
    mount_group(vm)?;
    vm.switch_model_on()?;
    let mut questions = Questions::default();
    questions.ask("idle, loaded, unattributed, and given back", || {
        the_probe_distinguishes_idle_from_loaded(vm, idle_is, rise)
            .inspect_err(|_| common::say_why(vm))
    });
    questions.done()
}

#[test]
fn the_probe_measures_while_weir_runs() -> Result<()> {
    run_the_probe(0.95..1.10, 1.3)
}

fn booted(bench: &Bench) -> Result<Vm> {
    let vm = bench.boot(&machine(), vec![], &BootOptions::default())?;
    vm.run(&format!("insmod {MODULE}"))?;
    Ok(vm)
}

#[test]
fn it_says_what_it_will_not_do() -> Result<()> {
    let Some(bench) = Bench::ready("calibrate")? else {
        return Ok(());
    };
    let vm = &booted(&bench)?;
    let mut questions = Questions::default();
    questions.ask("without a profile that is said", || {
        without_a_profile_it_is_named(vm)
    });
    questions.ask("memory and CPUs have bounds", || {
        it_takes_no_more_memory_than_it_may(vm)
    });
    questions.done()
}

#[test]
fn the_device_is_what_the_model_was_given() -> Result<()> {
    let Some(bench) = Bench::ready("calibrate")? else {
        return Ok(());
    };
    let vm = &booted(&bench)?;
    let mut questions = Questions::default();
    questions.ask("idle latency and knee", || {
        it_finds_idle_latency_and_knee(vm)
    });
    questions.ask("what is kept is found again", || {
        what_is_kept_is_found_again(vm)
    });
    questions.done()
}
