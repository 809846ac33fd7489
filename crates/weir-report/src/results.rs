// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one result format for live and simulated runs; `docs/results.md` documents it.
//!
//! A value that could not be measured is `null`, and the reason stands beside it under the same
//! name in `missing`. The figures' definitions are those of [`weir_core::figures`], for every world.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use weir_core::figures::{Bandwidth, Latency, Point, settling};

/// All runs of one scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Its name.
    pub scenario: String,
    /// The runs, in the order they were made.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// `vm` or `sim`.
    pub world: String,
    /// Policy, or `none`.
    pub policy: String,
    /// What carried out the limits, or `none`.
    pub backend: String,
    /// What was to be held; runs without control are compared with it too.
    pub set_point_bytes_per_sec: f64,
    /// Seed of the workloads' random numbers.
    pub seed: u64,
    /// Device bandwidth, reads + writes, over 100 ms windows.
    pub bandwidth: Bandwidth,
    /// Latency of one line at the device, from the ledger.
    pub device_latency: Latency,
    /// Block latency of the light reader.
    pub light_reader: Latency,
    /// Block latency of the readers that may be limited.
    pub limited_readers: LimitedLatency,
    /// The longest time in which one of the readers that may be limited moved nothing; live runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_gap_ms: Option<f64>,
    /// CPU time of the limited readers per GiB they read from the device.
    pub cpu_sec_per_gib: Option<f64>,
    /// Operations per second of the work beside them.
    pub throughput_ops_per_sec: Option<f64>,
    /// From the start of control until the bandwidth stays within 5 % (means over 2 s).
    pub settle_ms: Option<f64>,
    /// Highest mean over 500 ms after settling, above the set-point, relative to it.
    pub overshoot_ratio: Option<f64>,
    /// Estimates per workload against the ledger: RMSE over 1 s windows relative to the truth.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub estimate_error_ratio: BTreeMap<String, f64>,
    /// Bandwidth over time, for the picture.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Point>,
    /// Model time the host could not give the guest, per CPU-second: a run above 0.05 says more
    /// about the host than about the device.
    pub host_lag_ratio: Option<f64>,
    /// Why a value is `null`, by its dotted name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

/// Latency of a closed loop, beside its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitedLatency {
    /// Mean, median, 99th percentile.
    #[serde(flatten)]
    pub latency: Latency,
    /// Little's law: readers ÷ blocks per second. A closed loop cannot have a lower mean at its rate.
    pub little_bound_ns: Option<f64>,
}
