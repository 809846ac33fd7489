// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Thesis 6.2: how well is it known which process uses the device, and what does the device count?

use super::context::{EvalContext, command, number, of_run, over_seeds, picture, slim, text};
use super::deviations;
use super::published_figures;
use anyhow::Result;
use std::fmt::Write;
use weir::lab::batch::{self, Batch};
use weir::lab::controllers::Choice;
use weir_core::units::GIB;
use weir_figures::{Cell, Ink, Part, Section, Table};
use weir_report::{Axis, Curve, Panel, Plot, Shape, plot};
use weir_sim::{ControllerKind, EstimatePoint};

const MIB: f64 = 1_048_576.0;
/// What each of the two readers reads.
const READER_MIB: f64 = 512.0;

/// The counters, and figures 7 and 8.
pub fn estimate(context: &mut EvalContext) -> Result<Section> {
    let scenario = context.scenario("thesis-estimate")?.scenario;
    let choices = [
        Choice::of(ControllerKind::Monitor),
        Choice::of(ControllerKind::weir(&scenario)),
    ];
    let batch = context.batch("thesis-estimate", &choices)?;
    let mut parts = counted(context)?;
    parts.extend(deviations::of(context, "6.2.1"));
    parts.push(text(
        "Counters know a group exactly, samples know a process badly: the thesis's are 200 times too low and noisy (figure 7). Combined (equation 3) they have the right size, and an \
         RMSE to 512 MiB/s of 15.1 and 10.4 % (figure 8). Here as there: single estimates of its loop, which only looks. In a run one of two equal readers is estimated higher; which one is chance.",
    ));
    parts.push(Part::Table(figures_7_and_8(context, &batch)));
    for printed_in in ["figure 7", "figure 8"] {
        parts.extend(deviations::of(context, printed_in));
    }
    parts.push(picture(plot(
        &over_time(&batch, "Figure 7: bandwidth by samples alone", 0.0, |p| {
            p.sampled_bytes_per_sec
        }),
        &context.fonts,
    )));
    parts.push(picture(plot(
        &over_time(
            &batch,
            "Figure 8: bandwidth by samples and counters",
            READER_MIB,
            |p| p.combined_bytes_per_sec,
        ),
        &context.fonts,
    )));
    context
        .files
        .insert("estimates-thesis-estimate.csv".into(), csv(&batch));
    parts.push(text(
        "weir has counts of each task where the CPU has an event for them (docs/explanation/attribution.md); the simulated ones have an error of 5 % for each process. Means over 1 s against the truth:",
    ));
    parts.push(Part::Table(errors(&batch)));
    parts.push(command(
        "weir sim thesis-estimate --backend thesis-monitor,cgroup --seeds 3",
    ));
    Ok(Section::new(
        "estimate",
        "6.2 Estimating which process uses the device",
        parts,
    ))
}

/// What the thesis prints of both figures, ours beside it.
fn figures_7_and_8(context: &mut EvalContext, batch: &Batch) -> Table {
    let mut rows = Vec::new();
    for (place, what, figures) in [
        (
            "figure 7",
            "samples alone, mean",
            ["higher_sampled_mib_per_sec", "lower_sampled_mib_per_sec"],
        ),
        (
            "figure 8",
            "combined, mean",
            ["higher_mib_per_sec", "lower_mib_per_sec"],
        ),
        (
            "figure 8",
            "combined, RMSE",
            ["higher_rmse_mib_per_sec", "lower_rmse_mib_per_sec"],
        ),
    ] {
        let mut row = vec![Cell::words(format!("{place}: {what}"))];
        for figure in figures {
            row.extend(context.beside(batch, 0, place, figure, 1));
        }
        rows.push(row);
    }
    Table::new(
        "Two readers of 512 MiB/s in one group, MiB/s",
        &["", "higher one", "thesis", "", "lower one", "thesis", ""],
        rows,
    )
}

fn of_first(batch: &Batch) -> impl Iterator<Item = &EstimatePoint> {
    batch
        .of(0)
        .take(1)
        .flat_map(|made| &made.measures.estimates)
}

fn over_time(batch: &Batch, title: &str, truth_mib: f64, of: fn(&EstimatePoint) -> f64) -> Plot {
    let mut names: Vec<&str> = of_first(batch).map(|p| p.workload.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let curve = |(n, name): (usize, &&str)| {
        let mine = of_first(batch).filter(|p| p.workload == **name);
        Curve {
            name: (*name).to_owned(),
            ink: Ink::CURVES[n % Ink::CURVES.len()],
            shape: Shape::Line,
            points: mine.map(|p| (p.at_ms / 1e3, of(p) / MIB)).collect(),
        }
    };
    Plot {
        title: format!("{title}, first seed"),
        x: Axis::linear("time since the start of the run, s"),
        y: Axis::linear("MiB/s"),
        panels: vec![Panel {
            title: String::new(),
            curves: names.iter().enumerate().map(curve).collect(),
        }],
        reference: (truth_mib > 0.0).then(|| ("what each reads".to_owned(), truth_mib)),
        panels_a_row: 1,
        has_own_axes: false,
    }
}

fn csv(batch: &Batch) -> String {
    let mut csv = String::from("workload,at_ms,sampled_bytes_per_sec,combined_bytes_per_sec\n");
    for p in of_first(batch) {
        let _ = writeln!(
            csv,
            "{},{:.1},{:.0},{:.0}",
            p.workload, p.at_ms, p.sampled_bytes_per_sec, p.combined_bytes_per_sec
        );
    }
    csv
}

/// Error of each reader's estimate, by what estimated.
fn errors(batch: &Batch) -> Table {
    let mut rows = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let names: Vec<String> = batch.of(i).next().map_or(Vec::new(), |m| {
            m.run.estimate_error_ratio.keys().cloned().collect()
        });
        for (n, name) in names.iter().enumerate() {
            let error = of_run(batch, i, |r| {
                r.estimate_error_ratio.get(name).map(|e| e * 1e2)
            });
            let label = if n == 0 { choice.label.as_str() } else { "" };
            let mut row = vec![Cell::words(label), Cell::words(name)];
            row.extend([1, 0, 2].map(|at| number(error.map(|e| e[at]), 1)));
            rows.push(row);
        }
    }
    Table::new(
        "RMSE of means over 1 s, %",
        &["", "reader", "mean of the seeds", "lowest", "highest"],
        rows,
    )
}

/// A reader, a writer and both at once, 1 GiB/s of each: what the device counts (6.2.1).
fn counted(context: &mut EvalContext) -> Result<Vec<Part>> {
    // Name in the printed figures, words, bytes per second of both, what of them is written.
    const CASES: [(&str, &str, f64, f64); 3] = [
        ("reader", "reads 1 GiB/s", GIB, 0.0),
        ("writer", "writes 1 GiB/s", GIB, 1.0),
        ("mixed", "reads and writes 1 GiB/s each", 2.0 * GIB, 0.5),
    ];
    let mut rows = Vec::new();
    for (name, what, rate, writes) in CASES {
        let mut loaded = context.scenario("thesis-writes")?;
        for phase in loaded
            .scenario
            .workloads
            .iter_mut()
            .flat_map(|w| &mut w.phases)
        {
            if phase.rate_bytes_per_sec.is_some() {
                phase.rate_bytes_per_sec = Some(rate);
                phase.write_ratio = Some(writes);
            }
        }
        let none = [Choice::of(ControllerKind::None)];
        let batch = batch::run(&loaded, &none, &context.seeds, slim)?;
        let written = over_seeds(&batch, 0, |m| Some(m.measures.written_bytes_per_sec / GIB));
        let read = over_seeds(&batch, 0, |m| {
            let all = m.run.bandwidth.mean_bytes_per_sec;
            Some((all - m.measures.written_bytes_per_sec) / GIB)
        });
        let mut row = vec![Cell::words(what)];
        for (figure, ours) in [("read_gib_per_sec", read), ("written_gib_per_sec", written)] {
            match published_figures::find("6.2.1", name, figure) {
                Some(printed) => row.extend(context.compare(printed, ours)),
                None => row.extend([
                    number(ours.map(|o| o[1]), 3),
                    Cell::words("0.00"),
                    Cell::words(""),
                ]),
            }
        }
        rows.push(row);
    }
    // The writer is a scenario of its own, with bounds.
    let scenario = context.scenario("thesis-writes")?.scenario;
    let choices = [ControllerKind::None, ControllerKind::weir(&scenario)].map(Choice::of);
    context.batch("thesis-writes", &choices)?;
    Ok(vec![
        text(
            "What the device counts for one fio process (6.2.1). A store that misses reads its line first (write-allocate), so that a writer of 1 GiB/s is nearly 2 GiB/s at the device. \
             Of the mixed case the thesis says that reads and writes are limited to 1 GiB/s; by the same rule the device should then read 2 GiB/s. It counted 1.65, as if the process had read 0.62 GiB/s only.",
        ),
        Part::Table(Table::new(
            "Counted by the device, GiB/s",
            &["", "read", "thesis", "", "written", "thesis", ""],
            rows,
        )),
    ])
}
