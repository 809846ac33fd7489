// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Thesis 6.2: how well is it known who uses the device?

use super::super::batch::Batch;
use super::super::choice::{self, Choice};
use super::lab::{Lab, Printed, command, heads, number, of_run, over_seeds, text, words};
use super::printed::{ESTIMATE_RMSE, WRITER};
use super::why;
use anyhow::Result;
use weir_core::units::GIB;
use weir_report::{Cell, Part, Section, Table};
use weir_sim::Variant;

/// Figures 7 and 8, and the writer of 6.2.1.
pub fn estimate(lab: &mut Lab) -> Result<Section> {
    let scenario = lab.scenario("thesis-estimate")?.scenario;
    let choices = [
        Choice::of(Variant::Monitor),
        Choice::of(Variant::weir(&scenario)),
    ];
    let batch = lab.batch("thesis-estimate", &choices)?;
    let rows = errors(lab, &batch);
    let table = Table {
        title: "Error of the estimate of two readers of 512 MiB/s in one group, %".into(),
        heads: heads(&["", "reader", "RMSE", "thesis", "", "lowest", "highest"]),
        rows,
    };
    let mut parts = vec![
        text(
            "Counters know a group exactly, samples know a process badly: the thesis's are 200 times too low and noisy. Combined (equation 3) they gave it \
              an RMSE of 15.1 and 10.4 %. Here: RMSE of means over 1 s against the truth, relative to it. On Linux weir shares a group's bandwidth by reads \
              that the CPU counts for each task, where it has such an event (docs/guide/events.md). The simulated CPU has none, so that CPU time × resident \
              pages have to do, which happens to be exact where all readers are alike.",
        ),
        Part::Table(table),
    ];
    parts.extend(writer(lab)?);
    parts.extend(why::of(lab, "6.2.3"));
    parts.push(command(
        "weir sim thesis-estimate --backend thesis-monitor,cgroup --seeds 3",
    ));
    Ok(Section {
        id: "estimate".into(),
        title: "6.2 Estimating who uses the device".into(),
        parts,
    })
}

/// Error of each reader's estimate, by who estimated.
fn errors(lab: &mut Lab, batch: &Batch) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (i, choice) in batch.choices.iter().enumerate() {
        let names: Vec<String> = batch.of(i).next().map_or(Vec::new(), |m| {
            m.run.estimate_error_ratio.keys().cloned().collect()
        });
        for (n, name) in names.iter().enumerate() {
            let error = of_run(batch, i, |r| {
                r.estimate_error_ratio.get(name).map(|e| e * 1e2)
            });
            let mut row = vec![
                words(if n == 0 {
                    choice.label.clone()
                } else {
                    String::new()
                }),
                words(name),
            ];
            match ESTIMATE_RMSE
                .get(n)
                .filter(|_| choice.name == "thesis-monitor")
            {
                Some(value) => {
                    let printed = Printed {
                        printed_in: "6.2.3",
                        backend: "thesis-monitor",
                        figure: "rmse_percent",
                        value: value * 1e2,
                        decimals: 1,
                    };
                    row.extend(lab.compare(printed, error));
                }
                None => row.extend([number(error.map(|e| e[1]), 1), words(""), words("")]),
            }
            row.extend([
                number(error.map(|e| e[0]), 1),
                number(error.map(|e| e[2]), 1),
            ]);
            rows.push(row);
        }
    }
    rows
}

/// Each store also reads: 1 GiB/s written is nearly 2 GiB/s at the device.
fn writer(lab: &mut Lab) -> Result<Vec<Part>> {
    let scenario = lab.scenario("thesis-writes")?.scenario;
    let mut choices = choice::all(&scenario);
    choices.retain(|choice| ["none", choice::WEIR].contains(&choice.name));
    let batch = lab.batch("thesis-writes", &choices)?;
    let rate = over_seeds(&batch, 0, |made| {
        Some(made.run.bandwidth.mean_bytes_per_sec / GIB)
    });
    let printed = Printed {
        printed_in: "6.2.1",
        backend: "none",
        figure: "reads_and_writes_gib_per_sec",
        value: WRITER,
        decimals: 3,
    };
    let mut row = vec![words("writer of 1 GiB/s")];
    row.extend(lab.compare(printed, rate));
    Ok(vec![Part::Table(Table {
        title: "What the device counts, reads + writes, GiB/s".into(),
        heads: heads(&["", "ours", "thesis", ""]),
        rows: vec![row],
    })])
}
