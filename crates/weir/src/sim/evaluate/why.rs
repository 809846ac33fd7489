// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why figures of ours lie more than 10 % from printed ones, as far as it is known.

use super::lab::{Lab, heads, signed_percent, words};
use weir_report::{Cell, CellKind, Part, Table};

/// Table or figure, variant (empty: all), figure (empty: all), reason. The first that fits counts.
/// They are about causes and hold whatever the seeds; docs/simulator.md has more of some.
const REASONS: &[(&str, &str, &str, &str)] = &[
    (
        "table 2",
        "none",
        "mean_gib_per_sec",
        "the profile gives five readers 8.04 GiB/s when each has a CPU (6.3.1); here 44 busy threads share 40, and each reader that shares its CPU with a worker takes some 0.3 GiB/s away (6.4)",
    ),
    (
        "table 2",
        "none",
        "rmse_gib_per_sec",
        "follows from the mean: without control the distance to 4 GiB/s is the mean's",
    ),
    (
        "table 2",
        "thesis-scx",
        "rmse_gib_per_sec",
        "follows from mean and stddev",
    ),
    (
        "table 2",
        "thesis-scx-vtime",
        "rmse_gib_per_sec",
        "follows from mean and stddev",
    ),
    (
        "table 2",
        "thesis-scx-throttle",
        "mean_gib_per_sec",
        "whoever finds the queue empty keeps its CPU for 20 ms, limited or not, and how often that happens depends on what else wakes, which is not told: 4.86 lies between 800 and 2400 wake-ups a second, where vtime would be too low",
    ),
    (
        "table 2",
        "thesis-scx-throttle",
        "rmse_gib_per_sec",
        "follows from mean and stddev",
    ),
    (
        "table 2",
        "",
        "stddev_gib_per_sec",
        "the simulated CPUs have no noise of their own (no turbo, no interrupts), and the thesis's windows are fio's, of a length not told; the part of each is not known",
    ),
    (
        "table 2",
        "",
        "rmse_gib_per_sec",
        "the thesis's loop stays 0.14 to 0.27 GiB/s above its target, ours reaches it; and the smaller stddev",
    ),
    (
        "table 3",
        "thesis-scx-vtime",
        "mean_us",
        "ours obeys the law at its own bandwidth, which is lower than the thesis's (table 2)",
    ),
    (
        "table 3",
        "",
        "mean_us",
        "ours obeys Little's law at its own bandwidth; the printed mean contradicts it (table below)",
    ),
    (
        "table 3",
        "none",
        "",
        "the printed mean is twice what the law allows at table 2's bandwidth, and the quartiles go with it",
    ),
    (
        "table 3",
        "thesis-scx",
        "",
        "in the thesis most blocks take 1 ms and a few very long: readers starve one by one; here slices end at ticks, so that all readers advance alike",
    ),
    (
        "table 3",
        "thesis-scx-vtime",
        "",
        "as with thesis-scx: in the thesis readers starve one by one, here slices end at ticks and all advance alike",
    ),
    (
        "table 3",
        "thesis-scx-throttle",
        "",
        "blocks take 1 to 2 ms and a few very long, here as there; how long these are follows from how often parked readers find a free CPU (table 2)",
    ),
    (
        "table 3",
        "",
        "",
        "quotas end at ticks. At HZ=250 a reader overruns its millisecond by up to four and then waits for many periods: half of the simulated blocks then take 1.9 ms (simple: 2.4), between the thesis's quartiles, and some 30 ms and more. At HZ=1000 it is stopped in time and all blocks wait alike. So table 3 speaks for HZ=250; figure 12 can only be had at 1000",
    ),
    (
        "figure 11",
        "",
        "",
        "no device of this family of models gives five readers 10 GiB/s on an idle machine, 8.04 beside 39 workers, 0.35 CPU-s per GiB at 4 GiB/s and a knee near 5000 MiB/s (docs/simulator.md); the profile is fitted to the last three",
    ),
    (
        "figure 12",
        "",
        "used_cpus",
        "0.25 CPUs at 1 GiB/s, to which the readers are fitted here, would be 0.5 CPUs at the 2 GiB/s that are left for the larger one, not 0.40",
    ),
    (
        "figure 12",
        "",
        "limit_cpus",
        "limits follow use: the larger's is close above what it uses, here as there; the smaller's is far above, and here it returns to 100 % whenever the bandwidth is below the threshold",
    ),
    (
        "figure 18",
        "thesis-scx",
        "",
        "the thesis has the same cost at 6.3 GiB/s as at 4.1, as if nothing stalled between; in the model, as in its figure 15, latency rises from about 4.9 GiB/s on",
    ),
    (
        "figure 18",
        "",
        "",
        "0.35 is what an even 4 GiB/s costs (the fit); limited readers run in bursts that meet, and two on one core share its window of lines",
    ),
    (
        "6.2.3",
        "",
        "",
        "the thesis judges single estimates of its loop, ours are means over 1 s (docs/results.md), in which sampling noise averages out",
    ),
];

/// What is said of a deviation that nobody has explained.
const UNKNOWN: &str = "not explained";

/// A table of the deviations above 10 % in one of the thesis's tables or figures, with their reasons.
pub fn of(lab: &Lab, printed_in: &str) -> Option<Part> {
    let far = lab
        .compared
        .iter()
        .filter(|c| c.printed_in == printed_in && c.deviation_ratio.abs() > 0.1);
    let row = |c: &super::lab::Compared| {
        vec![
            words(&c.backend),
            words(c.figure),
            Cell::new(signed_percent(c.deviation_ratio), CellKind::Missed),
            Cell::new(reason(c.printed_in, &c.backend, c.figure), CellKind::Long),
        ]
    };
    let rows: Vec<Vec<Cell>> = far.map(row).collect();
    (!rows.is_empty()).then(|| {
        Part::Table(Table {
            title: "More than 10 % from the thesis".into(),
            heads: heads(&["", "figure", "off", "why"]),
            rows,
        })
    })
}

fn reason(printed_in: &str, backend: &str, figure: &str) -> &'static str {
    let fits = |given: &str, found: &str| given.is_empty() || given == found;
    let found = REASONS
        .iter()
        .find(|(p, b, f, _)| *p == printed_in && fits(b, backend) && fits(f, figure));
    found.map_or(UNKNOWN, |(_, _, _, why)| why)
}
