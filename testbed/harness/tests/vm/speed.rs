// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a second of the guest costs the host, in CPU time of QEMU: by the number of vCPUs that are busy, and
//! by the length of the windows of time; and what the length changes in what is measured. Prints figures and
//! checks none: CPU time is the host's. Run by hand:
//!
//! ```text
//! cargo test --release -p weir-testbed --test vm -- --ignored --nocapture soak_speed
//! ```

use crate::common::evidence::Evidence;
use crate::common::{Bench, MODULE, SLICE, mount_group, start_readers};
use anyhow::{Context, Result};
use std::time::Duration;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::cost::cpu_sec;
use weir_testbed::vm::{BootOptions, Vm};

const VCPUS: usize = 7;
const MEASURED_SEC: u64 = 10;
const READERS: [&str; 4] = ["a", "b", "c", "d"];
const WINDOWS_NS: [u64; 5] = [20_000, 40_000, 50_000, 100_000, 250_000];

fn machine(window_ns: u64) -> TestbedMachine {
    TestbedMachine {
        cpu_count: VCPUS,
        dram_mib: 512,
        groups_mib: vec![128],
        window_ns,
        ..TestbedMachine::default()
    }
}

fn boot(bench: &Bench, window_ns: u64) -> Result<Vm> {
    let vm = bench.boot(&machine(window_ns), vec![], &BootOptions::default())?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    mount_group(&vm)?;
    Ok(vm)
}

/// What the next seconds of a guest were like.
struct Cost {
    /// CPU time of QEMU for each second of the guest.
    host_sec: f64,
    /// Instructions of all vCPUs for each second of the guest, in millions.
    minsn: f64,
    mib_per_sec: f64,
    /// Mean time of a read at the device.
    read_us: f64,
}

fn measure(vm: &Vm) -> Result<Cost> {
    let truth = || {
        let insns: u64 = (0..VCPUS)
            .map(|i| vm.ground_truth().vcpu(i).instructions)
            .sum();
        (insns as f64, vm.ground_truth().group(0))
    };
    // The first second translates code.
    vm.sleep(Duration::from_secs(1))?;
    let (cpu, begun, (insns, group)) = (cpu_sec(vm.pid())?, vm.now(), truth());
    vm.sleep(Duration::from_secs(MEASURED_SEC))?;
    let sec = (vm.now() - begun).as_secs_f64();
    let (insns_after, after) = truth();
    let lines = (after.read_lines - group.read_lines) as f64;
    let wait_ns = (after.read_latency_sum_ns - group.read_latency_sum_ns) as f64;
    Ok(Cost {
        host_sec: (cpu_sec(vm.pid())? - cpu) / sec,
        minsn: (insns_after - insns) / sec / 1e6,
        mib_per_sec: lines * 64.0 / 1_048_576.0 / sec,
        read_us: wait_ns / lines.max(1.0) / 1e3,
    })
}

fn by_busy_vcpus(bench: &Bench, evidence: &mut Evidence) -> Result<()> {
    let vm = boot(bench, TestbedMachine::default().window_ns)?;
    vm.switch_model_on()?;
    for busy in [0, 1, 2, 4, VCPUS] {
        vm.run(&format!(
            "for i in $(seq {busy}); do taskset -c $((i - 1)) sh -c 'while :; do :; done' & done > /dev/null 2>&1 < /dev/null"
        ))?;
        let cost = measure(&vm)?;
        vm.run("killall -KILL sh; true").ok();
        evidence.say(format!(
            "{busy} busy vCPUs: {:.2} s of CPU time for a second of the guest ({:.0} million instructions)",
            cost.host_sec, cost.minsn
        ));
    }
    Ok(())
}

/// Four readers of the device, by the length of windows.
fn by_window(bench: &Bench, evidence: &mut Evidence) -> Result<()> {
    for window_ns in WINDOWS_NS {
        let vm = boot(bench, window_ns)?;
        start_readers(&vm, &READERS)?;
        vm.switch_model_on()?;
        let cost = measure(&vm)?;
        vm.run(&format!("echo 1 > {SLICE}/cgroup.kill"))?;
        evidence.say(format!(
            "windows of {} us, four readers: {:.2} s of CPU time for a second of the guest; {:.1} MiB/s, a read takes {:.2} us at the device",
            window_ns / 1000, cost.host_sec, cost.mib_per_sec, cost.read_us
        ));
    }
    Ok(())
}

#[test]
#[ignore = "soak: what a second of the guest costs the host"]
fn soak_speed() -> Result<()> {
    let Some(bench) = Bench::ready("speed")? else {
        return Ok(());
    };
    let mut evidence = Evidence::of("speed");
    let verdict = by_busy_vcpus(&bench, &mut evidence);
    let verdict = verdict.and_then(|()| by_window(&bench, &mut evidence));
    evidence.write(verdict)
}
