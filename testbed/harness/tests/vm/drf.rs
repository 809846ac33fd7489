// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does policy drf share out CPU time and a device's bandwidth together on a real kernel? One reader of the
//! device and workers that compute, on CPUs that are all busy, without weir and with each back end that can
//! do it. Shares are those of the ground truth and of the kernel's `cpu.stat`.
//!
//! ```text
//! cargo test --release -p weir-testbed --test vm -- --ignored --nocapture soak_drf
//! ```

use crate::common::evidence::Evidence;
use crate::common::{
    Bench, MODULE, SLICE, bytes_per_sec, has_processes, load_weir, machine_with_a_device,
    make_cgroup, mount_group, signal_weir, start_in, start_readers, state, until,
};
use anyhow::{Context, Result, ensure};
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::{BootOptions, Vm};

const CPUS: u16 = 4;
const READER: &str = "reader";
const WORKERS: [&str; 4] = ["w1", "w2", "w3", "w4"];
const SETTLE_SEC: u32 = 20;
const SEC: u32 = 30;
/// The guest's CPUs are a hundred times slower than a server's, and weir with them.
const INTERVAL: &str = "1s";
/// What of the set-point the reader has with a CPU for itself, as the DRFQS thesis's mbw has of its memory.
const ALONE_RATIO: f64 = 0.71;

#[derive(Clone, Copy)]
struct Control {
    name: &'static str,
    /// weir's policy and back end; none without weir.
    weir: Option<(&'static str, &'static str)>,
    /// For how many workloads it decides the share, the reader first. Workers are divided by the kernel where
    /// weir limits by `cpu.max`.
    decides: usize,
}

/// The error of a share that a control decides. Without, it is 0.68 and more.
const ERROR_RATIO_MAX: f64 = 0.05;

const CONTROLS: [Control; 5] = [
    Control {
        name: "EEVDF",
        weir: None,
        decides: 0,
    },
    Control {
        name: "max-min, cpu-max",
        weir: Some(("max-min", "cpu-max")),
        decides: 0,
    },
    Control {
        name: "drf, cpu-max",
        weir: Some(("drf", "cpu-max")),
        decides: 1,
    },
    Control {
        name: "drf, sched-ext-full",
        weir: Some(("drf", "sched-ext-full")),
        decides: 5,
    },
    Control {
        name: "drf, sched-ext",
        weir: Some(("drf", "sched-ext")),
        decides: 0,
    },
];

/// What was used in a span, by workload: the reader first.
struct Used {
    /// CPUs of each.
    cpus: Vec<f64>,
    /// CPUs of all other processes.
    others_cpus: f64,
    bytes_per_sec: f64,
}

/// Figures of a span against the target.
struct Shares {
    /// Dominant share ÷ weight, the reader first.
    dominant: Vec<f64>,
    target: f64,
}

impl Shares {
    /// Shares of CPU time that others leave, and of the set-point. The target is the filling by hand: one
    /// reader that takes `set_point` ÷ (ratio alone) for a CPU, and workers that want all CPU time there is.
    fn of(used: &Used, set_point: f64, weights: &[f64]) -> Shares {
        let cpus = f64::from(CPUS) - used.others_cpus;
        let dominant = used.cpus.iter().enumerate().map(|(place, own)| {
            let of_device = used.bytes_per_sec / set_point;
            let share = if place == 0 {
                of_device.max(own / cpus)
            } else {
                own / cpus
            };
            share / weights[place]
        });
        // The reader's part of the CPUs for its whole set-point: it has level × weight of that.
        let whole = used.cpus[0] / (used.bytes_per_sec / set_point) / cpus;
        let workers: f64 = weights[1..].iter().sum();
        Shares {
            dominant: dominant.collect(),
            target: 1.0 / (weights[0] * whole + workers),
        }
    }

    /// Dominant share ÷ target − 1, the reader first.
    fn errors(&self) -> Vec<f64> {
        let all = self.dominant.iter();
        all.map(|own| own / self.target - 1.0).collect()
    }
}

/// The one furthest from 0.
fn worst(errors: &[f64]) -> f64 {
    let all = errors.iter().copied();
    all.max_by(|a, b| a.abs().total_cmp(&b.abs()))
        .unwrap_or(0.0)
}

fn machine() -> TestbedMachine {
    TestbedMachine {
        cpu_count: usize::from(CPUS),
        ..machine_with_a_device()
    }
}

/// CPU seconds used so far: of each workload, and of all CPUs while they were not idle.
fn cpu_seconds(text: &str) -> Result<(Vec<f64>, f64)> {
    let mut lines = text.lines();
    let mut usage = || -> Result<f64> {
        let line = lines.next().context("a line is missing")?;
        line.trim().parse::<f64>().with_context(|| line.to_owned())
    };
    let own = (0..=WORKERS.len())
        .map(|_| usage().map(|us| us / 1e6))
        .collect::<Result<_>>()?;
    Ok((own, usage()? / 100.0))
}

/// What is used in [`SEC`] from now on.
fn used(vm: &Vm) -> Result<Used> {
    let names: Vec<&str> = std::iter::once(READER).chain(WORKERS).collect();
    let show = format!(
        "for n in {}; do sed -n 's/^usage_usec //p' {SLICE}/$n.service/cpu.stat; done
         awk '/^cpu /{{print $2 + $3 + $4 + $7 + $8}}' /proc/stat",
        names.join(" ")
    );
    let lines = || vm.ground_truth().group(0).read_lines as f64;
    let (before, begun) = (lines(), vm.now());
    let first = cpu_seconds(&vm.run(&show)?)?;
    vm.run(&format!("sleep {SEC}"))?;
    let (read, elapsed) = (lines() - before, (vm.now() - begun).as_secs_f64());
    let last = cpu_seconds(&vm.run(&show)?)?;
    let cpus: Vec<f64> = last
        .0
        .iter()
        .zip(&first.0)
        .map(|(last, first)| (last - first) / elapsed)
        .collect();
    let busy = (last.1 - first.1) / elapsed;
    Ok(Used {
        others_cpus: (busy - cpus.iter().sum::<f64>()).max(0.0),
        cpus,
        bytes_per_sec: read * 64.0 / elapsed,
    })
}

/// One control: started, settled, measured, ended.
fn controlled(vm: &Vm, control: Control, set_point: f64) -> Result<Used> {
    let Some((policy, backend)) = control.weir else {
        vm.run("sleep 2")?;
        return used(vm);
    };
    let pid = load_weir(
        vm,
        &format!(
            "--limit --policy {policy} --backend {backend} --set-point {set_point:.0}B/s --interval {INTERVAL}"
        ),
    )?;
    vm.run(&format!("sleep {SETTLE_SEC}"))?;
    let found = used(vm)?;
    ensure!(signal_weir(vm, pid, "TERM")? == 0, "weir failed");
    if backend.starts_with("sched-ext") {
        until(vm, state("disabled"))?;
    }
    Ok(found)
}

/// A guest with the reader in it, and what of the device it takes with a CPU for itself.
fn with_reader(bench: &Bench) -> Result<(Vm, f64)> {
    let vm = bench.boot(&machine(), Vec::new(), &BootOptions::default())?;
    vm.run(&format!("insmod {MODULE}")).context("no driver")?;
    mount_group(&vm)?;
    start_readers(&vm, &[READER])?;
    vm.switch_model_on()?;
    vm.run("sleep 3")?;
    let alone = bytes_per_sec(&vm, 5)?;
    Ok((vm, alone))
}

/// Set 4 of the DRFQS thesis: 0.0811 of the CPUs for the reader, and 0.2297 of what they need most for all.
#[test]
fn the_target_is_that_of_the_thesis() {
    let used = Used {
        cpus: vec![0.3235, 0.9191, 0.9191, 0.9191, 0.9191],
        others_cpus: 0.0,
        bytes_per_sec: 0.3235 * 0.71,
    };
    let shares = Shares::of(&used, 1.0, &[1.0; 5]);
    assert!((shares.target - 0.2297).abs() < 1e-4, "{}", shares.target);
    assert!(
        worst(&shares.errors()).abs() < 1e-3,
        "{:?}",
        shares.dominant
    );
    let with_half = Used {
        bytes_per_sec: 2.0 * used.bytes_per_sec,
        cpus: vec![0.647, 0.83825, 0.83825, 0.83825, 0.83825],
        ..used
    };
    let error = worst(&Shares::of(&with_half, 1.0, &[1.0; 5]).errors());
    assert!((error - 1.0).abs() < 1e-2, "{error}");
}

#[test]
#[ignore = "soak: shares of CPU time and a device by policy drf"]
fn soak_drf() -> Result<()> {
    let Some(bench) = Bench::ready("drf")? else {
        return Ok(());
    };
    let (vm, alone) = with_reader(&bench)?;
    let set_point = alone / ALONE_RATIO;
    for name in WORKERS {
        let path = make_cgroup(&vm, name)?;
        start_in(
            &vm,
            &path,
            "stress-ng --cpu 2 --cpu-method int64 --timeout 6000",
        )?;
        until(&vm, has_processes(&path, 3))?;
    }
    let mut evidence = Evidence::of("drf");
    evidence.say(format!(
        "the reader alone: {:.1} MiB/s; set-point {:.1}",
        alone / 1048576.0,
        set_point / 1048576.0
    ));
    let mut missed = Vec::new();
    for weights in [[1.0; 5], [3.0, 1.0, 1.0, 2.0, 2.0]] {
        for (name, weight) in std::iter::once(READER).chain(WORKERS).zip(weights) {
            vm.run(&format!(
                "echo {:.0} > {SLICE}/{name}.service/cpu.weight",
                weight * 100.0
            ))?;
        }
        for control in CONTROLS {
            let found = controlled(&vm, control, set_point)?;
            let shares = Shares::of(&found, set_point, &weights);
            let errors = shares.errors();
            let each: Vec<String> = shares.dominant.iter().map(|s| format!("{s:.3}")).collect();
            evidence.say(format!(
                "weights {weights:?}, {}: dominant shares {}, target {:.3}, error of the reader {:+.1} %, of the worst {:+.1} %; reader {:.1} MiB/s; others {:.2} CPUs",
                control.name,
                each.join(" "),
                shares.target,
                errors[0] * 100.0,
                worst(&errors) * 100.0,
                found.bytes_per_sec / 1048576.0,
                found.others_cpus
            ));
            let error = worst(&errors[..control.decides]).abs();
            if error > ERROR_RATIO_MAX {
                missed.push(format!(
                    "{} with weights {weights:?}: {error:.3}",
                    control.name
                ));
            }
        }
    }
    let verdict = if missed.is_empty() {
        Ok(())
    } else {
        Err(anyhow::anyhow!(
            "an error above {ERROR_RATIO_MAX}: {}",
            missed.join("; ")
        ))
    };
    evidence.write(verdict)
}
