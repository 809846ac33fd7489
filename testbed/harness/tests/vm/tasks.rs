// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the iterator over tasks say what `/proc` says? weir observes the same guest twice, once with the
//! iterator and once where the kernel's type information is hidden, so that it must walk. Processes with
//! hostile names, one real-time thread among ordinary ones, a zombie.
//!
//! Does the program that adds up CPU time say what `cpu.stat` says, throttled time too? Is memory seen to
//! move of a process that does nothing?

use crate::common::{
    self, Bench, LINES, Questions, SLICE, ends_with, json, last_line_says, load_weir, make_cgroup,
    next_line, signal_weir, snapshots, start_in, until,
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use weir_testbed::vm::Vm;
use weir_testbed::vm::condition::Condition;

/// How often a new figure is polled for.
const POLLS: u32 = 100;
/// What the page of facts calls it.
const FACT: &str = "processes.source";
/// A name that is no word: a line's end, the form of the next field, a colour.
const NAME: &str = "we\\nir) R 1 \\033[2J";

fn source(description: &Value) -> Result<String> {
    let facts = description["facts"].as_array().context("no facts")?;
    let mut found = facts.iter().filter(|fact| fact["name"] == FACT);
    let text = found.next().map(|fact| fact["value"]["Ok"].to_string());
    text.context("no such fact")
}

/// Why each workload is never limited, if so, by id.
type Verdicts = BTreeMap<String, String>;

/// What weir says after a while, and the processes of workloads.
fn observe(vm: &Vm, arguments: &str) -> Result<(Verdicts, Value, String)> {
    let pid = load_weir(vm, arguments)?;
    // Two scans of all processes are two seconds apart.
    let enough = if arguments.contains("process") {
        Condition::Lines {
            path: LINES.to_owned(),
            from: 0,
            count: 20,
        }
    } else {
        last_line_says("\"cpu_cpus\":*,\"part_ratio\"")
    };
    // The iterator is loaded beside; until it is there files are read.
    let known = ["iterator over all tasks", "no type information"];
    let known = Condition::Any(known.map(last_line_says).into());
    let waited = until(vm, Condition::All(vec![known, enough])).and_then(|()| next_line(vm));
    let lines = snapshots(vm);
    let status = signal_weir(vm, pid, "TERM")?;
    waited?;
    ensure!(status == 0, "weir ended with {status}");
    let last = lines?.pop().context("no line")?;
    let mut verdicts = Verdicts::new();
    for workload in last["plan"]["workloads"].as_array().into_iter().flatten() {
        let id = workload["id"].as_str().context("no id")?.to_owned();
        // The others depend on the time.
        let why = &workload["why"];
        let is_excluded = why["why"] == "excluded";
        verdicts.insert(
            id,
            if is_excluded {
                why.to_string()
            } else {
                String::new()
            },
        );
    }
    Ok((
        verdicts,
        last["processes"].clone(),
        source(&last["description"])?,
    ))
}

fn both_ways(vm: &Vm, arguments: &str) -> Result<[(Verdicts, Value); 2]> {
    let (verdicts, inside, how) = observe(vm, arguments)?;
    ensure!(how.contains("a BPF iterator over all tasks"), "{how}");
    vm.run("mount -t tmpfs none /sys/kernel/btf")?;
    let walked = observe(vm, arguments);
    vm.run("umount /sys/kernel/btf")?;
    let (walked, walked_inside, how) = walked?;
    let why = "one by one; no BPF iterator: not supported: no type information";
    ensure!(how.contains(why), "{how}");
    Ok([(verdicts, inside), (walked, walked_inside)])
}

fn doctor_names_the_source(vm: &Vm) -> Result<()> {
    let doctor = "weir doctor --json; true";
    let how = source(&json(vm, doctor)?["description"])?;
    ensure!(how.contains("a BPF iterator over all tasks"), "{how}");
    vm.run("mount -t tmpfs none /sys/kernel/btf")?;
    let how = json(vm, doctor).and_then(|report| source(&report["description"]));
    vm.run("umount /sys/kernel/btf")?;
    let how = how?;
    ensure!(how.contains("CONFIG_DEBUG_INFO_BTF"), "{how}");
    let inside = "unshare --pid --fork --mount-proc weir doctor --json; true";
    let how = source(&json(vm, inside)?["description"])?;
    ensure!(how.contains("not in the initial pid namespace"), "{how}");
    Ok(())
}

fn list(vm: &Vm, name: &str) -> Result<Vec<u64>> {
    list_of(vm, &format!("{SLICE}/{name}.service"))
}

fn list_of(vm: &Vm, path: &str) -> Result<Vec<u64>> {
    let text = vm.run(&format!("cat {path}/cgroup.procs"))?;
    let pids = text.lines().map(|pid| pid.parse::<u64>());
    let mut pids: Vec<u64> = pids.collect::<Result<_, _>>()?;
    pids.sort_unstable();
    Ok(pids)
}

fn cgroups_have_the_same_members(vm: &Vm) -> Result<()> {
    let [(seen, inside), (walked, walked_inside)] = both_ways(vm, "")?;
    let in_root: Vec<u64> = vec![vm.run("cat /run/in_root.pid")?.trim().parse()?];
    let of = |name: &str| format!("/work.slice/{name}.service");
    for (id, why, listed) in [
        (of("named"), "", list(vm, "named")?),
        (of("fifo"), "real_time", list(vm, "fifo")?),
        (of("mixed"), "", list(vm, "mixed")?),
        (of("outer"), "inner", list(vm, "outer")?),
        (
            of("outer") + "/nested",
            "",
            list_of(vm, &format!("{SLICE}/outer.service/nested"))?,
        ),
        (of("machine"), "", list(vm, "machine")?),
        ("/".to_owned(), "root", in_root),
    ] {
        let (ours, theirs) = (seen.get(&id), walked.get(&id));
        let (ours, theirs) = (ours.context(id.clone())?, theirs.context(id.clone())?);
        ensure!(ours == theirs, "{id}: {ours}, and by files {theirs}");
        ensure!(ours.contains(why), "{id}: {ours}");
        let rows_of = |inside: &Value| -> Vec<(u64, String)> {
            let rows = inside[&id]["busiest"].as_array().into_iter().flatten();
            let row = |p: &Value| Some((p["pid"].as_u64()?, p["comm"].as_str()?.to_owned()));
            let mut rows: Vec<_> = rows.filter_map(row).collect();
            rows.sort_unstable();
            rows
        };
        let (ours, theirs) = (rows_of(&inside), rows_of(&walked_inside));
        ensure!(ours == theirs, "{id}: {ours:?}, and by files {theirs:?}");
        let pids: Vec<u64> = ours.iter().map(|(pid, _)| *pid).collect();
        println!("{id}: {ours:?}");
        ensure!(pids == listed, "{id}: {pids:?}, its list has {listed:?}");
    }
    let below = seen.keys().find(|id| id.contains("vcpu"));
    ensure!(below.is_none(), "threads are no workload: {below:?}");
    let strange = inside["/work.slice/named.service"].to_string();
    ensure!(strange.contains("we\\nir) R 1 \\u001b"), "{strange}");
    Ok(())
}

/// Those of our cgroups with memory on the device. Others may be shown too: those that discovery has not
/// classified yet.
fn processes_are_the_same(vm: &Vm) -> Result<()> {
    let first = list(vm, "mixed")?[0];
    vm.run(&format!("chrt -f -p 1 {first}"))?;
    let started = ["named", "fifo", "mixed"].map(|name| list(vm, name));
    let started: Result<Vec<Vec<u64>>> = started.into_iter().collect();
    let started = started?.concat();
    let is_ours = |id: &str| {
        started
            .iter()
            .any(|pid| id.starts_with(&format!("pid:{pid}@")))
    };
    let both = both_ways(vm, "--workloads process --exclude 'we?ir*'")?;
    let [seen, walked] = both.map(|(mut verdicts, _)| {
        verdicts.retain(|id, _| is_ours(id));
        verdicts
    });
    println!("{seen:?}");
    ensure!(seen == walked, "by files {walked:?}");
    let excluded = |what: &str| seen.values().filter(|why| why.contains(what)).count();
    let counts = (seen.len(), excluded("real_time"), excluded("by_user"));
    ensure!(
        counts == (5, 1, 2),
        "all, real-time, and with the strange name: {counts:?}"
    );
    Ok(())
}

/// weir's figure of a cgroup in seconds, as it offers it.
fn metric(vm: &Vm, name: &str, cgroup: &str) -> Result<f64> {
    let sample = format!("weir_cgroup_{name}_seconds_total{{cgroup=\"{cgroup}\"}} ");
    let page = vm.run("wget -q -O - http://127.0.0.1:9779/metrics")?;
    let line = page.lines().find_map(|line| line.strip_prefix(&sample));
    Ok(line.with_context(|| sample.clone())?.parse()?)
}

/// CPU time and throttled time in seconds, by the kernel's file.
fn cpu_stat(vm: &Vm, cgroup: &str) -> Result<[f64; 2]> {
    let text = vm.run(&format!("cat /sys/fs/cgroup{cgroup}/cpu.stat"))?;
    let usec = |name: &str| -> Result<f64> {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(value.context("no such line")?.trim().parse::<f64>()? / 1e6)
    };
    Ok([usec("usage_usec ")?, usec("throttled_usec ")?])
}

/// One of them computes, and is held back by a limit.
fn cpu_time_is_that_of_the_files(vm: &Vm) -> Result<()> {
    vm.run("ip link set lo up")?;
    for number in 0..10 {
        start(vm, &format!("cpu{number}"))?;
    }
    let busy = "/work.slice/cpu7.service";
    let dir = format!("/sys/fs/cgroup{busy}");
    vm.run(&format!(
        "echo 10000 40000 > {dir}/cpu.max; echo 'while :; do :; done' > /run/spin"
    ))?;
    start_in(vm, &dir, "sh /run/spin")?;
    let pid = load_weir(vm, "--metrics=127.0.0.1:9779")?;
    let begun = until(vm, last_line_says("all cgroups at once"));
    let compared = begun.and_then(|()| (0..5).try_for_each(|_| is_between_files(vm, busy)));
    let last = snapshots(vm);
    let status = signal_weir(vm, pid, "TERM")?;
    compared?;
    ensure!(status == 0, "weir ended with {status}");
    let last = last?.pop().context("no line")?;
    let facts = last["description"]["facts"].to_string();
    ensure!(facts.contains("all cgroups at once"), "{facts}");
    Ok(())
}

/// What weir offers is renewed now and then, and is then of after `before`.
fn is_between_files(vm: &Vm, cgroup: &str) -> Result<()> {
    let before = cpu_stat(vm, cgroup)?;
    let mut found = [0.0; 2];
    for _ in 0..POLLS {
        next_line(vm)?;
        found = [metric(vm, "cpu", cgroup)?, metric(vm, "throttled", cgroup)?];
        if found[0] > before[0] {
            break;
        }
    }
    let after = cpu_stat(vm, cgroup)?;
    println!("{before:?} {found:?} {after:?}");
    for ((before, found), after) in before.iter().zip(found).zip(after) {
        // The files are truncated to microseconds.
        let is_between = found >= *before && found < after + 1e-6;
        ensure!(is_between, "{found} is not between {before} and {after}");
    }
    Ok(())
}

/// Waits until weir says of the cgroup that it has memory on the device, or that it has none.
fn is_on_device(vm: &Vm, id: &str, wanted: bool) -> Result<()> {
    for _ in 0..POLLS {
        let last = snapshots(vm)?.pop().context("no line")?;
        if last["processes"][id].is_object() == wanted {
            return Ok(());
        }
        next_line(vm)?;
    }
    anyhow::bail!("{id} on the device: never {wanted}")
}

/// weir does not read the memory of a process that gives no sign of a change, and sees it move to the device
/// and back.
fn memory_of_a_still_process_is_seen_to_move(vm: &Vm) -> Result<()> {
    let id = "/work.slice/still.service";
    let still = make_cgroup(vm, "still")?;
    start_in(vm, &still, "/tests/faults 1 0 0:600")?;
    let pid = load_weir(vm, "")?;
    let seen = next_line(vm).and_then(|()| {
        // It is read, and passed over after that.
        ends_with(vm, 0, "sleep 8")?;
        is_on_device(vm, id, false)?;
        for (from, to) in [(0, 1), (1, 0)] {
            vm.run(&format!(
                "migratepages $(cat {still}/cgroup.procs) {from} {to}"
            ))?;
            is_on_device(vm, id, to == 1)?;
        }
        Ok(())
    });
    let status = signal_weir(vm, pid, "TERM")?;
    seen?;
    ensure!(status == 0, "weir ended with {status}");
    Ok(())
}

/// Something with a page of the device's memory and so with a place on the screen; it waits for ever.
fn start(vm: &Vm, name: &str) -> Result<String> {
    let path = make_cgroup(vm, name)?;
    start_in(vm, &path, "/tests/faults 1 0 1:600")?;
    Ok(path)
}

#[test]
fn the_iterator_says_what_proc_says() -> Result<()> {
    let Some(bench) = Bench::ready("tasks")? else {
        return Ok(());
    };
    let vm = &bench.guest()?;
    vm.run(&format!("insmod {}", common::MODULE))?;
    vm.switch_model_on()?;
    let mut q = Questions::default();
    let mut ask = |name: &str, question: &dyn Fn(&Vm) -> Result<()>| {
        common::ask_about_scheduler(&mut q, vm, "true", name, question);
    };
    ask("doctor names the source", &doctor_names_the_source);
    let named = start(vm, "named")?;
    vm.run(&format!(
        "mkdir -p /run/x; ln -s /tests/faults \"$(printf '/run/x/{NAME}')\""
    ))?;
    for _ in 0..2 {
        start_in(vm, &named, "/run/x/we* 1 0 1:50")?;
    }
    let fifo = start(vm, "fifo")?;
    start_in(vm, &fifo, "/tests/threads 3 1000")?;
    let tasks = format!("/proc/$(sort -n {fifo}/cgroup.procs | tail -n 1)/task");
    let last = format!("ls {tasks} | sort -n | tail -n 1");
    until(
        vm,
        &format!("[ $(ls {tasks} | wc -l) = 4 ] && chrt -f -p 1 $({last})"),
    )?;
    let mixed = start(vm, "mixed")?;
    start_in(vm, &mixed, "/tests/threads 20 50")?;
    // One that ended and is not waited for.
    vm.run("printf 'sleep 0.1 &\\nexec sleep 3600\\n' > /run/zombie")?;
    start_in(vm, &mixed, "sh /run/zombie")?;
    // One with a thread in a cgroup of its own, as those of virtual machines are.
    let machine = start(vm, "machine")?;
    vm.run(&format!(
        "mkdir {machine}/vcpu0; echo threaded > {machine}/vcpu0/cgroup.type; \
         cat {machine}/cgroup.procs > {machine}/vcpu0/cgroup.threads"
    ))?;
    // One that has cgroups below it, and one in the root.
    let outer = start(vm, "outer")?;
    vm.run(&format!("mkdir {outer}/nested"))?;
    start_in(vm, &format!("{outer}/nested"), "/tests/faults 1 0 1:600")?;
    vm.run(
        "sh -c 'echo $$ | tee /run/in_root.pid > /sys/fs/cgroup/cgroup.procs; exec /tests/faults 1 0 1:600' \
         > /dev/null 2>&1 < /dev/null &",
    )?;
    ends_with(vm, 0, "sleep 2")?;
    ask("cgroups", &cgroups_have_the_same_members);
    ask("processes", &processes_are_the_same);
    ask(
        "memory that moves",
        &memory_of_a_still_process_is_seen_to_move,
    );
    ask("CPU time", &cpu_time_is_that_of_the_files);
    q.done()
}
