// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the demonstration work, end to end? The live scenario, shortened: the model, the workloads,
//! weir, the measuring and the report, and how closely each back end holds the set-point. The whole scenario with all
//! its bounds is run by `weir-testbed live --check`.

use anyhow::{Result, ensure};
use std::path::Path;
use weir_report::results::Results;
use weir_testbed::guest::{self, Instance, SLICE};
use weir_testbed::live::{self, Mode};
use weir_testbed::scenario::Scenario;
use weir_testbed::vm::{GuestFile, Vm, beside};
use weir_testbed::{driver, env::Environment};

/// Deviation of the scheduler from the set-point, windows of 100 ms. Some 2.5 % is usual.
const RMSE_RATIO_MAX: f64 = 0.05;
const BIAS_RATIO_MAX: f64 = 0.02;

fn weir_by(backend: &str) -> Mode {
    Mode::Weir {
        policy: Some("max-min".into()),
        backend: backend.into(),
        extra: String::new(),
    }
}

/// Full mode.
fn the_scheduler_holds(vm: &Vm, scenario: &Scenario, all: &[Instance]) -> Result<()> {
    let held = live::run(vm, scenario, all, &weir_by("scx-full"))?;
    let (rmse, bias) = (held.bandwidth.rmse_ratio, held.bandwidth.bias_ratio);
    println!("scx-full: RMSE {rmse:.4}, bias {bias:.4}");
    ensure!(rmse <= RMSE_RATIO_MAX, "RMSE {rmse}");
    ensure!(bias.abs() <= BIAS_RATIO_MAX, "bias {bias}");
    Ok(())
}

#[test]
fn weir_halves_the_overload_and_leaves_nothing_behind() -> Result<()> {
    let mut say = |line: &str| eprintln!("{line}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/live-fio-stress.toml");
    let mut scenario = Scenario::load(&path)?;
    scenario.control.settle_sec = 4;
    scenario.control.measure_sec = 6;
    let env = Environment::ready(&mut say)?;
    let files = [
        GuestFile::new(driver::build(&env, &mut say)?.module, "lib/weir_cxl.ko"),
        GuestFile::new(beside("weir")?, "usr/local/bin/weir"),
    ];
    let vm = Vm::boot(&env, &scenario.machine, &files)?;
    vm.run("insmod /lib/weir_cxl.ko")?;
    let slice = vm.run("cat /proc/sys/kernel/sched_cfs_bandwidth_slice_us")?;
    ensure!(
        slice.trim().parse().ok() == scenario.machine.bandwidth_slice_us,
        "slices of {slice}"
    );
    let all = guest::instances(&scenario);
    guest::prepare(&vm, &all)?;
    vm.switch_model_on()?;
    let free = live::run(&vm, &scenario, &all, &Mode::Free)?;
    let held = live::run(&vm, &scenario, &all, &weir_by("cgroup"))?;

    let (before, after) = (
        free.bandwidth.mean_bytes_per_sec,
        held.bandwidth.mean_bytes_per_sec,
    );
    ensure!(after < 0.7 * before, "{before} without, {after} with weir");
    ensure!(
        after > 0.0 && held.limited_readers.latency.mean_ns.is_some(),
        "nobody starves"
    );
    ensure!(
        held.light_reader.mean_ns.is_some(),
        "the light reader reads"
    );
    ensure!(
        held.estimate_error_ratio.len() == 6,
        "weir saw all six: {held:?}"
    );
    let left = vm.run(&format!("cat {SLICE}/*/cpu.max | sort | uniq -c"))?;
    ensure!(left.trim() == "7 max 100000", "limits left behind:\n{left}");
    the_scheduler_holds(&vm, &scenario, &all)?;

    let results = Results {
        scenario: scenario.name.clone(),
        runs: vec![free, held],
        ..Results::default()
    };
    let dir = std::env::temp_dir().join(format!("weir-live-test-{}", std::process::id()));
    for file in weir_report::write(&dir, &scenario.subject()?, &results)? {
        ensure!(
            std::fs::metadata(&file)?.len() > 100,
            "{} is empty",
            file.display()
        );
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
