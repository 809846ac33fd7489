// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does memory move between groups without being handed out twice? Two hot-pluggable memory devices lie
//! on one file of the host, so that what is written through one is read through the other: real aliases.
//! Processes in both groups keep patterns in their memory while `weir groups resize` moves blocks at random.
//!
//! The end shows that the copies are aliases, and what happens without weir: a block is brought online
//! in both copies by hand.

use crate::common::evidence::Evidence;
use crate::common::{Bench, Questions, attempt, ends_with, filled, is, json, pages, until};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::{BootOptions, GuestFile, OWN_FILE, Vm};

const COPY_MIB: u64 = 1024;
const BLOCK_MIB: u64 = 128;
const BLOCKS: u64 = COPY_MIB / BLOCK_MIB;
const BASES: [u64; 2] = [0x1_0000_0000, 0x1_4000_0000];
const MEMORY: &str = "/sys/devices/system/memory";
#[derive(Clone, Copy)]
struct Amount {
    resizes: u64,
    /// How often one is killed in the middle.
    kills: u64,
}

const SHORT: Amount = Amount {
    resizes: 12,
    kills: 5,
};

const SOAK: Amount = Amount {
    resizes: 1000,
    kills: 20,
};

/// What keeps patterns meanwhile, and in which group.
const HOLDERS: [(u32, &str); 4] = [(1, "one"), (2, "two"), (1, "three"), (2, "four")];

/// One file is behind both copies.
fn options() -> BootOptions {
    // Merged with the size that is given already.
    let mut qemu_args = vec!["-m".into(), "slots=2,maxmem=16G".to_owned()];
    for (copy, base) in BASES.iter().enumerate() {
        let node = copy + 1;
        qemu_args.extend([
            "-object".into(),
            format!(
                "memory-backend-file,id=copy{copy},mem-path={OWN_FILE},size={COPY_MIB}M,share=on"
            ),
            "-device".into(),
            format!("pc-dimm,id=dimm{copy},memdev=copy{copy},node={node},addr={base:#x}"),
        ]);
    }
    BootOptions {
        kernel_args: "memhp_default_state=offline".into(),
        qemu_args,
        ..BootOptions::default()
    }
}

/// Nodes 1 and 2 have a little memory of their own, so that Linux knows the nodes before the copies.
fn machine() -> TestbedMachine {
    TestbedMachine {
        cpu_count: 2,
        dram_mib: 1280,
        groups_mib: vec![32, 32],
        instruction_ps: 2000,
        ..TestbedMachine::default()
    }
}

fn prepare(vm: &Vm) -> Result<()> {
    vm.run(&format!(
        "mkdir -p /etc/weir; printf 'copy-bytes = {}\\nbases-bytes = [{:#x}, {:#x}]\\ncpu-caches = \"coherent\"\\n' > /etc/weir/alias-map.toml",
        COPY_MIB << 20,
        BASES[0],
        BASES[1]
    ))?;
    let check = json(vm, "weir groups resize --check --json")?;
    ensure!(
        check["free_bytes"] == COPY_MIB << 20,
        "all is offline after the boot: {check}"
    );
    ensure!(sizes(&check)? == [0, 0], "{check}");
    Ok(())
}

fn sizes(report: &Value) -> Result<Vec<u64>> {
    let groups = report["groups"].as_array().context("no groups")?;
    let of = |g: &Value| Some(g["size_bytes"].as_u64()? / (BLOCK_MIB << 20));
    groups.iter().map(|g| of(g).context("no size")).collect()
}

/// Online blocks of each copy, by device block: read from the kernel and not from weir.
fn online(vm: &Vm) -> Result<[Vec<bool>; 2]> {
    let first = BASES.map(|base| base >> 27);
    let mut found = [vec![], vec![]];
    for (copy, list) in found.iter_mut().enumerate() {
        let files: Vec<String> = (0..BLOCKS)
            .map(|b| format!("{MEMORY}/memory{}/state", first[copy] + b))
            .collect();
        let text = vm.run(&format!("cat {}", files.join(" ")))?;
        list.extend(text.lines().map(|state| state != "offline"));
        ensure!(list.len() as u64 == BLOCKS, "{text}");
    }
    Ok(found)
}

fn never_twice(vm: &Vm) -> Result<()> {
    let [a, b] = online(vm)?;
    ensure!(a.iter().zip(&b).all(|(a, b)| !(*a && *b)), "{a:?} {b:?}");
    Ok(())
}

/// Starts a process in a group that keeps patterns in `mib` of its memory.
fn hold(vm: &Vm, group: u32, mib: u64, name: &str) -> Result<()> {
    vm.run(&format!(
        "rm -f /run/{name}; weir groups bind {group} -- weir-agent hold {mib} {} /run/{name} \
         > /run/{name}.out 2>&1 < /dev/null & echo $! > /run/{name}.pid",
        group * 1000 + 7
    ))?;
    until(vm, filled(&format!("/run/{name}")))
}

fn rounds(vm: &Vm, name: &str) -> Result<u64> {
    let text = vm.run(&format!("cat /run/{name}"))?;
    text.trim()
        .parse()
        .with_context(|| format!("{name}: {text}"))
}

/// It still reads its memory, and always found what it had written.
fn is_well(vm: &Vm, name: &str) -> Result<u64> {
    let now = rounds(vm, name)?;
    until(vm, !is(&format!("/run/{name}"), &now.to_string()))?;
    rounds(vm, name)
}

fn end(vm: &Vm, name: &str) -> Result<()> {
    vm.run(&format!(
        "kill -9 $(cat /run/{name}.pid); while [ -d /proc/$(cat /run/{name}.pid) ]; do sleep 0.05; done"
    ))
    .map(drop)
}

/// Pages that had to leave a group are moved back, so that memory with old data in it is under the blocks
/// that move next.
fn bring_home(vm: &Vm, group: u32, name: &str) -> Result<()> {
    let others = if group == 1 { "0,2" } else { "0,1" };
    vm.run(&format!(
        "migratepages $(cat /run/{name}.pid) {others} {group}"
    ))
    .map(drop)
}

/// A small generator of the test's own: the seed is printed, and the same seed gives the same run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn random_resizes(vm: &Vm, count: u64, report: &mut dyn FnMut(String)) -> Result<()> {
    let seed = 20_261_121;
    println!("seed {seed}, {count} resizes");
    let mut random = Random(seed);
    vm.run("weir groups resize 1=512MiB 2=512MiB")?;
    for (group, name) in HOLDERS {
        hold(vm, group, 64, name)?;
    }
    let (mut moved, mut busy, mut times) = (0, 0, [vec![], vec![]]);
    for round in 0..count {
        // Each group keeps enough for those that hold memory in it.
        let first = 2 + random.below(BLOCKS - 3);
        let second = 2 + random.below(BLOCKS - first - 1);
        let command = format!(
            "weir groups resize 1={}MiB 2={}MiB --json",
            first * BLOCK_MIB,
            second * BLOCK_MIB
        );
        let reply = attempt(vm, &command)?;
        ensure!(
            matches!(reply.status, Some(0 | 1)),
            "{command}: {}",
            reply.stderr
        );
        let report: Value = serde_json::from_str(&reply.stdout)?;
        busy += report["refused"].as_array().map_or(0, Vec::len);
        for step in report["moved"].as_array().context("no steps")? {
            let is_online = usize::from(step["online"] == true);
            times[is_online].push(step["took_ms"].as_f64().context("no time")?);
            moved += 1;
        }
        ensure!(
            report["complete"] == true && sizes(&report)? == [first, second]
                || report["refused"].as_array().is_some_and(|r| !r.is_empty()),
            "{command}: {report}"
        );
        if round % 5 == 0 {
            never_twice(vm)?;
            HOLDERS
                .iter()
                .try_for_each(|(group, name)| bring_home(vm, *group, name))?;
        }
    }
    never_twice(vm)?;
    for (_, name) in HOLDERS {
        println!(
            "{name}: {} rounds over its memory, all well",
            is_well(vm, name)?
        );
        end(vm, name)?;
    }
    report(format!(
        "{count} resizes moved {moved} blocks, {busy} times one was busy"
    ));
    report_times(times, report);
    Ok(())
}

fn report_times(mut times: [Vec<f64>; 2], report: &mut dyn FnMut(String)) {
    for (what, times) in ["offline", "online"].iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let at = |part: f64| {
            times
                .get((times.len() as f64 * part) as usize)
                .copied()
                .unwrap_or(0.0)
        };
        report(format!(
            "{what} of 128 MiB: median {:.1} ms, 99th percentile {:.1} ms of the guest's time",
            at(0.5),
            at(0.99)
        ));
    }
}

/// Killed again and again in the middle: whatever is left is allowed, and the next call goes on from it.
fn killed_in_the_middle(vm: &Vm, kills: u64, report: &mut dyn FnMut(String)) -> Result<()> {
    vm.run("weir groups resize 1=256MiB 2=768MiB")?;
    let mut interrupted = 0;
    for round in 0..kills {
        let wanted = if round % 2 == 0 { [6, 2] } else { [2, 6] };
        let [first, second] = wanted.map(|blocks| blocks * BLOCK_MIB);
        let delay_us = round * 2000;
        // A block has changed hands or is about to, and there are more to come. No process is started to
        // poll.
        vm.run(&format!(
            "poll() {{ now=; for f in {MEMORY}/memory3[2-9]/state {MEMORY}/memory4[0-7]/state; do
                 read -r word < $f; now=$now$word; done; }}
             poll; before=$now
             weir groups resize 1={first}MiB 2={second}MiB > /dev/null 2>&1 & pid=$!
             while [ -d /proc/$pid ] && [ \"$now\" = \"$before\" ]; do poll; done
             [ {delay_us} = 0 ] || usleep {delay_us}
             kill -9 $pid 2> /dev/null; wait $pid; true"
        ))?;
        never_twice(vm)?;
        let check = json(vm, "weir groups resize --check --json")?;
        ensure!(
            check["violations"].as_array().is_some_and(Vec::is_empty),
            "{check}"
        );
        interrupted += u32::from(sizes(&check)? != wanted);
    }
    report(format!(
        "killed in the middle: {interrupted} of {kills} did not come to their end"
    ));
    ensure!(interrupted > 0, "none was killed in the middle");
    let last = json(vm, "weir groups resize 1=512MiB 2=512MiB --json")?;
    ensure!(sizes(&last)? == [4, 4], "{last}");
    Ok(())
}

/// Where the kernel puts the pages of a block it takes away: not into the rest of the group, though there
/// is space.
fn pages_leave_a_group_that_shrinks(vm: &Vm) -> Result<()> {
    vm.run("weir groups resize 1=0 2=0 && weir groups resize 1=128MiB")?;
    hold(vm, 1, 96, "mover")?;
    vm.run("weir groups resize 1=384MiB 2=256MiB")?;
    let pid = vm.run("cat /run/mover.pid")?;
    let on = |when: &str| -> Result<[u64; 3]> {
        let mut found = [0; 3];
        for (node, count) in (0..).zip(&mut found) {
            *count = pages(vm, pid.trim(), node)?;
        }
        println!("{when}: pages by node {found:?}");
        Ok(found)
    };
    let before = on("before")?;
    ensure!(before[0] == 0 && before[2] == 0, "{before:?}");
    // The block it began with.
    let block = BASES[0] >> 27;
    vm.run(&format!("echo offline > {MEMORY}/memory{block}/state"))?;
    let after = on("its block has been taken away")?;
    // Node 0 is nearer than node 2.
    ensure!(after[0] > 0 && after[2] == 0, "{after:?}");
    bring_home(vm, 1, "mover")?;
    let back = on("moved back")?;
    ensure!(back[0] == 0 && back[2] == 0, "{back:?}");
    is_well(vm, "mover")?;
    end(vm, "mover")
}

/// A block with memory of the kernel cannot be emptied: it stays, with the reason.
fn a_busy_block_is_refused(vm: &Vm) -> Result<()> {
    vm.run("weir groups resize 1=0 2=0")?;
    // Not movable, and so the kernel uses it for itself.
    let block = (BASES[0] >> 27) + BLOCKS - 1;
    vm.run(&format!(
        "echo online_kernel > {MEMORY}/memory{block}/state"
    ))?;
    // Data in a pipe is memory of the kernel.
    vm.run(
        "sh -c 'numactl --preferred=1 dd if=/dev/zero bs=64k 2> /dev/null | sleep 3600' \
         > /dev/null 2>&1 < /dev/null &",
    )?;
    until(vm, "grep -q pipe_write /proc/$(pidof dd)/wchan")?;
    let said = ends_with(vm, 1, "weir groups resize 1=0 --offline-timeout 5s")?;
    println!("{said}");
    ensure!(
        said.contains(&format!("✗ node 1, memory{block}: busy")),
        "{said}"
    );
    ensure!(
        said.contains("no block of device memory is online twice"),
        "{said}"
    );
    // Its device block is not to be had, all others are.
    let said = ends_with(
        vm,
        1,
        "weir groups resize 1=0 2=1024MiB --offline-timeout 5s",
    )?;
    ensure!(said.contains("896 MiB"), "{said}");
    never_twice(vm)?;
    vm.run("kill $(pidof dd) $(pidof sleep)")?;
    until(vm, "! pidof dd && ! ps ax | grep -q '[s]leep 3600'")?;
    vm.run("weir groups resize 1=0 2=0").map(drop)
}

/// The last: one block online in both copies, by hand. weir sees it, and so do the patterns.
fn two_hands_on_one_block(vm: &Vm) -> Result<()> {
    vm.run("weir groups resize 1=128MiB 2=0")?;
    let block = BASES[1] >> 27;
    vm.run(&format!(
        "echo online_movable > {MEMORY}/memory{block}/state"
    ))?;
    let said = ends_with(vm, 1, "weir groups resize --check")?;
    println!("{said}");
    ensure!(said.contains("online in several copies"), "{said}");
    let said = ends_with(vm, 2, "weir groups resize 1=0")?;
    ensure!(said.contains("online in several copies"), "{said}");
    // Files on both sides, each of most of the block: the second one is written over the first.
    vm.run(
        "for node in 1 2; do mkdir /side$node; mount -t tmpfs -o size=200M,mpol=bind:$node side /side$node; done",
    )?;
    let sum = "md5sum < /side2/file";
    vm.run("dd if=/dev/urandom of=/side2/file bs=1M count=110 2> /dev/null")?;
    let (once, again) = (vm.run(sum)?, vm.run(sum)?);
    ensure!(once == again, "no process has written to it yet");
    vm.run("dd if=/dev/zero of=/side1/file bs=1M count=110 2> /dev/null")?;
    ensure!(
        vm.run(sum)? != once,
        "the copies are no aliases: this whole test showed nothing"
    );
    vm.run("umount /side1 /side2")?;
    // A process is hit in its pattern, or where it hurts more.
    hold(vm, 2, 112, "right")?;
    vm.run(
        "weir groups bind 1 -- weir-agent hold 112 9 /run/left > /run/left.out 2>&1 < /dev/null & \
         echo $! > /run/left.pid",
    )?;
    until(
        vm,
        "grep -q CORRUPT /run/left /run/right || ! kill -0 $(cat /run/left.pid) || ! kill -0 $(cat /run/right.pid)",
    )
}

fn run_all(test: &str, amount: Amount, report: &mut dyn FnMut(String)) -> Result<()> {
    let Some(bench) = Bench::ready(test)? else {
        return Ok(());
    };
    let tool = bench.env.root().join("usr/bin/migratepages");
    let files = vec![GuestFile::new(&tool, "usr/bin/migratepages")];
    let vm = bench.boot(&machine(), files, &options())?;
    println!("{}", vm.run("numactl -H")?);
    prepare(&vm)?;
    let mut outcome = Questions::default();
    outcome.ask("random resizes under load", || {
        random_resizes(&vm, amount.resizes, report)
    });
    outcome.ask("killed in the middle", || {
        killed_in_the_middle(&vm, amount.kills, report)
    });
    outcome.ask("pages leave a group that shrinks", || {
        pages_leave_a_group_that_shrinks(&vm)
    });
    outcome.ask("a busy block is refused", || a_busy_block_is_refused(&vm));
    outcome.ask("two hands on one block", || two_hands_on_one_block(&vm));
    outcome.done()
}

#[test]
fn memory_moves_and_is_never_handed_out_twice() -> Result<()> {
    run_all("resize", SHORT, &mut |said| println!("{said}"))
}

#[test]
#[ignore = "soak: a thousand resizes"]
fn soak_resize() -> Result<()> {
    let mut evidence = Evidence::of("resize");
    let verdict = run_all("resize, soak", SOAK, &mut |said| evidence.say(said));
    evidence.write(verdict)
}
