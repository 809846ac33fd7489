// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are the counters right, all the way up? Two groups are read and written on a real kernel
//! under the device model; then the emulated device's ground truth, the driver's text
//! files, its binary file, perf's and weir's figures must say the same.
//!
//! Comparisons that must be exact are made with the model switched off, which counts nothing, so
//! that no line moves between two reads. The kernel itself touches both nodes a little (`struct
//! page`s lie in the memory they describe): the ground truth's owner map, filled from the guest's page
//! tables, distinguishes the files' lines from those.

use crate::common::{
    Bench, MODULE, Questions, filled, json, next_line, signal_weir, snapshots, start_weir, until,
};
use anyhow::{Context, Result, ensure};
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::condition::Condition;
use weir_testbed::vm::{BootOptions, Vm};

const LINE_BYTES: u64 = 64;
const FILE_MIB: u64 = 16;
const FILE_LINES: u64 = (FILE_MIB << 20) / LINE_BYTES;
const GROUPS: usize = 2;
const DEVICE: &str = "/sys/class/weir_cxl/weir_cxl0";

/// Quick, since only counts matter; a small cache, so that little hides in it.
fn machine() -> TestbedMachine {
    TestbedMachine {
        cpu_count: 2,
        dram_mib: 512,
        groups_mib: vec![128; GROUPS],
        cache_lines: 4096,
        instruction_ps: 2000,
        ..TestbedMachine::default()
    }
}

/// Bytes read and written, by group.
type Bytes = [(u64, u64); GROUPS];

fn numbers(text: &str) -> Result<Bytes> {
    let words: std::result::Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    match words.with_context(|| format!("not numbers: {text}"))?[..] {
        [a, b, c, d] => Ok([(a, b), (c, d)]),
        _ => anyhow::bail!("not {GROUPS} pairs: {text}"),
    }
}

fn from_text(vm: &Vm) -> Result<Bytes> {
    let files = "group0/read_bytes group0/write_bytes group1/read_bytes group1/write_bytes";
    numbers(&vm.run(&format!("cd {DEVICE} && cat {files}"))?)
}

fn from_binary(vm: &Vm) -> Result<Bytes> {
    numbers(&vm.run(&format!("od -A n -v -t u8 {DEVICE}/counters"))?)
}

fn from_ground_truth(vm: &Vm) -> Bytes {
    [0, 1].map(|group| {
        let tally = vm.ground_truth().group(group);
        (
            tally.read_lines * LINE_BYTES,
            tally.write_lines * LINE_BYTES,
        )
    })
}

/// The counts, once all sources of them agree. The model must be off.
fn agreed(vm: &Vm) -> Result<Bytes> {
    let (ground_truth, text, binary) = (from_ground_truth(vm), from_text(vm)?, from_binary(vm)?);
    ensure!(
        text == ground_truth,
        "text files {text:?}, ground truth {ground_truth:?}"
    );
    ensure!(
        binary == ground_truth,
        "binary file {binary:?}, ground truth {ground_truth:?}"
    );
    ensure!(
        from_ground_truth(vm) == ground_truth,
        "lines were counted with the model off"
    );
    Ok(ground_truth)
}

/// What a command moved, by group, and what of it was in the file of each group (its owner in the
/// ground truth is the group's number plus one). In lines.
struct Moved {
    groups: Bytes,
    files: Bytes,
}

fn moved(vm: &Vm, command: &str) -> Result<Moved> {
    let owners = || {
        [1, 2].map(|owner| {
            let tally = vm.ground_truth().owner(owner);
            (tally.read_lines, tally.write_lines)
        })
    };
    let (before, files_before) = (agreed(vm)?, owners());
    vm.switch_model_on()?;
    vm.run(command)?;
    vm.switch_model_off();
    let (after, files_after) = (agreed(vm)?, owners());
    let less = |a: &Bytes, b: &Bytes, unit: u64| {
        [0, 1].map(|g| ((a[g].0 - b[g].0) / unit, (a[g].1 - b[g].1) / unit))
    };
    let moved = Moved {
        groups: less(&after, &before, LINE_BYTES),
        files: less(&files_after, &files_before, 1),
    };
    println!(
        "{command}: lines of groups {:?}, of files {:?}",
        moved.groups, moved.files
    );
    Ok(moved)
}

fn prepare(vm: &Vm) -> Result<()> {
    vm.run(&format!("insmod {MODULE}"))?;
    for group in 0..GROUPS {
        let node = group + 1;
        vm.run(&format!(
            "mkdir -p /cxl{group}; mount -t tmpfs -o size=100%,mpol=bind:{node} cxl /cxl{group}
             dd if=/dev/zero of=/cxl{group}/file bs=1M count={FILE_MIB} 2> /dev/null"
        ))?;
        let base = vm.machine.device_base_bytes();
        for run in vm
            .run(&format!("weir-agent pages /cxl{group}/file"))?
            .lines()
        {
            let (first, last) = run
                .split_once('-')
                .with_context(|| format!("pages: {run}"))?;
            let first = u64::from_str_radix(first, 16)?;
            let last = u64::from_str_radix(last, 16)?;
            for address in (first..=last).step_by(4096) {
                vm.ground_truth().set_owner(address - base, node as u8);
            }
        }
    }
    Ok(())
}

fn the_groups_are_the_nodes(vm: &Vm) -> Result<()> {
    for group in 0..GROUPS {
        let text = vm.run(&format!("cd {DEVICE}/group{group} && cat node size_bytes"))?;
        ensure!(
            text == format!("{}\n{}\n", group + 1, 128 << 20),
            "group {group}: {text}"
        );
    }
    Ok(())
}

/// Within one per cent: a line may be evicted by another vCPU in mid-copy and be read again.
fn about(lines: u64, wanted: u64) -> bool {
    lines >= wanted - u64::from(machine().cache_lines as u32) && lines <= wanted + wanted / 100
}

fn reads_count_in_their_group(vm: &Vm) -> Result<()> {
    for (group, other) in [(0, 1), (1, 0)] {
        let moved = moved(vm, &format!("dd if=/cxl{group}/file of=/dev/null bs=1M"))?;
        let (read, written) = moved.files[group];
        ensure!(about(read, FILE_LINES), "{read} lines read of {FILE_LINES}");
        ensure!(written == 0, "{written} lines written by reading");
        ensure!(
            moved.files[other] == (0, 0),
            "in the other's file: {:?}",
            moved.files[other]
        );
        // Other traffic is little: a gross mistake of the group would still be seen.
        let (all, beside) = (moved.groups[group].0, moved.groups[other].0);
        ensure!(
            all >= read && all <= read + read / 5,
            "{all} lines in the group of {read}"
        );
        ensure!(beside < FILE_LINES / 5, "{beside} lines in the other group");
    }
    Ok(())
}

/// A store to a line that is not cached reads it first (thesis 6.2.1: 1 GiB/s of writes is
/// 0.99 GiB/s of reads and of writes each). Lines that are still in the cache at the end are not written yet.
fn writes_also_read(vm: &Vm) -> Result<()> {
    let write = format!("dd if=/dev/zero of=/cxl1/file bs=1M count={FILE_MIB} conv=notrunc");
    let moved = moved(vm, &write)?;
    let (read, written) = moved.files[1];
    ensure!(
        about(read, FILE_LINES),
        "{read} lines read for {FILE_LINES} written"
    );
    ensure!(
        about(written, FILE_LINES),
        "{written} lines written of {FILE_LINES}"
    );
    ensure!(
        written <= read,
        "{written} lines written, {read} read: not allocated"
    );
    ensure!(
        moved.files[0] == (0, 0),
        "in the other's file: {:?}",
        moved.files[0]
    );
    Ok(())
}

/// What the program perf says, one object an event, of what was moved while it counted. The model is
/// off whenever perf starts and stops, so that both are the same lines, exactly.
fn under_perf(vm: &Vm, events: &str, command: &str) -> Result<(Moved, Vec<serde_json::Value>)> {
    vm.run(&format!(
        "rm -f /run/perf.*; mkfifo /run/perf.off
         perf stat -j -o /run/perf.json {events} -a -- \
             sh -c 'touch /run/perf.on; read word < /run/perf.off' \
             > /run/perf.said 2>&1 < /dev/null &"
    ))?;
    let begun = Condition::Exists("/run/perf.on".to_owned());
    until(vm, Condition::Any(vec![begun, filled("/run/perf.said")]))?;
    let moved = moved(vm, command)?;
    vm.run("echo off > /run/perf.off")?;
    until(vm, "! pidof perf > /dev/null")?;
    let said = vm.run("cat /run/perf.said /run/perf.json")?;
    println!("{said}");
    let objects: std::result::Result<_, _> = said
        .lines()
        .filter(|l| l.starts_with('{'))
        .map(serde_json::from_str)
        .collect();
    Ok((moved, objects.with_context(|| said.clone())?))
}

fn perf_counts_the_same(vm: &Vm) -> Result<()> {
    let (mut wanted, mut events) = (Vec::new(), String::new());
    for group in 0..GROUPS {
        for event in ["read", "write"] {
            wanted.push(format!("weir_cxl0/{event},group={group}/"));
            events += &format!(" -e weir_cxl0/{event},group={group}/");
        }
    }
    let copy = "dd if=/cxl0/file of=/cxl1/file bs=1M conv=notrunc";
    let (moved, seen) = under_perf(vm, &events, copy)?;
    ensure!(
        about(moved.files[0].0, FILE_LINES) && about(moved.files[1].1, FILE_LINES),
        "the copy moved {:?} lines of the files",
        moved.files
    );
    ensure!(
        seen.len() == wanted.len(),
        "{} events of {}",
        seen.len(),
        wanted.len()
    );
    let bytes = moved.groups.iter().flat_map(|g| [g.0, g.1]);
    for ((name, seen), lines) in wanted.iter().zip(&seen).zip(bytes) {
        let count = seen["counter-value"].as_str().context("counter-value")?;
        ensure!(
            seen["event"] == *name && count.parse::<f64>()? == (lines * LINE_BYTES) as f64,
            "{name} moved {lines} lines, perf says {seen}"
        );
        ensure!(
            seen["unit"] == "Bytes" && seen["pcnt-running"] == 100.0,
            "{seen}"
        );
    }
    Ok(())
}

/// `weir events --count` opens the driver's PMU by itself, a set for each group: the same lines, exactly.
fn weir_counts_the_same_by_perf(vm: &Vm) -> Result<()> {
    vm.run(
        "rm -f /run/perf.*; mkfifo /run/perf.off
         weir events --count --json -- \
             sh -c 'touch /run/perf.on; read word < /run/perf.off' \
             > /run/perf.json 2> /run/perf.said < /dev/null &",
    )?;
    let begun = Condition::Exists("/run/perf.on".to_owned());
    until(vm, Condition::Any(vec![begun, filled("/run/perf.said")]))?;
    let moved = moved(vm, "dd if=/cxl1/file of=/cxl0/file bs=1M conv=notrunc")?;
    vm.run("echo off > /run/perf.off")?;
    until(vm, "! pidof weir > /dev/null")?;
    let rows = json(vm, "cat /run/perf.said /run/perf.json")?;
    println!("{rows}");
    ensure!(
        rows.as_array().is_some_and(|rows| rows.len() == GROUPS),
        "{rows}"
    );
    for (group, (read, written)) in moved.groups.iter().enumerate() {
        let row = &rows[group];
        ensure!(
            row["read_bytes"]["Ok"] == read * LINE_BYTES
                && row["write_bytes"]["Ok"] == written * LINE_BYTES,
            "group {group} moved {read} and {written} lines, weir says {row}"
        );
        ensure!(
            row["node"] == group as u64 + 1 && row["running_ratio"] == 1.0,
            "{row}"
        );
        ensure!(
            row["reads"]["Ok"]["family"] == "weir_cxl" && row["reads"]["Ok"]["sets"] == 1,
            "{row}"
        );
    }
    Ok(())
}

/// weir's rates, times the time between its ticks, against what the driver counted meanwhile. All
/// traffic lies between its first tick and its last.
fn weir_sees_what_the_driver_counts(vm: &Vm, source: &str) -> Result<()> {
    let before = agreed(vm)?;
    vm.switch_model_on()?;
    let pid = start_weir(vm, &format!("--interval 250ms --counters {source}"))?;
    next_line(vm)?;
    for group in 0..GROUPS {
        vm.run(&format!("dd if=/cxl{group}/file of=/dev/null bs=1M"))?;
        vm.run(&format!(
            "dd if=/dev/zero of=/cxl{group}/file bs=1M count=8 conv=notrunc"
        ))?;
    }
    next_line(vm)?;
    let status = signal_weir(vm, pid, "TERM")?;
    ensure!(status == 0, "weir ended with {status}");
    vm.switch_model_off();
    let after = agreed(vm)?;
    let sum = |b: &Bytes| (b[0].0 + b[1].0, b[0].1 + b[1].1);
    let counted = (
        sum(&after).0 - sum(&before).0,
        sum(&after).1 - sum(&before).1,
    );

    let ticks = snapshots(vm)?;
    let mut seen = (0.0, 0.0);
    for pair in ticks.windows(2) {
        let at = |s: &serde_json::Value| s["plan"]["at"].as_f64().context("plan.at");
        let secs = (at(&pair[1])? - at(&pair[0])?) / 1e9;
        ensure!(secs > 0.0, "time went back between two ticks");
        let device = &pair[1]["plan"]["devices"][0];
        let rate = |name: &str| {
            let rate = device[name]
                .as_f64()
                .with_context(|| format!("{name} in {device}"))?;
            ensure!(rate >= 0.0, "{name} = {rate}");
            anyhow::Ok(rate)
        };
        seen.0 += rate("read_bytes_per_sec")? * secs;
        seen.1 += rate("write_bytes_per_sec")? * secs;
    }
    println!(
        "weir saw {seen:?} bytes in {} ticks, the driver counted {counted:?}",
        ticks.len()
    );
    for (seen, counted) in [(seen.0, counted.0), (seen.1, counted.1)] {
        let ratio = seen / counted as f64;
        // A rate is over the time between two readings of a register, `plan.at` a little later.
        ensure!(
            (0.95..=1.05).contains(&ratio),
            "weir saw {ratio:.3} of what was counted"
        );
    }
    Ok(())
}

fn weir_knows_both_nodes(vm: &Vm) -> Result<()> {
    let facts = json(vm, "weir doctor --json")?;
    let groups = facts["description"]["groups"]
        .as_array()
        .context("description.groups")?;
    let nodes: Vec<_> = groups.iter().map(|g| g["node"].as_u64()).collect();
    ensure!(nodes == [Some(1), Some(2)], "groups on nodes {nodes:?}");
    ensure!(
        facts["can_limit"] == true && facts["lacking"] == serde_json::json!([]),
        "{facts}"
    );
    Ok(())
}

#[test]
fn ground_truth_driver_perf_and_weir_count_the_same() -> Result<()> {
    let Some(bench) = Bench::ready("counters")? else {
        return Ok(());
    };
    let vm = &bench.boot(&machine(), bench.perf()?, &BootOptions::default())?;
    prepare(vm)?;
    let mut questions = Questions::default();
    questions.ask("groups are nodes", || the_groups_are_the_nodes(vm));
    questions.ask("weir knows both nodes", || weir_knows_both_nodes(vm));
    questions.ask("reads count in their group, and there only", || {
        reads_count_in_their_group(vm)
    });
    questions.ask("writes also read", || writes_also_read(vm));
    questions.ask("perf counts the same", || perf_counts_the_same(vm));
    questions.ask("weir counts the same by perf", || {
        weir_counts_the_same_by_perf(vm)
    });
    questions.ask("weir sees what the driver counts", || {
        weir_sees_what_the_driver_counts(vm, "driver")
    });
    questions.ask("and by perf, without the driver's files", || {
        weir_sees_what_the_driver_counts(vm, "perf")
    });
    questions.done()
}
