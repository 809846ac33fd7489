// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-testbed`: scenarios on a real kernel with an emulated CXL device. Progress goes to stderr,
//! results to stdout and to files.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_progress::{Phase, Progress};
use weir_report::OutputDir;
use weir_report::results::Results;
use weir_scenario::TestbedScenario;
use weir_testbed::guest_env::{Environment, kernel_modules, provenance};
use weir_testbed::live::live_run::Mode;
use weir_testbed::live::runs;
use weir_testbed::live::runs::{Equipment, Plan};
use weir_testbed::live::scenario_file;
use weir_testbed::vm::time::end_guests_when_interrupted;
use weir_testbed::{attribution, device_sweep};

/// Scenarios on a real kernel with an emulated CXL device.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:\n  weir-testbed live scenarios/live-fio-stress.toml --out out/live\n  weir-testbed sweep scenarios/live-fio-stress.toml\n\nExit codes: 0 done, 1 a bound was missed (with --check), 2 trouble."
)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the guest environment and the driver, if they are not there
    Env,
    /// Run a scenario without and with weir, side by side
    Live {
        /// Scenario file
        scenario: PathBuf,
        /// Where results go
        #[arg(long, default_value = "out/live")]
        out: PathBuf,
        /// Policies to run weir with, one after the other; `observe` for weir without limits,
        /// `quota:US/PERIOD_US` for a fixed cpu.max on each heavy workload instead of weir
        #[arg(long, value_delimiter = ',', default_value = "max-min")]
        policy: Vec<String>,
        /// Back ends to run each policy with
        #[arg(long, value_delimiter = ',', default_value = "cpu-max")]
        backend: Vec<String>,
        /// Fail if a bound of the scenario is missed
        #[arg(long)]
        check: bool,
        /// More arguments for `weir run`
        #[arg(long, default_value = "", allow_hyphen_values = true)]
        weir_args: String,
        /// Keep weir's own lines, one JSON object a tick, and its messages, in the results
        #[arg(long)]
        keep_ticks: bool,
        /// Guests that run at once; by default one for each CPU. Results do not depend on it
        #[arg(long, value_name = "N")]
        jobs: Option<NonZeroUsize>,
        /// How long planned things take on this machine, as was measured: for the estimate of the time left
        #[arg(long, default_value_t = 1.0, value_name = "RATIO")]
        pace: f64,
        /// Seed of the workloads, instead of the scenario's
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
    /// Compare weir's figure for each workload with the device's ground truth, by each source of attribution
    Attribution {
        /// Scenario files, a guest each
        #[arg(required = true)]
        scenarios: Vec<PathBuf>,
        /// Where results go
        #[arg(long, default_value = "out/attribution")]
        out: PathBuf,
        /// Fail if a figure is further off than promised
        #[arg(long)]
        check: bool,
    },
    /// Measure the emulated device alone: 1 to 8 readers, and five with the quota of two
    Sweep {
        /// Scenario with the machine and the heavy reader
        scenario: PathBuf,
        /// Where results go
        #[arg(long, default_value = "out/sweep")]
        out: PathBuf,
        /// How often it is measured: the spread from run to run is shown
        #[arg(long, default_value_t = 1)]
        repeat: usize,
        /// Fail if the device lacks a property that a controller needs
        #[arg(long)]
        check: bool,
    },
}

fn main() -> std::process::ExitCode {
    let started = Instant::now();
    if let Err(why) = end_guests_when_interrupted() {
        eprintln!("weir-testbed: {why:#}");
    }
    match run(Args::parse().command, started) {
        Ok(true) => 0.into(),
        Ok(false) => 1.into(),
        Err(why) => {
            eprintln!("weir-testbed: {why:#}");
            2.into()
        }
    }
}

fn run(command: Command, started: Instant) -> Result<bool> {
    let mut say = |line: &str| eprintln!("[{:>5.1} s] {line}", started.elapsed().as_secs_f64());
    match command {
        Command::Env => {
            let env = Environment::ready(&mut say)?;
            kernel_modules::build(&env, &mut say)?;
            Ok(true)
        }
        Command::Live {
            scenario,
            out,
            policy,
            backend,
            check,
            weir_args,
            keep_ticks,
            jobs,
            pace,
            seed,
        } => {
            let mut scenario = scenario_file::load(&scenario)?;
            scenario.seed = seed.unwrap_or(scenario.seed);
            let mut modes = vec![Mode::Free];
            for name in &policy {
                for backend in &backend {
                    modes.push(mode(name, backend, &weir_args)?);
                }
            }
            // A mode without weir is the same for each back end.
            modes.dedup();
            let live = Live {
                modes: &modes,
                jobs: jobs.map_or_else(cpu_count, usize::from),
                ticks: keep_ticks.then_some(&*out),
                pace,
            };
            let results = live_runs(&scenario, &live)?;
            let met = show(&scenario, &results, &out)?;
            Ok(met || !check)
        }
        Command::Attribution {
            scenarios,
            out,
            check,
        } => {
            let met = attributions(&scenarios, &out, &mut say)?;
            Ok(met || !check)
        }
        Command::Sweep {
            scenario,
            out,
            repeat,
            check,
        } => {
            let scenario = device_sweep::readers_only(&scenario_file::load(&scenario)?)?;
            let met = sweeps(&scenario, &out, repeat, &mut say)?;
            Ok(met || !check)
        }
    }
}

fn cpu_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn mode(name: &str, backend: &str, weir_args: &str) -> Result<Mode> {
    if let Some(quota) = name.strip_prefix("quota:") {
        let parsed = quota.split_once('/').and_then(|(quota, period)| {
            Some(Mode::Quota {
                quota_us: quota.parse().ok()?,
                period_us: period.parse().ok()?,
            })
        });
        return parsed.with_context(|| format!("--policy {name}: quota:MICROSECONDS/MICROSECONDS"));
    }
    let policy = (name != "observe").then(|| name.to_string());
    Ok(Mode::Weir {
        policy,
        backend: backend.into(),
        extra: weir_args.into(),
    })
}

/// What `live` runs.
struct Live<'a> {
    modes: &'a [Mode],
    jobs: usize,
    ticks: Option<&'a Path>,
    pace: f64,
}

fn live_runs(scenario: &TestbedScenario, live: &Live) -> Result<Results> {
    let began = Instant::now();
    let plan = Plan {
        scenario,
        modes: live.modes,
        jobs: live.jobs,
        ticks: live.ticks,
    };
    let guest_sec = scenario.control.settle_sec + scenario.control.measure_sec;
    let title = format!(
        "weir-testbed live: {} runs of {guest_sec} s of the guest's time",
        live.modes.len()
    );
    let phases = vec![
        Phase::new("kernel, driver and guest", 2.0),
        runs::phase(&plan),
    ];
    let progress = Arc::new(Progress::new(&title, phases, live.pace));
    progress.begin(0);
    let equipment = Equipment::of(scenario, &mut |line| progress.say(line))?;
    progress.begin(1);
    let runs = runs::all(&plan, &equipment, &progress)?;
    let virtual_sec = runs.iter().filter_map(|run| run.virtual_sec).sum();
    let origin = provenance::origin(
        equipment.env(),
        scenario,
        Duration::from_secs_f64(virtual_sec),
        began.elapsed(),
    );
    Ok(Results {
        scenario: scenario.name.clone(),
        runs,
        origin: Some(origin),
        caveats: provenance::caveats(&scenario.machine),
    })
}

fn show(scenario: &TestbedScenario, results: &Results, out: &Path) -> Result<bool> {
    let subject = scenario.info()?;
    let checks = weir_report::checks(&subject, results);
    print!("\n{}\n", weir_report::terminal(&subject, results));
    for path in weir_report::write(out, &subject, results)? {
        println!("wrote {}", path.display());
    }
    Ok(checks.iter().all(|c| c.is_met()))
}

fn attributions(paths: &[PathBuf], out: &Path, say: &mut dyn FnMut(&str)) -> Result<bool> {
    let scenarios: Vec<TestbedScenario> = paths
        .iter()
        .map(|path| scenario_file::load(path))
        .collect::<Result<_>>()?;
    let mut rows = Vec::new();
    for scenario in &scenarios {
        let (vm, all) = Equipment::of(scenario, say)?.guest(scenario)?;
        rows.extend(attribution::measure(&vm, scenario, &all, say)?);
    }
    println!("\n{}", attribution::table(&rows));
    let mut met = true;
    for (passed, sentence) in attribution::checks(&rows) {
        met &= passed;
        println!("{} {sentence}", if passed { "ok    " } else { "MISSED" });
    }
    write_json(out, "attribution.json", &rows)?;
    Ok(met)
}

fn write_json(out: &Path, name: &str, value: &impl serde::Serialize) -> Result<()> {
    let out = OutputDir::open_or_make(out)?;
    out.put(name, &serde_json::to_vec_pretty(value)?).map(drop)
}

fn sweeps(
    scenario: &TestbedScenario,
    out: &Path,
    repeat: usize,
    say: &mut dyn FnMut(&str),
) -> Result<bool> {
    let (vm, all) = Equipment::of(scenario, say)?.guest(scenario)?;
    let mut runs = Vec::new();
    let mut met = true;
    for number in 1..=repeat.max(1) {
        let rows = device_sweep::measure(&vm, scenario, &all, say)?;
        println!(
            "sweep, run {number} of {repeat}\n{}",
            device_sweep::table(&rows)
        );
        for (passed, sentence) in device_sweep::checks(&rows) {
            met &= passed;
            println!("{} {sentence}", if passed { "ok    " } else { "MISSED" });
        }
        runs.push(rows);
        vm.sleep(Duration::from_secs(1))?;
    }
    if let Some(spread) = device_sweep::spread(&runs) {
        println!(
            "largest spread of bandwidth between runs: {:.1} %",
            spread * 100.0
        );
        met &= spread <= 0.05;
    }
    write_json(out, "sweep.json", &runs)?;
    Ok(met)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_can_be_repeated_and_checked() {
        let words = [
            "weir-testbed",
            "sweep",
            "a.toml",
            "--repeat",
            "2",
            "--check",
        ];
        let args = Args::try_parse_from(words).expect("a command");
        let Command::Sweep {
            repeat, check, out, ..
        } = args.command
        else {
            panic!("another command");
        };
        assert_eq!((repeat, check, out), (2, true, "out/sweep".into()));
    }
}
