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
        "",
        "a reader put behind everybody else gets the one thread that 39 workers leave, so about two readers run at a time; the thesis wonders that 100 times the virtual time changed nothing (6.3) and suspects an empty queue; what else ran is not told",
    ),
    (
        "table 2",
        "thesis-scx-throttle",
        "",
        "as with vtime: parked readers get the one thread that 39 workers leave",
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
        "thesis-cgroups",
        "q3_us",
        "at 4 GiB/s ten readers wait 9.8 ms on average: where half of the blocks need 1.5 ms, the others must wait for quota; a printed Q3 of 2.8 ms leaves the wait to fewer blocks",
    ),
    (
        "table 3",
        "thesis-cgroups-simple",
        "q3_us",
        "as with thesis-cgroups: the wait for quota lies in more blocks and is shorter",
    ),
    (
        "figure 11",
        "",
        "",
        "the profile is fitted to five readers at 8.04 GiB/s (table 2), where the thesis has about 10 for the same readers on an idle machine: perhaps its CPUs clock higher then; the model's have one speed",
    ),
    (
        "figure 12",
        "",
        "used_cpus",
        "0.25 CPUs at 1 GiB/s are 0.25 CPU-s per GiB, less than the 0.35 of the thesis's own figure 18, to which the readers are fitted",
    ),
    (
        "figure 12",
        "",
        "limit_cpus",
        "at HZ = 250 the loop's 100 % (1 ms in 1 ms) gives little more than half a CPU, which holds the larger reader already, so nothing has to be cut further",
    ),
    (
        "figure 18",
        "thesis-scx",
        "",
        "the thesis has the same cost at 6.3 GiB/s as at 4.1, as if nothing stalled between; in the model, as in its figure 15, latency rises from about 4.9 GiB/s on",
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
