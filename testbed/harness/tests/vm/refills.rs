// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does weir move the bursts of limited workloads apart? A limited workload runs at the beginning of
//! each period of its `cpu.max` and then waits. Three readers with periods that begin together overload
//! the device together and leave it idle together; the kernel starts each period at a random moment.
//! weir finds the moments of refill and shifts them. Seen from outside: the ground truth has the time at
//! which each reader's lines were read, and the first harmonic of that series at the length of a period shows
//! where in the period its bursts lie.
//!
//! Two things are asked: weir means to have moved the refills apart, and the bursts lie as far from each
//! other as weir says. The gaps between bursts alone would say little: three random moments are often apart.

use crate::common::{
    Bench, LINES, MODULE, SLICE, ask_one, load_weir, machine_with_a_device, mount_group, next_line,
    said, says, signal_weir, start_readers, until,
};
use anyhow::{Context, Result, ensure};
use std::f64::consts::TAU;
use std::time::Duration;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::live::guest::own_pages;
use weir_testbed::vm::{BootOptions, Vm};

const READERS: [&str; 3] = ["a", "b", "c"];
const PERIOD: Duration = Duration::from_millis(100);
/// Readers are limited one by one: the third comes into the middle of one half of the period. A move of less
/// than a sixteenth of the period is not made.
const MEANT: f64 = 0.25 - 1.0 / 16.0;
/// weir sees a refill at most one sample late, and a sample is a sixteenth of the period and what reading
/// takes. The middle of a burst follows its refill by half its length, and lengths differ.
const EXACT: f64 = 0.12;

/// Where in the period a reader's bursts lie, 0 to 1, and how pronounced they are: 0 for an even
/// stream, 1 for all lines at one moment.
#[derive(Clone, Copy, Debug)]
struct Burst {
    at: f64,
    strength: f64,
}

/// Reads the ground truth for fifty periods.
fn bursts(vm: &Vm, epoch: Duration) -> Result<Vec<Burst>> {
    vm.start_sampling(READERS.len() as u8);
    vm.sleep(50 * PERIOD)?;
    let series = vm.stop_sampling()?;
    let mut sums = vec![(0.0, 0.0, 0.0); READERS.len()];
    for pair in series.samples.windows(2) {
        // The lines read in a step count at its middle.
        let at = (pair[0].at + pair[1].at) / 2;
        let angle = (at - epoch).as_secs_f64() / PERIOD.as_secs_f64() * TAU;
        for (owner, sum) in (1..).zip(&mut sums) {
            let new = pair[1].owners[owner].read_lines - pair[0].owners[owner].read_lines;
            let new = new as f64;
            *sum = (
                sum.0 + new * angle.cos(),
                sum.1 + new * angle.sin(),
                sum.2 + new,
            );
        }
    }
    let burst = |(x, y, total): &(f64, f64, f64)| Burst {
        at: (y.atan2(*x) / TAU).rem_euclid(1.0),
        strength: x.hypot(*y) / total.max(1.0),
    };
    Ok(sums.iter().map(burst).collect())
}

/// The smallest distance on the circle, in periods.
fn smallest_gap(moments: &[f64]) -> f64 {
    let mut at = moments.to_vec();
    at.sort_by(f64::total_cmp);
    let next = at.iter().skip(1).copied().chain([at[0] + 1.0]);
    at.iter().zip(next).map(|(a, b)| b - a).fold(1.0, f64::min)
}

/// The largest difference between the distances of two readers' bursts and those of their refills, in
/// periods.
fn largest_difference(bursts: &[Burst], refills: &[f64]) -> f64 {
    let mut largest: f64 = 0.0;
    for (burst, refill) in bursts.iter().zip(refills) {
        for (other, other_refill) in bursts.iter().zip(refills) {
            let difference = (burst.at - other.at) - (refill - other_refill);
            largest = largest.max((difference - difference.round()).abs());
        }
    }
    largest
}

/// Where in the period weir has each reader's refills, 0 to 1, by its log.
fn refills(log: &str) -> Result<Vec<f64>> {
    let of = |name: &str| {
        let own = format!("{name}.service");
        let moments = log.lines().filter(|line| line.contains(&own));
        let last = moments
            .filter_map(|line| line.split("offset_ns=").nth(1))
            .next_back();
        let digits = last.and_then(|rest| rest.split_whitespace().next());
        let offset_ns: f64 = digits
            .with_context(|| format!("weir did not find the refills of {name}:\n{log}"))?
            .parse()?;
        Ok(offset_ns / PERIOD.as_nanos() as f64)
    };
    READERS.into_iter().map(of).collect()
}

#[test]
fn bursts_of_limited_workloads_are_moved_apart() -> Result<()> {
    let Some(bench) = Bench::ready("refills")? else {
        return Ok(());
    };
    let machine = TestbedMachine {
        cpu_count: 5,
        ..machine_with_a_device()
    };
    let vm = &bench.boot(&machine, vec![], &BootOptions::default())?;
    vm.run(&format!("insmod {MODULE}"))?;
    mount_group(vm)?;
    start_readers(vm, &READERS)?;
    for (name, owner) in READERS.into_iter().zip(1..) {
        own_pages(vm, &format!("/cxl0/{name}"), owner)?;
    }
    vm.switch_model_on()?;
    ask_one("six readers", || they_are_moved_apart(vm))
}

fn they_are_moved_apart(vm: &Vm) -> Result<()> {
    let pid = limit_readers(vm)?;
    let log = vm.run(&format!("grep refill {LINES}.err"))?;
    println!("{log}");
    let refills = refills(&log)?;
    next_line(vm)?;
    let seen = bursts(vm, vm.now())?;
    println!("refills {refills:.2?}, bursts {seen:.2?}");
    ensure!(
        seen.iter().all(|burst| burst.strength > 0.4),
        "limited readers run in bursts: {seen:.2?}"
    );
    ensure!(
        smallest_gap(&refills) > MEANT - 0.01,
        "refills were left together: {refills:.2?}"
    );
    ensure!(
        largest_difference(&seen, &refills) < EXACT,
        "bursts are not where weir moved them: {seen:.2?} for {refills:.2?}"
    );
    let status = signal_weir(vm, pid, "TERM")?;
    ensure!(status == 0, "weir ended with {status}");
    Ok(())
}

/// Lets weir limit the readers, and waits until it has found the refills of each.
fn limit_readers(vm: &Vm) -> Result<u32> {
    // Two thirds of a period may be waited for within one interval.
    let pid = load_weir(
        vm,
        "--limit --set-point 12MiB/s --interval 200ms --period 100ms --log info,weir_linux=debug",
    )?;
    for name in READERS {
        let max = format!("{SLICE}/{name}.service/cpu.max");
        until(vm, !says(&max, "max"))?;
        until(vm, said(&format!("refill found*{name}.service")))?;
    }
    // What is moved is moved before the next line.
    next_line(vm)?;
    Ok(pid)
}
