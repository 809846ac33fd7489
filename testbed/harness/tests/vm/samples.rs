// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the sampling program take the samples of device memory, all of them and no others, for the task that
//! ran? The guest has no CPU events, so minor faults are sampled: the address is that of the page that was
//! faulted in. Real program, real samples, real addresses; what no such event can show is whether PEBS or IBS
//! deliver theirs.

use crate::common::{
    self, Bench, MODULE, Questions, attempt, empty_cgroup, ends_with, filled, json, last_line_says,
    lines_more, load_weir, machine_with_a_device, make_cgroup, next_line, signal_weir, snapshots,
    start_in, until,
};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::{BootOptions, GuestFile, Vm};

/// Each how many faults is a sample.
const PERIOD: u64 = 7;
const FAULTS: &str = "--attribution sampling --attribution-event sw:minor-faults";

/// Runs weir during a question, and ends it.
fn with_samples(vm: &Vm, arguments: &str, ask: impl FnOnce() -> Result<()>) -> Result<()> {
    let pid = load_weir(vm, &format!("{FAULTS} {arguments}"))?;
    let answer = ask();
    let status = signal_weir(vm, pid, "TERM")?;
    answer?;
    ensure!(status == 0, "weir ended with {status}");
    // The kernel frees a program some time after its last reference is gone.
    until(vm, "! bpftool prog show | grep -q weir_sample")
}

/// Samples so far of the first two groups, by cgroup or process.
fn taken(vm: &Vm) -> Result<BTreeMap<u64, [u64; 2]>> {
    let rows = json(vm, "bpftool -j map dump name sample_counts")?;
    let mut sums = BTreeMap::new();
    for row in rows.as_array().context("no array")? {
        let row = &row["formatted"];
        let key = row["key"].as_u64().context("no key")?;
        let cpus = row["values"].as_array().context("no values")?;
        let of = |place: usize| -> u64 {
            let of_cpu = |cpu: &serde_json::Value| cpu["value"]["by_group"][place].as_u64();
            cpus.iter().filter_map(of_cpu).sum()
        };
        let others: u64 = (2..16).map(of).sum();
        ensure!(others == 0, "samples of groups that are not there: {row}");
        sums.insert(key, [of(0), of(1)]);
    }
    Ok(sums)
}

/// What became of all samples.
fn fate(vm: &Vm, word: &str) -> Result<u64> {
    let rows = json(vm, "bpftool -j map dump name sample_stats")?;
    let cpus = rows[0]["formatted"]["values"].as_array();
    let of_cpu = |cpu: &serde_json::Value| cpu["value"][word].as_u64();
    Ok(cpus.context("no values")?.iter().filter_map(of_cpu).sum())
}

/// Where a run of `faults` says that it is done.
fn out_of(path: &str) -> String {
    path.replace("/sys/fs/cgroup", "/run").replace('.', "-") + ".out"
}

/// A process in the cgroup that becomes `faults` when [`let_go`] says so. Its number.
fn prepare_faults(vm: &Vm, path: &str, what: &str) -> Result<u64> {
    let out = out_of(path);
    vm.run(&format!(
        "mkdir -p $(dirname {out}); rm -f {out}.go {out}.pid; mkfifo {out}.go
         sh -c 'echo $$ > {path}/cgroup.procs; echo $$ > {out}.pid
                read word < {out}.go; exec /tests/faults {what}' > {out} 2>&1 < /dev/null &"
    ))?;
    until(vm, filled(&format!("{out}.pid")))?;
    Ok(vm.run(&format!("cat {out}.pid"))?.trim().parse()?)
}

/// Lets it fault, until it is done; it stays there.
fn let_go(vm: &Vm, path: &str) -> Result<()> {
    let out = out_of(path);
    vm.run(&format!("echo go > {out}.go"))?;
    until(vm, filled(&out))?;
    let said = vm.run(&format!("cat {out}"))?;
    ensure!(said.trim() == "done", "faults: {said}");
    Ok(())
}

/// Waits until weir has met all processes: samples of one that it has not met are thrown away now and then,
/// as a workload's account begins when it is met.
fn all_are_met(vm: &Vm) -> Result<()> {
    lines_more(vm, 100)
}

/// The program's own faults, for its code and its stack, are on DRAM. One event a CPU counts for all tasks,
/// so a run has one sample more or less for each time it changed its CPU or another ran between.
fn near(what: &str, samples: u64, faults: u64) -> Result<()> {
    let wanted = faults / PERIOD;
    println!("{what}: {samples} samples of {faults} faults, {wanted} by the period");
    let bound = wanted / 50 + 10;
    ensure!(
        samples.abs_diff(wanted) <= bound,
        "{what}: {samples}, not {wanted}"
    );
    Ok(())
}

/// Rounds, and what each has: pages of DRAM, of the first and of the second group.
const RUNS: [(&str, u64, [u64; 3]); 5] = [
    ("one", 10, [0, 2000, 0]),
    ("half", 10, [0, 1000, 0]),
    ("dram", 10, [2000, 0, 0]),
    ("mixed", 10, [1000, 500, 1500]),
    ("other", 10, [0, 0, 2000]),
];

fn words(rounds: u64, pages: [u64; 3]) -> String {
    let mut words = format!("{rounds} 0");
    for (node, pages) in pages.iter().enumerate().filter(|(_, pages)| **pages > 0) {
        words += &format!(" {node}:{pages}");
    }
    words
}

fn device_pages_are_taken_by_group(vm: &Vm) -> Result<()> {
    let mut paths = Vec::new();
    for (name, rounds, pages) in RUNS {
        let path = make_cgroup(vm, name)?;
        prepare_faults(vm, &path, &words(rounds, pages))?;
        paths.push(path);
    }
    let outcome = with_samples(vm, "", || {
        all_are_met(vm)?;
        let mut wanted = Vec::new();
        for (path, (name, rounds, pages)) in paths.iter().zip(RUNS) {
            let id: u64 = vm.run(&format!("stat -c %i {path}"))?.trim().parse()?;
            let_go(vm, path)?;
            wanted.push((name, id, pages.map(|pages| pages * rounds)));
        }
        let sums = taken(vm)?;
        for (name, id, faults) in wanted {
            let [first, second] = sums.get(&id).copied().unwrap_or_default();
            near(&format!("{name}, first group"), first, faults[1])?;
            near(&format!("{name}, second group"), second, faults[2])?;
        }
        let (elsewhere, lost) = (fate(vm, "elsewhere")?, fate(vm, "lost")?);
        let all: u64 = sums.values().flatten().sum();
        println!("{all} taken, {elsewhere} elsewhere, {lost} lost");
        ensure!(
            elsewhere >= 30_000 / PERIOD && lost == 0,
            "DRAM was not seen"
        );
        ensure!(fate(vm, "counted")? >= all, "more than were taken");
        Ok(())
    });
    for path in paths {
        empty_cgroup(vm, &path)?;
    }
    outcome
}

fn processes_are_counted_separately(vm: &Vm) -> Result<()> {
    let paths = [make_cgroup(vm, "few")?, make_cgroup(vm, "many")?];
    let counts = [1000, 3000];
    let begun = paths.iter().zip(counts);
    let pids = begun.map(|(path, pages)| prepare_faults(vm, path, &words(10, [0, pages, 0])));
    let pids: Vec<u64> = pids.collect::<Result<_>>()?;
    let outcome = with_samples(vm, "--workloads process", || {
        all_are_met(vm)?;
        for path in &paths {
            let_go(vm, path)?;
        }
        let sums = taken(vm)?;
        for (pid, pages) in pids.iter().zip(counts) {
            let [first, second] = sums.get(pid).copied().unwrap_or_default();
            near(&format!("process {pid}"), first, pages * 10)?;
            ensure!(second == 0, "the other group: {second}");
        }
        Ok(())
    });
    for path in &paths {
        empty_cgroup(vm, path)?;
    }
    outcome
}

/// Two that fault in pages of the first group without end, one three times as many as the other: the group's
/// bytes are shared out by the samples.
fn shares_are_by_samples(vm: &Vm) -> Result<()> {
    // The kernel's own count for each process.
    let faults = |name: &str| -> Result<f64> {
        let procs = format!("{}/{name}.service/cgroup.procs", common::SLICE);
        let text = vm.run(&format!("cut -d' ' -f10 /proc/$(cat {procs})/stat"))?;
        Ok(text.trim().parse()?)
    };
    with_samples(vm, "", || {
        until(vm, last_line_says("\"provenance\":\"sampled\""))?;
        next_line(vm)?;
        let from = snapshots(vm)?.len();
        let before = [faults("a")?, faults("b")?];
        vm.run("sleep 8")?;
        let after = [faults("a")?, faults("b")?];
        let mut bytes = [0.0, 0.0];
        let (mut sampled, mut others) = (0, 0);
        for line in &snapshots(vm)?[from..] {
            for verdict in line["plan"]["workloads"].as_array().into_iter().flatten() {
                let name = verdict["id"].as_str().unwrap_or_default();
                let mut names = ["a.service", "b.service"].iter();
                let Some(place) = names.position(|end| name.ends_with(end)) else {
                    continue;
                };
                match verdict["bandwidth"]["provenance"].as_str() {
                    Some("sampled") => sampled += 1,
                    _ => others += 1,
                }
                let rate = verdict["bandwidth"]["bytes_per_sec"].as_f64();
                bytes[place] += rate.unwrap_or(0.0);
            }
        }
        let part = |of: [f64; 2]| of[0] / (of[0] + of[1]);
        let theirs = part([after[0] - before[0], after[1] - before[1]]);
        let ours = part(bytes);
        println!(
            "{ours:.3} of the bytes, {theirs:.3} of the faults; {sampled} figures by samples, {others} not"
        );
        ensure!(
            sampled > 4 * others,
            "{others} figures of {sampled} are not by samples"
        );
        ensure!((ours - theirs).abs() < 0.05, "{ours} and {theirs}");
        Ok(())
    })
}

/// Far below its set-point a device is not worth an interrupt.
fn samples_are_off_far_from_overload(vm: &Vm) -> Result<()> {
    with_samples(vm, "--set-point 100GiB/s", || {
        until(vm, last_line_says("no device is near its set-point"))?;
        let before = fate(vm, "counted")? + fate(vm, "elsewhere")?;
        vm.run("sleep 2")?;
        let after = fate(vm, "counted")? + fate(vm, "elsewhere")?;
        ensure!(before > 0, "none before it was known");
        ensure!(before == after, "{} samples while off", after - before);
        Ok(())
    })?;
    with_samples(vm, "--set-point 64KiB/s", || {
        vm.run("sleep 4")?;
        let before = fate(vm, "counted")?;
        vm.run("sleep 2")?;
        let more = fate(vm, "counted")? - before;
        println!("{more} samples in two seconds near overload");
        ensure!(more > 0, "off near overload");
        Ok(())
    })
}

fn what_cannot_be_sampled_is_said(vm: &Vm) -> Result<()> {
    let text = ends_with(vm, 0, "weir doctor")?;
    let is_said = |line: &str| line.contains("– sampling") && line.contains("no table of events");
    ensure!(text.lines().any(is_said), "{text}");
    let text = ends_with(vm, 69, "weir run --attribution sampling --duration 1s")?;
    ensure!(text.contains("accesses cannot be sampled"), "{text}");
    let clock = "weir run --attribution sampling --attribution-event sw:cpu-clock --duration 1s";
    let text = ends_with(vm, 69, clock)?;
    ensure!(text.contains("sw:minor-faults"), "{text}");
    let done = attempt(vm, "weir run --duration 1s 2>&1; bpftool prog show")?;
    ensure!(
        !done.stdout.contains("weir_sample"),
        "loaded without an option: {done:?}"
    );
    Ok(())
}

#[test]
fn device_memory_is_sampled_for_the_task_that_accesses_it() -> Result<()> {
    let Some(bench) = Bench::ready("samples")? else {
        return Ok(());
    };
    let faults = bench.program("faults")?;
    let files = vec![GuestFile::new(faults, "tests/faults")];
    let machine = TestbedMachine {
        groups_mib: vec![128, 128],
        ..machine_with_a_device()
    };
    let vm = &bench.boot(&machine, files, &BootOptions::default())?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    vm.switch_model_on()?;
    let mut q = Questions::default();
    let mut ask = |name: &str, question: &dyn Fn(&Vm) -> Result<()>| {
        common::ask_about_scheduler(&mut q, vm, "true", name, question);
    };
    ask(
        "what cannot be sampled is said",
        &what_cannot_be_sampled_is_said,
    );
    ask(
        "pages of the device, by group",
        &device_pages_are_taken_by_group,
    );
    ask("by process", &processes_are_counted_separately);
    for (name, pages) in [("a", 600), ("b", 200)] {
        let path = make_cgroup(vm, name)?;
        start_in(vm, &path, &format!("/tests/faults 0 20000 1:{pages}"))?;
        // From its first round on it always has some.
        let has_some = format!("grep -q N1= /proc/$(cat {path}/cgroup.procs)/numa_maps");
        until(vm, &has_some)?;
    }
    ask("shares", &shares_are_by_samples);
    ask("on and off", &samples_are_off_far_from_overload);
    q.done()
}
