// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the counter driver hold on a live kernel? Its own script tests everything inside the guest
//! (`kernel/access_counters/tests/run-in-guest.sh`): refused maps, files, kfunc, a lost device, removal under
//! load.

use crate::common::{Bench, MODULE, ask_one};
use anyhow::{Result, ensure};
use std::path::Path;
use std::time::Duration;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::{BootOptions, GuestFile, Vm};

/// Two blank devices for the script to play, a frame buffer for the FPGA's way, and a kernel that
/// lets it write registers of a bound device. The second is behind a port, so that it can be reset, and a
/// third has its memory: during a reset the device itself does not answer.
fn laboratory(registers: &Path) -> BootOptions {
    let file = format!("share=on,size=1M,mem-path={}", registers.display());
    let qemu_args = [
        "-object",
        "memory-backend-ram,id=blank0,share=on,size=1M",
        "-device",
        "ivshmem-plain,memdev=blank0",
        "-object",
        &format!("memory-backend-file,id=mirror,{file}"),
        "-device",
        "ivshmem-plain,memdev=mirror",
        "-device",
        "pcie-root-port,id=behind,chassis=77",
        "-object",
        &format!("memory-backend-file,id=blank1,{file}"),
        "-device",
        "ivshmem-plain,memdev=blank1,bus=behind",
        "-device",
        "VGA",
    ];
    let qemu_args = qemu_args.map(String::from).to_vec();
    BootOptions {
        kernel_args: "iomem=relaxed".into(),
        qemu_args,
        is_cold: true,
        ..BootOptions::default()
    }
}

#[test]
fn the_driver_passes_its_own_tests() -> Result<()> {
    let Some(bench) = Bench::ready("driver")? else {
        return Ok(());
    };
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/access_counters/tests");
    let mut files = vec![
        GuestFile::new(scripts.join("run-in-guest.sh"), "tests/run-in-guest.sh"),
        GuestFile::new(scripts.join("lib.sh"), "tests/lib.sh"),
        GuestFile::new(scripts.join("perf.sh"), "tests/perf.sh"),
        GuestFile::new(scripts.join("reset.sh"), "tests/reset.sh"),
        GuestFile::new(&bench.driver()?.kfunc_test, "tests/kfunc.bpf.o"),
    ];
    files.extend(bench.perf()?);
    let machine = TestbedMachine {
        cpu_count: 2,
        dram_mib: 1024,
        groups_mib: vec![128],
        ..TestbedMachine::default()
    };
    let shared = tempfile::tempdir()?;
    let laboratory = laboratory(&shared.path().join("registers"));
    let vm = bench.boot(&machine, files, &laboratory)?;
    ask_one("its own script", || its_script_passes(&vm))
}

fn its_script_passes(vm: &Vm) -> Result<()> {
    let script = format!("sh /tests/run-in-guest.sh {MODULE} /tests/kfunc.bpf.o");
    // Half a minute on a host that has time.
    let reply = vm.try_run(&script, Duration::from_secs(600))?;
    println!("{}{}", reply.stdout, reply.stderr);

    let bad: Vec<&str> = reply
        .stdout
        .lines()
        .filter(|l| l.starts_with("not ok"))
        .collect();
    ensure!(bad.is_empty(), "{}", bad.join("\n"));
    let verdict = reply.stdout.lines().last().unwrap_or_default();
    ensure!(
        !verdict.starts_with('0'),
        "nothing was tested: {verdict}\n{}",
        reply.stderr
    );
    // This guest has all that the script needs, so a skip is a hole in the test.
    ensure!(
        verdict.ends_with(" passed, 0 failed, 0 skipped"),
        "the verdict: {verdict}"
    );
    ensure!(
        reply.status == Some(0),
        "the script ended with {:?}",
        reply.status
    );
    Ok(())
}
