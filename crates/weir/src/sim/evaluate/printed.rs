// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures that the thesis prints ("CXL bandwidth control", KIT 2025, chapter 6), by the simulator's
//! names of its variants (its table 1).

/// A row of table 2, in GiB/s: five fio readers, 39 stress-ng workers, 20 to 55 s, target 4 GiB/s.
pub struct Table2 {
    /// Whose row.
    pub backend: &'static str,
    /// Mean bandwidth.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// Root mean square distance from 4 GiB/s.
    pub rmse: f64,
    /// Lower and upper quartile.
    pub quartiles: [f64; 2],
}

const fn row2(
    backend: &'static str,
    mean: f64,
    stddev: f64,
    rmse: f64,
    quartiles: [f64; 2],
) -> Table2 {
    Table2 {
        backend,
        mean,
        stddev,
        rmse,
        quartiles,
    }
}

/// Table 2.
pub const TABLE_2: [Table2; 6] = [
    row2("none", 8.04, 0.81, 4.12, [7.73, 8.49]),
    row2("thesis-scx", 6.32, 0.68, 2.42, [6.01, 6.71]),
    row2("thesis-scx-vtime", 6.18, 0.64, 2.27, [5.86, 6.53]),
    row2("thesis-scx-throttle", 4.86, 0.79, 1.16, [4.31, 5.31]),
    row2("thesis-cgroups", 4.27, 0.31, 0.41, [4.05, 4.45]),
    row2("thesis-cgroups-simple", 4.14, 0.25, 0.28, [3.97, 4.31]),
];

/// A row of table 3, in microseconds: blocks of 4 MiB of ten fio readers.
pub struct Table3 {
    /// Whose row.
    pub backend: &'static str,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// Lower and upper quartile.
    pub quartiles: [f64; 2],
}

const fn row3(backend: &'static str, mean: f64, stddev: f64, quartiles: [f64; 2]) -> Table3 {
    Table3 {
        backend,
        mean,
        stddev,
        quartiles,
    }
}

/// Table 3.
pub const TABLE_3: [Table3; 6] = [
    row3("none", 9003.0, 6093.0, [5072.0, 11120.0]),
    row3("thesis-scx", 7772.0, 47229.0, [990.0, 1430.0]),
    row3("thesis-scx-vtime", 6292.0, 42953.0, [1034.0, 1459.0]),
    row3("thesis-scx-throttle", 6533.0, 43211.0, [1015.0, 1382.0]),
    row3("thesis-cgroups", 6671.0, 26622.0, [1293.0, 2794.0]),
    row3("thesis-cgroups-simple", 6731.0, 23219.0, [1680.0, 3967.0]),
];

/// Figure 18 as the text gives it (6.6), CPU-seconds per GiB: about 0.6 without control, about 0.35 with.
pub const COST: (f64, f64) = (0.6, 0.35);

/// Figure 19 as the text gives it (6.7): gain of the work beside.
pub const THROUGHPUT_GAIN: [(&str, f64); 2] =
    [("thesis-scx-throttle", 0.045), ("thesis-cgroups", 0.067)];

/// 6.2.3: RMSE of the combined estimate relative to 512 MiB/s, of two processes.
pub const ESTIMATE_RMSE: [f64; 2] = [0.151, 0.104];

/// 6.2.1: what the device counts for a writer of 1 GiB/s, reads and writes, in GiB/s.
pub const WRITER: f64 = 1.982;

/// Figure 11 (6.3.1), read off the text, GiB/s: around 10 with sched_ext; the target with cgroups.
pub const IDLE: [(&str, f64); 4] = [
    ("none", 10.0),
    ("thesis-scx", 10.0),
    ("thesis-cgroups", 4.0),
    ("thesis-cgroups-simple", 4.0),
];

/// Figure 12 (6.3.2): CPU use and limit, in CPUs, of the readers of 1 and 3 GiB/s under cgroups.
pub const ASYMMETRIC: [(&str, f64, f64); 2] = [("1 GiB/s", 0.25, 0.65), ("3 GiB/s", 0.40, 0.45)];
