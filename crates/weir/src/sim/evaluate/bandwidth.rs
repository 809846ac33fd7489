// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Thesis 6.3, 6.3.1, 6.3.2 and 6.4: is the bandwidth held, and by which limits?

use super::super::batch::{Batch, Made};
use super::lab::{
    Compared, Lab, Printed, command, heads, number, of_run, over_seeds, picture, text, words,
};
use super::printed::{ASYMMETRIC, IDLE, TABLE_2};
use super::why;
use anyhow::Result;
use weir_core::evaluation::nearest_rank;
use weir_core::units::GIB;
use weir_report::{
    Axis, Cell, CellKind, Curve, Ink, Panel, Part, Plot, Section, Shape, Table, plot,
};
use weir_sim::WorkloadSeries;
use weir_sim::scenario::Role;

const BANDWIDTH: &str = "6.3 Is the bandwidth held?";

/// Windows of the measured time, in GiB/s, sorted.
fn windows(made: &Made, batch: &Batch) -> Vec<f64> {
    let control = &batch.scenario.control;
    let (from, to) = (control.settle_sec * 1e3, batch.scenario.run_sec() * 1e3);
    let points = made.measures.series.iter();
    let inside = points.filter(|p| p.at_ms >= from && p.at_ms < to);
    let mut values: Vec<f64> = inside.map(|p| p.bytes_per_sec / GIB).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// A row for each controller: ours beside the printed figures.
fn table_2(lab: &mut Lab, batch: &Batch) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let mean = of_run(batch, i, |r| Some(r.bandwidth.mean_bytes_per_sec / GIB));
        let stddev = of_run(batch, i, |r| Some(r.bandwidth.stddev_bytes_per_sec / GIB));
        let rmse = of_run(batch, i, |r| {
            Some(r.bandwidth.rmse_ratio * r.set_point_bytes_per_sec / GIB)
        });
        let at = |part| over_seeds(batch, i, |made| nearest_rank(&windows(made, batch), part));
        let mut row = vec![words(&choice.label)];
        if let Some(printed) = TABLE_2.iter().find(|p| p.backend == choice.name) {
            let of = |figure, value| Printed {
                printed_in: "table 2",
                backend: choice.name,
                figure,
                value,
                decimals: 2,
            };
            for (figure, value, ours) in [
                ("mean_gib_per_sec", printed.mean, mean),
                ("stddev_gib_per_sec", printed.stddev, stddev),
                ("rmse_gib_per_sec", printed.rmse, rmse),
            ] {
                row.extend(lab.compare(of(figure, value), ours));
            }
            for (quartile, ours) in printed.quartiles.into_iter().zip([at(0.25), at(0.75)]) {
                row.push(number(ours.map(|o| o[1]), 2));
                row.push(Cell::new(format!("{quartile:.2}"), CellKind::Faint));
            }
        } else {
            for ours in [mean, stddev, rmse] {
                row.extend([number(ours.map(|o| o[1]), 2), words(""), words("")]);
            }
            for ours in [at(0.25), at(0.75)] {
                row.extend([number(ours.map(|o| o[1]), 2), words("")]);
            }
        }
        rows.push(row);
    }
    rows
}

/// Table 2 and figures 9 and 10.
pub fn limit(lab: &mut Lab) -> Result<Section> {
    let batch = lab.all("thesis-limit")?;
    let rows = table_2(lab, &batch);
    let table = Table {
        title: "Table 2: bandwidth in GiB/s, ours beside the thesis's".into(),
        heads: heads(&[
            "", "mean", "thesis", "", "stddev", "thesis", "", "RMSE", "thesis", "", "Q1", "thesis",
            "Q3", "thesis",
        ]),
        rows,
    };
    let mut parts = vec![
        text(
            "Five fio readers of 4 MiB blocks and 39 stress-ng workers on 40 hardware threads, to be held at 4 GiB/s. \
              Figures of the measured time (20 to 55 s), means over the seeds. Windows of 100 ms; the thesis's are fio's, \
              of a length it does not state, and its standard deviations depend on that length.",
        ),
        Part::Table(table),
    ];
    parts.push(text(shown(lab, &batch)));
    parts.extend(why::of(lab, "table 2"));
    parts.push(lab.bandwidth(&batch)?);
    parts.push(command("weir sim thesis-limit --backend all --seeds 3"));
    Ok(Section {
        id: "bandwidth".into(),
        title: BANDWIDTH.into(),
        parts,
    })
}

/// Leaves what the summary says; returns the order in words.
fn shown(lab: &mut Lab, batch: &Batch) -> String {
    let (is_same, said) = order(batch);
    let is_mean = |c: &&Compared| c.figure == "mean_gib_per_sec" && c.printed_in == "table 2";
    let means = lab.compared.iter().filter(is_mean);
    let near = |c: &&Compared| c.deviation_ratio.abs() <= 0.1;
    let (count, near) = (means.clone().count(), means.filter(near).count());
    lab.show(
        BANDWIDTH,
        "thesis's controllers: mean bandwidth",
        "each within 10 % of table 2",
        format!("{near} of {count}"),
        near == count,
    );
    lab.show(
        BANDWIDTH,
        "thesis's controllers: order by bandwidth",
        "as in table 2",
        if is_same { "the same" } else { "another" },
        is_same,
    );
    said
}

/// Figure 11.
pub fn idle(lab: &mut Lab) -> Result<Section> {
    let batch = lab.all("thesis-idle")?;
    let mut rows = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let mean = of_run(&batch, i, |r| Some(r.bandwidth.mean_bytes_per_sec / GIB));
        let stddev = of_run(&batch, i, |r| Some(r.bandwidth.stddev_bytes_per_sec / GIB));
        let mut row = vec![words(&choice.label)];
        match IDLE.iter().find(|(name, _)| *name == choice.name) {
            Some((name, value)) => row.extend(lab.compare(
                Printed {
                    printed_in: "figure 11",
                    backend: name,
                    figure: "mean_gib_per_sec",
                    value: *value,
                    decimals: 2,
                },
                mean,
            )),
            None => row.extend([number(mean.map(|m| m[1]), 2), words(""), words("")]),
        }
        row.push(number(stddev.map(|s| s[1]), 2));
        rows.push(row);
    }
    let table = Table {
        title: "Figure 11: bandwidth in GiB/s without other work".into(),
        heads: heads(&["", "mean", "thesis, about", "", "stddev"]),
        rows,
    };
    let mut parts = vec![
        text(
            "The same readers alone. A scheduler that only prefers others has nobody to prefer; limits of CPU time still act.",
        ),
        Part::Table(table),
    ];
    parts.extend(why::of(lab, "figure 11"));
    parts.push(lab.bandwidth(&batch)?);
    parts.push(command("weir sim thesis-idle --backend all --seeds 3"));
    Ok(Section {
        id: "idle".into(),
        title: "6.3.1 On an idle system".into(),
        parts,
    })
}

/// Figure 12.
pub fn asymmetric(lab: &mut Lab) -> Result<Section> {
    let batch = lab.all("thesis-asymmetric")?;
    let mut rows = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let readers: Vec<String> = batch.of(i).next().map_or(Vec::new(), |made| {
            heavy(made).map(|w| w.name.clone()).collect()
        });
        for (n, reader) in readers.into_iter().enumerate() {
            let label = if n == 0 { choice.label.as_str() } else { "" };
            let mut row = vec![words(label), words(reader)];
            row.extend(unequal(lab, &batch, i, n));
            rows.push(row);
        }
    }
    let table = Table {
        title: "Figure 12: CPU use and limit, in CPUs".into(),
        heads: heads(&[
            "",
            "reader",
            "GiB/s",
            "used",
            "thesis, about",
            "",
            "limit",
            "thesis, about",
            "",
        ]),
        rows,
    };
    let mut parts = vec![
        text(
            "Two readers that want 1 and 3 GiB/s, to be held at 3 GiB/s together. The larger one is to be cut.",
        ),
        Part::Table(table),
    ];
    parts.extend(why::of(lab, "figure 12"));
    parts.push(picture(plot(
        &cpu_limits(&batch, "Figure 12: CPU use and limits, first seed"),
        &lab.fonts,
    )));
    parts.push(command(
        "weir sim thesis-asymmetric --backend all --seeds 3",
    ));
    Ok(Section {
        id: "asymmetric".into(),
        title: "6.3.2 Unequal readers".into(),
        parts,
    })
}

/// Bandwidth, CPU use and limit of one reader over the measured time, beside the thesis's.
fn unequal(lab: &mut Lab, batch: &Batch, choice: usize, reader: usize) -> Vec<Cell> {
    let from = batch.scenario.control.settle_sec * 1e3;
    let mean = |pick: fn(&WorkloadSeries) -> &[f64]| {
        over_seeds(batch, choice, |made| {
            let points = made.measures.series.iter();
            let points = points.zip(pick(heavy(made).nth(reader)?));
            let inside = points.filter(|(p, v)| p.at_ms >= from && v.is_finite());
            let values: Vec<f64> = inside.map(|(_, v)| *v).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        })
    };
    let rate = mean(|w| &w.bytes_per_sec);
    let mut cells = vec![number(rate.map(|r| r[1] / GIB), 2)];
    let is_printed = batch.choices[choice].name == "thesis-cgroups";
    let printed = ASYMMETRIC.get(reader).filter(|_| is_printed);
    for (figure, ours, value) in [
        ("used_cpus", mean(|w| &w.cpus), printed.map(|p| p.1)),
        ("limit_cpus", mean(|w| &w.limit_cpus), printed.map(|p| p.2)),
    ] {
        match printed.zip(value) {
            Some(((backend, ..), value)) => cells.extend(lab.compare(
                Printed {
                    printed_in: "figure 12",
                    backend,
                    figure,
                    value,
                    decimals: 2,
                },
                ours,
            )),
            None => cells.extend([number(ours.map(|o| o[1]), 2), words(""), words("")]),
        }
    }
    cells
}

/// Figures 13 and 14.
pub fn limits(lab: &mut Lab) -> Result<Section> {
    let batch = lab.all("thesis-limit")?;
    let parts = vec![
        text(
            "The same runs as in 6.3: CPU use of each reader and its limit, first seed, means over 1 s. The limits of the sched_ext variants are what they shorten slices to, \
             not quotas: use follows them only where somebody else waits for the CPU.",
        ),
        picture(plot(
            &cpu_limits(&batch, "Figure 13: CPU use of each reader, and its limit"),
            &lab.fonts,
        )),
        command("workloads-thesis-limit.csv has all of it"),
    ];
    Ok(Section {
        id: "limits".into(),
        title: "6.4 CPU limits".into(),
        parts,
    })
}

fn heavy(made: &Made) -> impl Iterator<Item = &WorkloadSeries> {
    made.measures
        .workloads
        .iter()
        .filter(|w| w.role == Role::Heavy)
}

fn cpu_limits(batch: &Batch, title: &str) -> Plot {
    let panel = |(i, choice): (usize, &super::super::choice::Choice)| {
        let mut curves = Vec::new();
        let Some(made) = batch.of(i).next() else {
            return Panel {
                title: choice.label.clone(),
                curves,
            };
        };
        let over_time = |values: &[f64]| seconds(made, values);
        let curve = |name: &str, ink, values: &[f64]| Curve {
            name: name.into(),
            ink,
            shape: Shape::Line,
            points: over_time(values),
        };
        for workload in heavy(made) {
            curves.push(curve("used", Ink::Held, &workload.cpus));
            if workload.limit_cpus.iter().any(|l| l.is_finite()) {
                curves.push(curve("limit", Ink::Limit, &workload.limit_cpus));
            }
        }
        Panel {
            title: choice.label.clone(),
            curves,
        }
    };
    Plot {
        title: title.into(),
        x: Axis::linear("time since the start of the run, s"),
        y: Axis {
            to: Some(1.1),
            ..Axis::linear("CPUs")
        },
        panels: batch.choices.iter().enumerate().map(panel).collect(),
        reference: None,
        panels_a_row: 3,
    }
}

/// Means over a second (ten windows), at the second's beginning.
fn seconds(made: &Made, values: &[f64]) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = made
        .measures
        .series
        .iter()
        .zip(values)
        .map(|(p, v)| (p.at_ms / 1e3, *v))
        .collect();
    let mean = |part: &[(f64, f64)]| {
        let sum: f64 = part.iter().map(|p| p.1).sum();
        (part[0].0, sum / part.len() as f64)
    };
    points.chunks(10).map(mean).collect()
}

/// The variants of table 2 in the thesis's order, and whether ours fall in it: a step is `>`, one that is smaller
/// than the seeds' spread is `≈`, and one the other way round is `<`.
fn order(batch: &Batch) -> (bool, String) {
    let mean = |name: &str| {
        let at = batch.choices.iter().position(|c| c.name == name)?;
        of_run(batch, at, |r| Some(r.bandwidth.mean_bytes_per_sec))
    };
    let mut printed: Vec<(&str, f64)> = TABLE_2.iter().map(|p| (p.backend, p.mean)).collect();
    printed.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut said = printed.first().map_or("", |p| p.0).to_owned();
    let mut is_same = true;
    for pair in printed.windows(2) {
        let sign = match mean(pair[0].0).zip(mean(pair[1].0)) {
            Some((a, b)) => step(a, b),
            None => "?",
        };
        is_same &= [">", "≈"].contains(&sign);
        said = format!("{said} {sign} {}", pair[1].0);
    }
    let verdict = if is_same { "in" } else { "not in" };
    let said = format!(
        "By mean bandwidth the six come {verdict} the thesis's order: {said} (≈: the difference is smaller than the range of the seeds)."
    );
    (is_same, said)
}

/// From one mean to the next, each with the range of its seeds.
fn step(a: [f64; 3], b: [f64; 3]) -> &'static str {
    let range = (a[2] - a[0]).max(b[2] - b[0]);
    match a[1] - b[1] {
        difference if difference.abs() <= range => "≈",
        difference if difference > 0.0 => ">",
        _ => "<",
    }
}
