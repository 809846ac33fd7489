// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are two runs equal? Two guests of one machine do the same: readers on the device, weir that limits them.
//! The instructions of each vCPU, its position, and the device's ground truth are compared at every step of
//! time. QEMU of the second guest is stopped by a signal meanwhile, for longer than any step may take: that
//! changes nothing.

use crate::common::{
    Bench, LINES, MODULE, READ, SET_POINT, ask_one, load_weir, mount_group, start_readers, until,
};
use anyhow::{Context, Result, ensure};
use std::process::{Child, Command};
use std::time::Duration;
use weir_ipc::ground_truth::{LineCounts, VcpuCounts};
use weir_testbed::vm::Vm;
use weir_testbed::vm::condition::Condition;
use weir_testbed::vm::time::STEP;

/// Steps that are compared while weir limits.
const STEPS: u32 = 300;
const STOPPED_SEC: u32 = 3;

/// All that the ground truth says at one step.
#[derive(Debug, PartialEq)]
struct Moment {
    at: Duration,
    vcpus: Vec<(u64, u64, u64, u64)>,
    tallies: Vec<(u64, u64, u64)>,
    latencies: Vec<u64>,
}

fn moment(vm: &Vm) -> Moment {
    let ground_truth = vm.ground_truth();
    let vcpu = |v: VcpuCounts| (v.instructions, v.stall_ns, v.accesses, v.pc);
    let tally = |t: LineCounts| (t.read_lines, t.write_lines, t.read_latency_sum_ns);
    let owners = (0..=2).map(|owner| tally(ground_truth.owner(owner)));
    Moment {
        at: vm.now(),
        vcpus: (0..vm.machine.cpu_count)
            .map(|i| vcpu(ground_truth.vcpu(i)))
            .collect(),
        tallies: owners.chain([tally(ground_truth.group(0))]).collect(),
        latencies: ground_truth.latency_buckets(),
    }
}

/// Stops a process by a signal for some seconds of the host's, from now on.
fn stop_for_a_while(pid: u32) -> Result<Child> {
    let script = format!("kill -STOP {pid}; sleep {STOPPED_SEC}; kill -CONT {pid}");
    Command::new("sh")
        .args(["-c", &script])
        .spawn()
        .context("cannot start sh")
}

/// What one guest does: what the ground truth says at each step, and what weir wrote.
fn one(bench: &Bench, is_stopped: bool) -> Result<(Vec<Moment>, String)> {
    let vm = &bench.guest()?;
    vm.run(&format!("insmod {MODULE}"))?;
    mount_group(vm)?;
    start_readers(vm, &["a", "b"])?;
    vm.switch_model_on()?;
    until(vm, Condition::AtLeast(READ.to_owned(), 50_000_000))?;
    let mut moments = vec![moment(vm)];
    load_weir(vm, &format!("--limit --set-point {SET_POINT}"))?;
    moments.push(moment(vm));
    let stopped = is_stopped.then(|| stop_for_a_while(vm.pid())).transpose()?;
    for _ in 0..STEPS {
        vm.sleep(STEP)?;
        moments.push(moment(vm));
    }
    let lines = vm.run(&format!("cat {LINES}; cat /proc/uptime /proc/interrupts"))?;
    moments.push(moment(vm));
    if let Some(mut stopped) = stopped {
        stopped.wait()?;
    }
    Ok((moments, lines))
}

#[test]
fn two_runs_are_equal_and_a_stop_changes_nothing() -> Result<()> {
    let Some(bench) = Bench::ready("equal")? else {
        return Ok(());
    };
    ask_one("two guests", || two_are_equal(&bench))
}

fn two_are_equal(bench: &Bench) -> Result<()> {
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| one(bench, true));
        (one(bench, false), other.join())
    });
    let second = second.map_err(|_| anyhow::anyhow!("it panicked"))?;
    let ((first, first_lines), (second, second_lines)) = (first?, second?);
    ensure!(first.len() == second.len(), "not as many steps");
    for (step, (a, b)) in first.iter().zip(&second).enumerate() {
        ensure!(a == b, "step {step}: {a:?}, and {b:?}");
    }
    ensure!(
        first_lines == second_lines,
        "weir wrote {first_lines} and {second_lines}"
    );
    let (begun, ended) = (&first[0], first.last().context("no step")?);
    let moved = ended.tallies[3].0 - begun.tallies[3].0;
    let run = ended.vcpus[0].0 - begun.vcpus[0].0;
    println!(
        "{} steps equal: {moved} lines, {run} instructions of vCPU 0",
        first.len()
    );
    // Else this shows nothing.
    ensure!(
        moved > 10_000 && run > 10_000_000,
        "hardly anything was done"
    );
    Ok(())
}
