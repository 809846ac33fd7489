// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Causes of deviations, tested: one assumption is changed at a time, everything else stays, and each printed
//! figure is looked at again.
//!
//! ```text
//! assumptions (a change of machine, device, sensors or reading of the text) ─► runs of the thesis's six ─► Tested
//! a deviation above 10 % ─► the assumption under which it is smallest ─► explained, in part, or not
//! ```
//!
//! An assumption counts for a table or figure only if it does not leave fewer of its figures within 10 % than
//! there are without it: what brings one figure near and takes others away is luck and no cause.
//!
//! No parameter of the page's own runs is chosen by this: they keep their assumptions. A figure that is near
//! the printed one under another assumption has a tested cause, and no more than that: the table of effects
//! says how many other figures the same assumption takes away.

use super::context::{EvalContext, NEAR, number, slim, text};
use super::measured;
use super::published_figures::{self, Printed};
use anyhow::Result;
use serde::Serialize;
use serde_json::json;
use weir::lab::batch;
use weir::lab::controllers::Choice;
use weir_figures::text::signed_percent;
use weir_figures::{Cell, CellKind, Part, Section, Table};
use weir_scenario::simulated::Scenario;
use weir_sim::{ControllerKind, LimitRule, ScxReading};

const TITLE: &str = "Tested causes";
/// Seeds of a run with a varied assumption.
const SEEDS: usize = 2;
/// A deviation that shrinks below this part of itself is explained in part.
const IN_PART: f64 = 0.5;

/// What is changed in the scenarios' own assumptions.
type Change = fn(&mut Scenario);

/// An assumption that the thesis leaves open, or that the simulator makes, with another value.
struct Assumption {
    name: &'static str,
    change: Change,
    /// Another reading of how its schedulers work.
    reading: Option<fn() -> ScxReading>,
    scenarios: &'static [&'static str],
}

const LIMIT: &str = "thesis-limit";
const LATENCY: &str = "thesis-latency";
const IDLE: &str = "thesis-idle";
const UNEQUAL: &str = "thesis-asymmetric";
const ESTIMATE: &str = "thesis-estimate";

/// Half of the range of speeds of the fitted noise, and mean time between two speeds.
pub const SPEED_SPREAD: f64 = 0.5;
pub const SPEED_HOLD_MS: f64 = 5_000.0;
/// The processor's own range: 2.0 to 3.9 GHz (thesis 6.1).
pub const TURBO_SPREAD: f64 = 0.32;

const ASSUMPTIONS: [Assumption; 16] = [
    of_machine(
        "CPU speed varies by ±50 % (the fitted noise)",
        |s| speed(s, SPEED_SPREAD),
        &[LIMIT, LATENCY],
    ),
    of_machine(
        "CPU speed varies by ±32 % (2.0 to 3.9 GHz)",
        |s| speed(s, TURBO_SPREAD),
        &[LIMIT],
    ),
    of_machine(
        "HZ 250 instead of 1000",
        |s| s.machine.hz = 250,
        &[LIMIT, LATENCY, UNEQUAL],
    ),
    of_machine(
        "other tasks wake 800 times a second instead of 100",
        |s| wake(s, 8),
        &[LIMIT, LATENCY],
    ),
    of_machine(
        "other tasks wake 2400 times a second",
        |s| wake(s, 24),
        &[LIMIT, LATENCY],
    ),
    of_reading(
        "sched_ext: a limit is a part of the CPU time used, not of the last limit",
        || ScxReading {
            limit_rule: LimitRule::OfUsage,
            ..ScxReading::default()
        },
    ),
    of_reading("sched_ext: a limit is threshold ÷ bandwidth alone", || {
        ScxReading {
            limit_rule: LimitRule::OfNothing,
            ..ScxReading::default()
        }
    }),
    of_reading("sched_ext: enqueue takes no time", || ScxReading {
        enqueue_ns: 0,
        ..ScxReading::default()
    }),
    of_machine(
        "a busy sibling takes 25 % of a thread's speed instead of 40 %",
        |s| s.machine.smt_speed_ratio = 0.75,
        &[LIMIT, IDLE, UNEQUAL],
    ),
    of_machine(
        "a reader's own time is 7 ns a line instead of 12.5",
        |s| own_time(s, 7.0),
        &[LIMIT, LATENCY, IDLE],
    ),
    of_machine(
        "a reader's own time is 12.5 ns a line instead of 7",
        |s| own_time(s, 12.5),
        &[UNEQUAL],
    ),
    of_machine(
        "the device queues half as much (burst 240 instead of 479 ns)",
        |s| burst(s, 240.0),
        &[LIMIT, LATENCY, IDLE],
    ),
    of_machine(
        "37 compute workers instead of 39",
        |s| workers(s, 37),
        &[LIMIT, LATENCY],
    ),
    of_machine(
        "the kernel takes each CPU for 1 ms, 10 times a second",
        kernel_work,
        &[LIMIT, LATENCY],
    ),
    of_machine(
        "the sampler sees 1 byte of 158 (3.25 of 512 MiB/s, as printed) instead of 200",
        |s| s.sensors.sampled_ratio = 1.0 / 158.0,
        &[ESTIMATE],
    ),
    of_machine(
        "the sampler's own errors are 15 % a process instead of 8 %",
        |s| s.sensors.bias_stddev = 0.15,
        &[ESTIMATE],
    ),
];

const fn of_machine(
    name: &'static str,
    change: Change,
    scenarios: &'static [&'static str],
) -> Assumption {
    Assumption {
        name,
        change,
        reading: None,
        scenarios,
    }
}

const fn of_reading(name: &'static str, reading: fn() -> ScxReading) -> Assumption {
    Assumption {
        name,
        change: |_| (),
        reading: Some(reading),
        scenarios: &[LIMIT, LATENCY],
    }
}

/// The speed of all CPUs varies by this part.
pub fn speed(scenario: &mut Scenario, spread_ratio: f64) {
    scenario.machine.speed_spread_ratio = spread_ratio;
    scenario.machine.speed_hold_ms = SPEED_HOLD_MS;
}

/// Has the system so many times as many tasks that sleep and wake.
fn wake(scenario: &mut Scenario, times: u32) {
    let mut all = scenario.workloads.iter_mut();
    if let Some(system) = all.find(|w| w.name == "system") {
        system.count = times;
    }
}

fn own_time(scenario: &mut Scenario, ns_per_line: f64) {
    for reader in scenario
        .workloads
        .iter_mut()
        .filter(|w| w.resident_mib > 100)
    {
        reader.busy_ns_per_line = ns_per_line;
    }
}

fn burst(scenario: &mut Scenario, ns: f64) {
    for device in &mut scenario.devices {
        // A scenario that was parsed has profiles that exist.
        if let Ok(mut profile) = device.figures() {
            profile.mix.iter_mut().for_each(|mix| mix.burst_ns = ns);
            device.own = Some(Box::new(profile));
        }
    }
}

fn workers(scenario: &mut Scenario, count: u32) {
    let mut all = scenario.workloads.iter_mut();
    if let Some(stress) = all.find(|w| w.name == "stress") {
        stress.count = count;
    }
}

/// Real-time work on all CPUs: what interrupts and kernel threads take away from whatever runs.
fn kernel_work(scenario: &mut Scenario) {
    let cpus = scenario.cpu_count();
    let all = &mut scenario.workloads;
    let Some(mut kernel) = all.iter().find(|w| w.name == "system").cloned() else {
        return;
    };
    kernel.name = "kernel".into();
    (kernel.count, kernel.realtime) = (cpus, true);
    for phase in &mut kernel.phases {
        phase.chunk_us = phase.chunk_us.map(|_| 1000.0);
        phase.mean_us = phase.mean_us.map(|_| 100_000.0);
    }
    all.push(kernel);
}

/// A printed figure where an assumption was varied.
#[derive(Clone, Debug)]
pub struct Tested {
    /// The assumption, by position.
    assumption: usize,
    printed: Printed,
    /// Ours, mean of the seeds.
    mean: f64,
}

/// How much an assumption explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CauseResult {
    /// Within 10 % of the printed figure under it.
    Explained,
    /// At most half as far from the printed figure.
    InPart,
    /// It follows from other printed figures, which are compared by themselves.
    Follows,
    /// The printed figure contradicts the thesis's other figures.
    Contradicts,
    /// No assumption that was tried brings it near.
    Unexplained,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// How much it explains.
    pub verdict: CauseResult,
    /// What was varied, or what it follows from.
    pub what: String,
    pub deviation_ratio: Option<f64>,
}

/// Runs everything with one assumption varied at a time.
///
/// # Errors
/// A run cannot be made.
pub fn test(context: &mut EvalContext) -> Result<()> {
    let all: Vec<Printed> = published_figures::all().collect();
    for (assumption, a) in ASSUMPTIONS.iter().enumerate() {
        for name in a.scenarios {
            let mut loaded = context.scenario(name)?;
            (a.change)(&mut loaded.scenario);
            let choices = choices(&loaded.scenario, a.reading, name);
            let seeds: Vec<u64> = context.seeds.iter().copied().take(SEEDS).collect();
            let batch = batch::run(&loaded, &choices, &seeds, slim)?;
            for printed in all.iter().filter(|p| p.scenario == Some(name)) {
                let choice = choices.iter().position(|c| c.name == printed.backend);
                let value = choice.and_then(|c| measured::value(&batch, c, printed.figure));
                context.tested.extend(value.map(|[_, mean, _]| Tested {
                    assumption,
                    printed: *printed,
                    mean,
                }));
            }
            if a.reading.is_some() && *name == LIMIT {
                let at = |i| measured::value(&batch, i, "limit_variation_ratio");
                let found = choices.iter().enumerate().map(|(i, c)| (c.name, at(i)));
                let found = found.filter_map(|(n, v)| {
                    Some(json!({"backend": n, "limit_variation_ratio": v?[1]}))
                });
                let found: Vec<_> = found.collect();
                context.limit_readings.push((a.name, found));
            }
        }
    }
    Ok(())
}

/// The thesis's controllers; its schedulers with the other reading, where there is one, and no others then.
fn choices(scenario: &Scenario, reading: Option<fn() -> ScxReading>, name: &str) -> Vec<Choice> {
    if name == ESTIMATE {
        return vec![Choice::of(ControllerKind::Monitor)];
    }
    let all = ControllerKind::all(scenario).into_iter();
    let all = all.filter(|v| !matches!(v, ControllerKind::Weir(_)));
    let read = |variant| match (variant, reading) {
        (ControllerKind::Scx(which), Some(reading)) => {
            Some(ControllerKind::ScxRead(which, reading()))
        }
        (ControllerKind::None, Some(_)) => Some(ControllerKind::None),
        (_, Some(_)) => None,
        (variant, None) => Some(variant),
    };
    all.filter_map(read).map(Choice::of).collect()
}

/// The assumption under which a figure is nearest to the printed one.
pub fn nearest(
    context: &EvalContext,
    printed_in: &str,
    backend: &str,
    figure: &str,
    off: f64,
) -> Cause {
    let key = |p: &Printed| (p.printed_in, p.backend, p.figure) == (printed_in, backend, figure);
    let tested = context.tested.iter().filter(|t| key(&t.printed));
    let tested = tested.filter(|t| counts_for(context, t.assumption, printed_in));
    let deviation = |t: &Tested| t.mean / t.printed.value - 1.0;
    let closest = tested.min_by(|a, b| deviation(a).abs().total_cmp(&deviation(b).abs()));
    let Some(closest) = closest else {
        return Cause {
            verdict: CauseResult::Unexplained,
            what: "nothing that was varied counts for it".into(),
            deviation_ratio: None,
        };
    };
    let then = deviation(closest);
    Cause {
        verdict: match then.abs() {
            near if near <= NEAR => CauseResult::Explained,
            less if less <= IN_PART * off.abs() => CauseResult::InPart,
            _ => CauseResult::Unexplained,
        },
        what: ASSUMPTIONS[closest.assumption].name.into(),
        deviation_ratio: Some(then),
    }
}

/// Whether an assumption leaves as many figures of a place within 10 % as there are without it.
fn counts_for(context: &EvalContext, assumption: usize, printed_in: &str) -> bool {
    let here = |t: &&Tested| t.assumption == assumption && t.printed.printed_in == printed_in;
    let (mut without, mut with) = (0, 0);
    for t in context.tested.iter().filter(here) {
        let same = |c: &&super::context::Compared| {
            (c.printed_in, c.backend.as_str(), c.figure)
                == (t.printed.printed_in, t.printed.backend, t.printed.figure)
        };
        let base = context.compared.iter().find(same);
        without += u32::from(base.is_some_and(|c| !c.is_far()));
        with += u32::from((t.mean / t.printed.value - 1.0).abs() <= NEAR);
    }
    with >= without
}

/// How many figures each assumption brings within 10 %, and how many it takes out.
pub fn section(context: &mut EvalContext) -> Section {
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for (n, a) in ASSUMPTIONS.iter().enumerate() {
        let of_this = context.tested.iter().filter(|t| t.assumption == n);
        let mut counts = [0_u32; 4];
        let mut values = Vec::new();
        for t in of_this {
            let same = |c: &&super::context::Compared| {
                (c.printed_in, c.backend.as_str(), c.figure)
                    == (t.printed.printed_in, t.printed.backend, t.printed.figure)
            };
            let Some(base) = context.compared.iter().find(same) else {
                continue;
            };
            let Some(before) = base.deviation_ratio else {
                continue;
            };
            let now = t.mean / t.printed.value - 1.0;
            let (was, is) = (before.abs() <= NEAR, now.abs() <= NEAR);
            counts[0] += 1;
            counts[1] += u32::from(is);
            counts[2] += u32::from(is && !was);
            counts[3] += u32::from(was && !is);
            values.push(json!({
                "printed_in": t.printed.printed_in, "backend": t.printed.backend, "figure": t.printed.figure,
                "mean": t.mean, "deviation_ratio": now, "deviation_ratio_of_the_page": before,
            }));
        }
        let mut row = vec![Cell::long(a.name)];
        row.extend(counts.map(|c| number(f64::from(c), 0)));
        rows.push(row);
        figures.push(json!({"assumption": a.name, "scenarios": a.scenarios, "figures": values}));
    }
    context.figures.insert("tested_causes", figures.into());
    Section::new(
        "causes",
        TITLE,
        vec![
            text(format!(
                "What the thesis leaves open, or the simulator assumes, was varied, one at a time and for all controllers alike, and each printed figure was looked at again ({SEEDS} seeds). \
                 A deviation above 10 % is explained if the figure is within 10 % under one of these assumptions, and explained in part if it is at most half as far. An assumption counts for a table or figure only if as many of its figures are within 10 % with it as without. That is a tested \
                 cause, not a better model: most assumptions take figures elsewhere away, and none was adopted. The numbers are in evaluation.json under figures.tested_causes."
            )),
            Part::Table(Table::new(
                "What each assumption does to the printed figures that it can move",
                &[
                    "varied",
                    "figures",
                    "within 10 %",
                    "brought in",
                    "taken out",
                ],
                rows,
            )),
        ],
    )
}

/// A cause as cells of a table.
pub fn cells(cause: &Cause) -> [Cell; 3] {
    let (word, kind) = match cause.verdict {
        CauseResult::Explained => ("explained", CellKind::Met),
        CauseResult::Follows => ("follows", CellKind::Met),
        CauseResult::Contradicts => ("printed figures contradict", CellKind::Met),
        CauseResult::InPart => ("in part", CellKind::Missed),
        CauseResult::Unexplained => ("not explained", CellKind::Missed),
    };
    let then = cause
        .deviation_ratio
        .map_or(Cell::words("–"), |r| Cell::number(signed_percent(r)));
    [Cell::long(&cause.what), then, Cell::new(word, kind)]
}
