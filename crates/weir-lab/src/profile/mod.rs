// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-lab profile`: figures of weir-profile against the truth of the synthetic server, over machines that
//! seeds draw.
//!
//! [`comparison`] is the interface for estimators, [`stage_times`] compares residences and waits,
//! [`stall_splits`] the split of stalls, [`causes_named`] what rules find, [`culprits`] behind which
//! workload requests wait, [`what_ifs`] how much faster a workload would be; [`plans`] says how is
//! counted, [`distortion`] what is told wrong on purpose, [`errors`] sums errors up. [`day`] makes a
//! recording of a day.

mod causes_named;
mod comparison;
mod culprits;
pub mod day;
mod distortion;
mod errors;
mod plans;
mod stage_times;
mod stall_splits;
mod what_ifs;

use crate::server::{ServerRuns, record_idle, record_server, speedups};
use anyhow::Result;
use clap::Args;
use comparison::{Aims, ComparedFigure, ComparedRun, Comparison};
use distortion::Distortion;
use errors::ErrorSummary;
use plans::Counting;
use serde::Serialize;
use weir::lab::{Exit, print, print_json, whole};
use weir_figures::text::harmless;
use weir_figures::{Cell, Setting, Table, terminal_table};

/// `weir-lab profile`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct ProfileEvalArgs {
    /// A scenario of `weir profile sim`, or the path of a TOML file
    #[arg(default_value = "random", value_name = "SCENARIO")]
    pub scenario: String,

    /// How many seeds
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub seeds: u16,

    /// The first seed
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole::<u64>)]
    pub seed: u64,

    /// How is counted; several with commas
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["all", "turns", "spread"])]
    pub counting: Vec<Counting>,

    /// Compare what-ifs too: each seed runs again without CXL memory and without each workload
    #[arg(long)]
    pub what_if: bool,

    /// What is told wrong.
    #[command(flatten)]
    pub distortion: Distortion,

    /// Show so many of the largest errors of each row
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = whole::<usize>)]
    pub worst: usize,

    /// Exit with 1 if a mean error is above its aim
    #[arg(long)]
    pub check: bool,

    /// Print everything as JSON
    #[arg(long, conflicts_with = "worst")]
    pub json: bool,
}

const HELP: &str = "\
Examples:
  weir-lab profile --seeds 60
  weir-lab profile --seeds 5 --counting turns --worst 3
  weir-lab profile --seeds 20 --counters-off 0.1 --counting all
  weir-lab profile two:medium --seeds 100 --counting all
  weir-lab profile --seeds 60 --counting all --what-if
  weir-lab profile tor-held:strong --seeds 5 --json | jq '.rows[]'

Errors are relative unless the row says otherwise. A figure that the profiler refuses has no error and is counted
as refused. A plan of the scenario itself is not used.";

/// Residences and waits: specification, \"What it must show\".
const TIMES: Option<Aims> = Some(Aims {
    all: 0.02,
    turns: 0.05,
    spread: 0.03,
});

/// The share of CXL memory in stalls.
const SHARES: Option<Aims> = Some(Aims {
    all: 0.06,
    turns: 0.08,
    spread: 0.08,
});

/// Stalls at a wrong stage.
const STAGES: Option<Aims> = Some(Aims {
    all: 0.08,
    turns: 0.1,
    spread: 0.1,
});

/// Truths outside of their error bars.
const OUTSIDE: Option<Aims> = Some(Aims {
    all: 0.1,
    turns: 0.1,
    spread: 0.1,
});

/// Machines with two causes of which not both are named.
const BOTH: Option<Aims> = Some(Aims {
    all: 0.3,
    turns: 0.3,
    spread: 0.3,
});

/// The workload that most of a wait is behind is another.
const CULPRIT: Option<Aims> = Some(Aims {
    all: 0.1,
    turns: 0.1,
    spread: 0.1,
});

/// The share of a workload in a wait.
const CULPRIT_SHARES: Option<Aims> = Some(Aims {
    all: 0.05,
    turns: 0.05,
    spread: 0.05,
});

/// Times lost that are not within ten points.
const LOST: Option<Aims> = Some(Aims {
    all: 0.15,
    turns: 0.15,
    spread: 0.15,
});

/// All that is compared.
const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "residence, table of requests",
        aims: TIMES,
        figures: stage_times::table_residence,
    },
    Comparison {
        name: "residence, super queue",
        aims: TIMES,
        figures: stage_times::core_residence,
    },
    Comparison {
        name: "residence, DRAM, port, device",
        aims: TIMES,
        figures: stage_times::memory_residence,
    },
    Comparison {
        name: "residence, mesh and ingress",
        aims: TIMES,
        figures: stage_times::mesh_residence,
    },
    Comparison {
        name: "wait, table (above 10 % of the residence)",
        aims: TIMES,
        figures: stage_times::table_wait,
    },
    Comparison {
        name: "wait, table, ÷ residence",
        aims: TIMES,
        figures: stage_times::table_wait_in_residence,
    },
    Comparison {
        name: "wait, mesh and ingress, ÷ residence",
        aims: TIMES,
        figures: stage_times::mesh_wait_in_residence,
    },
    Comparison {
        name: "stalls, share of CXL",
        aims: SHARES,
        figures: stall_splits::cxl_share,
    },
    Comparison {
        name: "stalls, share of CXL outside its bar",
        aims: OUTSIDE,
        figures: stall_splits::outside_error_bar,
    },
    Comparison {
        name: "stalls, at a wrong stage",
        aims: STAGES,
        figures: stall_splits::misplaced,
    },
    Comparison {
        name: "share of CXL by lines",
        aims: None,
        figures: stall_splits::by_counts,
    },
    Comparison {
        name: "share of CXL by fixed latencies",
        aims: None,
        figures: stall_splits::by_fixed_latencies,
    },
    Comparison {
        name: "share of CXL by residences",
        aims: None,
        figures: stall_splits::by_residences,
    },
    Comparison {
        name: "share of CXL by Algorithm 2, mended",
        aims: None,
        figures: stall_splits::by_algorithm_2,
    },
    Comparison {
        name: "waits, wrong culprit",
        aims: CULPRIT,
        figures: culprits::wrong,
    },
    Comparison {
        name: "waits, share of a workload",
        aims: CULPRIT_SHARES,
        figures: culprits::shares,
    },
    Comparison {
        name: "speedup without CXL memory",
        aims: None,
        figures: what_ifs::without_cxl,
    },
    Comparison {
        name: "time lost to it, not within 10 points",
        aims: LOST,
        figures: what_ifs::lost_to_cxl,
    },
    Comparison {
        name: "speedup without a neighbour",
        aims: None,
        figures: what_ifs::without_neighbour,
    },
    Comparison {
        name: "time lost to it, not within 10 points",
        aims: LOST,
        figures: what_ifs::lost_to_neighbour,
    },
    Comparison {
        name: "causes that are not named",
        aims: None,
        figures: causes_named::each,
    },
    Comparison {
        name: "two causes, not both named",
        aims: BOTH,
        figures: causes_named::both,
    },
];

#[derive(Serialize)]
struct ComparisonRow {
    counting: &'static str,
    figure: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    aim_ratio: Option<f64>,
    #[serde(flatten)]
    errors: ErrorSummary,
    #[serde(skip)]
    worst: Vec<(u64, ComparedFigure)>,
}

impl ComparisonRow {
    /// Whether it is above its aim, or has no figure at all.
    fn is_missed(&self) -> bool {
        let is_above = |aim| self.errors.mean_ratio > aim;
        self.aim_ratio
            .is_some_and(|aim| self.errors.figures == 0 || is_above(aim))
    }
}

#[derive(Serialize)]
struct ComparisonTable<'a> {
    scenario: &'a str,
    first_seed: u64,
    seeds: u16,
    rows: Vec<ComparisonRow>,
}

/// Runs all seeds and prints the table.
///
/// # Errors
/// There is no such scenario, or stdout cannot be written.
pub fn profile(args: &ProfileEvalArgs) -> Result<Exit> {
    let runs = ServerRuns::named(&args.scenario)?;
    let mut rows = Vec::new();
    for counting in Counting::ALL
        .into_iter()
        .filter(|c| args.counting.contains(c))
    {
        let mut figures: Vec<Vec<(u64, ComparedFigure)>> =
            COMPARISONS.iter().map(|_| Vec::new()).collect();
        for n in 0..u64::from(args.seeds) {
            let case = case(&runs, args.seed.wrapping_add(n), counting, args)?;
            for (kind, figures) in COMPARISONS.iter().zip(&mut figures) {
                let all = (kind.figures)(&case).into_iter();
                figures.extend(all.map(|figure| (case.seed, figure)));
            }
        }
        let with_figures = COMPARISONS
            .iter()
            .zip(figures)
            .filter(|(_, figures)| !figures.is_empty());
        rows.extend(with_figures.map(|(kind, figures)| row(kind, counting, figures, args.worst)));
    }
    let table = ComparisonTable {
        scenario: &args.scenario,
        first_seed: args.seed,
        seeds: args.seeds,
        rows,
    };
    if args.json {
        print_json(&table)?
    } else {
        print(&text(&table))?
    }
    let is_missed = args.check && table.rows.iter().any(ComparisonRow::is_missed);
    Ok(if is_missed { Exit::Finding } else { Exit::Done })
}

fn case(
    runs: &ServerRuns,
    seed: u64,
    counting: Counting,
    args: &ProfileEvalArgs,
) -> Result<ComparedRun> {
    let distortion = args.distortion;
    let mut scenario = runs.scenario(seed)?;
    scenario.plan = counting.plan();
    scenario.run.window_us *= counting.window_ratio();
    distortion.of_machine(&mut scenario);
    let mut recording = record_server(&scenario, seed)?;
    distortion.of_counts(&mut recording.file, seed);
    let mut idle = record_idle(&scenario, seed)?;
    // The same counters, off by as much.
    distortion.of_counts(&mut idle, seed);
    if args.what_if {
        recording.truth.what_if = speedups(&scenario, seed)?;
    }
    Ok(ComparedRun {
        seed,
        file: recording.file,
        idle,
        truth: recording.truth,
    })
}

fn row(
    kind: &Comparison,
    counting: Counting,
    mut figures: Vec<(u64, ComparedFigure)>,
    worst: usize,
) -> ComparisonRow {
    let errors: Vec<f64> = figures
        .iter()
        .filter_map(|(_, figure)| figure.error())
        .collect();
    let refused = figures.len() - errors.len();
    figures.sort_by(|(_, a), (_, b)| {
        b.error()
            .unwrap_or(0.0)
            .total_cmp(&a.error().unwrap_or(0.0))
    });
    // A refusal is shown after all errors.
    figures.truncate(worst);
    ComparisonRow {
        counting: counting.name(),
        figure: kind.name,
        aim_ratio: kind.aims.map(|aims| counting.aim(aims)),
        errors: ErrorSummary::of(errors, refused),
        worst: figures,
    }
}

fn text(table: &ComparisonTable) -> String {
    let percent = |ratio: f64| Cell::number(format!("{:.2}", ratio * 100.0));
    let mut rows = Vec::new();
    for row in &table.rows {
        let errors = &row.errors;
        let aim = row.aim_ratio.map(|aim| format!("{:.0}", aim * 100.0));
        rows.push(vec![
            Cell::words(row.counting),
            Cell::words(row.figure),
            Cell::number(errors.figures.to_string()),
            Cell::number(errors.refused.to_string()),
            percent(errors.median_ratio),
            percent(errors.mean_ratio),
            percent(errors.p95_ratio),
            Cell::number(aim.unwrap_or_default()),
        ]);
        rows.extend(row.worst.iter().map(|(seed, figure)| {
            let estimate = match &figure.estimate {
                Ok(value) => format!("{value:.2}"),
                Err(why) => why.clone(),
            };
            let error = figure
                .error()
                .map(|error| format!(": {:.1} %", error * 100.0));
            vec![Cell::words(format!(
                "         seed {seed} {}: {estimate}, true {:.2}{}",
                figure.of,
                figure.truth,
                error.unwrap_or_default()
            ))]
        }));
    }
    let (of, seeds, first) = (harmless(table.scenario), table.seeds, table.first_seed);
    let title = format!("{of}, {seeds} seeds from {first}");
    let heads = [
        "counting", "figure", "figures", "refused", "median %", "mean %", "p95 %", "aim %",
    ];
    terminal_table(&Table::new(title, &heads, rows), Setting::WIDE)
}
