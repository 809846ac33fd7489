// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way that counts by task take on AMD's Zen 5 and on Intel's Granite Rapids, from the table of events to
//! a workload's figure: a CPU with that name and those events (`testbed/guest-pmu`), which count what each
//! vCPU really fills from the emulated device. weir must find them, hold reads against the device's own
//! counters, take them without an option, and share out by them what CPU time cannot show. On Granite Rapids
//! that is also which task writes.

use crate::common::{
    self, Bench, MODULE, Questions, SOME, ends_with, filled, json, last_line_says, load_weir,
    machine_with_a_device, mount_group, next_line, says, signal_weir, snapshots, start_on_device,
    start_readers, until,
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_scenario::testbed::{CoreEvents, TestbedMachine};
use weir_testbed::guest_env::kernel_modules;
use weir_testbed::live::guest::{load_core, own_pages};
use weir_testbed::vm::{BootOptions, GuestFile, Vm};

const ZEN5_READS: &str = "l2_fill_rsp_src.alternate_memories";
const GNR_READS: &str = "OCR.READS_TO_CORE.CXL_MEM";
const GNR_STORES: &str = "OCR.DEMAND_RFO.CXL_MEM";

fn fact(snapshot: &Value, name: &str) -> Result<String> {
    let facts = snapshot["description"]["facts"].as_array();
    let fact = facts
        .context("no facts")?
        .iter()
        .find(|f| f["name"] == name);
    let said = fact.and_then(|fact| fact["value"]["Ok"].as_str());
    Ok(said.with_context(|| format!("no fact {name}"))?.to_owned())
}

fn they_are_found(vm: &Vm, events: &[&str]) -> Result<()> {
    let text = json(vm, "weir events --json")?.to_string();
    let said = ends_with(vm, 0, "weir doctor")?;
    for event in events {
        ensure!(text.contains(event), "{text}");
        let line = said.lines().find(|line| line.contains(event));
        println!("{}", line.with_context(|| format!("{event}: {said}"))?);
    }
    Ok(())
}

/// No task uses the device; only weir's own reads do: event and device count the same.
fn unnamed_they_are_taken_because_reads_agree(vm: &Vm, events: &[&str]) -> Result<()> {
    let text = ends_with(vm, 0, "weir run --json --duration 1s 2> /run/said")?;
    let line: Value = serde_json::from_str(text.lines().next().context("no line")?)?;
    let said = fact(&line, "attribution.source")?;
    println!("{said}");
    ensure!(
        events.iter().all(|e| said.contains(e)) && said.contains("documented"),
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
    start_readers(vm, &["a"])?;
    let fio = "fio --name=b --filename=/cxl0/b --thread --ioengine=mmap --rw=randread --bs=64k --size=16m \
               --time_based --runtime=3600 --norandommap --disk_util=0 --thinktime=30000 --thinktime_spin=30000";
    start_on_device(vm, &[("b", fio.to_owned())], SOME)?;
    own_pages(vm, "/cxl0/a", 1)?;
    own_pages(vm, "/cxl0/b", 2)
}

/// What one of the two read and wrote in the same ten seconds: by weir, in bytes a second of all its ticks,
/// and in lines by the ground truth.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    said: [f64; 2],
    lines: [f64; 2],
}

impl Moved {
    fn all(self) -> (f64, f64) {
        (self.said.iter().sum(), self.lines.iter().sum())
    }
}

/// What weir and the ground truth say of both.
fn watch(vm: &Vm, arguments: &str, provenance: &str) -> Result<[Moved; 2]> {
    let pid = load_weir(vm, arguments)?;
    until(
        vm,
        last_line_says(&format!("\"provenance\":\"{provenance}\"")),
    )?;
    next_line(vm)?;
    let lines = || {
        [1, 2].map(|owner| {
            let tally = vm.ground_truth().owner(owner);
            [tally.read_lines, tally.write_lines]
        })
    };
    let (from, before) = (snapshots(vm)?.len(), lines());
    vm.run("sleep 10")?;
    let after = lines();
    let mut both = [Moved::default(); 2];
    for snapshot in &snapshots(vm)?[from..] {
        let verdicts = snapshot["plan"]["workloads"].as_array();
        for verdict in verdicts.into_iter().flatten() {
            let id = verdict["id"].as_str().unwrap_or_default();
            let names = ["a.service", "b.service"];
            let Some(place) = names.iter().position(|name| id.ends_with(name)) else {
                continue;
            };
            for (sum, way) in both[place].said.iter_mut().zip(["read", "write"]) {
                let rate = &verdict["traffic"][way]["bytes_per_sec"];
                *sum += rate.as_f64().unwrap_or(0.0);
            }
        }
    }
    ensure!(signal_weir(vm, pid, "TERM")? == 0, "weir ended badly");
    for (owner, moved) in both.iter_mut().enumerate() {
        for way in [0, 1] {
            moved.lines[way] = (after[owner][way] - before[owner][way]) as f64;
        }
        println!("{arguments}: {} {moved:.0?}", ["a", "b"][owner]);
        ensure!(moved.lines[0] > 0.0, "one does not read: {moved:?}");
    }
    Ok(both)
}

/// The first's part of what both moved: by weir, and by the ground truth.
fn parts(vm: &Vm, arguments: &str, provenance: &str) -> Result<(f64, f64)> {
    let [(a, a_lines), (b, b_lines)] = watch(vm, arguments, provenance)?.map(Moved::all);
    Ok((a / (a + b), a_lines / (a_lines + b_lines)))
}

fn counts_know_what_time_does_not(vm: &Vm) -> Result<()> {
    let (by_counts, truth) = parts(vm, "--attribution task-counts", "sampled")?;
    println!("by counts: the first has {by_counts:.3}, by the ground truth {truth:.3}");
    let (by_time, truth_then) = parts(vm, "--attribution cpu-time", "apportioned")?;
    println!("by CPU time: the first has {by_time:.3}, by the ground truth {truth_then:.3}");
    ensure!((by_counts - truth).abs() < 0.03, "{by_counts} for {truth}");
    // Else this shows nothing.
    ensure!(
        (by_time - truth_then).abs() > 0.1,
        "{by_time} for {truth_then}"
    );
    Ok(())
}

/// A reader and a writer of as many blocks: the device moves twice as much for the writer.
fn start_reader_and_writer(vm: &Vm) -> Result<()> {
    let command = |name: &str, way: &str| {
        format!(
            "fio --name={name} --filename=/cxl0/{name} --thread --ioengine=mmap --rw={way} --bs=64k \
             --size=16m --time_based --runtime=3600 --norandommap --disk_util=0 --rate_iops=40"
        )
    };
    let both = [("a", "randread"), ("b", "randwrite")];
    let both = both.map(|(name, way)| (name, command(name, way)));
    start_on_device(vm, &both, SOME)?;
    own_pages(vm, "/cxl0/a", 1)?;
    own_pages(vm, "/cxl0/b", 2)
}

fn writes_are_the_writers(vm: &Vm) -> Result<()> {
    let both = watch(vm, "--attribution task-counts", "sampled")?;
    let [(a, a_lines), (b, b_lines)] = both.map(Moved::all);
    // The same scale for both, so that it does not matter when exactly it began and ended.
    let scale = (a_lines + b_lines) / (a + b);
    let errors = [a * scale / a_lines - 1.0, b * scale / b_lines - 1.0];
    let of_writes = both[0].said[1] / (both[0].said[1] + both[1].said[1]);
    println!("off by {errors:.3?}; the reader is given {of_writes:.3} of the writes");
    ensure!(both[1].lines[1] > 0.0, "nothing is written back");
    ensure!(errors.iter().all(|e| e.abs() <= 0.1), "{errors:?}");
    ensure!(of_writes < 0.05, "{of_writes}");
    Ok(())
}

/// Lines that a profile counted for a cgroup, over all windows.
fn recorded(text: &str, id: &str) -> Result<u64> {
    let mut sum = 0;
    for line in text.lines().skip(1) {
        let window: Value = serde_json::from_str(line)?;
        let workloads = window["workloads"].as_array().into_iter().flatten();
        for workload in workloads.filter(|workload| workload["id"] == id) {
            let counts = workload["counts"].as_array().into_iter().flatten();
            for count in counts.filter(|count| count["role"] == "sq.reads.cxl.lines") {
                let value = count["value"]["Ok"].as_u64();
                sum += value.with_context(|| format!("no count: {count}"))?;
            }
        }
    }
    Ok(sum)
}

/// Both stand while a profile begins and while it ends: what they read lies in its windows. It counts 0.1 to
/// 1.9 % more than the ground truth has of the two files, by build and seed.
fn a_profile_counts_what_each_reads(vm: &Vm) -> Result<()> {
    common::freeze(vm, true)?;
    let reads = || [1, 2].map(|owner| vm.ground_truth().owner(owner).read_lines);
    let before = reads();
    vm.run(
        "weir profile record /run/p.windows --cgroup work.slice/a.service --cgroup work.slice/b.service \
         > /run/p.out 2>&1 < /dev/null & echo $! > /run/p.pid",
    )?;
    // A file grows with each window.
    let bytes = || -> Result<u64> { Ok(vm.run("stat -c %s /run/p.windows")?.trim().parse()?) };
    let grows = |from: u64| format!("[ \"$(stat -c %s /run/p.windows)\" -gt {from} ]");
    until(vm, filled("/run/p.windows"))
        .inspect_err(|_| println!("{:?}", vm.run("cat /run/p.out")))?;
    until(vm, &grows(bytes()?))?;
    common::freeze(vm, false)?;
    vm.run("sleep 5")?;
    common::freeze(vm, true)?;
    let after = reads();
    // The window that these reads lie in, and one more.
    until(vm, &grows(bytes()?))?;
    until(vm, &grows(bytes()?))?;
    vm.run("kill -TERM $(cat /run/p.pid)")?;
    until(vm, says("/run/p.out", "next: weir profile report"))?;
    let said = vm.run("cat /run/p.out")?;
    ensure!(!said.contains("events of its own"), "{said}");
    let text = vm.run("weir profile export /run/p.windows")?;
    common::freeze(vm, false)?;
    ends_with(
        vm,
        0,
        "weir profile report /run/p.windows > /run/p.report; [ $? -le 1 ]",
    )?;
    for (place, name) in ["a", "b"].into_iter().enumerate() {
        let counted = recorded(&text, &format!("/work.slice/{name}.service"))?;
        let truth = after[place] - before[place];
        println!("{name}: a profile counts {counted} lines of {truth}");
        ensure!(truth > 0, "{name} reads nothing");
        let error = counted as f64 / truth as f64 - 1.0;
        ensure!(error.abs() <= 0.05, "{name}: off by {error:.4}");
    }
    Ok(())
}

/// A guest with such CPUs, the model on.
fn boot(bench: &Bench, cpus: CoreEvents) -> Result<Vm> {
    let core = kernel_modules::build_guest_pmu(&bench.env, &mut |line| println!("{line}"))?;
    let files = vec![GuestFile::new(core, "lib/weir_guest_pmu.ko")];
    let machine = TestbedMachine {
        core_events: Some(cpus),
        ..machine_with_a_device()
    };
    let vm = bench.boot(&machine, files, &BootOptions::default())?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    load_core(&vm)?;
    mount_group(&vm)?;
    vm.switch_model_on()?;
    Ok(vm)
}

#[test]
fn counts_by_task_as_on_zen_5() -> Result<()> {
    let Some(bench) = Bench::ready("core_events")? else {
        return Ok(());
    };
    let vm = &boot(&bench, CoreEvents::Zen5)?;
    let mut q = Questions::default();
    q.ask("the event is found", || they_are_found(vm, &[ZEN5_READS]));
    q.ask("unnamed it is taken because it agrees", || {
        unnamed_they_are_taken_because_reads_agree(vm, &[ZEN5_READS])
    });
    start_two(vm)?;
    q.ask("counts know what time does not", || {
        counts_know_what_time_does_not(vm).inspect_err(|_| common::say_why(vm))
    });
    q.done()
}

#[test]
fn reads_and_stores_by_task_as_on_granite_rapids() -> Result<()> {
    let Some(bench) = Bench::ready("core_events")? else {
        return Ok(());
    };
    let vm = &boot(&bench, CoreEvents::GraniteRapids)?;
    let events = [GNR_READS, GNR_STORES];
    let mut q = Questions::default();
    q.ask("the events are found", || they_are_found(vm, &events));
    q.ask("unnamed they are taken because reads agree", || {
        unnamed_they_are_taken_because_reads_agree(vm, &events)
    });
    start_reader_and_writer(vm)?;
    q.ask("writes are the writer's", || {
        writes_are_the_writers(vm).inspect_err(|_| common::say_why(vm))
    });
    q.ask("a profile counts what each reads", || {
        a_profile_counts_what_each_reads(vm)
    });
    q.done()
}
