// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `weir verify-hardware` measure what is so? The lines that it reads are held against the device's
//! ground truth; a counter that stands still must be called missed; what it changes must be gone after it.

use crate::common::{Bench, MODULE, Questions, attempt, json};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::{BootOptions, Vm};

const COUNTERS: &str = "/sys/class/weir_cxl/weir_cxl0/counters";
/// Lines that are read in each of three attempts (`crates/weir/src/run/probe/uncached_reads.rs`).
const LINES_READ: f64 = 3.0 * 65_664.0;

fn machine() -> TestbedMachine {
    TestbedMachine {
        cpu_count: 2,
        dram_mib: 512,
        groups_mib: vec![128],
        // Hardly two of 288 lines that are read and then given up share a place in the cache.
        cache_lines: 65_536,
        ..TestbedMachine::default()
    }
}

/// Runs these checks; the document, and the exit status.
fn verified(vm: &Vm, flags: &str) -> Result<(Value, Option<i32>)> {
    let reply = attempt(
        vm,
        &format!("rm -f /run/kit.json; weir verify-hardware {flags} --out /run/kit.json"),
    )?;
    println!("{}{}", reply.stderr, reply.stdout);
    Ok((json(vm, "cat /run/kit.json")?, reply.status))
}

fn row<'a>(document: &'a Value, name: &str) -> Result<&'a Value> {
    let rows = document["rows"].as_array().context("no rows")?;
    let found = rows.iter().find(|row| row["name"] == name);
    found.with_context(|| format!("no row {name} in {document}"))
}

fn known_lines_are_counted(vm: &Vm) -> Result<()> {
    vm.switch_model_on()?;
    let lines = || vm.ground_truth().group(0).read_lines as f64;
    let before = lines();
    let seen = verified(vm, "--yes --check known-lines --check sources-agree");
    let moved = lines() - before;
    vm.switch_model_off();
    let (seen, status) = seen?;
    let known = row(&seen, "known-lines")?;
    let ratio = known["figure"]["value"].as_f64().context("no figure")?;
    println!("{ratio} counted; the device moved {moved} lines, at least {LINES_READ} were read");
    ensure!(known["verdict"] == "met", "{known}");
    ensure!((0.97..1.03).contains(&ratio), "{known}");
    // Before they are read the lines are written, and given up once.
    ensure!(
        moved > 0.97 * LINES_READ,
        "the device moved only {moved} lines"
    );
    let agree = row(&seen, "sources-agree")?;
    ensure!(agree["verdict"] == "met", "{agree}");
    ensure!(status == Some(0), "exit code {status:?}");
    Ok(())
}

fn a_counter_that_stands_still_is_missed(vm: &Vm) -> Result<()> {
    vm.run(&format!(
        "cat {COUNTERS} > /run/frozen && mount --bind /run/frozen {COUNTERS}"
    ))?;
    vm.switch_model_on()?;
    let seen = verified(vm, "--yes --check known-lines --check sources-agree");
    vm.switch_model_off();
    vm.run(&format!("umount {COUNTERS}"))?;
    let (seen, status) = seen?;
    for name in ["known-lines", "sources-agree"] {
        let row = row(&seen, name)?;
        ensure!(row["verdict"] == "missed", "{row}");
    }
    ensure!(status == Some(1), "exit code {status:?}");
    Ok(())
}

fn reading_alone_comes_to_its_end(vm: &Vm) -> Result<()> {
    let (seen, status) = verified(vm, "--no-load")?;
    ensure!(status == Some(0), "exit code {status:?}");
    for name in ["devices-counted", "nodes-proven"] {
        ensure!(row(&seen, name)?["verdict"] == "met", "{seen}");
    }
    let why = row(&seen, "knee")?["why"].as_str().context("no reason")?;
    ensure!(why.contains("--no-load"), "{why}");
    let clock = row(&seen, "tick-cost")?["why"]
        .as_str()
        .context("no reason")?;
    ensure!(clock.contains("virtual machine"), "{clock}");
    Ok(())
}

fn leases_and_scheduler_leave_nothing(vm: &Vm) -> Result<()> {
    let flags = "--yes --check lease-restored --check scheduler-loads --check cpu-max-holds";
    let (seen, status) = verified(vm, flags)?;
    for name in ["lease-restored", "scheduler-loads", "cpu-max-holds"] {
        ensure!(
            row(&seen, name)?["verdict"] == "met",
            "{}",
            row(&seen, name)?
        );
    }
    ensure!(status == Some(0), "exit code {status:?}");
    let left = vm.run(
        "cat /sys/kernel/sched_ext/state; ls -d /sys/fs/cgroup/weir-trial-* /run/weir/weir-trial-* 2> /dev/null || true",
    )?;
    ensure!(left.trim() == "disabled", "{left}");
    Ok(())
}

#[test]
fn what_it_says_is_so() -> Result<()> {
    let Some(bench) = Bench::ready("verify_hardware")? else {
        return Ok(());
    };
    let vm = &bench.boot(&machine(), vec![], &BootOptions::default())?;
    vm.run(&format!("insmod {MODULE}"))?;
    let mut questions = Questions::default();
    questions.ask("reading alone comes to its end", || {
        reading_alone_comes_to_its_end(vm)
    });
    questions.ask("known lines are counted", || known_lines_are_counted(vm));
    questions.ask("a counter that stands still is missed", || {
        a_counter_that_stands_still_is_missed(vm)
    });
    questions.ask("leases and scheduler leave nothing", || {
        leases_and_scheduler_leave_nothing(vm)
    });
    questions.done()
}
