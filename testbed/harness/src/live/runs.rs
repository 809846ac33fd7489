// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of one scenario, each in a guest of its own from the same snapshot: none depends on what was run
//! before it, so as many are made at once as the host has CPUs.

use crate::guest_env::Environment;
use crate::guest_env::kernel_modules;
use crate::live::guest::{self, Instance};
use crate::live::live_run::{self, Mode, Stage};
use crate::live::run_plan::{RunPlan, makespan};
use crate::vm::image::firmware;
use crate::vm::{BootOptions, GuestFile, Vm, beside};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_files::Folder;
use weir_progress::{Phase, Progress};
use weir_report::OutputDir;
use weir_report::results::Run;
use weir_scenario::TestbedScenario;

pub struct Plan<'a> {
    pub scenario: &'a TestbedScenario,
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
        let name = format!("weir-firmware-{}", std::process::id());
        let scratch = std::env::temp_dir().join(&name);
        let options = if scenario.machine.movable {
            Folder::open(&std::env::temp_dir())?.make_below(name.as_ref())?;
            firmware::movable(&env, &scenario.machine, &scratch)?
        } else {
            BootOptions::default()
        };
        Ok(Equipment {
            env,
            files,
            options,
            scratch,
        })
    }

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

/// Makes the runs; they are in the plan's order. The longest one begins first, so that they end at about the
/// same time.
///
/// # Errors
/// The first that a guest fails with.
pub fn all(plan: &Plan, equipment: &Equipment, progress: &Arc<Progress>) -> Result<Vec<Run>> {
    let count = plan.modes.len();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Result<Run>>>> = Mutex::new((0..count).map(|_| None).collect());
    let order = order(plan);
    let shown = Shown::new(plan, order.clone(), progress);
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(&number) = order.get(place) else {
                break;
            };
            let run = one(plan, equipment, number, &shown);
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

fn one(plan: &Plan, equipment: &Equipment, number: usize, shown: &Shown) -> Result<Run> {
    let began = Instant::now();
    let mode = &plan.modes[number];
    shown.begin(number, mode);
    let (vm, instances) = equipment.guest(plan.scenario)?;
    let from = vm.now();
    let watcher = shown.clone();
    vm.watch(move |now| watcher.reached(number, now));
    let at_stage = |stage| {
        shown.at_stage(number, stage, vm.now());
        if stage == Stage::Reading {
            // What is read was written: it need not take a guest's time for this under the model.
            vm.switch_model_off();
        }
    };
    let ran = live_run::run_and_compare(&vm, plan.scenario, &instances, mode, &at_stage);
    let (mut run, _) = ran?;
    run.virtual_sec = Some((vm.now() - from).as_secs_f64());
    run.wall_sec = Some(began.elapsed().as_secs_f64());
    if let (Some(dir), Mode::Weir { .. }) = (plan.ticks, mode) {
        keep_ticks(&vm, dir, number)?;
    }
    shown.end(number);
    Ok(run)
}

/// Numbers of the runs, the one that takes longest first.
fn order(plan: &Plan) -> Vec<usize> {
    let sec = |number: &usize| RunPlan::of(plan.scenario, &plan.modes[*number]).whole_sec();
    let mut order: Vec<usize> = (0..plan.modes.len()).collect();
    order.sort_by(|a, b| sec(b).total_cmp(&sec(a)));
    order
}

#[derive(Clone)]
struct Shown {
    at_once: usize,
    order: Vec<usize>,
    whole_sec: f64,
    so_far: Arc<Mutex<Vec<RunSoFar>>>,
    progress: Arc<Progress>,
}

struct RunSoFar {
    plan: RunPlan,
    stage: Stage,
    stage_began: Duration,
    left_sec: f64,
    is_booting: bool,
}

impl RunSoFar {
    /// A guest that boots reports nothing.
    fn left_at_next_report(&self) -> f64 {
        if self.is_booting {
            self.plan.left_sec(Stage::Starting, 0.0)
        } else {
            self.left_sec
        }
    }
}

impl Shown {
    fn new(plan: &Plan, order: Vec<usize>, progress: &Arc<Progress>) -> Self {
        let so_far = plan.modes.iter().map(|mode| {
            let plan = RunPlan::of(plan.scenario, mode);
            RunSoFar {
                plan,
                stage: Stage::Booting,
                stage_began: Duration::ZERO,
                left_sec: plan.whole_sec(),
                is_booting: false,
            }
        });
        Shown {
            at_once: plan.jobs,
            order,
            whole_sec: whole_sec(plan),
            so_far: Arc::new(Mutex::new(so_far.collect())),
            progress: Arc::clone(progress),
        }
    }

    fn begin(&self, number: usize, mode: &Mode) {
        let count = self.order.len();
        self.progress
            .say(&format!("run {} of {count}: {}", number + 1, name(mode)));
        self.change(number, |run| run.is_booting = true);
    }

    fn at_stage(&self, number: usize, stage: Stage, now: Duration) {
        let mut so_far = lock(&self.so_far);
        so_far[number].stage = stage;
        so_far[number].stage_began = now;
        so_far[number].is_booting = false;
        drop(so_far);
        self.reached(number, now);
    }

    fn reached(&self, number: usize, now: Duration) {
        self.change(number, |run| {
            let in_stage = now.saturating_sub(run.stage_began);
            run.left_sec = run.plan.left_sec(run.stage, in_stage.as_secs_f64());
        });
    }

    fn end(&self, number: usize) {
        self.change(number, |run| run.left_sec = 0.0);
    }

    fn change(&self, number: usize, change: impl FnOnce(&mut RunSoFar)) {
        let mut so_far = lock(&self.so_far);
        change(&mut so_far[number]);
        let done = |left_sec: fn(&RunSoFar) -> f64| {
            let left = self.order.iter().map(|number| left_sec(&so_far[*number]));
            let left: Vec<f64> = left.collect();
            1.0 - makespan(&left, self.at_once) / self.whole_sec
        };
        let (done, next) = (
            done(|run| run.left_sec),
            done(RunSoFar::left_at_next_report),
        );
        drop(so_far);
        self.progress.fraction(done, next);
    }
}

fn whole_sec(plan: &Plan) -> f64 {
    let sec = |number: usize| RunPlan::of(plan.scenario, &plan.modes[number]).whole_sec();
    let runs: Vec<f64> = order(plan).into_iter().map(sec).collect();
    makespan(&runs, plan.jobs)
}

/// The phase of the runs, for the time left.
pub fn phase(plan: &Plan) -> Phase {
    let runs = plan.modes.len();
    let at_once = plan.jobs.clamp(1, runs.max(1));
    Phase::new(format!("{runs} runs, {at_once} at a time"), whole_sec(plan))
}

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
    let dir = OutputDir::open_or_make(dir)?;
    for (file, name) in [
        ("weir.jsonl", format!("ticks-{run}.jsonl")),
        ("weir.jsonl.err", format!("said-{run}.txt")),
    ] {
        let text = vm.run(&format!("cat /run/{file}"))?;
        dir.put(&name, text.as_bytes())?;
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::scenario_file;
    use weir_progress::LIVE_SEC;

    #[test]
    fn the_plan_of_make_run_is_what_the_compiling_counts_with() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../scenarios/live-fio-stress.toml"
        );
        let scenario = scenario_file::load(Path::new(path)).unwrap();
        let weir_by = |backend: &str| Mode::Weir {
            policy: Some("max-min".into()),
            backend: backend.into(),
            extra: String::new(),
        };
        let modes = [Mode::Free, weir_by("cpu-max"), weir_by("sched-ext-full")];
        let plan = Plan {
            scenario: &scenario,
            modes: &modes,
            jobs: 2,
            ticks: None,
        };
        assert_eq!(order(&plan)[0], 2, "a scheduler takes longest to load");
        let ratio = whole_sec(&plan) / LIVE_SEC;
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }
}
