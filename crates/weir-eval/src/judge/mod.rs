// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-eval judge`: the controller on scenarios by chance, judged from the simulator's truth. Each scenario
//! runs without weir and with it.

mod checks;
mod generator;

use anyhow::Result;
use checks::{Finding, Pair, SaidDemands};
use clap::Args;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use weir::eval::{Exit, print, whole};
use weir_core::policy::Policy;
use weir_core::{Observation, Plan};
use weir_sim::{Attribution, Backend, ControllerKind, Scenario, WeirOptions, run, run_watched};

/// `weir-eval judge`.
#[derive(Debug, Args)]
pub struct JudgeArgs {
    /// The first seed
    #[arg(long, default_value_t = 1, value_name = "SEED", value_parser = whole::<u64>)]
    pub from: u64,

    /// How many scenarios
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = whole::<u64>)]
    pub scenarios: u64,

    /// cpu-max, sched-ext or sched-ext-full
    #[arg(long, default_value = "cpu-max", value_name = "BACKEND")]
    pub backend: String,

    /// task-counts, sampling or cpu-time
    #[arg(long, default_value = "task-counts", value_name = "SENSOR")]
    pub sensor: String,

    /// max-min or drf
    #[arg(long, default_value_t = Policy::MaxMin, value_name = "POLICY")]
    pub policy: Policy,

    /// Print each scenario for which a check fails
    #[arg(long)]
    pub failing: bool,

    /// Print the file of the first scenario, and run nothing but it without weir
    #[arg(long)]
    pub show: bool,
}

/// A set-point that no device reaches, in bytes per second.
const NO_LIMIT: f64 = 1e12;

/// One judged scenario.
struct Judged {
    seed: u64,
    findings: Vec<Finding>,
}

fn options(args: &JudgeArgs) -> Result<WeirOptions> {
    let backend = match args.backend.as_str() {
        "cpu-max" => Backend::CpuMax,
        "sched-ext" => Backend::SchedExt,
        "sched-ext-full" => Backend::SchedExtFull,
        other => anyhow::bail!(
            "there is no back end `{other}`: use cpu-max, sched-ext or sched-ext-full"
        ),
    };
    let attribution = match args.sensor.as_str() {
        "task-counts" => Attribution::TaskCounts,
        "sampling" => Attribution::Sampling,
        "cpu-time" => Attribution::CpuTime,
        other => {
            anyhow::bail!("there is no sensor `{other}`: use task-counts, sampling or cpu-time")
        }
    };
    let mut options = WeirOptions {
        backend,
        attribution: Some(attribution),
        ..WeirOptions::default()
    };
    options.config.policy = args.policy;
    Ok(options)
}

fn set_point(
    draft: &generator::Draft,
    options: &WeirOptions,
) -> Result<(String, weir_sim::RunMetrics, f64)> {
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
    Ok((draft.at(set_point), free, set_point))
}

fn judge(seed: u64, options: &WeirOptions) -> Result<Judged> {
    let draft = generator::draw(seed);
    let (text, free, set_point) = set_point(&draft, options)?;
    let scenario = Scenario::parse(&text, "judged")?;
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
    if std::env::var("JUDGE_DETAIL").is_ok() {
        println!(
            "set-point {:.3e} free {:.3e} held {:.3e} {:?}",
            set_point,
            free.bandwidth.mean_bytes_per_sec,
            held.bandwidth.mean_bytes_per_sec,
            draft.traits
        );
        for w in &held.workloads {
            let m = |v: &[f64]| {
                let v: Vec<f64> = v[100..200.min(v.len())]
                    .iter()
                    .copied()
                    .filter(|x| x.is_finite())
                    .collect();
                v.iter().sum::<f64>() / v.len().max(1) as f64
            };
            let f = free
                .workloads
                .iter()
                .find(|x| x.name == w.name)
                .map_or(0.0, |f| m(&f.bytes_per_sec));
            println!(
                "{:10} free {:.3e} held {:.3e} cpus {:.4} limit {:.4} k {:.3e}",
                w.name,
                f,
                m(&w.bytes_per_sec),
                m(&w.cpus),
                m(&w.limit_cpus),
                m(&w.bytes_per_sec) / m(&w.cpus)
            );
        }
    }
    let pair = Pair {
        traits: &draft.traits,
        scenario: &scenario,
        set_point,
        free: &free,
        held: &held,
        said: &said,
    };
    Ok(Judged {
        seed,
        findings: pair.findings(),
    })
}

/// Runs and prints the table.
///
/// # Errors
/// A scenario does not run, or stdout cannot be written.
pub fn judge_all(args: &JudgeArgs) -> Result<Exit> {
    if args.show {
        let (text, ..) = set_point(&generator::draw(args.from), &options(args)?)?;
        print(&text)?;
        return Ok(Exit::Done);
    }
    let options = options(args)?;
    let next = AtomicU64::new(args.from);
    let judged: Mutex<Vec<Result<Judged>>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= args.from + args.scenarios {
                        return;
                    }
                    let one = judge(seed, &options);
                    if let Ok(mut all) = judged.lock() {
                        all.push(one);
                    }
                }
            });
        }
    });
    let judged = judged.into_inner().unwrap_or_default();
    let mut judged = judged.into_iter().collect::<Result<Vec<_>>>()?;
    judged.sort_by_key(|j| j.seed);
    let mut rows: BTreeMap<&str, (u64, Vec<(u64, f64)>)> = BTreeMap::new();
    for one in &judged {
        for finding in &one.findings {
            let row = rows.entry(finding.check).or_default();
            row.0 += 1;
            if !finding.holds {
                row.1.push((one.seed, finding.figure));
            }
        }
    }
    let mut out = String::new();
    for (check, (count, wrong)) in rows {
        let _ = writeln!(out, "{check:32} {:4} of {count:4} do not hold", wrong.len());
        if args.failing {
            let each: Vec<String> = wrong.iter().map(|(s, f)| format!("{s}:{f:.3}")).collect();
            let _ = writeln!(out, "    {}", each.join(" "));
        }
    }
    print(&out)?;
    Ok(Exit::Done)
}
