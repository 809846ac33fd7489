// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of one scenario, each in a guest of its own from the same snapshot: none depends on what was run
//! before it, so as many are made at once as the host has CPUs.

use crate::guest_env::Environment;
use crate::guest_env::kernel_modules;
use crate::live::guest::{self, Instance};
use crate::live::live_run::{self, Mode};
use crate::live::progress::{Phase, Progress};
use crate::vm::image::firmware;
use crate::vm::{BootOptions, GuestFile, Vm, beside};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_report::results::Run;
use weir_scenario::TestbedScenario;

/// What the guest needs beside the planned time, in seconds of its own: workloads come up, and write their
/// logs.
const STARTING_SEC: f64 = 12.0;
/// Seconds of a CPU of the host for a second of a guest: what the estimate of the time left begins with.
const CPU_SEC_PER_SEC: f64 = 2.3;

/// What is to be run.
pub struct Plan<'a> {
    /// The scenario.
    pub scenario: &'a TestbedScenario,
    /// How it is controlled, a run each.
    pub modes: &'a [Mode],
    /// Guests at once.
    pub jobs: usize,
    /// Where weir's own lines are kept, if they are.
    pub ticks: Option<&'a Path>,
}

/// What a guest is made of beside its machine: driver, weir, firmware.
pub struct Equipment {
    env: Environment,
    files: Vec<GuestFile>,
    options: BootOptions,
    scratch: PathBuf,
}

impl Equipment {
    /// Everything that guests of a scenario need, built where it is not there.
    ///
    /// # Errors
    /// The environment, a module or the firmware cannot be made.
    pub fn of(scenario: &TestbedScenario, say: &mut dyn FnMut(&str)) -> Result<Self> {
        let env = Environment::ready(say)?;
        let driver = kernel_modules::build(&env, say)?;
        let mut files = vec![
            GuestFile::new(&driver.module, "lib/weir_cxl.ko"),
            GuestFile::new(beside("weir")?, "usr/local/bin/weir"),
        ];
        if scenario.machine.core_events.is_some() {
            let module = kernel_modules::build_guest_pmu(&env, say)?;
            files.push(GuestFile::new(module, "lib/weir_guest_pmu.ko"));
        }
        let scratch = std::env::temp_dir().join(format!("weir-firmware-{}", std::process::id()));
        let options = match scenario.machine.movable {
            true => firmware::movable(&env, &scenario.machine, &scratch)?,
            false => BootOptions::default(),
        };
        Ok(Equipment {
            env,
            files,
            options,
            scratch,
        })
    }

    /// What kernel and QEMU are from.
    pub fn env(&self) -> &Environment {
        &self.env
    }

    /// A guest with everything in it, the model on.
    ///
    /// # Errors
    /// The guest's.
    pub fn guest(&self, scenario: &TestbedScenario) -> Result<(Vm, Vec<Instance>)> {
        let vm = Vm::boot_with(&self.env, &scenario.machine, &self.files, &self.options)?;
        if scenario.machine.movable {
            firmware::clear(&vm)?;
        }
        vm.run("insmod /lib/weir_cxl.ko")
            .context("the counter driver does not load")?;
        if scenario.machine.core_events.is_some() {
            guest::load_core(&vm)?;
        }
        let all = guest::instances(scenario);
        guest::prepare(&vm, &all)?;
        vm.switch_model_on()?;
        Ok((vm, all))
    }
}

impl Drop for Equipment {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// Makes the runs, in the plan's order.
///
/// # Errors
/// The first that a guest fails with.
pub fn all(plan: &Plan, equipment: &Equipment, progress: &Arc<Progress>) -> Result<Vec<Run>> {
    let count = plan.modes.len();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Result<Run>>>> = Mutex::new((0..count).map(|_| None).collect());
    let shown = Shown::new(count, planned_sec(plan.scenario), progress);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(mode) = plan.modes.get(number) else {
                break;
            };
            let run = one(plan, equipment, number, mode, &shown);
            if run.is_err() {
                // The others need not begin.
                next.store(count, Ordering::Relaxed);
            }
            lock(&done)[number] = Some(run);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.clamp(1, count.max(1)) {
            scope.spawn(work);
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.into_iter().flatten().collect()
}

fn one(
    plan: &Plan,
    equipment: &Equipment,
    number: usize,
    mode: &Mode,
    shown: &Shown,
) -> Result<Run> {
    let began = Instant::now();
    let (vm, instances) = equipment.guest(plan.scenario)?;
    let from = vm.now();
    shown.begin(number, mode);
    let watcher = shown.clone();
    vm.watch(move |now| watcher.reached(number, now.saturating_sub(from)));
    let mut run = live_run::run(&vm, plan.scenario, &instances, mode)?;
    run.virtual_sec = Some((vm.now() - from).as_secs_f64());
    run.wall_sec = Some(began.elapsed().as_secs_f64());
    if let (Some(dir), Mode::Weir { .. }) = (plan.ticks, mode) {
        keep_ticks(&vm, dir, number)?;
    }
    shown.reached(number, Duration::MAX);
    Ok(run)
}

/// Progress of all runs together.
#[derive(Clone)]
struct Shown {
    planned_sec: f64,
    reached_sec: Arc<Mutex<Vec<f64>>>,
    progress: Arc<Progress>,
}

impl Shown {
    fn new(count: usize, planned_sec: f64, progress: &Arc<Progress>) -> Self {
        Shown {
            planned_sec,
            reached_sec: Arc::new(Mutex::new(vec![0.0; count])),
            progress: Arc::clone(progress),
        }
    }

    fn begin(&self, number: usize, mode: &Mode) {
        let count = lock(&self.reached_sec).len();
        self.progress
            .say(&format!("run {} of {count}: {}", number + 1, name(mode)));
    }

    fn reached(&self, number: usize, since: Duration) {
        let mut reached = lock(&self.reached_sec);
        reached[number] = since.as_secs_f64().min(self.planned_sec);
        let part = reached.iter().sum::<f64>() / (self.planned_sec * reached.len() as f64);
        drop(reached);
        self.progress.fraction(part);
    }
}

/// Guest time of one run, roughly.
fn planned_sec(scenario: &TestbedScenario) -> f64 {
    let control = &scenario.control;
    (control.settle_sec + control.measure_sec) as f64 + STARTING_SEC
}

/// The phase of the runs, for the time left.
pub fn phase(plan: &Plan) -> Phase {
    let runs = plan.modes.len();
    let at_once = plan.jobs.clamp(1, runs.max(1));
    let rounds = runs.div_ceil(at_once) as f64;
    let sec = rounds * planned_sec(plan.scenario) * CPU_SEC_PER_SEC;
    Phase::new(format!("{runs} runs, {at_once} at a time"), sec)
}

/// What a run is called.
pub fn name(mode: &Mode) -> String {
    match mode {
        Mode::Free => "without weir".into(),
        Mode::Quota { .. } => "with a quota by hand".into(),
        Mode::Weir {
            policy: Some(policy),
            backend,
            ..
        } => format!("with weir, {policy}, {backend}"),
        Mode::Weir { policy: None, .. } => "with weir observing".into(),
    }
}

/// weir's own lines of a run, and what it said beside them.
fn keep_ticks(vm: &Vm, dir: &Path, run: usize) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    for (file, name) in [
        ("weir.jsonl", format!("ticks-{run}.jsonl")),
        ("weir.jsonl.err", format!("said-{run}.txt")),
    ] {
        let text = vm.run(&format!("cat /run/{file}"))?;
        std::fs::write(dir.join(name), text)?;
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
