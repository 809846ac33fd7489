// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a report says of the scenario: its circumstances and its bounds, whoever ran it.

use serde::{Deserialize, Serialize};

/// A scenario as the report sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subject {
    /// What it shows, in a sentence.
    pub about: String,
    /// Seed of the workloads' random numbers.
    pub seed: u64,
    /// The device's capacity, in bytes per second; not drawn unless it is above 0.
    pub capacity_bytes_per_sec: f64,
    /// What is held, in bytes per second.
    pub set_point_bytes_per_sec: f64,
    /// Time from the start of a run to the start of measuring, in seconds.
    pub settle_sec: f64,
    /// Measured time, in seconds.
    pub measure_sec: f64,
    /// The scenario as TOML; with its defaults filled in where it was run live.
    pub toml: String,
    /// Its bounds.
    pub expect: Expect,
}

/// Bounds of the run with control; ratios against the run without. Absent means not checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Largest |bias| of the bandwidth.
    pub bias_ratio_max: Option<f64>,
    /// Largest RMSE of the bandwidth.
    pub rmse_ratio_max: Option<f64>,
    /// Smallest reduction of the mean device latency.
    pub device_latency_reduction_min: Option<f64>,
    /// Smallest reduction of the light reader's p50 and p99.
    pub light_reduction_min: Option<f64>,
    /// Largest p99 of the limited readers, in multiples of Little's bound.
    pub limited_p99_per_bound_max: Option<f64>,
    /// Smallest reduction of CPU time per GiB.
    pub cpu_cost_reduction_min: Option<f64>,
    /// Smallest gain of the work beside.
    pub throughput_gain_min: Option<f64>,
}
