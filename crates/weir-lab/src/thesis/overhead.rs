// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Thesis 6.8: what control costs. Durations on its hardware cannot be simulated: they are shown as printed,
//! with what follows from them at the simulated rates of calls.

use super::context::{EvalContext, command, number, over_seeds, picture, text};
use super::deviations;
use super::measured;
use super::published_figures::{self, Printed};
use anyhow::Result;
use serde_json::json;
use weir::lab::batch::Batch;
use weir_figures::{Cell, CellKind, Ink, Part, Section, Table};
use weir_report::{Axis, Bar, Bars, Curve, Panel, Plot, Shape, bars, plot};
use weir_sim::SchedulerCalls;

const INPUT: &str = "the simulator was given it, so it cannot be compared";
const NO_CODE: &str = "not modelled: the time of kernel code on the thesis's CPU; decisions of the scheduler are free in the simulator";
/// What the durations of figures 20 and 21 are, for people.
const DURATIONS: [(&str, &str, &str, &str, &str); 5] = [
    (
        "figure 20",
        "thesis-scx",
        "enqueue_mean_us",
        "sched_enqueue()",
        INPUT,
    ),
    (
        "figure 20",
        "thesis-scx",
        "counter_read_mean_us",
        "FPGA counter read",
        INPUT,
    ),
    (
        "6.8.1",
        "round robin without control",
        "enqueue_mean_us",
        "plain round robin",
        NO_CODE,
    ),
    (
        "figure 21",
        "none",
        "enqueue_task_mean_us",
        "enqueue_task()",
        NO_CODE,
    ),
    (
        "figure 21",
        "none",
        "pick_next_task_mean_us",
        "pick_next_task_fair()",
        NO_CODE,
    ),
];
/// Bars of figure 22 are so wide.
const BAR_MS: f64 = 1.0;

/// Figures 20 to 22, and what the text of 6.8 prints.
pub fn overhead(context: &mut EvalContext) -> Result<Section> {
    let batch = context.all("thesis-limit")?;
    let durations = durations(context);
    let calls = calls(context, &batch);
    let loops = loops(context, &batch);
    let mut parts = vec![
        text(
            "Figures 20 and 21 are histograms of how long functions of the kernel take on the thesis's CPU. A simulator of scheduling has no such times of its own: 10.7 µs of enqueue and 4.9 µs of a counter read were given to it \
             (a task is in its queue only after 10.7 µs, and no CPU pays for them), and those of EEVDF are not modelled. So no histogram is drawn; the printed means are:",
        ),
        picture(durations),
        text(
            "What the simulator does know is how often the thesis's scheduler is entered. At the printed durations that is so much of the machine's 40 CPUs:",
        ),
        Part::Table(calls),
        text(
            "The loop in user space: its 30.8 ms and its 9 % of a CPU were given to the simulator; what it adds are waits for a CPU. The thesis prints most iterations at 25 ms, and a mean of 30.8. \
             weir's own loop is measured on a real machine (docs/evidence/loop.md) and takes 0.13 ms with ten workloads; in the simulator it is charged 50 µs, 5 µs a workload and 60 µs a write (row cgroup).",
        ),
        Part::Table(loops),
        picture(plot(&figure_22(&batch), &context.fonts)),
    ];
    parts.extend(deviations::of(context, "figure 22"));
    parts.push(command("weir sim thesis-limit --backend all --seeds 3"));
    Ok(Section::new("overhead", "6.8 Overhead", parts))
}

/// The printed durations as bars.
fn durations(context: &mut EvalContext) -> weir_figures::Picture {
    let mut drawn = Vec::new();
    for (printed_in, backend, figure, name, why) in DURATIONS {
        let Some(printed) = published_figures::find(printed_in, backend, figure) else {
            continue;
        };
        let given = (why == INPUT).then_some(printed.value);
        context.not_compared(printed, given, why);
        drawn.push(Bar {
            name: name.into(),
            value: printed.value,
            range: None,
            printed: None,
            is_base: printed_in == "figure 21",
        });
    }
    bars(&Bars {
        title: "Figures 20 and 21: mean durations that the thesis prints (not simulated)".into(),
        axis: "µs".into(),
        printed: String::new(),
        bars: drawn,
    })
}

/// Calls a second of the thesis's schedulers, and what they cost at the printed durations.
fn calls(context: &mut EvalContext, batch: &Batch) -> Table {
    let us = |figure: &str| {
        published_figures::find("figure 20", "thesis-scx", figure).map_or(0.0, |p| p.value)
    };
    let (enqueue_us, read_us) = (us("enqueue_mean_us"), us("counter_read_mean_us"));
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let per_sec = |of: fn(&SchedulerCalls) -> u64| {
            over_seeds(batch, i, |made| {
                let count = of(made.measures.scheduler_calls.as_ref()?);
                Some(count as f64 / made.measures.simulated_sec)
            })
        };
        let enqueues = per_sec(|c| c.enqueues).map(|v| v[1]);
        let reads = per_sec(|c| c.counter_reads).map(|v| v[1]);
        let Some((enqueues, reads)) = enqueues.zip(reads) else {
            continue;
        };
        let cpus = enqueues * enqueue_us / 1e6;
        rows.push(vec![
            Cell::words(&choice.label),
            number(enqueues, 0),
            number(reads, 0),
            number(cpus * 1e2, 2),
            number(reads * read_us / 1e4, 2),
        ]);
        figures.push(json!({
            "backend": choice.name, "enqueues_per_sec": enqueues, "counter_reads_per_sec": reads,
            "cpus_at_printed_durations": cpus,
        }));
    }
    context.figures.insert("scheduler_calls", figures.into());
    Table::new(
        "Calls of the thesis's schedulers (five readers, 39 workers)",
        &[
            "",
            "enqueue, 1/s",
            "counters read, 1/s",
            "enqueue, % of one CPU",
            "of it counters, % of one CPU",
        ],
        rows,
    )
}

/// Durations and CPU time of loops.
fn loops(context: &mut EvalContext, batch: &Batch) -> Table {
    let mut rows = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let mut row = vec![Cell::words(&choice.label)];
        let mut has_loop = false;
        for (figure, decimals) in [("loop_mean_ms", 1), ("controller_cpu_percent", 2)] {
            let ours = measured::value(batch, i, figure).map(|v| v[1]);
            has_loop |= ours.is_some();
            row.push(number(ours, decimals));
            row.push(
                match published_figures::find("figure 22", choice.name, figure) {
                    Some(printed) => given(context, printed, ours),
                    None => Cell::words(""),
                },
            );
        }
        if has_loop {
            rows.push(row);
        }
    }
    Table::new(
        "Figure 22 and its text: an iteration in ms, and CPU time in % of one CPU",
        &["", "iteration", "thesis", "CPU", "thesis"],
        rows,
    )
}

fn given(context: &mut EvalContext, printed: Printed, ours: Option<f64>) -> Cell {
    context.not_compared(printed, ours, INPUT);
    Cell::new(
        format!("{:.*} (given)", printed.decimals, printed.value),
        CellKind::Faint,
    )
}

/// How long iterations took, waits for a CPU included.
fn figure_22(batch: &Batch) -> Plot {
    let mut panels = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let all: Vec<f64> = batch
            .of(i)
            .flat_map(|m| m.measures.loop_ms.iter().copied())
            .collect();
        let Some(most) = all.iter().copied().reduce(f64::max) else {
            continue;
        };
        let count_of = |n: f64| all.iter().filter(|v| (n..n + BAR_MS).contains(*v)).count();
        let mut points = Vec::new();
        let mut from = 0.0;
        while from <= most + BAR_MS {
            points.push((from, count_of(from) as f64 / all.len() as f64 * 1e2));
            from += BAR_MS;
        }
        panels.push(Panel {
            title: choice.label.clone(),
            curves: vec![Curve {
                name: String::new(),
                ink: Ink::Held,
                shape: Shape::Steps,
                points,
            }],
        });
    }
    Plot {
        title: "Figure 22: durations of the loop's iterations, all seeds".into(),
        x: Axis::linear("ms"),
        y: Axis::linear("% of iterations"),
        panels,
        reference: None,
        panels_a_row: 2,
        has_own_axes: false,
    }
}
