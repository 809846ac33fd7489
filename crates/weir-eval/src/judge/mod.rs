// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-eval judge`: the controller on scenarios by chance, judged from the simulator's truth. Each scenario
//! runs without weir and with it. A scenario that fails is printed with `--show`, and can be kept.

mod checks;
mod generator;

use anyhow::{Context, Result};
use checks::{Finding, Pair, SaidDemands};
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use weir::eval::{Exit, print, whole};
use weir_core::policy::Policy;
use weir_core::{Observation, Plan};
use weir_sim::{
    Attribution, Backend, ControllerKind, RunMetrics, Scenario, WeirOptions, run, run_watched,
};

/// `weir-eval judge`.
#[derive(Debug, Args)]
pub struct JudgeArgs {
    /// The first seed
    #[arg(long, default_value_t = 1, value_name = "SEED", value_parser = whole::<u64>)]
    pub from: u64,

    /// How many scenarios
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = whole::<u64>)]
    pub scenarios: u64,

    /// What limits
    #[arg(long, default_value = "cpu-max", value_name = "BACKEND")]
    pub backend: JudgedBackend,

    /// What the traffic of a shared group is attributed by
    #[arg(long, default_value = "task-counts", value_name = "SENSOR")]
    pub sensor: JudgedSensor,

    /// How a set-point is split: max-min or drf
    #[arg(long, default_value_t = Policy::MaxMin, value_name = "POLICY")]
    pub policy: Policy,

    /// List the seeds for which a check does not hold, each with its figure
    #[arg(long)]
    pub failing: bool,

    /// Print the file of the first scenario, and judge none
    #[arg(long)]
    pub show: bool,
}

/// What limits.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum JudgedBackend {
    /// `cpu.max`
    CpuMax,
    /// weir's scheduler, for limited workloads only
    SchedExt,
    /// weir's scheduler, for all ordinary tasks
    SchedExtFull,
}

/// What traffic is attributed by.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum JudgedSensor {
    /// Reads that the CPU counts for each task
    TaskCounts,
    /// A sampler
    Sampling,
    /// CPU time and memory
    CpuTime,
}

/// A set-point that no device reaches, in bytes per second.
const NO_LIMIT: f64 = 1e12;

/// One check over all scenarios.
#[derive(Clone, Debug, Default)]
struct Row {
    judged: usize,
    /// Seeds for which it does not hold, with the figures.
    wrong: Vec<(u64, f64)>,
}

/// By the name of the check.
type Table = BTreeMap<&'static str, Row>;

fn options(args: &JudgeArgs) -> WeirOptions {
    let mut options = WeirOptions {
        backend: match args.backend {
            JudgedBackend::CpuMax => Backend::CpuMax,
            JudgedBackend::SchedExt => Backend::SchedExt,
            JudgedBackend::SchedExtFull => Backend::SchedExtFull,
        },
        attribution: Some(match args.sensor {
            JudgedSensor::TaskCounts => Attribution::TaskCounts,
            JudgedSensor::Sampling => Attribution::Sampling,
            JudgedSensor::CpuTime => Attribution::CpuTime,
        }),
        ..WeirOptions::default()
    };
    options.config.policy = args.policy;
    options
}

/// A scenario with its set-point, and its run without weir.
struct Prepared {
    text: String,
    free: RunMetrics,
    set_point: f64,
}

fn prepare(draft: &generator::Draft, options: &WeirOptions) -> Result<Prepared> {
    let scenario = Scenario::parse(&draft.at(NO_LIMIT), "judged")?;
    // Another scheduler gives other parts of full CPUs: what a limit does is told from that.
    let without = match options.backend {
        Backend::CpuMax => ControllerKind::None,
        _ => ControllerKind::Weir(Box::new(WeirOptions {
            observes_only: true,
            ..options.clone()
        })),
    };
    let free = run(&scenario, &without, draft.seed)?;
    let set_point = (free.bandwidth.mean_bytes_per_sec * draft.set_point_ratio).max(1e6);
    Ok(Prepared {
        text: draft.at(set_point),
        free,
        set_point,
    })
}

fn judge(seed: u64, options: &WeirOptions) -> Result<Vec<Finding>> {
    let draft = generator::draw(seed);
    let prepared = prepare(&draft, options)?;
    let scenario = Scenario::parse(&prepared.text, "judged")?;
    let mut said = SaidDemands::default();
    let weir = ControllerKind::Weir(Box::new(options.clone()));
    let held = run_watched(
        &scenario,
        &weir,
        seed,
        &mut |_: &Observation, plan: &Plan| {
            said.note(plan);
        },
    )?;
    let pair = Pair {
        traits: &draft.traits,
        scenario: &scenario,
        set_point: prepared.set_point,
        free: &prepared.free,
        held: &held,
        said: &said,
    };
    Ok(pair.findings())
}

/// All seeds, on all CPUs.
fn table(args: &JudgeArgs) -> Result<Table> {
    let options = options(args);
    let next = AtomicU64::new(args.from);
    let end = args.from.saturating_add(args.scenarios);
    let judged = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let found = judge(seed, &options).with_context(|| format!("seed {seed}"));
                    if let Ok(mut all) = judged.lock() {
                        all.push((seed, found));
                    }
                }
            });
        }
    });
    let mut judged = judged.into_inner().unwrap_or_default();
    judged.sort_by_key(|(seed, _)| *seed);
    let mut rows = Table::new();
    for (seed, findings) in judged {
        for finding in findings? {
            let row = rows.entry(finding.check).or_default();
            row.judged += 1;
            if !finding.holds {
                row.wrong.push((seed, finding.figure));
            }
        }
    }
    Ok(rows)
}

/// Judges and prints the table.
///
/// # Errors
/// A scenario does not run, or stdout cannot be written.
pub fn judge_all(args: &JudgeArgs) -> Result<Exit> {
    if args.show {
        let prepared = prepare(&generator::draw(args.from), &options(args))?;
        print(&prepared.text)?;
        return Ok(Exit::Done);
    }
    // Writing into a String cannot fail.
    let mut out = String::new();
    for (check, row) in table(args)? {
        let _ = writeln!(
            out,
            "{check:32} {:4} of {:4} do not hold",
            row.wrong.len(),
            row.judged
        );
        if args.failing && !row.wrong.is_empty() {
            let each = row
                .wrong
                .iter()
                .map(|(seed, figure)| format!("{seed}: {figure:.3}"));
            let _ = writeln!(out, "    {}", each.collect::<Vec<_>>().join("  "));
        }
    }
    print(&out)?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds that no constant was chosen on.
    const FROM: u64 = 5001;

    fn judged(backend: JudgedBackend, sensor: JudgedSensor, scenarios: u64) -> Table {
        table(&JudgeArgs {
            from: FROM,
            scenarios,
            backend,
            sensor,
            policy: Policy::MaxMin,
            failing: false,
            show: false,
        })
        .expect("the scenarios run")
    }

    /// Most of the judged that may be wrong, and the least that must have been judged.
    fn check(table: &Table, check: &str, wrong_max: usize, judged_min: usize) {
        let row = table.get(check).cloned().unwrap_or_default();
        assert!(row.judged >= judged_min, "{check}: {} judged", row.judged);
        assert!(row.wrong.len() <= wrong_max, "{check}: {row:?}");
    }

    #[test]
    fn exact_counts_hold_the_device_equal_and_harm_none_by_cpu_max() {
        let table = judged(JudgedBackend::CpuMax, JudgedSensor::TaskCounts, 30);
        println!("{table:?}");
        check(&table, "device within 3 %", 0, 8);
        check(&table, "equals within 20 %", 0, 8);
        check(&table, "below: nothing lost (2 %)", 0, 2);
        check(&table, "demand <= 1.2 free", 3, 80);
        check(&table, "small loses <= 5 %", 2, 20);
    }

    #[test]
    fn the_scheduler_for_all_tasks_holds_equals_closer() {
        let table = judged(JudgedBackend::SchedExtFull, JudgedSensor::TaskCounts, 20);
        println!("{table:?}");
        check(&table, "device within 3 %", 1, 5);
        check(&table, "equals within 5 %", 1, 5);
        check(&table, "demand <= 1.2 free", 3, 50);
    }

    #[test]
    fn samples_limit_none_below_the_set_point() {
        let table = judged(JudgedBackend::CpuMax, JudgedSensor::Sampling, 20);
        println!("{table:?}");
        check(&table, "below: nothing lost (2 %)", 0, 2);
    }
}
