// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulator against the live testbed: one scenario file, a recorded run on a real kernel, and the same
//! on the simulated machine that is derived from the file.

use super::context::{EvalContext, command, number, of_run, text};
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::json;
use weir::lab::batch::Batch;
use weir::lab::controllers::{self, Choice};
use weir_figures::text::signed_percent;
use weir_figures::{Cell, CellKind, Part, Section, Table};
use weir_report::results::{Results, Run};

const TITLE: &str = "Simulator against the live testbed";
const SCENARIO: &str = "live-fio-stress";
const RECORDED: &str = include_str!("../../../../scenarios/recorded/live-fio-stress.json");
const HOW: &str = include_str!("../../../../scenarios/recorded/live-fio-stress.toml");
/// What both give is said to agree when it is this close.
const NEAR: f64 = 0.1;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct How {
    #[serde(rename = "scenario")]
    _scenario: String,
    date: String,
    kernel: String,
    command: String,
    one_reader: OneReader,
}

/// What one reader alone costs, in CPU-seconds per GiB.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OneReader {
    #[serde(rename = "line_ns")]
    _line_ns: f64,
    cpu_sec_per_gib: f64,
    cpu_sec_per_gib_at_25_of_100_ms: f64,
    cpu_sec_per_gib_at_5_of_20_ms: f64,
}

/// One figure: name, decimals, its value, and why the two worlds differ in it.
struct Figure {
    name: &'static str,
    decimals: usize,
    of: fn(&Run) -> Option<f64>,
    why: &'static str,
}

const MIB: f64 = 1_048_576.0;

const BURSTS: &str = "windows of 100 ms count whole bursts of 5 ms; the emulated CPUs add noise of their own (clocks that differ by up to 20 ms, kernel work at 28 million instructions a second)";
const LINE: &str = "the model's wait is that of random arrivals; lines of one CPU come evenly, so a CPU that is alone does not wait. The live mean of the crowded device carries the skew of the CPUs' clocks";
const LIGHT: &str = "live most of a core's own work is done while its lines are under way, here it comes after them, which is a fifth of a lone reader's time; the live tail also has the skew of the emulated CPUs' clocks";
const COST: &str = "the kernel's own work for refills and throttling is charged to the limited reader and is not modelled: see below the table";
const BLOCK: &str =
    "closed loop: follows the bandwidth by Little's law; quantiles live from some 1300 blocks";

const FIGURES: [Figure; 13] = [
    figure(
        "bandwidth, MiB/s",
        2,
        |r| Some(r.bandwidth.mean_bytes_per_sec / MIB),
        "",
    ),
    figure(
        "its stddev, MiB/s",
        2,
        |r| Some(r.bandwidth.stddev_bytes_per_sec / MIB),
        BURSTS,
    ),
    figure(
        "RMSE to the set-point, %",
        1,
        |r| Some(r.bandwidth.rmse_ratio * 1e2),
        BURSTS,
    ),
    figure(
        "bias, %",
        1,
        |r| Some(r.bandwidth.bias_ratio * 1e2),
        "both within noise of 0 with control",
    ),
    figure(
        "line, mean, µs",
        2,
        |r| micros(r.device_latency.mean_ns),
        LINE,
    ),
    figure(
        "light reader, p50, µs",
        0,
        |r| micros(r.light_reader.p50_ns),
        LIGHT,
    ),
    figure(
        "light reader, p99, µs",
        0,
        |r| micros(r.light_reader.p99_ns),
        LIGHT,
    ),
    figure(
        "limited readers, mean, ms",
        1,
        |r| millis(r.limited_readers.latency.mean_ns),
        BLOCK,
    ),
    figure(
        "limited readers, p99, ms",
        1,
        |r| millis(r.limited_readers.latency.p99_ns),
        BLOCK,
    ),
    figure(
        "Little's bound, ms",
        1,
        |r| millis(r.limited_readers.little_bound_ns),
        BLOCK,
    ),
    figure("CPU per GiB, s", 1, |r| r.cpu_sec_per_gib, COST),
    figure(
        "settles, s",
        1,
        |r| Some(r.settle_ms? / 1e3),
        "a mean of 2 s that leaves the 5 % once moves it by seconds",
    ),
    figure(
        "overshoot after that, %",
        1,
        |r| Some(r.overshoot_ratio? * 1e2),
        BURSTS,
    ),
];

const fn figure(
    name: &'static str,
    decimals: usize,
    of: fn(&Run) -> Option<f64>,
    why: &'static str,
) -> Figure {
    Figure {
        name,
        decimals,
        of,
        why,
    }
}

fn micros(ns: Option<f64>) -> Option<f64> {
    Some(ns? / 1e3)
}

fn millis(ns: Option<f64>) -> Option<f64> {
    Some(ns? / 1e6)
}

/// Both side by side.
pub fn live(context: &mut EvalContext) -> Result<Section> {
    let how: How = toml::from_str(HOW).context("how the live run was recorded")?;
    let recorded: Results = serde_json::from_str(RECORDED).context("the recorded live run")?;
    let scenario = context.scenario(SCENARIO)?.scenario;
    let mut choices = controllers::all(&scenario);
    choices.retain(|c: &Choice| ["none", "cpu-max"].contains(&c.name));
    let batch = context.batch(SCENARIO, &choices)?;
    let free = of_live(&recorded, |r| r.policy == "none" && r.backend == "none")?;
    let held = of_live(&recorded, |r| r.policy == scenario.control.policy.name())?;
    let mut rows: Vec<Vec<Cell>> = FIGURES.iter().map(|f| row(f, free, held, &batch)).collect();
    rows.push(gain(free, held, &batch));
    context.figures.insert(
        "live",
        json!({"recorded": serde_json::to_value(&recorded)?, "date": how.date, "kernel": how.kernel, "command": how.command}),
    );
    let near = |c: &Cell| c.kind == CellKind::Met;
    let cells = || rows.iter().flatten();
    let agree = cells().filter(|c| near(c)).count();
    let compared = cells()
        .filter(|c| near(c) || c.kind == CellKind::Missed)
        .count();
    context.show(
        TITLE,
        "simulator against the live testbed on the same scenario",
        "a table of both, differences explained",
        format!("{agree} of {compared} figures within 10 %"),
        None,
    );
    let one = &how.one_reader;
    let parts = vec![
        text(format!(
            "One scenario file, two worlds. Live: {}, {}. Simulated: the machine that weir-sim derives from the same file; mean of the seeds. A \
             difference above {:.0} % is marked. Operations of the work beside have another unit in each world: only the gain can be compared.",
            how.kernel,
            how.date,
            NEAR * 1e2
        )),
        Part::Table(Table::new(
            format!("{SCENARIO}: {}", scenario.about),
            &[
                "",
                "without: live",
                "simulated",
                "",
                "weir: live",
                "simulated",
                "",
                "where they differ, why",
            ],
            rows,
        )),
        text(format!(
            "What a limit costs on the testbed was measured with one reader alone: {:.1} CPU-s per GiB without a limit, {:.1} at 25 ms of each 100 ms, \
             {:.1} at 5 ms of each 20 ms. The simulator charges no workload for refills, throttling and ticks, so its readers stay near the first figure.",
            one.cpu_sec_per_gib,
            one.cpu_sec_per_gib_at_25_of_100_ms,
            one.cpu_sec_per_gib_at_5_of_20_ms
        )),
        context.bandwidth(&batch)?,
        command(format!(
            "weir sim {SCENARIO} --backend none,cpu-max --seeds 3"
        )),
        command(how.command),
    ];
    Ok(Section::new("live", TITLE, parts))
}

fn of_live(results: &Results, is_it: impl Fn(&&Run) -> bool) -> Result<&Run> {
    let found = results.runs.iter().find(is_it);
    found.context("the recorded live run lacks a run without control or with weir")
}

/// Live, simulated and the deviation, for each of the two.
fn row(figure: &Figure, free: &Run, held: &Run, batch: &Batch) -> Vec<Cell> {
    let mut row = vec![Cell::words(figure.name)];
    let mut differs = false;
    for (run, choice) in [(free, "none"), (held, "cpu-max")] {
        let live = (figure.of)(run);
        let at = batch.choices.iter().position(|c| c.name == choice);
        let ours = at.and_then(|i| of_run(batch, i, figure.of)).map(|v| v[1]);
        row.push(number(live, figure.decimals));
        row.push(number(ours, figure.decimals));
        row.push(match live.zip(ours).filter(|(l, _)| l.abs() > 1e-9) {
            // A bias near nothing has no ratio that says anything.
            Some((live, ours)) if live.abs().max(ours.abs()) > 1.0 => {
                let off = ours / live - 1.0;
                differs |= off.abs() > NEAR;
                let kind = if off.abs() > NEAR {
                    CellKind::Missed
                } else {
                    CellKind::Met
                };
                Cell::new(signed_percent(off), kind)
            }
            _ => Cell::words(""),
        });
    }
    row.push(Cell::long(if differs { figure.why } else { "" }));
    row
}

/// What the work beside gains: the one figure of it that both worlds have.
fn gain(free: &Run, held: &Run, batch: &Batch) -> Vec<Cell> {
    let of = |with: Option<f64>, without: Option<f64>| Some((with? / without? - 1.0) * 1e2);
    let live = of(held.throughput_ops_per_sec, free.throughput_ops_per_sec);
    let at = |name| batch.choices.iter().position(|c| c.name == name);
    let ops = |name| {
        let rates = of_run(batch, at(name)?, |r| r.throughput_ops_per_sec)?;
        Some(rates[1])
    };
    let ours = of(ops("cpu-max"), ops("none"));
    let mut row = vec![Cell::words("work beside gains, %")];
    row.extend(["", "", ""].map(Cell::words));
    row.push(number(live, 1));
    row.push(number(ours, 1));
    row.push(Cell::words(""));
    let why = "live the work beside is one cgroup, which gets 2.1 CPUs beside five readers; the simulated threads have a fifth of its weight each and get 2.5, for groups are not shared out per CPU (weir-sim)";
    row.push(Cell::long(why));
    row
}
