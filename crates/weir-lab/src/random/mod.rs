// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-lab random`: the controller on scenarios by chance, checked by the simulator's truth. Each scenario
//! runs without weir and with it. `--show` prints the file of one, to keep it or to run it with `weir sim`.

mod checks;
mod generator;
mod keep;
mod shrink;

use anyhow::{Context, Result};
use checks::{Finding, Pair, SaidDemands};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use weir::lab::{Exit, print, whole};
use weir_core::policy::Policy;
use weir_core::{Observation, Plan};
use weir_sim::{
    Attribution, Backend, ControllerKind, RunMetrics, Scenario, SimError, WeirOptions, run,
    run_watched,
};

/// `weir-lab random`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct RandomArgs {
    /// The first seed
    #[arg(long, default_value_t = 1, value_name = "SEED", value_parser = whole::<u64>)]
    pub from: u64,

    /// How many scenarios
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub scenarios: u64,

    /// What limits; may be repeated
    #[arg(
        long,
        default_value = "cpu-max",
        value_name = "BACKEND",
        value_delimiter = ','
    )]
    pub backend: Vec<CheckedBackend>,

    /// What the traffic of a shared group is attributed by; may be repeated
    #[arg(
        long,
        default_value = "task-counts",
        value_name = "SENSOR",
        value_delimiter = ','
    )]
    pub sensor: Vec<CheckedSensor>,

    /// How a set-point is split: max-min or drf
    #[arg(long, default_value_t = Policy::MaxMin, value_name = "POLICY")]
    pub policy: Policy,

    /// List the seeds for which a check does not hold, each with the workload and the figure
    #[arg(long, conflicts_with = "json")]
    pub failing: bool,

    /// Write a small file for `weir sim` into this directory for each scenario for which a check does not
    /// hold
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,

    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,

    /// Print the file of the first scenario, and run none with weir
    #[arg(long, conflicts_with_all = ["failing", "json", "keep"])]
    pub show: bool,
}

const HELP: &str = "\
Examples:
  weir-lab random --scenarios 60 --failing
  weir-lab random --from 1001 --backend cpu-max,sched-ext-full --sensor task-counts,sampling,cpu-time
  weir-lab random --from 1001 --scenarios 300 --keep out/random     then weir sim FILE --seed SEED
  weir-lab random --from 27 --show > seed-27.toml && weir sim seed-27.toml --seed 27

A check that does not apply to a scenario is not counted there. Lost bandwidth, factors and biases are ratios.";

/// What limits.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CheckedBackend {
    /// `cpu.max`
    CpuMax,
    /// weir's scheduler, for limited workloads only
    SchedExt,
    /// weir's scheduler, for all ordinary tasks
    SchedExtFull,
}

/// What traffic is attributed by.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CheckedSensor {
    /// Reads that the CPU counts for each task
    TaskCounts,
    /// A sampler
    Sampling,
    /// CPU time and memory
    CpuTime,
}

/// A set-point that no device reaches, in bytes per second.
const NO_LIMIT: f64 = 1e12;

/// Scenarios between two lines of progress.
const PROGRESS_EVERY: u64 = 20;

/// One check over all scenarios. Constants of the controller were chosen on seeds 1 to 60, 5001 to 5060,
/// 20001 to 20300 and 30001 to 30150, so that only other seeds judge them (docs/evidence/random.md).
#[derive(Clone, Debug, Default)]
struct Checked {
    checked: usize,
    /// Seeds for which it does not hold, with what was found.
    wrong: Vec<(u64, Finding)>,
}

/// What was checked, by the name of the check.
type Table = BTreeMap<&'static str, Checked>;

/// What the runs of one table have in common.
#[derive(Clone, Copy, Debug)]
struct Setup {
    backend: CheckedBackend,
    sensor: CheckedSensor,
    policy: Policy,
}

/// The value as the command line spells it.
fn word(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or(String::new(), |v| v.get_name().to_owned())
}

impl Setup {
    fn name(self) -> String {
        format!("{} {}", word(self.backend), word(self.sensor))
    }

    fn options(self) -> WeirOptions {
        let mut options = WeirOptions {
            backend: match self.backend {
                CheckedBackend::CpuMax => Backend::CpuMax,
                CheckedBackend::SchedExt => Backend::SchedExt,
                CheckedBackend::SchedExtFull => Backend::SchedExtFull,
            },
            attribution: Some(match self.sensor {
                CheckedSensor::TaskCounts => Attribution::TaskCounts,
                CheckedSensor::Sampling => Attribution::Sampling,
                CheckedSensor::CpuTime => Attribution::CpuTime,
            }),
            ..WeirOptions::default()
        };
        options.config.policy = self.policy;
        options
    }
}

/// A scenario with its set-point, and its run without weir.
struct Prepared {
    text: String,
    free: RunMetrics,
    set_point: f64,
}

/// What a scenario moves without weir. Its set-point is one that no device reaches.
fn run_free(scenario: &Scenario, seed: u64, options: &WeirOptions) -> Result<RunMetrics> {
    // Another scheduler gives other parts of full CPUs: what a limit does is told from that.
    let without = match options.backend {
        Backend::SchedExtFull => ControllerKind::Weir(Box::new(WeirOptions {
            observes_only: true,
            ..options.clone()
        })),
        _ => ControllerKind::None,
    };
    Ok(run(scenario, &without, seed)?)
}

/// The set-point as a part of what moves without weir.
fn set_point_at(ratio: f64, free: &RunMetrics) -> f64 {
    (free.bandwidth.mean_bytes_per_sec * ratio).max(1e6)
}

fn prepare(draft: &generator::Draft, options: &WeirOptions) -> Result<Prepared> {
    let scenario = Scenario::parse(&draft.at(NO_LIMIT), "random")?;
    let free = run_free(&scenario, draft.seed, options)?;
    let set_point = set_point_at(draft.set_point_ratio, &free);
    Ok(Prepared {
        text: draft.at(set_point),
        free,
        set_point,
    })
}

fn check_seed(seed: u64, options: &WeirOptions) -> Result<Vec<Finding>> {
    let draft = generator::draw(seed);
    check_one(&draft, &prepare(&draft, options)?, options)
}

/// Runs a scenario of this draft, or a smaller one, with weir.
fn check_one(
    draft: &generator::Draft,
    prepared: &Prepared,
    options: &WeirOptions,
) -> Result<Vec<Finding>> {
    let scenario = Scenario::parse(&prepared.text, "random")?;
    let mut said = SaidDemands::default();
    let weir = ControllerKind::Weir(Box::new(options.clone()));
    let mut note = |_: &Observation, plan: &Plan| said.note(plan);
    let held = match run_watched(&scenario, &weir, draft.seed, &mut note) {
        Ok(held) => held,
        // Beside full CPUs a scheduler for limited tasks alone says that it cannot hold them.
        Err(SimError::Refused { at_sec, .. }) => {
            return Ok(vec![Finding::refused(at_sec as f64)]);
        }
        Err(error) => return Err(error.into()),
    };
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

/// What `each` gives for the numbers below `count`, in their order.
fn on_all_cpus<T: Send>(count: u64, each: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let value = each(index);
                    if let Ok(mut all) = found.lock() {
                        all.push((index, value));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, value)| value).collect()
}

/// All seeds, on all CPUs.
fn table(setup: Setup, from: u64, scenarios: u64, is_telling: bool) -> Result<Table> {
    let options = setup.options();
    let found_by_seed = on_all_cpus(scenarios, |index| {
        if is_telling && index > 0 && index.is_multiple_of(PROGRESS_EVERY) {
            eprintln!("{}: {index} of {scenarios} scenarios", setup.name());
        }
        let seed = from.saturating_add(index);
        let found = check_seed(seed, &options).with_context(|| format!("seed {seed}"));
        (seed, found)
    });
    let mut rows = Table::new();
    for (seed, findings) in found_by_seed {
        for finding in findings? {
            let row = rows.entry(finding.check).or_default();
            row.checked += 1;
            if !finding.holds {
                row.wrong.push((seed, finding));
            }
        }
    }
    Ok(rows)
}

/// Checks all scenarios and prints the table.
///
/// # Errors
/// A scenario does not run, or stdout cannot be written.
pub fn check_all(args: &RandomArgs) -> Result<Exit> {
    let mut setups = Vec::new();
    for backend in &args.backend {
        setups.extend(args.sensor.iter().map(|sensor| Setup {
            backend: *backend,
            sensor: *sensor,
            policy: args.policy,
        }));
    }
    if let (true, Some(setup)) = (args.show, setups.first()) {
        let prepared = prepare(&generator::draw(args.from), &setup.options())?;
        print(&prepared.text)?;
        return Ok(Exit::Done);
    }
    if let Some(dir) = &args.keep {
        keep::make(dir)?;
    }
    let mut tables = Vec::new();
    for setup in &setups {
        let rows = table(*setup, args.from, args.scenarios, true)?;
        tables.push((setup.name(), rows));
    }
    let out = if args.json {
        as_json(args, &tables)?
    } else {
        as_text(&tables, args.failing)
    };
    print(&out)?;
    if let Some(dir) = &args.keep {
        for (setup, (_, rows)) in setups.iter().zip(&tables) {
            keep::keep(dir, *setup, rows)?;
        }
    }
    Ok(Exit::Done)
}

/// A row for each check, a column for each setup: the scenarios (or workloads) for which it does not hold, of
/// those that were checked.
fn as_text(tables: &[(String, Table)], is_listing: bool) -> String {
    // Writing into a String cannot fail.
    let mut out = String::from("| does not hold, of those checked |");
    for (name, _) in tables {
        let _ = write!(out, " {name} |");
    }
    let _ = writeln!(out, "\n|---|{}", "---|".repeat(tables.len()));
    let checks: BTreeSet<&str> = tables.iter().flat_map(|(_, t)| t.keys().copied()).collect();
    for check in checks {
        let _ = write!(out, "| {check} |");
        for (_, table) in tables {
            let _ = match table.get(check) {
                Some(row) => write!(out, " {} of {} |", row.wrong.len(), row.checked),
                None => write!(out, " – |"),
            };
        }
        out.push('\n');
    }
    let rows = tables.iter().filter(|_| is_listing);
    for (name, table) in rows {
        for (check, row) in table.iter().filter(|(_, row)| !row.wrong.is_empty()) {
            let each = row.wrong.iter().map(|(seed, found)| match &found.of {
                Some(of) => format!("{seed} {of}: {:.3}", found.figure),
                None => format!("{seed}: {:.3}", found.figure),
            });
            let each = each.collect::<Vec<_>>().join(", ");
            let _ = writeln!(out, "{name}, {check}: seeds {each}");
        }
    }
    out
}

fn as_json(args: &RandomArgs, tables: &[(String, Table)]) -> Result<String> {
    let of_row = |(check, row): (&&str, &Checked)| {
        let wrong = row.wrong.iter().map(
            |(seed, found)| json!({"seed": seed, "workload": found.of, "figure": found.figure}),
        );
        let wrong = wrong.collect::<Vec<_>>();
        json!({"check": check, "checked": row.checked, "wrong": wrong})
    };
    let tables = tables.iter().map(|(name, table)| {
        json!({"setup": name, "checks": table.iter().map(of_row).collect::<Vec<_>>()})
    });
    let all = json!({
        "from": args.from,
        "scenarios": args.scenarios,
        "policy": args.policy.name(),
        "tables": tables.collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds that no constant was chosen on.
    const FROM: u64 = 5001;

    fn checked(backend: CheckedBackend, sensor: CheckedSensor, scenarios: u64) -> Table {
        let setup = Setup {
            backend,
            sensor,
            policy: Policy::MaxMin,
        };
        let found = table(setup, FROM, scenarios, false).expect("the scenarios run");
        println!("{}", as_text(&[(setup.name(), found.clone())], true));
        found
    }

    /// Most of the checked that may be wrong, and the least that must have been checked.
    fn check(table: &Table, check: &str, wrong_max: usize, checked_min: usize) {
        let row = table.get(check).cloned().unwrap_or_default();
        assert!(
            row.checked >= checked_min,
            "{check}: {} checked",
            row.checked
        );
        assert!(row.wrong.len() <= wrong_max, "{check}: {row:?}");
    }

    #[test]
    fn exact_counts_hold_the_device_equal_and_harm_none_by_cpu_max() {
        let table = checked(CheckedBackend::CpuMax, CheckedSensor::TaskCounts, 30);
        check(&table, "device within 3 %", 1, 8);
        check(&table, "equals within 20 %", 0, 8);
        check(&table, "below: nothing lost (2 %)", 0, 2);
        check(&table, "demand <= 1.2 free", 3, 80);
        check(&table, "small loses <= 5 %", 2, 20);
    }

    #[test]
    fn the_scheduler_for_all_tasks_holds_equals_closer() {
        let table = checked(CheckedBackend::SchedExtFull, CheckedSensor::TaskCounts, 20);
        check(&table, "device within 3 %", 1, 5);
        check(&table, "equals within 5 %", 1, 5);
        check(&table, "demand <= 1.2 free", 3, 50);
    }

    #[test]
    fn samples_limit_none_below_the_set_point() {
        let table = checked(CheckedBackend::CpuMax, CheckedSensor::Sampling, 20);
        check(&table, "below: nothing lost (2 %)", 0, 2);
    }
}
