// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What co-simulation costs the host: the same work on the same guest, without and with the RTL, alternating.
//! Prints figures and checks none; run by hand:
//!
//! ```text
//! cargo test --release -p weir-testbed --test vm -- --ignored --nocapture soak_cosim_cost
//! ```

use crate::common::both::{GROUPS, RTL, SHARED, bind, fio, ready};
use crate::common::evidence::Evidence;
use anyhow::Result;
use std::time::Instant;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::cost::cpu_sec;
use weir_testbed::vm::{BootOptions, Vm};

/// In every second one the RTL comes first.
const ROUNDS: usize = 4;
/// Loops over 16 MiB that each of two readers makes.
const LOOPS: usize = 16;
/// Reads of the file with all counters: four registers each.
const READS: usize = 4000;

/// A device that is faster than the guest: nothing waits for it, so what costs time is seen.
fn machine(cosim: bool) -> TestbedMachine {
    TestbedMachine {
        cpu_count: 2,
        dram_mib: 512,
        groups_mib: vec![128; GROUPS],
        cache_lines: 4096,
        instruction_ps: 2000,
        window_lines: 16,
        service_ns: 100,
        idle_ns: 1000,
        cosim,
        ..TestbedMachine::default()
    }
}

fn lines(vm: &Vm) -> u64 {
    let tallies = (0..GROUPS).map(|g| vm.ground_truth().group(g));
    tallies.map(|t| t.read_lines + t.write_lines).sum()
}

/// Seconds that a command takes in the guest, as the host sees them.
fn timed(vm: &Vm, command: &str) -> Result<f64> {
    let started = Instant::now();
    vm.run(command)?;
    Ok(started.elapsed().as_secs_f64())
}

fn microseconds_a_register(vm: &Vm) -> Result<f64> {
    let reads = |device: &str| {
        format!("cat $(for i in $(seq {READS}); do echo {device}/counters; done) > /dev/null")
    };
    // QEMU translates code at its first run; the shortest was disturbed least.
    let shortest = |device: &str| {
        (0..3).try_fold(f64::INFINITY, |best, _| {
            anyhow::Ok(timed(vm, &reads(device))?.min(best))
        })
    };
    let (shared, rtl) = (shortest(SHARED)?, shortest(RTL)?);
    Ok((rtl - shared) * 1e6 / (READS * 2 * GROUPS) as f64)
}

fn one(vm: &mut Vm) -> Result<f64> {
    bind(vm)?;
    let reader = |g| fio(g, &format!("--rw=randread --size=16m --loops={LOOPS}"));
    let (before, cpu_before) = (lines(vm), cpu_sec(vm.pid())?);
    vm.switch_model_on()?;
    let sec = timed(
        vm,
        &format!(
            "{} > /dev/null & {} > /dev/null; wait",
            reader(0),
            reader(1)
        ),
    )?;
    vm.switch_model_off();
    let lines = (lines(vm) - before) as f64;
    let qemu = cpu_sec(vm.pid())? - cpu_before;
    print!(
        "{lines} lines in {sec:.2} s, {:.2} M a second, QEMU {qemu:.2} CPU-s",
        lines / sec / 1e6
    );
    if let Some(cosim) = vm.cosim() {
        let server = cpu_sec(cosim.pid())?;
        let off = microseconds_a_register(vm)?;
        vm.switch_model_on()?;
        vm.run("true")?;
        let on = microseconds_a_register(vm)?;
        vm.switch_model_off();
        print!(", server {server:.2} CPU-s, {off:.0} us a register, {on:.0} with the model on");
    }
    println!();
    Ok(sec)
}

#[test]
#[ignore = "soak: what co-simulation costs the host"]
fn soak_cosim_cost() -> Result<()> {
    let Some(bench) = ready("cosim_cost", &machine(true))? else {
        return Ok(());
    };
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let mut sec = [0.0; 2];
        for half in 0..2 {
            let cosim = (round + half) % 2 == 1;
            print!(
                "round {round}, {}: ",
                if cosim { "with RTL" } else { "without" }
            );
            let mut vm = bench.boot(&machine(cosim), vec![], &BootOptions::default())?;
            sec[usize::from(cosim)] = one(&mut vm)?;
            if cosim {
                let s = vm.finish_cosim()?;
                let us = s.registers_sec * 1e6 / s.register_accesses as f64;
                println!(
                    "  the simulator: {} accesses at {:.2} M a second, {:.2} M clocks, {us:.1} us a register, {} lost",
                    s.accesses,
                    s.accesses as f64 / s.counting_sec / 1e6,
                    s.clocks as f64 / 1e6,
                    s.lost
                );
            }
        }
        ratios.push(sec[1] / sec[0]);
    }
    let mut evidence = Evidence::of("cosim_cost");
    evidence.say(format!(
        "the host's time with RTL over its time without: {ratios:.2?}"
    ));
    evidence.write(Ok(()))
}
