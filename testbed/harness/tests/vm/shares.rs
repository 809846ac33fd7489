// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the counting program give each cgroup what its tasks did, on a real kernel? The guest has no CPU
//! events, so the kernel's own are counted: its clock must agree with `cpu.stat`, its page faults with
//! `memory.stat`, over tasks that fork, exit and move. What no such event can show is whether a CPU's event
//! counts reads of CXL memory.

use crate::common::{
    self, Bench, MODULE, Questions, attempt, ends_with, hurried, json, last_line_says, load_weir,
    make_cgroup, mount_group, next_line, says, signal_weir, snapshots, start_in, start_readers,
    until,
};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use weir_testbed::live::guest::own_pages;
use weir_testbed::vm::Vm;

/// Runs weir with an event, puts a question, and ends it.
fn with_event(vm: &Vm, arguments: &str, ask: impl FnOnce() -> Result<()>) -> Result<()> {
    let pid = load_weir(vm, arguments)?;
    let answer = ask();
    let status = signal_weir(vm, pid, "TERM")?;
    answer?;
    ensure!(status == 0, "weir ended with {status}");
    // The kernel frees a program some time after its last reference is gone.
    until(vm, "! bpftool prog show | grep -q weir_count")
}

/// What was counted so far, by cgroup id: the first event, and whether it ran all the time.
fn counted(vm: &Vm) -> Result<BTreeMap<u64, u64>> {
    let rows = json(vm, "bpftool -j map dump name cgroup_counts")?;
    let rows = rows.as_array().context("no array")?;
    let mut sums = BTreeMap::new();
    for row in rows.iter().map(|row| &row["formatted"]) {
        let key = row["key"].as_u64().context("no key")?;
        let cpus = row["values"].as_array().context("no values")?;
        let all = |word: &str| -> u64 {
            let of = |cpu: &serde_json::Value| cpu["value"][word].as_u64();
            cpus.iter().filter_map(of).sum()
        };
        ensure!(
            all("first_enabled_ns") == all("first_running_ns"),
            "the kernel's own events are not multiplexed: {row}"
        );
        sums.insert(key, all("first"));
    }
    Ok(sums)
}

/// A cgroup with one process that sleeps, so that it stays in weir's eyes when all others are gone.
fn kept_cgroup(vm: &Vm, name: &str) -> Result<(String, u64)> {
    let path = make_cgroup(vm, name)?;
    start_in(vm, &path, "sleep 3600")?;
    let id = vm.run(&format!("stat -c %i {path}"))?;
    Ok((path, id.trim().parse()?))
}

fn number(vm: &Vm, path: &str, file: &str, word: &str) -> Result<u64> {
    let text = vm.run(&format!("sed -n 's/^{word} //p' {path}/{file}"))?;
    Ok(text.trim().parse()?)
}

/// Runs a command in a cgroup to its end.
fn run_in(vm: &Vm, path: &str, command: &str) -> Result<()> {
    let done = attempt(
        vm,
        &format!("sh -c 'echo $$ > {path}/cgroup.procs; exec {command}'"),
    )?;
    ensure!(done.status == Some(0), "{command}: {done:?}");
    Ok(())
}

fn near(what: &str, ours: u64, theirs: u64, bound: f64) -> Result<()> {
    let error = ours as f64 / theirs as f64 - 1.0;
    println!(
        "{what}: {ours} counted, {theirs} by the kernel, {:+.2} %",
        error * 100.0
    );
    ensure!(
        theirs > 0 && error.abs() < bound,
        "{what}: {ours} and {theirs}"
    );
    Ok(())
}

/// Tasks that fork and exit all the time, beside others that compute.
fn time_is_that_of_cpu_stat(vm: &Vm) -> Result<()> {
    let work = [
        ("forks", "stress-ng --fork 2 --timeout 3 --quiet"),
        ("spins", "stress-ng --cpu 2 --timeout 3 --quiet"),
        ("switches", "stress-ng --switch 2 --timeout 3 --quiet"),
    ];
    let cgroups: Vec<_> = work.iter().map(|(name, _)| kept_cgroup(vm, name)).collect();
    with_event(vm, "--attribution-event sw:cpu-clock", || {
        for ((name, command), cgroup) in work.iter().zip(&cgroups) {
            let (path, id) = cgroup.as_ref().map_err(|e| anyhow::anyhow!("{e:#}"))?;
            let usec = || number(vm, path, "cpu.stat", "usage_usec");
            let (before, from) = (usec()?, counted(vm)?);
            run_in(vm, path, command)?;
            let (after, to) = (usec()?, counted(vm)?);
            let of = |sums: &BTreeMap<u64, u64>| sums.get(id).copied().unwrap_or(0);
            near(name, (of(&to) - of(&from)) / 1000, after - before, 0.1)?;
        }
        Ok(())
    })
}

/// Forks alone: `memory.stat` also has faults that the kernel takes on its own for a task (to fill the stack
/// of a program that is started, to lock memory), and such are no events.
fn faults_are_those_of_memory_stat(vm: &Vm) -> Result<()> {
    vm.run("echo 'for i in $(seq 150); do ( : ) & ( : ); wait; done' > /run/forks.sh")?;
    let (path, id) = kept_cgroup(vm, "faults")?;
    with_event(vm, "--attribution-event sw:page-faults", || {
        let faults = || number(vm, &path, "memory.stat", "pgfault");
        let (before, from) = (faults()?, counted(vm)?);
        run_in(vm, &path, "sh /run/forks.sh")?;
        let (after, to) = (faults()?, counted(vm)?);
        let of = |sums: &BTreeMap<u64, u64>| sums.get(&id).copied().unwrap_or(0);
        near("page faults", of(&to) - of(&from), after - before, 0.05)
    })
}

/// Counts from before a move go to the cgroup of the task at the switch: with a neighbour on its CPU
/// that is soon.
fn movers_are_counted_where_they_are(vm: &Vm) -> Result<()> {
    let (one, one_id) = kept_cgroup(vm, "one")?;
    let (two, two_id) = kept_cgroup(vm, "two")?;
    let beside = make_cgroup(vm, "beside")?;
    start_in(
        vm,
        &beside,
        "taskset -c 1 stress-ng --cpu 1 --timeout 600 --quiet",
    )?;
    let shared = with_event(vm, "--attribution-event sw:cpu-clock", || {
        let usec = |path: &str| number(vm, path, "cpu.stat", "usage_usec");
        let (before, from) = ([usec(&one)?, usec(&two)?], counted(vm)?);
        vm.run(&format!(
            "taskset -c 1 sh -c 'while :; do :; done' & p=$!
             for i in $(seq 12); do echo $p > {one}/cgroup.procs; sleep 0.1
                echo $p > {two}/cgroup.procs; sleep 0.3; done; kill $p"
        ))?;
        let (after, to) = ([usec(&one)?, usec(&two)?], counted(vm)?);
        for (place, id) in [one_id, two_id].into_iter().enumerate() {
            let of = |sums: &BTreeMap<u64, u64>| sums.get(&id).copied().unwrap_or(0);
            let ours = (of(&to) - of(&from)) / 1000;
            near("a cgroup of two", ours, after[place] - before[place], 0.1)?;
        }
        Ok(())
    });
    common::empty_cgroup(vm, &beside)?;
    shared
}

/// Two readers in one group, of which one has less CPU time: the group's bytes are shared out by what was
/// counted.
fn shares_are_by_counts(vm: &Vm, by: &str, arguments: &str) -> Result<()> {
    with_event(vm, &format!("--workloads {by} {arguments}"), || {
        until(vm, last_line_says("\"provenance\":\"sampled\""))?;
        let usec = |name: &str| {
            let path = format!("{}/{name}.service", common::SLICE);
            number(vm, &path, "cpu.stat", "usage_usec")
        };
        next_line(vm)?;
        let from = snapshots(vm)?.len();
        let before = [usec("a")?, usec("b")?];
        vm.run("sleep 8")?;
        let after = [usec("a")?, usec("b")?];
        let lines = snapshots(vm)?;
        let mut bytes = [0.0, 0.0];
        let (mut sampled, mut others) = (0, 0);
        // A shell in the guest for each figure would take a minute.
        let mut owners = BTreeMap::new();
        for verdict in lines[from..].iter().flat_map(verdicts) {
            let name = verdict["id"].as_str().unwrap_or_default().to_owned();
            let place = match owners.entry(name) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let place = owner(vm, new.key())?;
                    *new.insert(place)
                }
            };
            let Some(place) = place else {
                continue;
            };
            match verdict["bandwidth"]["provenance"].as_str() {
                Some("sampled") => sampled += 1,
                _ => others += 1,
            }
            bytes[place] += verdict["bandwidth"]["bytes_per_sec"]
                .as_f64()
                .unwrap_or(0.0);
        }
        let part = |x: f64, y: f64| x / (x + y);
        let time = [0, 1].map(|i| (after[i] - before[i]) as f64);
        let (ours, theirs) = (part(bytes[0], bytes[1]), part(time[0], time[1]));
        println!(
            "by {by}: {ours:.3} of the bytes, {theirs:.3} of the time; {sampled} figures by counts, {others} not"
        );
        ensure!(
            sampled > 10 * others,
            "{others} figures of {sampled} are not by counts"
        );
        ensure!((ours - theirs).abs() < 0.05, "{ours} and {theirs}");
        Ok(())
    })
}

/// Before an event counts, it is compared with what the device moves for reads of weir's own. One that counts
/// no traffic is found out, and the reads did come from the device: else that would be said.
fn what_counts_no_traffic_is_found_out(vm: &Vm) -> Result<()> {
    common::freeze(vm, true)?;
    let before = vm.ground_truth().group(0).read_lines;
    let command = "weir run --json --attribution-event sw:page-faults --duration 1s 2> /run/said";
    let done = attempt(vm, command);
    let read = vm.ground_truth().group(0).read_lines - before;
    common::freeze(vm, false)?;
    let text = done?.stdout;
    let line = text.lines().next().context("no line")?;
    let line: serde_json::Value = serde_json::from_str(line)?;
    let facts = line["description"]["facts"]
        .as_array()
        .context("no facts")?;
    let source = facts
        .iter()
        .find(|fact| fact["name"] == "attribution.source");
    let said = source.and_then(|fact| fact["value"]["Ok"].as_str());
    let said = said.context("no source of shares")?;
    println!("{read} lines from the device; {said}");
    ensure!(said.contains("uncalibrated: it counts 0.0"), "{said}");
    // 65 664 that are compared, after once around 16 MiB.
    ensure!(read > 300_000, "{read} lines");
    let warned = vm.run("cat /run/said")?;
    ensure!(warned.contains("shares by it may be wrong"), "{warned}");
    Ok(())
}

/// Nothing to go by but CPU time and where memory lies: two readers of which one has a fifth of a CPU, and
/// one beside them that is as busy, in ordinary memory. Compared with the ground truth, which has an owner
/// for each page.
fn the_last_resort(vm: &Vm) -> Result<()> {
    const NAMES: [&str; 3] = ["a", "b", "elsewhere"];
    let elsewhere = make_cgroup(vm, NAMES[2])?;
    vm.run("mkdir -p /dram && mount -t tmpfs -o mpol=bind:0 dram /dram")?;
    let fio = "fio --name=elsewhere --filename=/dram/file --thread --ioengine=mmap --rw=randread --bs=256k \
               --size=16m --time_based --runtime=3600 --norandommap --disk_util=0";
    hurried(vm, || {
        let pid = start_in(vm, &elsewhere, fio)?;
        let has_all = "file=/dram/file *N0=4096 ";
        until(vm, says(&format!("/proc/{pid}/numa_maps"), has_all))
    })?;
    own_pages(vm, "/cxl0/a", 1)?;
    own_pages(vm, "/cxl0/b", 2)?;
    let read_lines = || [1, 2].map(|owner| vm.ground_truth().owner(owner).read_lines);
    let mut bytes = BTreeMap::new();
    let mut moved = [0; 2];
    with_event(vm, "--attribution cpu-time", || {
        until(vm, last_line_says("\"provenance\":\"apportioned\""))?;
        next_line(vm)?;
        let (from, before) = (snapshots(vm)?.len(), read_lines());
        vm.run("sleep 12")?;
        let after = read_lines();
        moved = [0, 1].map(|i| after[i] - before[i]);
        for verdict in snapshots(vm)?[from..].iter().flat_map(verdicts) {
            let id = verdict["id"].as_str().unwrap_or_default().to_owned();
            let rate = verdict["bandwidth"]["bytes_per_sec"].as_f64();
            *bytes.entry(id).or_insert(0.0) += rate.unwrap_or(0.0);
        }
        Ok(())
    })?;
    common::empty_cgroup(vm, &elsewhere)?;
    let of = |name: &str| -> f64 {
        let mine = |id: &str| id.ends_with(&format!("/{name}.service"));
        let found = bytes.iter().filter(|(id, _)| mine(id));
        found.map(|(_, bytes)| bytes).sum()
    };
    let all: f64 = bytes.values().sum();
    let ours = NAMES.map(|name| of(name) / all);
    let theirs = moved[0] as f64 / (moved[0] + moved[1]) as f64;
    println!(
        "by CPU time and memory: {ours:.3?} of the bytes; a read {theirs:.3} of them by the ground truth"
    );
    ensure!(moved[1] > 0 && all > 0.0, "{moved:?} lines, {bytes:?}");
    ensure!((ours[0] - theirs).abs() < 0.08, "{ours:?}, {theirs}");
    ensure!(
        ours[2] < 0.01,
        "a workload without memory there was given {}",
        ours[2]
    );
    Ok(())
}

fn verdicts(line: &serde_json::Value) -> Vec<serde_json::Value> {
    let list = line["plan"]["workloads"].as_array();
    list.cloned().unwrap_or_default()
}

/// The owner of a workload: the first or the second reader.
fn owner(vm: &Vm, workload: &str) -> Result<Option<usize>> {
    let Some(process) = workload.strip_prefix("pid:") else {
        let of = ["a.service", "b.service"]
            .iter()
            .position(|name| workload.ends_with(name));
        return Ok(of);
    };
    let pid = process.split('@').next().unwrap_or_default();
    let cgroup = attempt(vm, &format!("cat /proc/{pid}/cgroup"))?.stdout;
    let of = |name: &&str| cgroup.trim().ends_with(*name);
    Ok(["a.service", "b.service"].iter().position(of))
}

fn what_cannot_be_counted_is_said(vm: &Vm) -> Result<()> {
    let text = ends_with(vm, 0, "weir doctor")?;
    ensure!(text.contains("no counts for each task"), "{text}");
    let text = ends_with(vm, 69, "weir run --attribution task-counts --duration 1s")?;
    ensure!(text.contains("leave --attribution out"), "{text}");
    let text = ends_with(
        vm,
        69,
        "weir run --attribution-event sw:nothing --duration 1s",
    )?;
    ensure!(text.contains("sw:cpu-clock"), "{text}");
    let text = ends_with(vm, 0, "weir run --duration 1s 2>&1; bpftool prog show")?;
    ensure!(
        !text.contains("weir_count"),
        "in the kernel without an option: {text}"
    );
    Ok(())
}

/// Mean time of one run of a program, since statistics were switched on.
fn run_ns(vm: &Vm, name: &str) -> Result<(f64, u64)> {
    let all = json(vm, "bpftool -j prog show")?;
    let all = all.as_array().context("no array")?;
    let found = all.iter().find(|p| p["name"] == name);
    let word = |word: &str| found.and_then(|p| p[word].as_u64());
    let (ns, count) = (word("run_time_ns"), word("run_cnt"));
    let (ns, count) = ns.zip(count).with_context(|| format!("{name} never ran"))?;
    Ok((ns as f64 / count.max(1) as f64, count))
}

fn what_a_switch_costs(vm: &Vm) -> Result<()> {
    let work = "stress-ng --switch 2 --timeout 3 > /dev/null 2>&1";
    common::freeze(vm, true)?;
    vm.run("mkdir -p /sys/fs/bpf/least && bpftool prog loadall /tests/nothing.bpf.o /sys/fs/bpf/least autoattach")?;
    vm.run("echo 1 > /proc/sys/kernel/bpf_stats_enabled")?;
    vm.run(work)?;
    let (least, runs) = run_ns(vm, "least_switch")?;
    println!("the least: {least:.0} ns in {runs} runs");
    vm.run("rm -r /sys/fs/bpf/least")?;
    for by in ["cgroup", "process"] {
        with_event(
            vm,
            &format!("--workloads {by} --attribution-event sw:cpu-clock"),
            || {
                vm.run(work)?;
                let (ns, runs) = run_ns(vm, "weir_count_switch")?;
                println!(
                    "by {by}: {ns:.0} ns in {runs} runs, {:.1} times the least",
                    ns / least
                );
                ensure!(runs > 1000, "it ran {runs} times only");
                Ok(())
            },
        )?;
    }
    vm.run("echo 0 > /proc/sys/kernel/bpf_stats_enabled")?;
    common::freeze(vm, false)
}

#[test]
fn each_gets_what_its_tasks_did() -> Result<()> {
    let Some(bench) = Bench::ready("shares")? else {
        return Ok(());
    };
    let vm = &bench.guest()?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    mount_group(vm)?;
    vm.switch_model_on()?;
    let mut q = Questions::default();
    let mut ask = |name: &str, question: &dyn Fn(&Vm) -> Result<()>| {
        common::ask_about_scheduler(&mut q, vm, "rm -rf /sys/fs/bpf/least", name, question);
    };
    ask(
        "what cannot be counted is said",
        &what_cannot_be_counted_is_said,
    );
    ask("time is that of cpu.stat", &time_is_that_of_cpu_stat);
    ask(
        "faults are those of memory.stat",
        &faults_are_those_of_memory_stat,
    );
    ask("tasks that move", &movers_are_counted_where_they_are);
    start_readers(vm, &["a", "b"])?;
    vm.run(&format!(
        "echo '20000 100000' > {}/b.service/cpu.max",
        common::SLICE
    ))?;
    let clock = "--attribution-event sw:cpu-clock";
    ask("shares of cgroups", &|vm| {
        shares_are_by_counts(vm, "cgroup", clock)
    });
    ask("shares of processes", &|vm| {
        shares_are_by_counts(vm, "process", clock)
    });
    ask(
        "what counts no traffic is found out",
        &what_counts_no_traffic_is_found_out,
    );
    ask("the last resort", &the_last_resort);
    ask("what a switch costs", &what_a_switch_costs);
    q.done()
}
