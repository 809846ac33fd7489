// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does weir move the bursts of limited workloads apart? A limited workload runs at the beginning of
//! each period of its `cpu.max` and then waits. Three readers with periods that begin together overload
//! the device together and leave it idle together; the kernel starts each period at a random moment.
//! weir finds the moments of refill and shifts them. Seen from outside: the ground truth has the time at
//! which each reader's lines were read, and the first harmonic of that series at the length of a period shows
//! where in the period its bursts lie.

use crate::common::{
    Bench, LINES, MODULE, SLICE, load_weir, machine_with_a_device, mount_group, next_line,
    signal_weir, start_reader, until,
};
use anyhow::{Result, ensure};
use std::f64::consts::TAU;
use std::time::Duration;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::guest::own_pages;
use weir_testbed::vm::{BootOptions, Vm};

const READERS: [&str; 3] = ["a", "b", "c"];
const PERIOD: Duration = Duration::from_millis(100);
/// A third would be even, and the last one to come to two that are even has a quarter on each side. Each
/// moment is known to a sixteenth of the period only.
const APART: f64 = 0.2;

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

fn are_bursts(seen: &[Burst]) -> bool {
    seen.iter().all(|burst| burst.strength > 0.4)
}

/// The smallest distance on the circle, in periods.
fn smallest_gap(bursts: &[Burst]) -> f64 {
    let mut at: Vec<f64> = bursts.iter().map(|b| b.at).collect();
    at.sort_by(f64::total_cmp);
    let next = at.iter().skip(1).copied().chain([at[0] + 1.0]);
    at.iter().zip(next).map(|(a, b)| b - a).fold(1.0, f64::min)
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
    for (name, owner) in READERS.into_iter().zip(1..) {
        start_reader(vm, name)?;
        own_pages(vm, &format!("/cxl0/{name}"), owner)?;
    }
    vm.switch_model_on()?;
    let seen = limited_bursts(vm)?;
    ensure!(
        smallest_gap(&seen) > APART,
        "bursts were left together: {seen:.2?}"
    );
    Ok(())
}

/// The bursts of the readers while weir limits them: as soon as they are apart, or after a while.
fn limited_bursts(vm: &Vm) -> Result<Vec<Burst>> {
    // Two thirds of a period may be waited for within one interval.
    let pid = load_weir(
        vm,
        "--limit --set-point 12MiB/s --interval 200ms --period 100ms --log info,weir_linux=debug",
    )?;
    for name in READERS {
        until(vm, &format!("! grep -q max {SLICE}/{name}.service/cpu.max"))?;
    }
    let epoch = vm.now();
    let mut seen = Vec::new();
    for _ in 0..10 {
        next_line(vm)?;
        seen = bursts(vm, epoch)?;
        println!("{seen:.2?}, smallest gap {:.2}", smallest_gap(&seen));
        if are_bursts(&seen) && smallest_gap(&seen) > APART {
            break;
        }
    }
    println!("{}", vm.run(&format!("grep refill {LINES}.err || true"))?);
    ensure!(
        are_bursts(&seen),
        "limited readers run in bursts: {seen:.2?}"
    );
    let status = signal_weir(vm, pid, "TERM")?;
    ensure!(status == 0, "weir ended with {status}");
    Ok(seen)
}
