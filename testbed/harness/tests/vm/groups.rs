// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a kernel make of weir's tables the groups they say? One guest with a whole device makes overlays
//! for 4 and for 16 groups; two more boot with them. The kernel's view is read with `numactl` and
//! from sysfs, and compared with figures that stand here, not only with what `weir` says of itself.

use crate::common::{Bench, Questions, ends_with, is, json, pages, until};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::{BootOptions, GuestFile, Vm};

const DEVICE_MIB: u64 = 4096;
const OVERLAY: &str = "/overlay.cpio";
/// Blocks of sixteen groups, out of 32 blocks of 128 MiB.
const SIXTEEN: [u64; 16] = [8, 4, 3, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1];
const FOUR: [u64; 4] = [16, 8, 4, 4];

/// A device of 4 GiB above the PCI hole, with latency and bandwidth from the firmware.
fn machine() -> TestbedMachine {
    TestbedMachine {
        cpu_count: 2,
        dram_mib: 2048,
        groups_mib: vec![DEVICE_MIB],
        firmware_figures: true,
        instruction_ps: 2000,
        ..TestbedMachine::default()
    }
}

fn shares(blocks: &[u64]) -> String {
    let all: Vec<String> = blocks.iter().map(|b| format!("{b}/32")).collect();
    all.join(",")
}

/// An overlay made in the guest, carried out of it.
fn overlay(vm: &Vm, blocks: &[u64], dir: &Path) -> Result<PathBuf> {
    let said = vm.run(&format!(
        "rm -f /tmp/o.cpio; weir groups acpi --sizes {} --out /tmp/o.cpio",
        shares(blocks)
    ))?;
    println!("{said}");
    let text = vm.run("od -A n -v -t x1 /tmp/o.cpio")?;
    let bytes = text
        .split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16));
    let bytes: Vec<u8> = bytes.collect::<Result<_, _>>()?;
    let path = dir.join(format!("{}.cpio", blocks.len()));
    std::fs::write(&path, bytes)?;
    Ok(path)
}

fn bad_input_writes_nothing(vm: &Vm) -> Result<()> {
    vm.run(
        "mkdir -p /tmp/bad /tmp/cut && cp /sys/firmware/acpi/tables/[SH]??T /tmp/bad/ && cp /tmp/bad/* /tmp/cut/
         printf '\\377' | dd of=/tmp/bad/SRAT bs=1 seek=60 conv=notrunc 2> /dev/null
         head -c 100 /tmp/bad/SLIT > /tmp/cut/SLIT; head -c 100 /tmp/bad/HMAT > /tmp/cut/HMAT",
    )?;
    for (arguments, part) in [
        ("--sizes 1/2,1/4", "add up to 3/4"),
        ("--sizes 1/2,1/2 --domain 5", "no memory of domain 5"),
        ("--sizes 1/2,1/2 --domain 0", "domain 0 has processors"),
        (
            "--sizes 1/2,1/2 --tables /tmp/bad",
            "SRAT has a wrong checksum",
        ),
        ("--sizes 1/2,1/2 --tables /tmp/cut", "is damaged at byte 4"),
        ("--sizes 1/2,1/2 --tables /tmp", "there is no /tmp/SRAT"),
        ("--sizes 1/100,99/100", "leaves no multiple"),
    ] {
        let said = ends_with(
            vm,
            2,
            &format!("weir groups acpi --out /tmp/never {arguments}"),
        )?;
        ensure!(said.contains(part), "{arguments}: {said}");
        ends_with(vm, 1, "test -e /tmp/never")?;
    }
    let said = ends_with(vm, 2, "weir groups acpi --sizes 1/2,1/2 --out /tmp/o.cpio")?;
    ensure!(said.contains("is there already"), "{said}");
    // The kernel does not run with it.
    let said = ends_with(vm, 1, "weir groups acpi --check /tmp/o.cpio")?;
    ensure!(said.contains("the kernel did not take it"), "{said}");
    Ok(())
}

/// `numactl -H` says the sizes (less what the kernel keeps of each) and the distances.
fn numactl_agrees(vm: &Vm, blocks: &[u64]) -> Result<()> {
    let text = vm.run("numactl -H")?;
    println!("{text}");
    let nodes = blocks.len() + 1;
    ensure!(
        text.contains(&format!("available: {nodes} nodes (0-{})", nodes - 1)),
        "{text}"
    );
    for (i, count) in blocks.iter().enumerate() {
        let node = i + 1;
        let line = |start: String| {
            text.lines()
                .find_map(|l| l.strip_prefix(&start).map(str::trim))
        };
        ensure!(
            line(format!("node {node} cpus:")) == Some(""),
            "node {node} has CPUs"
        );
        let size = line(format!("node {node} size:")).context("no size")?;
        let mib: u64 = size.trim_end_matches(" MB").parse()?;
        let whole = count * 128;
        // A page struct is 64 bytes of 4096; the rest is small.
        ensure!(
            mib <= whole && mib >= whole - whole / 50 - 8,
            "node {node} has {mib} of {whole} MiB"
        );
        let row = text
            .lines()
            .map(str::trim)
            .find_map(|l| l.strip_prefix(&format!("{node}:")));
        let row: Vec<u64> = row
            .context("no distances")?
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let wanted = |other: usize| match other {
            0 => 20,
            other if other == node => 10,
            _ => 11,
        };
        let wanted: Vec<u64> = (0..nodes).map(wanted).collect();
        ensure!(row == wanted, "distances of node {node}: {row:?}");
    }
    Ok(())
}

/// Every group has the device's latency and bandwidth, as the firmware gives it for the whole.
fn attributes_are_the_devices(vm: &Vm, blocks: &[u64]) -> Result<()> {
    let machine = machine();
    let wanted = format!(
        "{0} {0} {1} {1}",
        machine.idle_ns,
        machine.capacity_mib_per_sec()
    );
    for node in 1..=blocks.len() {
        let dir = format!("/sys/devices/system/node/node{node}/access0/initiators");
        let found = vm.run(&format!(
            "cd {dir} && echo $(cat read_latency write_latency read_bandwidth write_bandwidth) && test -e node0"
        ))?;
        ensure!(found.trim() == wanted, "node {node}: {found}, not {wanted}");
    }
    Ok(())
}

/// Each group is where its part of the device is, block by block.
fn blocks_are_in_order(vm: &Vm, blocks: &[u64]) -> Result<()> {
    let mut block = machine().device_base_bytes() >> 27;
    for (i, count) in blocks.iter().enumerate() {
        for _ in 0..*count {
            vm.run(&format!(
                "test -e /sys/devices/system/node/node{}/memory{block}",
                i + 1
            ))?;
            block += 1;
        }
    }
    Ok(())
}

fn weir_agrees(vm: &Vm, blocks: &[u64]) -> Result<()> {
    println!(
        "{}",
        vm.run(&format!("weir groups acpi --check {OVERLAY}"))?
    );
    println!("{}", vm.run("weir groups list")?);
    let list = json(vm, "weir groups list --json")?;
    let groups = list["groups"].as_array().context("no groups")?;
    ensure!(groups.len() == blocks.len(), "{list}");
    for (i, group) in groups.iter().enumerate() {
        ensure!(group["node"] == i + 1 && group["distance"] == 20, "{group}");
        ensure!(
            group["reach"]["read_latency_ns"] == machine().idle_ns,
            "{group}"
        );
    }
    Ok(())
}

fn a_command_is_bound(vm: &Vm) -> Result<()> {
    vm.run(
        "weir groups bind 3 -- sleep 3600 > /dev/null 2>&1 < /dev/null & echo $! > /run/bound.pid",
    )?;
    let pid = vm.run("cat /run/bound.pid")?;
    let pid = pid.trim();
    until(vm, is(&format!("/proc/{pid}/comm"), "sleep"))?;
    let maps = vm.run(&format!("cat /proc/{pid}/numa_maps"))?;
    ensure!(maps.contains(" bind:3 "), "{maps}");
    ensure!(pages(vm, pid, 3)? > 0 && pages(vm, pid, 0)? == 0, "{maps}");
    vm.run(&format!("kill {pid}"))?;
    for (command, part) in [
        ("bind 0 -- true", "node 0 has CPUs"),
        ("bind 99 -- true", "no node 99"),
        (
            "bind 3 -- /no/such/program",
            "cannot start /no/such/program",
        ),
        ("bind 3 --pid 999999", "process 999999"),
    ] {
        let said = ends_with(vm, 2, &format!("weir groups {command}"))?;
        ensure!(said.contains(part), "{command}: {said}");
    }
    Ok(())
}

fn a_running_cgroup_is_moved(vm: &Vm) -> Result<()> {
    const DIR: &str = "/sys/fs/cgroup/work.slice/held.service";
    vm.run(&format!(
        "mkdir -p /sys/fs/cgroup/work.slice; echo '+cpu +memory +cpuset' > /sys/fs/cgroup/work.slice/cgroup.subtree_control
         mkdir -p {DIR}
         sh -c 'echo $$ > {DIR}/cgroup.procs; exec stress-ng --vm 1 --vm-bytes 48M --vm-keep --vm-hang 0 \
         --timeout 3600s' > /dev/null 2>&1 < /dev/null &"
    ))?;
    // The one that has the memory is its youngest.
    until(
        vm,
        &format!(
            "pid=$(tail -n 1 {DIR}/cgroup.procs); grep -q 'anon=1[0-9]\\{{4\\}} ' /proc/$pid/numa_maps"
        ),
    )?;
    let pid = vm.run(&format!("tail -n 1 {DIR}/cgroup.procs"))?;
    let pid = pid.trim();
    let before = pages(vm, pid, 0)?;
    ensure!(
        before > 10_000 && pages(vm, pid, 4)? == 0,
        "it is on node 0: {before}"
    );
    let said = ends_with(vm, 2, &format!("weir groups bind 4 --pid {pid}"))?;
    ensure!(said.contains("--whole-cgroup"), "{said}");
    let said = vm.run(&format!("weir groups bind 4 --pid {pid} --whole-cgroup"))?;
    println!("{said}");
    ensure!(
        said.contains(&format!("to undo: echo '' > {DIR}/cpuset.mems")),
        "{said}"
    );
    until(
        vm,
        &format!(
            "[ $(cat {DIR}/cpuset.mems) = 4 ] && ! grep -q 'anon=.* N0=[0-9]\\{{5\\}}' /proc/{pid}/numa_maps"
        ),
    )?;
    let (there, left) = (pages(vm, pid, 4)?, pages(vm, pid, 0)?);
    println!("pages on node 0 before {before}; after {left}, on node 4 {there}");
    ensure!(there > before * 9 / 10, "{there} of {before} pages moved");
    vm.run(&format!("echo 1 > {DIR}/cgroup.kill"))?;
    Ok(())
}

fn questions(vm: &Vm, blocks: &'static [u64], questions: &mut Questions) {
    let count = blocks.len();
    questions.ask(&format!("{count}: numactl agrees"), || {
        numactl_agrees(vm, blocks)
    });
    questions.ask(&format!("{count}: attributes are the device's"), || {
        attributes_are_the_devices(vm, blocks)
    });
    questions.ask(&format!("{count}: blocks are in order"), || {
        blocks_are_in_order(vm, blocks)
    });
    questions.ask(&format!("{count}: weir agrees"), || weir_agrees(vm, blocks));
}

#[test]
fn groups_are_made_by_firmware_tables() -> Result<()> {
    let Some(bench) = Bench::ready("groups")? else {
        return Ok(());
    };
    let kept = tempfile::tempdir()?;
    let mut outcome = Questions::default();
    let (four, sixteen) = {
        let vm = bench.boot(&machine(), vec![], &BootOptions::default())?;
        let made = (
            overlay(&vm, &FOUR, kept.path())?,
            overlay(&vm, &SIXTEEN, kept.path())?,
        );
        outcome.ask("bad input writes nothing", || bad_input_writes_nothing(&vm));
        made
    };
    for (path, blocks) in [(four, &FOUR[..]), (sixteen, &SIXTEEN[..])] {
        let files = vec![GuestFile::new(&path, OVERLAY.trim_start_matches('/'))];
        let options = BootOptions {
            before_initrd: Some(path),
            ..BootOptions::default()
        };
        let vm = bench.boot(&machine(), files, &options)?;
        questions(&vm, blocks, &mut outcome);
        if blocks.len() == FOUR.len() {
            outcome.ask("a command is bound", || a_command_is_bound(&vm));
            outcome.ask("a running cgroup is moved", || {
                a_running_cgroup_is_moved(&vm)
            });
        }
    }
    outcome.done()
}
