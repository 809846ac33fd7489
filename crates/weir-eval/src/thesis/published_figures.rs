// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures that the thesis prints ("CXL bandwidth control", KIT 2025, chapter 6), by the simulator's
//! names of its variants (its table 1).

/// One printed figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// Table, figure or section of the thesis.
    pub printed_in: &'static str,
    /// The scenario that makes it here; nothing where no run can.
    pub scenario: Option<&'static str>,
    /// What controlled.
    pub backend: &'static str,
    /// Which figure, with its unit as last word.
    pub figure: &'static str,
    /// The figure.
    pub value: f64,
    /// How many decimals are shown.
    pub decimals: usize,
}

/// A row of a table: what controlled, and its figures.
type PrintedRow<const N: usize> = (&'static str, [f64; N]);

/// Table 2 in GiB/s: five fio readers, 39 stress-ng workers, 20 to 55 s, target 4 GiB/s.
pub const TABLE_2: [PrintedRow<5>; 6] = [
    ("none", [8.04, 0.81, 4.12, 7.73, 8.49]),
    ("thesis-scx", [6.32, 0.68, 2.42, 6.01, 6.71]),
    ("thesis-scx-vtime", [6.18, 0.64, 2.27, 5.86, 6.53]),
    ("thesis-scx-throttle", [4.86, 0.79, 1.16, 4.31, 5.31]),
    ("thesis-cgroups", [4.27, 0.31, 0.41, 4.05, 4.45]),
    ("thesis-cgroups-simple", [4.14, 0.25, 0.28, 3.97, 4.31]),
];
/// Columns of table 2.
pub const OF_TABLE_2: [&str; 5] = [
    "mean_gib_per_sec",
    "stddev_gib_per_sec",
    "rmse_gib_per_sec",
    "q1_gib_per_sec",
    "q3_gib_per_sec",
];

/// Table 3 in microseconds: blocks of 4 MiB of ten fio readers.
pub const TABLE_3: [PrintedRow<4>; 6] = [
    ("none", [9003.0, 6093.0, 5072.0, 11120.0]),
    ("thesis-scx", [7772.0, 47229.0, 990.0, 1430.0]),
    ("thesis-scx-vtime", [6292.0, 42953.0, 1034.0, 1459.0]),
    ("thesis-scx-throttle", [6533.0, 43211.0, 1015.0, 1382.0]),
    ("thesis-cgroups", [6671.0, 26622.0, 1293.0, 2794.0]),
    ("thesis-cgroups-simple", [6731.0, 23219.0, 1680.0, 3967.0]),
];
/// Columns of table 3.
pub const OF_TABLE_3: [&str; 4] = ["mean_us", "stddev_us", "q1_us", "q3_us"];

/// Figure 18 as the text gives it (6.6), CPU-seconds per GiB: about 0.6 without control, about 0.35 with.
const COST: (f64, f64) = (0.6, 0.35);

/// Figures that stand alone: where, scenario, what controlled, which, value, decimals.
type Single = (
    &'static str,
    Option<&'static str>,
    &'static str,
    &'static str,
    f64,
    usize,
);

const ESTIMATE: Option<&str> = Some("thesis-estimate");
const IDLE: Option<&str> = Some("thesis-idle");
const UNEQUAL: Option<&str> = Some("thesis-asymmetric");
const LIMIT: Option<&str> = Some("thesis-limit");
const MONITOR: &str = "thesis-monitor";

const SINGLES: [Single; 33] = [
    // 6.2.1: what the device counts for readers and writers of 1 GiB/s each.
    ("6.2.1", None, "reader", "read_gib_per_sec", 0.996, 3),
    ("6.2.1", None, "writer", "read_gib_per_sec", 0.992, 3),
    ("6.2.1", None, "writer", "written_gib_per_sec", 0.990, 3),
    ("6.2.1", None, "mixed", "read_gib_per_sec", 1.65, 2),
    ("6.2.1", None, "mixed", "written_gib_per_sec", 1.03, 2),
    // 6.2.2 and 6.2.3: two readers of 512 MiB/s; the one that is estimated higher, and the other.
    (
        "figure 7",
        ESTIMATE,
        MONITOR,
        "higher_sampled_mib_per_sec",
        3.5,
        2,
    ),
    (
        "figure 7",
        ESTIMATE,
        MONITOR,
        "lower_sampled_mib_per_sec",
        3.0,
        2,
    ),
    (
        "figure 8",
        ESTIMATE,
        MONITOR,
        "higher_mib_per_sec",
        571.0,
        0,
    ),
    ("figure 8", ESTIMATE, MONITOR, "lower_mib_per_sec", 496.0, 0),
    (
        "figure 8",
        ESTIMATE,
        MONITOR,
        "higher_rmse_mib_per_sec",
        77.2,
        1,
    ),
    (
        "figure 8",
        ESTIMATE,
        MONITOR,
        "lower_rmse_mib_per_sec",
        52.0,
        1,
    ),
    // 6.3.1, read off the text: around 10 with sched_ext; the target with cgroups.
    ("figure 11", IDLE, "none", "mean_gib_per_sec", 10.0, 2),
    ("figure 11", IDLE, "thesis-scx", "mean_gib_per_sec", 10.0, 2),
    (
        "figure 11",
        IDLE,
        "thesis-cgroups",
        "mean_gib_per_sec",
        4.0,
        2,
    ),
    (
        "figure 11",
        IDLE,
        "thesis-cgroups-simple",
        "mean_gib_per_sec",
        4.0,
        2,
    ),
    // 6.3.2: the readers that want 1 and 3 GiB/s.
    (
        "figure 12",
        UNEQUAL,
        "thesis-cgroups",
        "fio-1_used_cpus",
        0.25,
        2,
    ),
    (
        "figure 12",
        UNEQUAL,
        "thesis-cgroups",
        "fio-1_limit_cpus",
        0.65,
        2,
    ),
    (
        "figure 12",
        UNEQUAL,
        "thesis-cgroups",
        "fio-3_used_cpus",
        0.40,
        2,
    ),
    (
        "figure 12",
        UNEQUAL,
        "thesis-cgroups",
        "fio-3_limit_cpus",
        0.45,
        2,
    ),
    ("figure 18", LIMIT, "none", "cpu_sec_per_gib", COST.0, 3),
    (
        "figure 18",
        LIMIT,
        "thesis-scx",
        "cpu_sec_per_gib",
        COST.1,
        3,
    ),
    (
        "figure 18",
        LIMIT,
        "thesis-scx-vtime",
        "cpu_sec_per_gib",
        COST.1,
        3,
    ),
    (
        "figure 18",
        LIMIT,
        "thesis-scx-throttle",
        "cpu_sec_per_gib",
        COST.1,
        3,
    ),
    (
        "figure 18",
        LIMIT,
        "thesis-cgroups",
        "cpu_sec_per_gib",
        COST.1,
        3,
    ),
    (
        "figure 18",
        LIMIT,
        "thesis-cgroups-simple",
        "cpu_sec_per_gib",
        COST.1,
        3,
    ),
    // 6.7: two gains are printed.
    (
        "figure 19",
        LIMIT,
        "thesis-scx-throttle",
        "throughput_gain_percent",
        4.5,
        1,
    ),
    (
        "figure 19",
        LIMIT,
        "thesis-cgroups",
        "throughput_gain_percent",
        6.7,
        1,
    ),
    // 6.8.
    ("figure 20", None, "thesis-scx", "enqueue_mean_us", 10.7, 1),
    (
        "figure 20",
        None,
        "thesis-scx",
        "counter_read_mean_us",
        4.9,
        1,
    ),
    (
        "6.8.1",
        None,
        "round robin without control",
        "enqueue_mean_us",
        0.137,
        3,
    ),
    ("figure 21", None, "none", "enqueue_task_mean_us", 3.16, 2),
    ("figure 21", None, "none", "pick_next_task_mean_us", 1.84, 2),
    (
        "figure 22",
        LIMIT,
        "thesis-cgroups",
        "loop_mean_ms",
        30.8,
        1,
    ),
];
/// The CPU time of the loop stands in the text beside figure 22.
const LOOP_CPU: Single = (
    "figure 22",
    LIMIT,
    "thesis-cgroups",
    "controller_cpu_percent",
    9.0,
    1,
);

fn single((printed_in, scenario, backend, figure, value, decimals): Single) -> Printed {
    Printed {
        printed_in,
        scenario,
        backend,
        figure,
        value,
        decimals,
    }
}

fn rows<const N: usize>(
    printed_in: &'static str,
    scenario: &'static str,
    decimals: usize,
    names: [&'static str; N],
    table: &'static [PrintedRow<N>],
) -> impl Iterator<Item = Printed> {
    table.iter().flat_map(move |(backend, values)| {
        let of = move |(figure, value)| Printed {
            printed_in,
            scenario: Some(scenario),
            backend,
            figure,
            value,
            decimals,
        };
        names.into_iter().zip(*values).map(of)
    })
}

/// All of them, in the order of the thesis.
pub fn all() -> Vec<Printed> {
    let mut all: Vec<Printed> = SINGLES.into_iter().chain([LOOP_CPU]).map(single).collect();
    all.extend(rows("table 2", "thesis-limit", 2, OF_TABLE_2, &TABLE_2));
    all.extend(rows("table 3", "thesis-latency", 0, OF_TABLE_3, &TABLE_3));
    all
}

/// The one of these names.
pub fn find(printed_in: &str, backend: &str, figure: &str) -> Option<Printed> {
    let same = |p: &Printed| (p.printed_in, p.backend, p.figure) == (printed_in, backend, figure);
    all().into_iter().find(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_stands_once_and_has_its_unit() {
        let all = all();
        let key = |p: &Printed| (p.printed_in, p.backend, p.figure);
        let keys: BTreeSet<_> = all.iter().map(key).collect();
        assert_eq!(keys.len(), all.len());
        // Tables 2 and 3 are whole.
        assert_eq!(all.iter().filter(|p| p.printed_in == "table 2").count(), 30);
        assert_eq!(all.iter().filter(|p| p.printed_in == "table 3").count(), 24);
        let units = ["sec", "us", "ms", "cpus", "gib", "percent"];
        for p in &all {
            let unit = p.figure.rsplit('_').next().unwrap();
            assert!(units.contains(&unit), "{}", p.figure);
            assert!(p.value > 0.0);
        }
    }

    /// The thesis's own root mean squares follow from its means and deviations: the figures were read off
    /// right.
    #[test]
    fn the_rows_of_table_2_agree_with_themselves() {
        for (backend, [mean, stddev, rmse, q1, q3]) in TABLE_2 {
            assert!(
                ((mean - 4.0f64).hypot(stddev) - rmse).abs() < 0.012,
                "{backend}"
            );
            assert!(q1 < mean && mean < q3, "{backend}");
        }
    }
}
